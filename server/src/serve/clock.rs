//! The clock of what is outside the store: metrics and the seed of a process. The store's time is tokio's.

use std::time::{Instant, SystemTime};

/// Now, for durations.
#[allow(
    clippy::disallowed_methods,
    reason = "threads of the real process; a simulation runs their steps itself"
)]
pub(super) fn now() -> Instant {
    Instant::now()
}

/// A number that differs from process to process.
#[allow(clippy::disallowed_methods, reason = "the one place where the real process gets its seed")]
pub(super) fn seed() -> u64 {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let nanos = u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX);
    nanos ^ (u64::from(std::process::id()) << 32)
}
