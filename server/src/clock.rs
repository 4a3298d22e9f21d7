//! The clock of what is outside the store: metrics, lines about slow requests, the seed of a process. The store's time is
//! tokio's.

use std::time::{Duration, Instant, SystemTime};

/// Now, for durations of what threads of the real process do.
#[allow(
    clippy::disallowed_methods,
    reason = "threads of the real process; a simulation runs their steps itself"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Time since 1970, for people and what they read.
#[allow(
    clippy::disallowed_methods,
    reason = "the one place where the calendar is looked at; nothing is decided by it"
)]
pub(crate) fn since_epoch() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// A number that differs from process to process.
pub(crate) fn seed() -> u64 {
    let nanos = u64::try_from(since_epoch().as_nanos()).unwrap_or(u64::MAX);
    nanos ^ (u64::from(std::process::id()) << 32)
}
