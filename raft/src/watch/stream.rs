//! One gRPC stream's watchers.
//!
//! Requests change the state at once; answers are pulled one by one with [`WatchStream::next`]. What is
//! queued comes in order; lagging watchers of the stream read the log together, in turn with the queue.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use engine::{KeyRange, Space};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::history;
use super::hub::Hub;
use super::tail::{Batch, Change, SharedEncoding};
use crate::error::{Error, Result};
use crate::eval::{EngineView, View, key_range};
use crate::group::Group;
use crate::request::KeyValue;
use crate::shared::Counters;
use crate::state::HistoryPoint;

/// Changes queued for a stream at most, bytes; a watcher that would exceed it lags instead.
const QUEUE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// What fragments may exceed the request limit by, bytes, as etcd's.
const FRAGMENT_OVERHEAD: usize = 512 * 1024;

/// Begins a watch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WatchCreate {
    /// First key; empty is the first of all.
    pub key: Bytes,
    /// As in [`crate::request::Range::range_end`].
    pub range_end: Bytes,
    /// First revision wanted, 0: the next one.
    pub start_revision: i64,
    /// Tell the watcher at intervals how far it is when there is nothing else to tell.
    pub progress_notify: bool,
    /// Changes come with the pair as it was.
    pub prev_kv: bool,
    /// No puts.
    pub no_put: bool,
    /// No deletions.
    pub no_delete: bool,
    /// Wanted id, 0: the stream picks one.
    pub watch_id: i64,
    /// Large answers may come in pieces.
    pub fragment: bool,
}

/// A change of a key.
#[derive(Debug, Clone)]
pub struct Event {
    /// Whether the key was deleted.
    pub delete: bool,
    /// The pair; of a deletion the key and its revision alone.
    pub kv: KeyValue,
    /// The pair as it was, if asked for and still known.
    pub prev_kv: Option<KeyValue>,
    /// Set if others are told the very same: where its encoding is kept for all of them.
    pub encoding: Option<SharedEncoding>,
}

/// What a stream tells its client.
#[derive(Debug, Clone, Default)]
pub struct WatchAnswer {
    /// The watcher, −1 for the stream as a whole.
    pub watch_id: i64,
    /// etcd's `header.revision`.
    pub revision: i64,
    /// The watcher was created.
    pub created: bool,
    /// The watcher ended.
    pub canceled: bool,
    /// Set if it ended because what it wants was compacted: the oldest revision that can be watched.
    pub compact_revision: i64,
    /// Why it ended.
    pub cancel_reason: &'static str,
    /// More pieces of this answer follow.
    pub fragment: bool,
    /// Changes, in order.
    pub events: Vec<Event>,
}

/// A watcher.
pub(super) struct Watcher {
    pub(super) range: KeyRange,
    /// First revision it must still see.
    pub(super) next: i64,
    prev_kv: bool,
    no_put: bool,
    no_delete: bool,
    fragment: bool,
    /// `Some` if it wants progress at intervals: whether it was told anything since the last time.
    told: Option<bool>,
}

impl Watcher {
    pub(super) fn wants(&self, change: &Change) -> bool {
        let filtered = if change.put.is_some() { self.no_put } else { self.no_delete };
        !filtered && change.revision >= self.next
    }
}

/// What waits for the stream's reader.
enum Queued {
    Answer(WatchAnswer),
    Changes { watch_id: i64, batch: Arc<Batch>, picks: Vec<u32>, bytes: usize, revision: i64 },
}

impl Queued {
    fn watch_id(&self) -> i64 {
        match self {
            Queued::Answer(answer) => answer.watch_id,
            Queued::Changes { watch_id, .. } => *watch_id,
        }
    }
}

/// A stream as its hub sees it.
pub(super) struct StreamState {
    pub(super) watchers: BTreeMap<i64, Watcher>,
    /// Watchers that read the log.
    pub(super) lagging: BTreeSet<i64>,
    pub(super) changed: Arc<Notify>,
    queue: VecDeque<Queued>,
    queued_bytes: usize,
    next_id: i64,
    /// A progress answer is due once everything up to this revision was queued.
    progress_at: Option<i64>,
}

