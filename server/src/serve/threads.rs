//! The threads of the process, and the two that drive the storage's steps.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

use engine::Work;
use raft::{Committer, Store};

use super::ServeError;
use crate::clock;
use crate::http::metrics::disk::DiskMetrics;

/// Bytes that one step of upkeep may move.
const STEP_BYTES: u64 = 4 * 1024 * 1024;
/// Pause of upkeep when there is nothing to do.
const IDLE_PAUSE: Duration = Duration::from_millis(100);
/// Pause of upkeep when the disk is full.
const FULL_PAUSE: Duration = Duration::from_secs(1);

/// Starts a named thread.
///
/// # Errors
/// [`ServeError::Thread`].
pub(super) fn start<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, ServeError> {
    let builder = std::thread::Builder::new().name(name.to_owned());
    builder.spawn(body).map_err(|source| ServeError::Thread { what: name.to_owned(), source })
}

/// Wakes a thread that sleeps when it has nothing to do, and ends it. Ringing costs one atomic exchange unless the
/// thread sleeps.
#[derive(Debug, Default)]
pub(super) struct Bell {
    /// Set by the thread before its first look for work, so that a ring that comes too early is not missed.
    sleeper: OnceLock<Thread>,
    ended: AtomicBool,
}

impl Bell {
    /// There is work.
    pub(super) fn ring(&self) {
        if let Some(sleeper) = self.sleeper.get() {
            sleeper.unpark();
        }
    }

    /// There will be no more work than there is.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
        self.ring();
    }

    fn wait_here(&self) {
        self.sleeper.get_or_init(std::thread::current);
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }
}

/// Writes and syncs the log whenever `bell` rings, until it ends and nothing waits.
///
/// # Errors
/// [`ServeError::Storage`]: the log takes nothing more.
pub(super) fn keep_log(bell: &Bell, committer: &Committer, metrics: &DiskMetrics) -> Result<(), ServeError> {
    bell.wait_here();
    loop {
        // Looked at before the step, so that one step follows everything that came before the end.
        let ended = bell.has_ended();
        let began = clock::now();
        if committer.step()? {
            metrics.synced(began.elapsed());
        } else if ended {
            return Ok(committer.end()?);
        } else {
            std::thread::park();
        }
    }
}

/// Does the engine's upkeep until `bell` ends.
///
/// # Errors
/// [`ServeError::Storage`]: what is stored is damaged, or the disk failed.
pub(super) fn keep_engine(bell: &Bell, store: &Store, metrics: &DiskMetrics) -> Result<(), ServeError> {
    bell.wait_here();
    let mut was_full = false;
    while !bell.has_ended() {
        let began = clock::now();
        match store.maintain_step(STEP_BYTES) {
            Ok(Work::Idle) => std::thread::park_timeout(IDLE_PAUSE),
            Ok(Work::Flushed(_)) => metrics.flushed(began.elapsed()),
            Ok(_) => {}
            Err(engine::Error::Full(file)) => {
                if !was_full {
                    tracing::warn!(
                        file,
                        "the disk is full; what is compacted is freed as soon as there is room"
                    );
                }
                was_full = true;
                std::thread::park_timeout(FULL_PAUSE);
                continue;
            }
            Err(error) => return Err(error.into()),
        }
        was_full = false;
    }
    Ok(())
}
