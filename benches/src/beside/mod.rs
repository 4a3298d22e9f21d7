//! Puts beside background work: what a big list, the end of a lease, a watcher that catches up or a compaction does to
//! everybody else's latency, against an idle window of the same run.
//!
//! The puts are an open loop that runs through both windows. A put counts as *beside* if it was meant to start
//! while the background was at work, and as *idle* if it was meant to start in the idle window. The background has a thread, a runtime and a connection of its own, so that reading a large answer does not
//! hold up the answers of the puts in this process.
//!
//! Reading order: [`spans`] (when the background was at work), [`background`], [`run`], [`report`].

pub(crate) mod background;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod spans;
