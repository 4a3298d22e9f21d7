//! What happens in a world, line by line: hashed as it runs, and kept as text if somebody wants to read it.
//!
//! Two runs of one seed have the same lines. A line begins with the time in milliseconds and the part of the world
//! that speaks: `net`, `disk`, `member`, `fault`, `world`.

use std::fmt::{Arguments, Write as _};
use std::io::Write;
use std::sync::Arc;

use parking_lot::Mutex;
use xxhash_rust::xxh3::Xxh3;

use super::clock;

/// See the module's text. Clones write to the same trace.
#[derive(Clone)]
pub struct Trace(Arc<Mutex<Inner>>);

struct Inner {
    hash: Xxh3,
    lines: u64,
    line: String,
    text: Option<Box<dyn Write + Send>>,
    /// The last lines, oldest first, for whoever reads a failure.
    recent: std::collections::VecDeque<String>,
}

/// Lines of events kept for the reading of a failure.
const RECENT_MAX: usize = 60;

impl std::fmt::Debug for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trace").finish_non_exhaustive()
    }
}

impl Trace {
    /// A trace that is hashed, and written to `text` if there is one.
    #[must_use]
    pub fn new(text: Option<Box<dyn Write + Send>>) -> Trace {
        Trace(Arc::new(Mutex::new(Inner {
            hash: Xxh3::new(),
            lines: 0,
            line: String::new(),
            text,
            recent: std::collections::VecDeque::new(),
        })))
    }

    /// Adds a line that is one of very many.
    pub fn line(&self, part: &str, what: Arguments<'_>) {
        self.0.lock().add(part, what);
    }

    /// Adds a line that tells what happened to the world: few, and shown with a failure.
    pub fn event(&self, part: &str, what: Arguments<'_>) {
        let mut inner = self.0.lock();
        inner.add(part, what);
        if inner.recent.len() == RECENT_MAX {
            inner.recent.pop_front();
        }
        let line = inner.line.trim_end().to_owned();
        inner.recent.push_back(line);
    }

    /// Hash and number of the lines so far.
    #[must_use]
    pub fn digest(&self) -> (u64, u64) {
        let inner = self.0.lock();
        (inner.hash.digest(), inner.lines)
    }

    /// The last events, oldest first.
    #[must_use]
    pub fn recent(&self) -> Vec<String> {
        self.0.lock().recent.iter().cloned().collect()
    }

    /// Writes out the text.
    ///
    /// # Errors
    /// What the system says.
    pub fn flush(&self) -> std::io::Result<()> {
        self.0.lock().text.as_mut().map_or(Ok(()), |text| text.flush())
    }
}

impl Inner {
    fn add(&mut self, part: &str, what: Arguments<'_>) {
        self.line.clear();
        // Memory takes what is written.
        let _ = writeln!(self.line, "{} {part} {what}", clock::now_ms());
        self.hash.update(self.line.as_bytes());
        self.lines += 1;
        if let Some(text) = &mut self.text {
            // A trace that cannot be written is noticed when it is flushed.
            let _ = text.write_all(self.line.as_bytes());
        }
    }
}
