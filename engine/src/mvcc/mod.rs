//! Reads at a revision, over memtables and tables; and etcd's compaction rule.
//!
//! READING ORDER
//! 1. `rule`: which versions a compaction revision leaves.
//! 2. `view`: the sources of one moment, and get, scan, count and history over them.
//!
//! WHAT IT DOES NOT KNOW: the log and values' bytes, how sources come to be, which revision is the latest.

pub(crate) mod rule;
pub(crate) mod view;

pub use crate::table::{Direction, KeyMeta, KeyRange, Write};
