//! Ranges read bit by bit, so that neither the answer nor its keys are ever in memory as a whole.
//!
//! * `cursor`: where a read of a range stands: the keys left, at one revision, in one direction.
//! * `pieces`: a range as pieces of about so many bytes, whose total is known before the first is sent.
//! * `chunks`: a range as etcd's `RangeStream` cuts it.
//!
//! INVARIANT: nothing is pinned between two steps. Each step looks at the compaction revision, and a read whose
//! revision was compacted meanwhile ends with [`crate::Error::Compacted`].

mod chunks;
mod cursor;
mod pieces;

pub use chunks::{RangeChunk, RangeStream};
pub use pieces::{Piece, RangePieces, RangeRead, RowSize};
