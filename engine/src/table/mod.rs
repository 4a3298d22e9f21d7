//! The sorted index: from `(space, key, revision)` to metadata and a pointer into the log.
//!
//! READING ORDER
//! 1. `entry`, `range`: what is stored, and how a part of it is named.
//! 2. `memtable`: the newest versions, in memory, sorted and counted.
//! 3. `fields`, `block`, `filter`, `index`, `footer`: the parts of a table, as bytes.
//! 4. `writer`, `reader`: a table as a file, written once, read by block.
//! 5. `walker`, `versions`, `visible`: walking a source: every version, or one per key at a revision.
//! 6. `merging`, `choice`: several runs become one, and which. `verify`: reading all of a table.
//!
//! WHAT IT DOES NOT KNOW: the log (a pointer is five numbers here), the manifest, what a compaction
//! revision means (the rule comes from [`crate::mvcc`]).
//!
//! INVARIANTS
//! * Order everywhere: space, then key ascending, then revision descending.
//! * Sources (active memtable, frozen memtable, tables from newest to oldest) are cut by time: every
//!   version of a key in a newer source has a higher revision than every version of it in an older one.
//! * Weights: for each key and each revision R at or above the compaction revision, the weights of its
//!   versions up to R, over all sources, sum to 1 if the key is visible at R and to 0 if not.
//! * A table is never changed; it is complete and synced before the manifest names it.

mod applied;
pub(crate) mod block;
pub(crate) mod choice;
mod entry;
pub(crate) mod fields;
pub(crate) mod filter;
pub(crate) mod footer;
pub(crate) mod index;
pub(crate) mod memtable;
pub(crate) mod merging;
mod range;
pub(crate) mod reader;
pub(crate) mod verify;
pub(crate) mod versions;
pub(crate) mod visible;
pub(crate) mod walker;
pub(crate) mod writer;

pub use applied::Applied;
pub(crate) use entry::{Found, Version};
pub use entry::{KeyMeta, Write};
pub use range::{Direction, KeyRange};