impl StreamState {
    pub(super) fn new(changed: Arc<Notify>) -> Self {
        StreamState {
            watchers: BTreeMap::new(),
            lagging: BTreeSet::new(),
            changed,
            queue: VecDeque::new(),
            queued_bytes: 0,
            next_id: 0,
            progress_at: None,
        }
    }

    fn answer(&mut self, answer: WatchAnswer) {
        self.queue.push_back(Queued::Answer(answer));
        self.changed.notify_one();
    }

    /// Queues changes for a live watcher; `false` if there is no room.
    pub(super) fn queue(&mut self, watch_id: i64, batch: &Arc<Batch>, picks: Vec<u32>) -> bool {
        let bytes: usize = picks.iter().map(|pick| batch.changes[*pick as usize].size()).sum();
        if self.queued_bytes > 0 && self.queued_bytes + bytes > QUEUE_BYTES_MAX {
            return false;
        }
        self.queued_bytes += bytes;
        self.push_changes(watch_id, batch, picks, bytes, batch.last);
        true
    }

    fn push_changes(
        &mut self,
        watch_id: i64,
        batch: &Arc<Batch>,
        picks: Vec<u32>,
        bytes: usize,
        revision: i64,
    ) {
        if let Some(told) = self.watchers.get_mut(&watch_id).and_then(|watcher| watcher.told.as_mut()) {
            *told = true;
        }
        self.queue.push_back(Queued::Changes { watch_id, batch: Arc::clone(batch), picks, bytes, revision });
        self.changed.notify_one();
    }

    fn pop(&mut self) -> Option<Queued> {
        let queued = self.queue.pop_front()?;
        if let Queued::Changes { bytes, .. } = &queued {
            self.queued_bytes -= bytes;
        }
        Some(queued)
    }

    /// Drops what is queued for a watcher that ended.
    pub(super) fn forget(&mut self, watch_id: i64) {
        self.queue.retain(|queued| queued.watch_id() != watch_id);
        let bytes = |queued: &Queued| if let Queued::Changes { bytes, .. } = queued { *bytes } else { 0 };
        self.queued_bytes = self.queue.iter().map(bytes).sum();
    }

    /// Queues the progress answer if it is due at `position`; whether none is wanted any more.
    pub(super) fn give_progress(&mut self, position: i64) -> bool {
        let Some(at) = self.progress_at else { return true };
        if position < at || !self.lagging.is_empty() {
            return false;
        }
        self.progress_at = None;
        self.answer(WatchAnswer { watch_id: -1, revision: position, ..WatchAnswer::default() });
        true
    }
}

/// The watchers of one gRPC stream. It is used by one task, on the shard whose store opened it.
pub struct WatchStream {
    hub: Arc<Hub>,
    group: Group,
    id: u64,
    changed: Arc<Notify>,
    /// Pieces of an answer, to be given before anything else.
    pieces: VecDeque<WatchAnswer>,
    /// Lagging watchers are next to be served.
    catch_up_next: bool,
    /// Where the last read of the log ended.
    resume: Option<HistoryPoint>,
    /// Progress was asked for and leadership not confirmed since.
    progress_asked: bool,
    /// When watchers that want it are told their progress.
    next_note: Instant,
    random: SmallRng,
}

impl std::fmt::Debug for WatchStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WatchStream").field("id", &self.id).finish_non_exhaustive()
    }
}

impl WatchStream {
    pub(crate) fn new(hub: Arc<Hub>, group: Group) -> Self {
        let changed = Arc::new(Notify::new());
        let id = hub.open_stream(Arc::clone(&changed));
        let mut random = SmallRng::seed_from_u64(hub.shared.config.seed ^ id);
        let next_note = Instant::now() + note_interval(&hub, &mut random);
        WatchStream {
            hub,
            group,
            id,
            changed,
            pieces: VecDeque::new(),
            catch_up_next: false,
            resume: None,
            progress_asked: false,
            next_note,
            random,
        }
    }

