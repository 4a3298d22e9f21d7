//! The clock of the load tool: the one file that reads real time. Everything else is handed instants or asks here.

use std::time::Instant;

/// The monotonic time now.
#[expect(
    clippy::disallowed_methods,
    reason = "a load tool measures real time; nothing here runs under simtest"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Nanoseconds from `from` to `to`; 0 if `to` is not later.
pub(crate) fn nanos_between(from: Instant, to: Instant) -> u64 {
    u64::try_from(to.saturating_duration_since(from).as_nanos()).unwrap_or(u64::MAX)
}
