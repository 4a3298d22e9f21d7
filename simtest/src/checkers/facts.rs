//! What a history says about order: how new the store was known to be when something began, how new it can have
//! been when something ended, and which compactions can have happened.

use std::collections::BTreeMap;

use crate::history::{History, Operation, Outcome};
use crate::op::{Answer, Request};

/// Bounds of the store's revision at moments of a history.
#[derive(Debug, Default)]
pub(crate) struct Bounds {
    /// By moment: the newest revision that had been told by then.
    told: BTreeMap<u64, i64>,
    /// By moment: the oldest revision that was written by a request made at that moment or later.
    written: BTreeMap<u64, i64>,
    /// The revision before the history.
    first: i64,
    /// The newest revision of the history.
    last: i64,
}

impl Bounds {
    /// Bounds by what `history` was told. What was written is still to be [noted](Bounds::note_writes).
    pub(crate) fn new(history: &History) -> Bounds {
        let mut at: Vec<(u64, i64)> = Vec::new();
        for operation in &history.operations {
            if let Outcome::Answered(answer) = &operation.outcome {
                at.push((operation.completed.order, answer.revision()));
            }
        }
        for stream in history.streams.iter().chain(&history.witness) {
            at.extend(stream.messages.iter().map(|(stamp, message)| (stamp.order, message.revision)));
        }
        at.sort_unstable();
        let mut newest = history.first_revision;
        let mut told = BTreeMap::new();
        for (order, revision) in at {
            if revision > newest {
                newest = revision;
                told.insert(order, newest);
            }
        }
        Bounds { told, written: BTreeMap::new(), first: history.first_revision, last: newest }
    }

    /// Notes when each revision was asked for.
    pub(crate) fn note_writes(&mut self, last: i64, mut writes: Vec<(u64, i64)>) {
        self.last = self.last.max(last);
        writes.sort_unstable();
        let mut oldest = i64::MAX;
        for (order, revision) in writes.into_iter().rev() {
            if revision < oldest {
                oldest = revision;
                self.written.insert(order, oldest);
            }
        }
    }

    /// The newest revision that somebody had been told before the moment `order`.
    pub(crate) fn low(&self, order: u64) -> i64 {
        self.told.range(..order).next_back().map_or(self.first, |(_, revision)| *revision)
    }

    /// The newest revision that there can have been at the moment `order`: what was asked for only later is newer.
    pub(crate) fn high(&self, order: u64) -> i64 {
        let later = self.written.range(order..).next().map_or(i64::MAX, |(_, revision)| *revision);
        self.last.min(later.saturating_sub(1))
    }
}

/// A compaction that was done, or may have been.
#[derive(Debug, Clone, Copy)]
struct Compaction {
    revision: i64,
    invoked: u64,
    /// When it was acknowledged.
    acknowledged: Option<u64>,
}

/// Compactions of a run.
#[derive(Debug)]
pub(crate) struct Compactions {
    /// Compaction revision before all of `all`.
    first: i64,
    all: Vec<Compaction>,
}

impl Compactions {
    /// Before a history.
    pub(crate) fn new(first: i64) -> Compactions {
        Compactions { first, all: Vec::new() }
    }

    /// Takes in those of `history`.
    pub(crate) fn note(&mut self, history: &History) {
        for operation in &history.operations {
            let Request::Compact { revision, .. } = operation.request else { continue };
            let acknowledged = match &operation.outcome {
                Outcome::Refused(_) => continue,
                Outcome::Answered(_) => Some(operation.completed.order),
                Outcome::Unknown(_) => None,
            };
            self.all.push(Compaction { revision, invoked: operation.invoked.order, acknowledged });
        }
    }

    /// The newest that was surely done before the moment `order`.
    pub(crate) fn low(&self, order: u64) -> i64 {
        let done = |compaction: &&Compaction| compaction.acknowledged.is_some_and(|at| at < order);
        self.all.iter().filter(done).map(|compaction| compaction.revision).fold(self.first, i64::max)
    }

    /// The newest that can have been done before the moment `order`.
    pub(crate) fn high(&self, order: u64) -> i64 {
        let begun = |compaction: &&Compaction| compaction.invoked < order;
        self.all.iter().filter(begun).map(|compaction| compaction.revision).fold(self.first, i64::max)
    }

    /// Every compaction revision that can have held while `operation` was under way, the surest first. Its own,
    /// if it is a compaction, is not among them.
    pub(crate) fn during(&self, operation: &Operation) -> Vec<i64> {
        let (invoked, completed) = (operation.invoked.order, operation.completed.order);
        let low = self.low(invoked);
        let possible = |compaction: &&Compaction| {
            compaction.revision > low && compaction.invoked < completed && compaction.invoked != invoked
        };
        let mut revisions = vec![low];
        revisions.extend(self.all.iter().filter(possible).map(|compaction| compaction.revision));
        revisions.sort_unstable();
        revisions.dedup();
        revisions
    }

    /// Forgets what no operation after the moment `order` needs.
    pub(crate) fn forget(&mut self, order: u64) {
        self.first = self.low(order);
        let first = self.first;
        self.all.retain(|compaction| compaction.revision > first);
    }
}

/// The revision that an answered request wrote, if it can be told from the answer. A revoke's can't.
pub(crate) fn written(answer: &Answer) -> Option<i64> {
    let wrote = match answer {
        Answer::Put(_) => true,
        Answer::Delete(delete) => delete.deleted > 0,
        Answer::Txn(txn) => wrote(&txn.responses),
        _ => false,
    };
    wrote.then(|| answer.revision())
}

fn wrote(responses: &[crate::op::OpAnswer]) -> bool {
    use crate::op::OpAnswer;
    responses.iter().any(|response| match response {
        OpAnswer::Put(_) => true,
        OpAnswer::Delete(delete) => delete.deleted > 0,
        OpAnswer::Txn(inner) => wrote(&inner.responses),
        OpAnswer::Range(_) | OpAnswer::Nothing => false,
    })
}

/// Whether `request` may be answered from an old state.
pub(crate) fn is_serializable(request: &Request) -> bool {
    use crate::op::TxnOp;
    let stale = |operation: &TxnOp| matches!(operation, TxnOp::Range(range) if range.serializable);
    match request {
        Request::Range(range) | Request::RangeStream(range) => range.serializable,
        Request::Txn(txn) => txn.success.iter().chain(&txn.failure).all(stale),
        // Answered by the member asked, from what it has.
        Request::KeepAlive { .. } | Request::TimeToLive { .. } | Request::Leases => true,
        _ => false,
    }
}

/// Leases that `request` names for what it puts.
pub(crate) fn leases_named(request: &Request) -> Vec<i64> {
    use crate::op::TxnOp;
    fn of(operations: &[TxnOp], named: &mut Vec<i64>) {
        for operation in operations {
            match operation {
                TxnOp::Put(put) if put.lease != 0 => named.push(put.lease),
                TxnOp::Txn(inner) => {
                    of(&inner.success, named);
                    of(&inner.failure, named);
                }
                _ => {}
            }
        }
    }
    let mut named = Vec::new();
    match request {
        Request::Put(put) if put.lease != 0 => named.push(put.lease),
        Request::Txn(txn) => {
            of(&txn.success, &mut named);
            of(&txn.failure, &mut named);
        }
        Request::Grant { id, .. }
        | Request::Revoke { id }
        | Request::KeepAlive { id }
        | Request::TimeToLive { id, .. } => named.push(*id),
        _ => {}
    }
    named.sort_unstable();
    named.dedup();
    named
}
