//! The whole engine against a plain model: batches, compactions, flushes, merges, restarts, power cuts.

mod concurrent;
mod images;
mod model;
mod order;
mod reclaim;
mod refusals;
mod story;
mod world;