    /// Begins a watch; the answer comes with [`WatchStream::next`].
    pub fn create(&mut self, create: WatchCreate) {
        let refused = |reason| WatchAnswer {
            watch_id: -1,
            revision: self.hub.shared.engine.revision(),
            created: true,
            canceled: true,
            cancel_reason: reason,
            ..WatchAnswer::default()
        };
        let key = if create.key.is_empty() { Bytes::from_static(&[0]) } else { create.key };
        let range = key_range(&key, &create.range_end);
        let refusal = if range.end.as_ref().is_some_and(|end| *end <= range.start) {
            Some("mvcc: watcher range is empty")
        } else if create.start_revision < 0 {
            Some("etcdserver: mvcc: required revision has been compacted")
        } else if create.watch_id != 0
            && self.hub.lock().streams[&self.id].watchers.contains_key(&create.watch_id)
        {
            Some("mvcc: duplicate watch ID provided on the WatchStream")
        } else {
            None
        };
        if let Some(reason) = refusal {
            let answer = refused(reason);
            self.hub.lock().streams.get_mut(&self.id).expect("an open stream").answer(answer);
            return;
        }
        let revision = self.hub.add();
        let mut inner = self.hub.lock();
        let position = inner.position;
        let state = inner.streams.get_mut(&self.id).expect("an open stream");
        let mut watch_id = create.watch_id;
        if watch_id == 0 {
            while state.watchers.contains_key(&state.next_id) {
                state.next_id += 1;
            }
            watch_id = state.next_id;
            state.next_id += 1;
        }
        let next = if create.start_revision == 0 { revision + 1 } else { create.start_revision };
        let watcher = Watcher {
            range: range.clone(),
            next,
            prev_kv: create.prev_kv,
            no_put: create.no_put,
            no_delete: create.no_delete,
            fragment: create.fragment,
            told: create.progress_notify.then_some(false),
        };
        state.watchers.insert(watch_id, watcher);
        state.answer(WatchAnswer { watch_id, revision, created: true, ..WatchAnswer::default() });
        if next > position {
            inner.go_live(&range, (self.id, watch_id));
        } else {
            state.lagging.insert(watch_id);
            Counters::add(&self.hub.shared.counters.slow_watchers, 1);
        }
    }

    /// Ends a watch; nothing happens if there is no such one.
    pub fn cancel(&mut self, watch_id: i64) {
        if !self.hub.remove(self.id, watch_id) {
            return;
        }
        self.pieces.retain(|piece| piece.watch_id != watch_id);
        let revision = self.hub.shared.engine.revision();
        let answer = WatchAnswer { watch_id, revision, canceled: true, ..WatchAnswer::default() };
        self.hub.lock().streams.get_mut(&self.id).expect("an open stream").answer(answer);
    }

    /// Asks how far the stream is. It is answered once every watcher of it has been given everything up to a
    /// revision at least as new as any that was answered before; never if it has no watcher, or one that
    /// waits for a revision still to come.
    pub fn progress(&mut self) {
        if self.hub.shared.leads_alone.load(Ordering::SeqCst) {
            self.note_progress();
        } else {
            self.progress_asked = true;
            self.changed.notify_one();
        }
    }

    /// Waits for the next answer. Safe to drop and call again.
    ///
    /// # Errors
    /// [`Error::Storage`] if history cannot be read.
    pub async fn next(&mut self) -> Result<WatchAnswer> {
        loop {
            if let Some(piece) = self.pieces.pop_front() {
                return Ok(piece);
            }
            if self.progress_asked {
                self.group.confirm().await?;
                self.progress_asked = false;
                self.note_progress();
            }
            self.catch_up_next = !self.catch_up_next;
            if self.catch_up_next && self.has_room() && self.catch_up()? {
                // A piece of history is a good deal of work, and others wait for this shard.
                tokio::task::yield_now().await;
                continue;
            }
            let queued = self.hub.lock().streams.get_mut(&self.id).expect("an open stream").pop();
            match queued {
                Some(Queued::Answer(answer)) => return Ok(answer),
                Some(Queued::Changes { watch_id, batch, picks, revision, .. }) => {
                    self.give(watch_id, &batch, &picks, revision)?;
                    continue;
                }
                None => {}
            }
            if !self.hub.lock().streams[&self.id].lagging.is_empty() {
                self.catch_up_next = false;
                continue;
            }
            tokio::select! {
                biased;
                () = self.changed.notified() => {}
                () = tokio::time::sleep_until(self.next_note) => self.note_idle(),
            }
        }
    }

