//! Reading a file forwards through one buffer.

use crate::disk::File;
use std::io;

/// A part of a file in memory, moved forwards as one reads.
#[derive(Debug)]
pub(super) struct Window<'a> {
    file: &'a dyn File,
    /// Nothing is read from here on.
    end: u64,
    /// Bytes read at once; doubles with each read up to `step_max`.
    step: usize,
    step_max: usize,
    start: u64,
    bytes: Vec<u8>,
}

impl<'a> Window<'a> {
    pub(super) fn new(file: &'a dyn File, end: u64, step: usize, step_max: usize) -> Self {
        Window { file, end, step, step_max, start: 0, bytes: Vec::new() }
    }

    /// `len` bytes at `at`; `None` if the end comes before.
    ///
    /// # Errors
    /// Whatever the file reports.
    pub(super) fn get(&mut self, at: u64, len: usize) -> io::Result<Option<&[u8]>> {
        let left = self.end.saturating_sub(at);
        if left < len as u64 {
            return Ok(None);
        }
        let within = at >= self.start && at + len as u64 <= self.start + self.bytes.len() as u64;
        if !within {
            let want = (self.step as u64).min(left).max(len as u64);
            self.bytes.clear();
            self.bytes.resize(usize::try_from(want).map_err(io::Error::other)?, 0);
            self.start = at;
            if let Err(error) = self.file.read_at(at, &mut self.bytes) {
                self.bytes.clear();
                return Err(error);
            }
            self.step = (self.step * 2).min(self.step_max);
        }
        let from = (at - self.start) as usize;
        Ok(Some(&self.bytes[from..from + len]))
    }
}
