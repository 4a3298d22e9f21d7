//! Keelson's replicated store: everything between the API and the engine.
//!
//! READING ORDER
//! 1. [`request`], [`Error`]: what is asked and what can come of it.
//! 2. `state`, `note`, `lease`: the replicated state, a pure function of the log.
//! 3. `eval`: from a request to effects: reads, compares, transactions; one sequential evaluator.
//! 4. `group`: the raft group on the engine's log; the only place that names openraft.
//! 5. `watch`: from applied entries to watchers; the past is read from the log.
//! 6. `read`: large ranges, bit by bit.
//! 7. [`Store`]: the face of it all.
//!
//! A write walks: [`Store`] → evaluator (effects, revision, answer) → raft group → log, one sync for all that
//! waits → applied to the index → watches and answers. Followers apply effects and read nothing.
//!
//! WHAT IT DOES NOT KNOW: protobuf, sockets, flags, threads. Tasks run on whatever tokio runtime opens the
//! store; the log's writing and the engine's upkeep are steps that the owner calls ([`Committer`]).

mod config;
mod error;
mod eval;
mod group;
mod identity;
mod lease;
mod note;
mod read;
pub mod request;
mod shared;
mod state;
mod store;
mod watch;

pub use config::StoreConfig;
pub use error::{Error, Result};
pub use group::Committer;
pub use identity::Identity;
pub use read::{Piece, RangeChunk, RangePieces, RangeRead, RangeStream, RowSize};
pub use store::{Metrics, Store};
pub use watch::{Event, SharedEncoding, WatchAnswer, WatchCreate, WatchStream};