    /// Whether more changes may be queued.
    fn has_room(&self) -> bool {
        self.hub.lock().streams[&self.id].queued_bytes < QUEUE_BYTES_MAX
    }

    /// Takes up a request for progress; leadership is confirmed.
    fn note_progress(&self) {
        let revision = self.hub.shared.engine.revision();
        let mut inner = self.hub.lock();
        let state = inner.streams.get_mut(&self.id).expect("an open stream");
        let waits_for_future = state.watchers.values().any(|watcher| watcher.next > revision + 1);
        if state.watchers.is_empty() || waits_for_future {
            return;
        }
        state.progress_at = Some(revision);
        inner.want_progress.insert(self.id);
        inner.give_progress();
    }

    /// Tells watchers that want it how far they are, if they were told nothing since the last time.
    fn note_idle(&mut self) {
        self.next_note = Instant::now() + note_interval(&self.hub, &mut self.random);
        let mut inner = self.hub.lock();
        let position = inner.position;
        let state = inner.streams.get_mut(&self.id).expect("an open stream");
        let mut idle = Vec::new();
        for (id, watcher) in &mut state.watchers {
            let Some(told) = &mut watcher.told else { continue };
            if !std::mem::take(told) && !state.lagging.contains(id) && watcher.next <= position + 1 {
                idle.push(*id);
            }
        }
        for watch_id in idle {
            state.answer(WatchAnswer { watch_id, revision: position, ..WatchAnswer::default() });
        }
    }

