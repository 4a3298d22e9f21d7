//! Keelson's storage engine: one log per node that is raft log, write-ahead log, value store and watch
//! history at once, and an index from `(key, revision)` to metadata and a pointer into that log.
//!
//! READING ORDER
//! 1. [`disk`]: the one seam to storage; real files, and a memory disk that gives crash images.
//! 2. [`log`]: segments of checksummed frames, group commit, recovery.
//! 3. [`batch`]: what an entry of the log says: transactions of effects.
//! 4. [`table`]: memtable, blocks, tables, merging: the sorted index.
//! 5. [`mvcc`]: reads at a revision, counts, history, etcd's compaction rule.
//! 6. [`Engine`]: opens all of it, applies batches, flushes, merges, hands segments back.
//! 7. [`check`]: whether a store that nobody uses is whole, and what is in it.
//!
//! WHAT IT DOES NOT KNOW: raft, etcd's API, clocks, threads. It is synchronous; whoever owns it calls its
//! steps ([`log::Log::commit_step`], [`Engine::maintain_step`]) from threads or from simulated tasks.

pub mod batch;
pub mod check;
pub mod disk;
mod engine;
mod error;
pub mod log;
mod manifest;
pub mod mvcc;
pub mod table;
mod types;

pub use engine::{Engine, Opened, Options, ScrubStep, Stats, Work};
pub use error::{Error, Result};
pub use mvcc::{Direction, KeyMeta, KeyRange, Write};
pub use table::Applied;
pub use types::{Pointer, Revision, Space, Value};
