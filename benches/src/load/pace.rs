//! The pace of an open loop: permits released at a fixed rate, whatever the server does.
//!
//! tokio's timer counts milliseconds, which is the size of the latencies to be measured. So a thread sleeps by the
//! kernel's clock and releases permits into a semaphore; being late by its wake-up (some 60 µs) is part of the latency.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use crate::clock;

/// Sleep at least this long, so that a high rate wakes the thread 5,000 times a second and no more.
const SLEEP_MIN: Duration = Duration::from_micros(200);

/// How far into the run operation `index` is meant to start.
pub(crate) fn intended_offset(index: u64, rate: f64) -> Duration {
    Duration::from_secs_f64(index as f64 / rate)
}

/// How many operations are meant to have started after `elapsed`.
fn due(elapsed: Duration, rate: f64) -> u64 {
    (elapsed.as_secs_f64() * rate) as u64 + 1
}

/// The thread that releases permits. Stops when dropped.
pub(crate) struct Pacer {
    /// One permit an operation due.
    pub(crate) permits: Arc<Semaphore>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Pacer {
    /// Releases `total` permits at `rate` per second from `start` on, then `slots` more so that every slot sees the end.
    ///
    /// # Errors
    /// The operating system's, if it starts no thread.
    pub(crate) fn start(start: Instant, rate: f64, total: u64, slots: u64) -> std::io::Result<Self> {
        let permits = Arc::new(Semaphore::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let (out, stopping) = (Arc::clone(&permits), Arc::clone(&stop));
        let run = move || {
            let mut released = 0;
            while released < total && !stopping.load(Ordering::Relaxed) {
                let elapsed = clock::now().saturating_duration_since(start);
                let target = due(elapsed, rate).min(total);
                out.add_permits((target - released) as usize);
                released = target;
                let next = intended_offset(released, rate);
                std::thread::sleep(next.saturating_sub(elapsed).max(SLEEP_MIN));
            }
            out.add_permits(slots as usize);
        };
        let thread = std::thread::Builder::new().name("pace".to_owned()).spawn(run)?;
        Ok(Pacer { permits, stop, thread: Some(thread) })
    }
}

impl Drop for Pacer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It panics only on an overflow of the semaphore, which the assertion there has already reported.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_fall_due_evenly() {
        for (millis, rate, want, why) in [
            (0, 1000.0, 1, "the first at once"),
            (1, 1000.0, 2, "one a millisecond"),
            (10, 150.0, 2, "1.5 intervals have passed"),
            (1000, 2000.0, 2001, "a whole second"),
        ] {
            assert_eq!(due(Duration::from_millis(millis), rate), want, "{why}");
        }
        assert_eq!(intended_offset(500, 1000.0), Duration::from_millis(500));
    }

    #[test]
    fn a_pacer_releases_all_and_stops() {
        let pacer = Pacer::start(clock::now(), 100_000.0, 50, 3).expect("a thread");
        let joined = {
            let mut pacer = pacer;
            pacer.thread.take().expect("running").join().expect("no panic");
            pacer.permits.available_permits()
        };
        assert_eq!(joined, 53, "50 operations and one end for each of 3 slots");
    }
}