    /// One step of the lagging watchers; whether there was anything to do.
    fn catch_up(&mut self) -> Result<bool> {
        let (from, position) = {
            let mut inner = self.hub.lock();
            let position = inner.position;
            let id = self.id;
            let state = inner.streams.get_mut(&id).expect("an open stream");
            let cursor = |watch_id: &i64| state.watchers[watch_id].next;
            let Some(from) = state.lagging.iter().map(cursor).min() else { return Ok(false) };
            if from > position {
                let caught_up: Vec<i64> = state.lagging.iter().copied().collect();
                state.lagging.clear();
                for watch_id in caught_up {
                    let range = inner.streams[&id].watchers[&watch_id].range.clone();
                    inner.go_live(&range, (id, watch_id));
                    self.hub.shared.counters.slow_watchers.fetch_sub(1, Ordering::Relaxed);
                }
                self.resume = None;
                inner.give_progress();
                return Ok(true);
            }
            (from, position)
        };
        match history::read(&self.hub.shared, from, self.resume) {
            Ok(piece) => {
                self.resume = Some(piece.resume);
                self.take_piece(&piece, from, position);
            }
            Err(Error::Compacted) => self.cancel_compacted(),
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// Queues what lagging watchers want of a piece of history, and moves their cursors on.
    fn take_piece(&mut self, piece: &history::Piece, from: i64, position: i64) {
        let mut inner = self.hub.lock();
        let state = inner.streams.get_mut(&self.id).expect("an open stream");
        let reached = piece.batches.last().map_or(position, |batch| batch.last).max(from);
        let lagging: Vec<i64> = state.lagging.iter().copied().collect();
        for watch_id in lagging {
            if state.watchers[&watch_id].next > reached {
                continue;
            }
            for batch in &piece.batches {
                let watcher = &state.watchers[&watch_id];
                let wanted = |(_, change): &(usize, &Change)| {
                    watcher.wants(change) && watcher.range.contains(&change.key)
                };
                let picks: Vec<u32> =
                    batch.changes.iter().enumerate().filter(wanted).map(|(place, _)| place as u32).collect();
                if !picks.is_empty() {
                    Counters::add(&self.hub.shared.counters.events, picks.len() as u64);
                    let bytes = picks.iter().map(|pick| batch.changes[*pick as usize].size()).sum();
                    state.queued_bytes += bytes;
                    state.push_changes(watch_id, batch, picks, bytes, position.max(batch.last));
                }
            }
            state.watchers.get_mut(&watch_id).expect("a lagging watcher").next = reached + 1;
        }
    }

    /// Ends the lagging watchers whose history is gone.
    fn cancel_compacted(&mut self) {
        let compacted = self.hub.shared.state.lock().compacted;
        let gone: Vec<i64> = {
            let inner = self.hub.lock();
            let state = &inner.streams[&self.id];
            state.lagging.iter().copied().filter(|id| state.watchers[id].next < compacted).collect()
        };
        for watch_id in gone {
            // What is queued before the gap still counts.
            let queued =
                std::mem::take(&mut self.hub.lock().streams.get_mut(&self.id).expect("an open stream").queue);
            self.hub.remove(self.id, watch_id);
            let mut inner = self.hub.lock();
            let state = inner.streams.get_mut(&self.id).expect("an open stream");
            state.queue = queued;
            let bytes = |queued: &Queued| if let Queued::Changes { bytes, .. } = queued { *bytes } else { 0 };
            state.queued_bytes = state.queue.iter().map(bytes).sum();
            // etcd gives no revision and no reason with this answer.
            state.answer(WatchAnswer {
                watch_id,
                canceled: true,
                compact_revision: compacted,
                ..WatchAnswer::default()
            });
        }
    }

    /// Makes the answer, or its pieces, from changes.
    fn give(&mut self, watch_id: i64, batch: &Arc<Batch>, picks: &[u32], revision: i64) -> Result<()> {
        let (prev_kv, fragment) = {
            let inner = self.hub.lock();
            match inner.streams[&self.id].watchers.get(&watch_id) {
                Some(watcher) => (watcher.prev_kv, watcher.fragment),
                None => (false, false),
            }
        };
        let fragment_bytes = self.hub.shared.config.max_request_bytes + FRAGMENT_OVERHEAD;
        let mut answer = WatchAnswer { watch_id, revision, ..WatchAnswer::default() };
        let mut bytes = 0;
        for pick in picks {
            let change = &batch.changes[*pick as usize];
            let mut event = self.event(change, prev_kv)?;
            if event.prev_kv.is_none() && batch.encodings.are_wanted() {
                event.encoding = Some(SharedEncoding::new(batch, *pick as usize));
            }
            let size =
                change.size() + event.prev_kv.as_ref().map_or(0, |prev| prev.key.len() + prev.value.len());
            if fragment && bytes + size >= fragment_bytes && !answer.events.is_empty() {
                let events = std::mem::take(&mut answer.events);
                self.pieces.push_back(WatchAnswer { events, fragment: true, ..answer.clone() });
                bytes = 0;
            }
            bytes += size;
            answer.events.push(event);
        }
        self.pieces.push_back(answer);
        Ok(())
    }

    fn event(&self, change: &Change, prev_kv: bool) -> Result<Event> {
        let mut kv =
            KeyValue { key: change.key.clone(), mod_revision: change.revision, ..KeyValue::default() };
        let mut created = false;
        if let Some(put) = &change.put {
            kv.create_revision = put.create;
            kv.version = put.version;
            kv.lease = put.lease;
            kv.value = put.value.clone();
            created = put.create == change.revision;
        }
        let prev_kv = if prev_kv && !created { self.before(change)? } else { None };
        Ok(Event { delete: change.put.is_none(), kv, prev_kv, encoding: None })
    }

    /// The pair as it was before a change; `None` once it is compacted.
    fn before(&self, change: &Change) -> Result<Option<KeyValue>> {
        let engine = &self.hub.shared.engine;
        let view = EngineView::latest(engine);
        match engine.get(Space::Kv, &change.key, change.revision - 1) {
            Ok(None) | Err(engine::Error::Compacted { .. }) => Ok(None),
            Ok(Some(meta)) => view.pair(&meta.into()).map(Some),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for WatchStream {
    fn drop(&mut self) {
        self.hub.close_stream(self.id);
    }
}

/// Time to the next progress note, with up to a tenth more, so that streams do not all speak at once.
fn note_interval(hub: &Hub, random: &mut SmallRng) -> Duration {
    let ms = hub.shared.config.progress_interval_ms.max(1);
    Duration::from_millis(ms + random.random_range(0..=ms / 10))
}
