//! What the tasks of a store have in common.
//!
//! The home shard's tasks write here, all shards read. A lock is held for a few memory operations, never over
//! an await or a read of the disk.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use engine::Engine;
use parking_lot::{Mutex, RwLock};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::config::StoreConfig;
use crate::error::Error;
use crate::eval::{Reply, Settled};
use crate::state::{HomeState, Order};
use crate::watch::{HubPort, Tail};

/// See the module's text.
pub(crate) struct Shared {
    pub(crate) engine: Arc<Engine>,
    pub(crate) config: StoreConfig,
    /// The home group's state as applied.
    pub(crate) state: Mutex<HomeState>,
    /// Batches proposed and not applied, oldest first, with who waits for them.
    pub(crate) pending: Mutex<VecDeque<Pending>>,
    /// Recent changes, for watches.
    pub(crate) tail: Tail,
    /// Set while this member leads and is the only voter: leadership then needs no confirmation, since the
    /// quorum is this member itself.
    pub(crate) leads_alone: AtomicBool,
    /// Set once the store shuts down.
    pub(crate) stopping: AtomicBool,
    pub(crate) shards: RwLock<Vec<Arc<ShardPort>>>,
    pub(crate) counters: Counters,
    /// Requests that wait for the evaluator or for their batch.
    pub(crate) waiting: AtomicUsize,
    /// Why this member can serve no more, once it cannot.
    pub(crate) failure: watch::Sender<Option<Error>>,
    /// Raft index up to which the engine's tables hold what was applied.
    pub(crate) flushed: watch::Sender<u64>,
    /// Lease time, and when it was that, while this member leads; `None`: lease time stands still.
    pub(crate) lease_clock: Mutex<Option<(u64, Instant)>>,
}

/// A batch that was proposed.
pub(crate) struct Pending {
    /// Its place in the order.
    pub(crate) order: Order,
    /// Revision that its last transaction will have.
    pub(crate) revision: i64,
    /// Who waits for it to be applied, with their answers.
    pub(crate) replies: Vec<(Reply, Settled)>,
}

/// How the home shard reaches the tasks of another shard.
pub(crate) struct ShardPort {
    /// Answers to hand out there; one message, and so one wake-up, for all of a batch.
    pub(crate) answers: mpsc::UnboundedSender<Vec<(Reply, Settled)>>,
    /// Its watch hub.
    pub(crate) hub: Arc<HubPort>,
}

/// Quantities that metrics show.
#[derive(Debug, Default)]
#[allow(missing_docs, reason = "the names say it")]
pub(crate) struct Counters {
    pub(crate) proposals_applied: AtomicU64,
    pub(crate) proposals_pending: AtomicU64,
    pub(crate) proposals_failed: AtomicU64,
    pub(crate) leader_changes: AtomicU64,
    pub(crate) puts: AtomicU64,
    pub(crate) deletes: AtomicU64,
    pub(crate) ranges: AtomicU64,
    pub(crate) txns: AtomicU64,
    pub(crate) events: AtomicU64,
    pub(crate) watchers: AtomicU64,
    pub(crate) watch_streams: AtomicU64,
    pub(crate) slow_watchers: AtomicU64,
    pub(crate) leases_granted: AtomicU64,
    pub(crate) leases_revoked: AtomicU64,
    pub(crate) leases_renewed: AtomicU64,
    pub(crate) leases_expired: AtomicU64,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }
}

impl Shared {
    /// Hands `replies` to whoever waits, shard by shard. `home` is the caller's shard.
    pub(crate) fn answer(&self, home: usize, replies: Vec<(Reply, Settled)>) {
        let mut elsewhere: Vec<Vec<(Reply, Settled)>> = Vec::new();
        for (reply, settled) in replies {
            if reply.shard == home {
                reply.send(settled);
                continue;
            }
            if elsewhere.len() <= reply.shard {
                elsewhere.resize_with(reply.shard + 1, Vec::new);
            }
            elsewhere[reply.shard].push((reply, settled));
        }
        for (shard, replies) in elsewhere.into_iter().enumerate().filter(|(_, replies)| !replies.is_empty()) {
            // A shard that is gone has nobody who waits.
            let _ = self.shards.read()[shard].answers.send(replies);
        }
    }

    /// Lease time now, milliseconds.
    pub(crate) fn lease_time_ms(&self) -> u64 {
        match *self.lease_clock.lock() {
            Some((base, since)) => base + u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX),
            None => self.state.lock().lease_time_ms,
        }
    }

    /// This member can serve no more; the first reason stays.
    pub(crate) fn fail(&self, reason: String) {
        self.failure.send_if_modified(|failure| {
            let first = failure.is_none();
            failure.get_or_insert(Error::Storage(reason));
            first
        });
    }

    /// Tells the watch hubs that there are changes.
    pub(crate) fn wake_hubs(&self) {
        for shard in &*self.shards.read() {
            shard.hub.wake();
        }
    }

    /// Ends the wait of everybody whose batch will not be applied under its order; the outcome is unknown.
    pub(crate) fn fail_pending(&self, home: usize, error: &Error) {
        let pending: Vec<Pending> = self.pending.lock().drain(..).collect();
        Counters::add(&self.counters.proposals_failed, pending.len() as u64);
        self.counters.proposals_pending.store(0, Ordering::Relaxed);
        let replies = pending.into_iter().flat_map(|batch| batch.replies);
        self.answer(home, replies.map(|(reply, _)| (reply, Settled::unknown(error.clone()))).collect());
    }
}

/// Where an answer goes: a channel, and the shard on which its reader waits.
pub(crate) struct ReplyTo<T> {
    pub(crate) shard: usize,
    pub(crate) sender: oneshot::Sender<T>,
}

impl<T> ReplyTo<T> {
    pub(crate) fn send(self, value: T) {
        // Whoever asked may be gone; the answer is then of no use.
        let _ = self.sender.send(value);
    }
}
