//! What was called, answered and watched: the plain data that the checker works on.

use serde::Serialize;

/// The number of a key; its name is in [`names`](super::names).
pub(crate) type KeyId = u32;
/// The number of a write, carried in its value; no two writes of a run share one.
pub(crate) type WriteId = u64;

/// A value as stored: which write it is of, and etcd's counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stored {
    /// The write that put it.
    pub(crate) write: WriteId,
    /// Revision of the put that created the key.
    pub(crate) create_revision: i64,
    /// Puts since then, this one included.
    pub(crate) version: i64,
}

/// A key as a read finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    /// Revision of the last put.
    pub(crate) mod_revision: i64,
    /// What was put.
    pub(crate) stored: Stored,
}

/// One event of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Event {
    /// Its revision.
    pub(crate) revision: i64,
    /// The key.
    pub(crate) key: KeyId,
    /// What was put; `None` is a delete.
    pub(crate) put: Option<Stored>,
}

/// What a writer asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Put one key.
    Put { key: KeyId, write: WriteId },
    /// Put if the mod revision is `expected` (0: does not exist), else read.
    Update { key: KeyId, write: WriteId, expected: i64 },
    /// Put two keys in one transaction.
    Pair { keys: [KeyId; 2], write: WriteId },
    /// Delete one key.
    Delete { key: KeyId },
    /// Read one key.
    Get { key: KeyId },
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// No answer, or one that leaves it open: it may or may not have happened.
    Unknown,
    /// It was acknowledged as written at this revision.
    Wrote { revision: i64 },
    /// It was acknowledged as having read only: a get, an update whose compare failed, a delete of nothing.
    Read { revision: i64, row: Option<Row> },
}

/// One call of a writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Call {
    /// When it was sent, in nanoseconds of the run.
    pub(crate) started_nanos: u64,
    /// When its answer was there; meaningless while the outcome is unknown.
    pub(crate) ended_nanos: u64,
    /// What was asked for.
    pub(crate) action: Action,
    /// What became of it.
    pub(crate) outcome: Outcome,
}

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// The rule's name.
    pub(crate) rule: &'static str,
    /// What was seen, with the values.
    pub(crate) detail: String,
}

impl Finding {
    /// A finding under `rule`.
    pub(crate) fn new(rule: &'static str, detail: impl Into<String>) -> Self {
        Finding { rule, detail: detail.into() }
    }
}
