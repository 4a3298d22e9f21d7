//! What was asked and what came back, as the clients saw it. The checkers know nothing else of a run.
//!
//! INVARIANTS
//! * `Stamp::order` is unique in a history and grows in real time, over all clients: an operation that was
//!   completed before another began has the smaller number, also if the clock stood still between them.
//! * A history holds whole operations only: one that never completed has the outcome [`Outcome::Unknown`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::op::{Answer, Refusal, Request, WatchMessage, WatchRequest};

/// A moment of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Stamp {
    /// Position among all moments that the run's clients noted.
    pub order: u64,
    /// Time since the clock's start.
    pub time: Duration,
}

/// Gives stamps. Clones share one order.
#[derive(Debug, Clone)]
pub struct Clock {
    start: Instant,
    next: Arc<AtomicU64>,
}

impl Clock {
    /// A clock that begins now, in tokio's time.
    #[must_use]
    pub fn new() -> Clock {
        Clock { start: Instant::now(), next: Arc::new(AtomicU64::new(1)) }
    }

    /// Time since the clock's start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// This moment.
    #[must_use]
    pub fn now(&self) -> Stamp {
        Stamp { order: self.next.fetch_add(1, Ordering::Relaxed), time: self.start.elapsed() }
    }
}

impl Default for Clock {
    fn default() -> Clock {
        Clock::new()
    }
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was answered.
    Answered(Answer),
    /// It was refused by a rule of the store and changed nothing.
    Refused(Refusal),
    /// Nobody knows whether it was done: it failed on the way, or was given up.
    Unknown(Refusal),
}

/// One request and its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// The client that asked; its operations do not overlap.
    pub client: u32,
    /// When it was asked.
    pub invoked: Stamp,
    /// When the outcome came.
    pub completed: Stamp,
    /// What was asked.
    pub request: Request,
    /// What came of it.
    pub outcome: Outcome,
}

/// How a watch stream came to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamEnd {
    /// The client left it.
    Left,
    /// It broke, or the server ended it.
    Broken(Refusal),
}

/// One watch stream: what was sent and what was received, each in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// The client's number.
    pub client: u32,
    /// What was sent.
    pub requests: Vec<(Stamp, WatchRequest)>,
    /// What was received.
    pub messages: Vec<(Stamp, WatchMessage)>,
    /// When and how it ended.
    pub end: (Stamp, StreamEnd),
    /// Whether the stream was left only after it had to be complete: everything up to
    /// [`History::final_revision`] was due on it.
    pub drained: bool,
}

/// Where a resumed watch came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resumed {
    /// Index of the stream in [`History::streams`] and of the create request among its requests, as it was before.
    pub from: (usize, usize),
    /// The same of the watch that goes on.
    pub to: (usize, usize),
    /// Whether it goes on after a progress answer; else after the last event.
    pub bookmark: bool,
}

/// Everything that the clients of a run saw.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct History {
    /// By invocation.
    pub operations: Vec<Operation>,
    /// The streams of the workload.
    pub streams: Vec<Stream>,
    /// Which watch goes on where another was left.
    pub resumed: Vec<Resumed>,
    /// Watching clients that were given up before everything due had come to their watches.
    pub unsettled: Vec<u32>,
    /// Streams of the witness: one watch after the other over all keys, with the pairs as they were, each from
    /// where the one before was left. They tell what happened to requests whose outcome is unknown.
    pub witness: Vec<Stream>,
    /// The store's revision before the first operation of the window.
    pub first_revision: i64,
    /// The compaction revision before the first operation of a run; -1 if there was none.
    pub first_compacted: i64,
    /// The store's revision when all clients had ended, if the last read was answered.
    pub final_revision: Option<i64>,
    /// Every pair at [`History::final_revision`], by key.
    pub final_pairs: Vec<crate::op::KeyValue>,
    /// When those were asked for.
    pub final_read: Stamp,
    /// When all clients had ended.
    pub ended: Stamp,
}
