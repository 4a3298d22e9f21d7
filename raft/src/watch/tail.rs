//! The newest changes, in memory, shared by all shards.
//!
//! INVARIANT: batches follow each other without a gap: each begins where the one before it ended.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use engine::batch::{self, Op};
use parking_lot::RwLock;

/// Keys and values kept at most, bytes.
const TAIL_BYTES_MAX: usize = 16 * 1024 * 1024;
/// What a change costs beside its key and value, bytes.
const CHANGE_OVERHEAD: usize = 96;

/// One change of one key, as watches see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) revision: i64,
    pub(crate) key: Bytes,
    /// `None`: the key was deleted.
    pub(crate) put: Option<PutChange>,
}

/// What a put leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PutChange {
    pub(crate) create: i64,
    pub(crate) version: i64,
    pub(crate) lease: i64,
    pub(crate) value: Bytes,
}

impl Change {
    /// The change that `op` makes at `revision`.
    pub(crate) fn of(revision: i64, op: &Op) -> Change {
        let put = match &op.change {
            batch::Change::Delete => None,
            batch::Change::Put { create, version, lease, value, .. } => Some(PutChange {
                create: create.unwrap_or(revision),
                version: *version,
                lease: *lease,
                value: value.clone(),
            }),
        };
        Change { revision, key: op.key.clone(), put }
    }

    /// Bytes that it holds in memory.
    pub(crate) fn size(&self) -> usize {
        self.key.len() + self.put.as_ref().map_or(0, |put| put.value.len()) + CHANGE_OVERHEAD
    }
}

/// All changes of consecutive revisions.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// The revision before them.
    pub(crate) after: i64,
    /// Their last revision.
    pub(crate) last: i64,
    /// In order.
    pub(crate) changes: Vec<Change>,
    /// What the API made of them.
    pub(crate) encodings: Encodings,
}

/// Changes in the API's encoding, each made once for all watchers that are told of it. They live as long as their
/// batch and take about as much memory again.
#[derive(Debug, Default)]
pub(crate) struct Encodings {
    wanted: AtomicBool,
    slots: OnceLock<Box<[OnceLock<Bytes>]>>,
}

impl Encodings {
    /// Some change of the batch has several receivers.
    pub(super) fn want(&self) {
        self.wanted.store(true, Ordering::Relaxed);
    }

    /// Whether it is worth while to keep encodings.
    pub(super) fn are_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }
}

/// Where the encoding of one change is kept.
#[derive(Debug, Clone)]
pub struct SharedEncoding {
    batch: Arc<Batch>,
    place: usize,
}

impl SharedEncoding {
    pub(super) fn new(batch: &Arc<Batch>, place: usize) -> Self {
        SharedEncoding { batch: Arc::clone(batch), place }
    }

    /// The encoding; made by `encode` if this is the first that asks. Whoever asks must encode alike.
    pub fn get_or_init(&self, encode: impl FnOnce() -> Bytes) -> &Bytes {
        let Batch { changes, encodings, .. } = &*self.batch;
        let slots = encodings.slots.get_or_init(|| changes.iter().map(|_| OnceLock::new()).collect());
        slots[self.place].get_or_init(encode)
    }
}

/// What [`Tail::read`] found.
#[derive(Debug)]
pub(crate) enum Recent {
    /// Batches from the revision asked for on; none if there is nothing newer.
    Batches(Vec<Arc<Batch>>),
    /// Changes up to this revision are in the log only.
    Gone(i64),
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Tail {
    /// Shards that have watchers; nothing is kept while there are none.
    wanted: AtomicUsize,
    kept: RwLock<Kept>,
}

#[derive(Debug)]
struct Kept {
    /// Where the oldest batch begins.
    after: i64,
    last: i64,
    bytes: usize,
    batches: VecDeque<Arc<Batch>>,
}

impl Tail {
    /// A tail that begins after `revision`.
    pub(crate) fn new(revision: i64) -> Self {
        let kept = Kept { after: revision, last: revision, bytes: 0, batches: VecDeque::new() };
        Tail { wanted: AtomicUsize::new(0), kept: RwLock::new(kept) }
    }

    /// Whether any shard has watchers.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::SeqCst) > 0
    }

    pub(super) fn want(&self) {
        self.wanted.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn unwant(&self) {
        self.wanted.fetch_sub(1, Ordering::SeqCst);
    }

    /// The changes up to `revision` are applied; `None` if they were not gathered. Whether it is news.
    pub(crate) fn push(&self, revision: i64, changes: Option<Vec<Change>>) -> bool {
        let mut kept = self.kept.write();
        if revision == kept.last {
            return false;
        }
        assert!(revision > kept.last, "revision {revision} applied after {}", kept.last);
        let after = std::mem::replace(&mut kept.last, revision);
        let Some(changes) = changes else {
            *kept = Kept { after: revision, last: revision, bytes: 0, batches: VecDeque::new() };
            return true;
        };
        kept.bytes += changes.iter().map(Change::size).sum::<usize>();
        kept.batches.push_back(Arc::new(Batch {
            after,
            last: revision,
            changes,
            encodings: Encodings::default(),
        }));
        while kept.bytes > TAIL_BYTES_MAX && kept.batches.len() > 1 {
            let oldest = kept.batches.pop_front().expect("more than one");
            kept.bytes -= oldest.changes.iter().map(Change::size).sum::<usize>();
            kept.after = oldest.last;
        }
        true
    }

    /// The batches with revisions above `after`.
    pub(super) fn read(&self, after: i64) -> Recent {
        let kept = self.kept.read();
        if after >= kept.last {
            return Recent::Batches(Vec::new());
        }
        if after < kept.after {
            return Recent::Gone(kept.after);
        }
        let first = kept.batches.partition_point(|batch| batch.last <= after);
        Recent::Batches(kept.batches.range(first..).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(revision: i64, bytes: usize) -> Change {
        let put = PutChange { create: revision, version: 1, lease: 0, value: Bytes::from(vec![0; bytes]) };
        Change { revision, key: Bytes::from_static(b"k"), put: Some(put) }
    }

    fn lasts(recent: Recent) -> Result<Vec<i64>, i64> {
        match recent {
            Recent::Batches(batches) => Ok(batches.iter().map(|batch| batch.last).collect()),
            Recent::Gone(upto) => Err(upto),
        }
    }

    #[test]
    fn what_is_kept_is_bounded_and_has_no_gap() {
        let tail = Tail::new(1);
        assert!(tail.push(3, Some(vec![change(2, 10), change(3, 10)])));
        assert!(!tail.push(3, Some(Vec::new())), "nothing new");
        assert!(tail.push(4, Some(vec![change(4, 10)])));
        for (after, want, why) in [
            (0, Err(1), "before the tail began"),
            (1, Ok(vec![3, 4]), "all of it"),
            (2, Ok(vec![3, 4]), "from the middle of a batch"),
            (3, Ok(vec![4]), "the rest"),
            (4, Ok(vec![]), "nothing newer"),
        ] {
            assert_eq!(lasts(tail.read(after)), want, "{why}");
        }
        tail.push(5, Some(vec![change(5, TAIL_BYTES_MAX)]));
        assert_eq!(lasts(tail.read(3)), Err(4), "older batches gave way");
        assert_eq!(lasts(tail.read(4)), Ok(vec![5]), "the newest batch stays, whatever its size");
        tail.push(6, None);
        assert_eq!(lasts(tail.read(5)), Err(6), "changes that were not gathered are in the log only");
    }
}
