//! Older changes, read from the log itself.
//!
//! The home state keeps a sparse list of points (revision, raft index, order). A read starts at the last
//! point before the revision wanted and walks the entries from there, counting revisions exactly as applying
//! them did. Whoever reads on keeps the point that the read ended at.

use std::sync::Arc;

use engine::batch::{Decoder, Item};

use super::tail::{Batch, Change};
use crate::error::{Error, Result};
use crate::group::HOME;
use crate::shared::Shared;
use crate::state::HistoryPoint;

/// Entries read from the log in one go, bytes.
const READ_BYTES: usize = 1024 * 1024;

/// A piece of history.
pub(super) struct Piece {
    /// All changes of the revisions from the one asked for on, contiguous; empty if there are none yet.
    pub(super) batches: Vec<Arc<Batch>>,
    /// Where to read on.
    pub(super) resume: HistoryPoint,
}

/// Reads the changes from revision `from` on, up to about 1 MiB of log; `resume` is where a read before it
/// ended, if there was one. Reads the disk unless the entries are recent.
///
/// # Errors
/// [`Error::Compacted`] if the history from there is gone, [`Error::Storage`].
pub(super) fn read(shared: &Shared, from: i64, resume: Option<HistoryPoint>) -> Result<Piece> {
    let (from, point, applied) = {
        let state = shared.state.lock();
        if from < state.compacted {
            return Err(Error::Compacted);
        }
        // Revision 1 is the empty store; nothing changed there.
        let from = from.max(2);
        let points = &state.history;
        let next = points.partition_point(|point| point.revision < from);
        let point = next.checked_sub(1).map(|at| points[at]);
        (from, point, state.index)
    };
    let usable = resume.filter(|resume| resume.revision < from);
    let Some(mut at) = point.into_iter().chain(usable).max_by_key(|point| point.index) else {
        return Err(Error::Storage(format!("no history from revision {from}")));
    };
    let mut batches = Vec::new();
    while batches.is_empty() && at.index <= applied {
        let entries = shared.engine.log().entries(HOME, at.index, applied + 1, READ_BYTES)?;
        if entries.first().is_none_or(|entry| entry.index != at.index) {
            return Err(missing(shared, from, at.index));
        }
        for entry in entries {
            if entry.index != at.index {
                return Err(missing(shared, from, at.index));
            }
            at.index += 1;
            let Ok(mut decoder) = Decoder::new(entry.body) else { continue };
            if !at.order.admit(&decoder.header(), entry.term) {
                continue;
            }
            let mut batch = Batch { after: at.revision.max(from - 1), last: at.revision, ..Batch::default() };
            let mut ops = Vec::new();
            let malformed = |error| Error::Storage(format!("entry {}: {error}", entry.index));
            while let Some(item) = decoder.next_item(&mut ops).map_err(malformed)? {
                if item != Item::Txn {
                    continue;
                }
                at.revision += 1;
                batch.last = at.revision;
                if at.revision >= from {
                    batch.changes.extend(ops.iter().map(|op| Change::of(at.revision, op)));
                }
            }
            if !batch.changes.is_empty() {
                batches.push(Arc::new(batch));
            }
        }
    }
    Ok(Piece { batches, resume: at })
}

/// Why an entry of the history is not in the log.
fn missing(shared: &Shared, from: i64, index: u64) -> Error {
    if from < shared.state.lock().compacted {
        // A compaction since the read began.
        Error::Compacted
    } else {
        Error::Storage(format!("entry {index} is missing in the log, needed from revision {from} on"))
    }
}
