//! One a shard: which live watcher wants which change.
//!
//! The hub's task wakes once per applied batch, takes it from the tail (or from the log, if it was slow), and
//! queues the changes with the streams that want them. A stream that nobody writes for is not woken.
//!
//! A hub is used by the tasks of one shard only; its lock is never waited for.
//!
//! INVARIANT: every change up to `position` has been offered to every live watcher.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::KeyRange;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use super::history;
use super::interest::Interest;
use super::stream::StreamState;
use super::tail::{Batch, Recent};
use crate::error::Result;
use crate::shared::{Counters, Shared};
use crate::state::HistoryPoint;

/// How the home shard wakes a hub.
#[derive(Debug, Default)]
pub(crate) struct HubPort {
    active: AtomicBool,
    changed: Notify,
}

impl HubPort {
    /// There are new changes. Costs nothing while the shard has no watchers.
    pub(crate) fn wake(&self) {
        if self.active.load(Ordering::SeqCst) {
            self.changed.notify_one();
        }
    }
}

/// Names a watcher: its stream, and its id there.
pub(super) type WatcherId = (u64, i64);

/// See the module's text.
pub(crate) struct Hub {
    pub(super) shared: Arc<Shared>,
    port: Arc<HubPort>,
    inner: Mutex<Inner>,
}

pub(super) struct Inner {
    /// Revision up to which changes were offered.
    pub(super) position: i64,
    pub(super) streams: BTreeMap<u64, StreamState>,
    live: Interest,
    watchers: usize,
    next_stream: u64,
    /// Streams that wait for a progress answer.
    pub(super) want_progress: BTreeSet<u64>,
    resume: Option<HistoryPoint>,
}

impl Hub {
    pub(crate) fn new(shared: Arc<Shared>, port: Arc<HubPort>) -> Arc<Self> {
        let inner = Inner {
            position: 0,
            streams: BTreeMap::new(),
            live: Interest::default(),
            watchers: 0,
            next_stream: 0,
            want_progress: BTreeSet::new(),
            resume: None,
        };
        Arc::new(Hub { shared, port, inner: Mutex::new(inner) })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    /// Offers changes to watchers for ever.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            self.port.changed.notified().await;
            if let Err(error) = self.distribute() {
                // Watchers then read the log themselves, and tell their clients what is wrong.
                tracing::error!(%error, "changes cannot be read for watches");
                self.lock().all_lag();
            }
        }
    }

    fn distribute(&self) -> Result<()> {
        loop {
            let (position, resume) = {
                let inner = self.lock();
                (inner.position, inner.resume)
            };
            let batches = match self.shared.tail.read(position) {
                Recent::Batches(batches) if batches.is_empty() => break,
                Recent::Batches(batches) => batches,
                Recent::Gone(upto) => {
                    let piece = history::read(&self.shared, position + 1, resume)?;
                    let mut inner = self.lock();
                    inner.resume = Some(piece.resume);
                    if piece.batches.is_empty() {
                        inner.position = inner.position.max(upto.min(piece.resume.revision));
                    }
                    drop(inner);
                    piece.batches
                }
            };
            let mut inner = self.lock();
            for batch in batches {
                inner.offer(&self.shared, &batch);
            }
        }
        self.lock().give_progress();
        Ok(())
    }

    pub(super) fn open_stream(&self, changed: Arc<Notify>) -> u64 {
        let mut inner = self.lock();
        inner.next_stream += 1;
        let id = inner.next_stream;
        inner.streams.insert(id, StreamState::new(changed));
        Counters::add(&self.shared.counters.watch_streams, 1);
        id
    }

    pub(super) fn close_stream(&self, stream: u64) {
        let ids: Vec<i64> = self.lock().streams[&stream].watchers.keys().copied().collect();
        for id in ids {
            self.remove(stream, id);
        }
        let mut inner = self.lock();
        inner.streams.remove(&stream);
        inner.want_progress.remove(&stream);
        self.shared.counters.watch_streams.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts a new watcher; the hub runs while there is one. Gives the newest revision applied.
    pub(super) fn add(&self) -> i64 {
        let mut inner = self.lock();
        inner.watchers += 1;
        Counters::add(&self.shared.counters.watchers, 1);
        if inner.watchers > 1 {
            return self.shared.engine.revision();
        }
        // First ask to be woken, then look: a change applied in between is seen by one of the two.
        self.shared.tail.want();
        self.port.active.store(true, Ordering::SeqCst);
        inner.position = self.shared.engine.revision();
        inner.resume = None;
        inner.position
    }

    /// Ends a watcher; whether it was there.
    pub(super) fn remove(&self, stream: u64, id: i64) -> bool {
        let mut inner = self.lock();
        let Some(state) = inner.streams.get_mut(&stream) else { return false };
        let Some(watcher) = state.watchers.remove(&id) else { return false };
        state.forget(id);
        if state.lagging.remove(&id) {
            self.shared.counters.slow_watchers.fetch_sub(1, Ordering::Relaxed);
        } else {
            inner.live.remove(&watcher.range, (stream, id));
        }
        inner.watchers -= 1;
        self.shared.counters.watchers.fetch_sub(1, Ordering::Relaxed);
        if inner.watchers == 0 {
            self.port.active.store(false, Ordering::SeqCst);
            self.shared.tail.unwant();
        }
        true
    }
}

impl Inner {
    /// A watcher that has seen all up to `position` takes part in what comes.
    pub(super) fn go_live(&mut self, range: &KeyRange, id: WatcherId) {
        self.live.insert(range, id);
    }

    /// Queues what live watchers want of `batch`.
    fn offer(&mut self, shared: &Shared, batch: &Arc<Batch>) {
        let mut wanted: BTreeMap<WatcherId, Vec<u32>> = BTreeMap::new();
        for (place, change) in batch.changes.iter().enumerate().filter(|(_, c)| c.revision > self.position) {
            let place = u32::try_from(place).expect("a batch of fewer than 4 Gi changes");
            let mut receivers = 0;
            self.live.each(&change.key, |id| {
                let watcher = &self.streams[&id.0].watchers[&id.1];
                if watcher.wants(change) {
                    wanted.entry(id).or_default().push(place);
                    receivers += 1;
                }
            });
            if receivers > 1 {
                batch.encodings.want();
            }
        }
        for ((stream, id), picks) in wanted {
            let state = self.streams.get_mut(&stream).expect("a live watcher has a stream");
            Counters::add(&shared.counters.events, picks.len() as u64);
            if !state.queue(id, batch, picks) {
                // Its reader is slow: from here on it keeps a cursor only.
                let watcher = state.watchers.get_mut(&id).expect("a live watcher");
                watcher.next = watcher.next.max(batch.after.max(self.position) + 1);
                state.lagging.insert(id);
                let range = watcher.range.clone();
                self.live.remove(&range, (stream, id));
                Counters::add(&shared.counters.slow_watchers, 1);
            }
        }
        self.position = self.position.max(batch.last);
    }

    /// Every live watcher goes back to reading the log from the hub's position on.
    fn all_lag(&mut self) {
        let next = self.position + 1;
        for state in self.streams.values_mut() {
            for (id, watcher) in &mut state.watchers {
                if state.lagging.insert(*id) {
                    watcher.next = watcher.next.max(next);
                }
            }
            state.changed.notify_one();
        }
        self.live = Interest::default();
    }

    /// Queues the progress answers that are due.
    pub(super) fn give_progress(&mut self) {
        let position = self.position;
        let streams = &mut self.streams;
        self.want_progress.retain(|stream| {
            let state = streams.get_mut(stream).expect("an open stream");
            !state.give_progress(position)
        });
    }
}
