//! What is counted while a cluster runs.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use crate::client::Failure;
use crate::load::driver::latencies;

/// What is counted.
pub(crate) struct Tally {
    /// Latencies by kind of call, in nanoseconds.
    pub(crate) kinds: RefCell<BTreeMap<&'static str, Histogram<u64>>>,
    /// Latencies of all writes.
    pub(crate) writes: RefCell<Histogram<u64>>,
    /// How late the tool sent what it meant to send, in nanoseconds.
    pub(crate) late: RefCell<Histogram<u64>>,
    /// What failed, by reason.
    pub(crate) errors: RefCell<BTreeMap<String, u64>>,
    /// Puts to watched keys acknowledged: each makes one event for each API server.
    pub(crate) puts: Cell<u64>,
    /// Bytes of keys and values of all puts.
    pub(crate) user_bytes: Cell<u64>,
    /// Compares that failed: somebody else had changed the object, or, on purpose, the wrong revision was sent.
    pub(crate) conflicts: Cell<u64>,
    /// Rows of all lists.
    pub(crate) rows: Cell<u64>,
    /// Bytes of all lists.
    pub(crate) listed_bytes: Cell<u64>,
    /// Tasks that have begun and not ended.
    pub(crate) in_flight: Cell<u64>,
}

impl Tally {
    /// Nothing yet.
    pub(crate) fn new() -> Self {
        Tally {
            kinds: RefCell::default(),
            writes: RefCell::new(latencies()),
            late: RefCell::new(latencies()),
            errors: RefCell::default(),
            puts: Cell::new(0),
            user_bytes: Cell::new(0),
            conflicts: Cell::new(0),
            rows: Cell::new(0),
            listed_bytes: Cell::new(0),
            in_flight: Cell::new(0),
        }
    }

    /// Counts a call that took `nanos`.
    pub(crate) fn call(&self, kind: &'static str, is_write: bool, nanos: u64) {
        self.kinds.borrow_mut().entry(kind).or_insert_with(latencies).saturating_record(nanos);
        if is_write {
            self.writes.borrow_mut().saturating_record(nanos);
        }
    }

    /// Counts a call that failed.
    pub(crate) fn error(&self, kind: &str, failure: &Failure) {
        *self.errors.borrow_mut().entry(format!("{kind}: {failure}")).or_default() += 1;
    }
}

/// Adds to a counter.
pub(crate) fn add(counter: &Cell<u64>, number: u64) {
    counter.set(counter.get() + number);
}
