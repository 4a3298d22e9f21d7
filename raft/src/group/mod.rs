//! The raft group on the engine's log. Only this folder names openraft.
//!
//! * `types`: openraft's type parameters, and how entries look in the log.
//! * `log_store`: openraft's log on [`engine::log::Log`]; one sync for all that waits ([`Committer`]).
//! * `machine`: openraft's state machine: applies batches to home state and engine, answers who waits.
//! * `network`: how messages reach other members; a cluster of one has none to reach.
//! * `handle`: proposing, confirming leadership, status.

mod handle;
mod log_store;
mod machine;
mod network;
mod types;

pub use log_store::Committer;

pub(crate) use handle::{Group, Proposed};
pub(crate) use types::{HOME, StoredState};
