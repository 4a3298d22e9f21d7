//! The whole engine against a plain model: batches, compactions, flushes, merges, restarts, power cuts.

mod concurrent;
mod images;
pub(crate) mod model;
mod order;
mod reclaim;
mod refusals;
mod scrub;
mod story;
pub(crate) mod world;
