//! The time of the world: one number, moved by the world alone.
//!
//! It is global, because the program's replacement of the system's clock must find it without being told where. All
//! hosts have the same monotonic clock; the wall clock can be made to jump.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

/// Nanoseconds since the world began.
static NOW_NANOS: AtomicU64 = AtomicU64::new(0);
/// How far the wall clock is from where it should be, nanoseconds.
static WALL_OFFSET_NANOS: AtomicI64 = AtomicI64::new(0);
/// Whether there is a world in this process.
static RUNNING: AtomicBool = AtomicBool::new(false);

/// What the monotonic clock shows when a world begins, nanoseconds. Not zero: code may subtract.
const MONOTONIC_BASE_NANOS: u64 = 1_000_000_000_000;
/// What the wall clock shows when a world begins: 2026-01-01, nanoseconds since 1970.
const WALL_BASE_NANOS: i64 = 1_767_225_600_000_000_000;

/// Milliseconds since the world began.
#[must_use]
pub fn now_ms() -> u64 {
    NOW_NANOS.load(Ordering::Relaxed) / 1_000_000
}

/// Begins a world in this process, or ends it.
pub fn set_running(running: bool) {
    set_ms(0);
    WALL_OFFSET_NANOS.store(0, Ordering::Relaxed);
    RUNNING.store(running, Ordering::Relaxed);
}

/// Whether the system's clocks are to show the world's time.
#[must_use]
pub fn is_running() -> bool {
    RUNNING.load(Ordering::Relaxed)
}

/// Moves the time to `ms` milliseconds after the world's beginning.
pub(super) fn set_ms(ms: u64) {
    NOW_NANOS.store(ms * 1_000_000, Ordering::Relaxed);
}

/// Moves the wall clock alone, by `ms` milliseconds.
pub(super) fn jump_wall(ms: i64) {
    WALL_OFFSET_NANOS.fetch_add(ms * 1_000_000, Ordering::Relaxed);
}

/// What a monotonic clock shows, nanoseconds.
#[must_use]
pub fn monotonic_nanos() -> u64 {
    MONOTONIC_BASE_NANOS + NOW_NANOS.load(Ordering::Relaxed)
}

/// What the wall clock shows, nanoseconds since 1970.
#[must_use]
pub fn wall_nanos() -> i64 {
    let now = i64::try_from(NOW_NANOS.load(Ordering::Relaxed)).unwrap_or(i64::MAX);
    WALL_BASE_NANOS.saturating_add(now).saturating_add(WALL_OFFSET_NANOS.load(Ordering::Relaxed))
}
