//! A process of the world: a runtime of its own with paused time, run a tick at a time.
//!
//! Within a tick all that can run runs, in the order in which it was woken, and timers fire at their millisecond. A
//! process that is killed is dropped as it stands, with all of its tasks; one that is paused gets no ticks, and
//! afterwards finds that the clock has jumped.

use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

/// Length of a tick, milliseconds: tokio's timers are no finer.
pub(super) const TICK_MS: u64 = 1;

/// See the module's text.
#[derive(Debug)]
pub(super) struct Process {
    runtime: Runtime,
    /// When it began: by its own clock, and by the world's.
    began: (Instant, u64),
}

impl Process {
    /// Starts a process at `now_ms` that runs `main`. Nothing runs before the first tick.
    pub(super) fn start(now_ms: u64, main: impl Future<Output = ()> + Send + 'static) -> Process {
        let runtime = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime without drivers of the system needs nothing of it");
        runtime.spawn(main);
        let began = runtime.block_on(async { Instant::now() });
        Process { runtime, began: (began, now_ms) }
    }

    /// Runs from `now_ms` for one tick. If ticks were left out, the clock jumps first.
    pub(super) fn tick(&self, now_ms: u64) {
        let (began, began_ms) = self.began;
        let start = began + Duration::from_millis(now_ms - began_ms);
        self.runtime.block_on(async {
            let behind = start.saturating_duration_since(Instant::now());
            if !behind.is_zero() {
                tokio::time::advance(behind).await;
            }
            tokio::time::sleep_until(start + Duration::from_millis(TICK_MS)).await;
        });
    }

    /// Ends it as it stands.
    pub(super) fn kill(self) {
        self.runtime.shutdown_background();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn timers_fire_in_their_tick_and_after_a_pause_all_at_once() {
        let beats = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&beats);
        let process = Process::start(100, async move {
            loop {
                tokio::time::sleep(Duration::from_millis(10)).await;
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        for now in 100..151 {
            process.tick(now);
        }
        assert_eq!(beats.load(Ordering::Relaxed), 5, "one in ten milliseconds");
        process.tick(1000);
        assert_eq!(beats.load(Ordering::Relaxed), 6, "the clock jumped: one timer was due, and fired late");
        process.tick(1001);
        process.kill();
    }
}
