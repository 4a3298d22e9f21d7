//! openraft's state machine: applies batches to the home state and the engine, and answers who waits.
//!
//! Everything that openraft hands over in one call is applied to the engine under one lock; then the watch
//! hubs are woken and the answers go out, so an answer is never seen before its write.
//!
//! SNAPSHOTS are the engine's flushes: the engine holds exactly what was applied up to a flush, so a snapshot
//! is that position, and carries no data. Logs up to it may be purged. Sending state to another member is not
//! part of this yet.
//!
//! INVARIANT: the revision after a batch is the one that its evaluator predicted.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use engine::Applied;
use futures_util::{Stream, StreamExt};
use openraft::EntryPayload;
use openraft::storage::{EntryResponder, RaftSnapshotBuilder, RaftStateMachine};
use openraft::type_config::alias::{LogIdOf, SnapshotMetaOf, SnapshotOf, StoredMembershipOf};
use parking_lot::Mutex;

use super::types::{Command, HOME, StoredMembership, StoredState, TypeConfig, log_id, position};
use crate::eval::{Reply, Settled};
use crate::shared::{Counters, Shared};
use crate::state::{Effects, Order};

/// The positions of flushes, as openraft's snapshots are.
#[derive(Clone)]
pub(super) struct Snapshots {
    shared: Arc<Shared>,
    positions: Arc<Mutex<Positions>>,
}

#[derive(Default)]
struct Positions {
    /// What a flush under way will have made durable.
    flushing: Option<SnapshotMetaOf<TypeConfig>>,
    flushed: Option<SnapshotMetaOf<TypeConfig>>,
}

impl Snapshots {
    /// The newest position that is durable.
    fn newest(&self) -> Option<SnapshotMetaOf<TypeConfig>> {
        let mut positions = self.positions.lock();
        let durable = *self.shared.flushed.borrow();
        let index =
            |meta: &SnapshotMetaOf<TypeConfig>| meta.last_log_id.as_ref().map_or(0, |id| position(id).1);
        if positions.flushing.as_ref().is_some_and(|meta| index(meta) <= durable) {
            positions.flushed = positions.flushing.take();
        }
        positions.flushed.clone()
    }

    fn is_flushing(&self) -> bool {
        self.newest();
        self.positions.lock().flushing.is_some()
    }
}

/// See the module's text.
pub(super) struct Machine {
    shared: Arc<Shared>,
    shard: usize,
    membership: StoredMembership,
    snapshots: Snapshots,
}

/// What one call of apply has gathered.
#[derive(Default)]
struct Gathered {
    want_events: bool,
    effects: Effects,
    replies: Vec<(Reply, Settled)>,
    entries: u64,
}

impl Machine {
    pub(super) fn new(shared: Arc<Shared>, shard: usize, membership: StoredMembership) -> Self {
        let snapshots = Snapshots { shared: Arc::clone(&shared), positions: Arc::default() };
        let machine = Machine { shared, shard, membership, snapshots };
        machine.snapshots.positions.lock().flushed = machine.meta();
        machine
    }

    fn last_applied(&self) -> Option<LogIdOf<TypeConfig>> {
        let state = self.shared.state.lock();
        (state.index > 0).then(|| log_id(state.term, state.index))
    }

    fn meta(&self) -> Option<SnapshotMetaOf<TypeConfig>> {
        let last_log_id = self.last_applied()?;
        Some(SnapshotMetaOf::<TypeConfig> {
            last_log_id: Some(last_log_id),
            last_membership: self.membership.clone(),
        })
    }

    fn apply_batch(
        &mut self,
        (term, index): (u64, u64),
        command: Command,
        gathered: &mut Gathered,
    ) -> io::Result<()> {
        let at = command.at.expect("an entry read from the log knows its place");
        let mut state = self.shared.state.lock();
        let body = command.body;
        let header =
            state.apply((term, index), body, at, gathered.want_events, &mut gathered.effects).map_err(
                |malformed| io::Error::new(io::ErrorKind::InvalidData, format!("entry {index}: {malformed}")),
            )?;
        let Some(header) = header else { return Ok(()) };
        let order = Order { term: header.fence_term, generation: header.fence_gen, seq: header.seq };
        let mut pending = self.shared.pending.lock();
        if pending.front().is_some_and(|front| front.order == order) {
            let front = pending.pop_front().expect("there is a front");
            assert_eq!(
                front.revision, state.revision,
                "the revision after batch {order:?} was predicted otherwise"
            );
            gathered.replies.extend(front.replies);
            self.shared.counters.proposals_pending.fetch_sub(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Makes what was gathered visible, then tells watches and whoever waits.
    fn publish(&mut self, gathered: Gathered) {
        let Gathered { want_events, effects, replies, entries } = gathered;
        let shared = &self.shared;
        let (revision, history_floor) = {
            let state = shared.state.lock();
            (state.revision, effects.compacted.map(|_| state.history_floor()))
        };
        let count = |live: bool| {
            let kv = effects.writes.iter().filter(|write| write.space == engine::Space::Kv);
            kv.filter(|write| write.value.is_some() == live).count() as u64
        };
        Counters::add(&shared.counters.puts, count(true));
        Counters::add(&shared.counters.deletes, count(false));
        shared.engine.apply(&effects.writes, revision);
        if let Some(compacted) = effects.compacted {
            shared.engine.compact(compacted);
        }
        if let Some(floor) = history_floor {
            shared.engine.set_history_floor(HOME, floor);
        }
        Counters::add(&shared.counters.proposals_applied, entries);
        if shared.tail.push(revision, want_events.then_some(effects.events)) {
            shared.wake_hubs();
        }
        shared.answer(self.shard, replies);
    }

    /// Starts a flush if the engine asks for one.
    fn freeze_if_due(&mut self) {
        if !self.shared.engine.wants_flush() || self.snapshots.is_flushing() {
            return;
        }
        let (applied, state) = {
            let home = self.shared.state.lock().clone();
            let applied = Applied { revision: home.revision, groups: [(HOME, home.index)].into() };
            (applied, StoredState { home, membership: self.membership.clone() }.encode())
        };
        if self.shared.engine.freeze(applied, state) {
            self.snapshots.positions.lock().flushing = self.meta();
        }
    }
}

impl RaftStateMachine<TypeConfig> for Machine {
    type SnapshotData = ();
    type SnapshotBuilder = Snapshots;

    async fn applied_state(
        &mut self,
    ) -> io::Result<(Option<LogIdOf<TypeConfig>>, StoredMembershipOf<TypeConfig>)> {
        Ok((self.last_applied(), self.membership.clone()))
    }

    async fn apply<S>(&mut self, mut entries: S) -> io::Result<()>
    where
        S: Stream<Item = io::Result<EntryResponder<TypeConfig>>> + Unpin + Send,
    {
        let mut gathered = Gathered { want_events: self.shared.tail.is_wanted(), ..Gathered::default() };
        let mut responders = Vec::new();
        while let Some(next) = entries.next().await {
            let (entry, responder) = next?;
            let id = position(&entry.log_id);
            match entry.payload {
                EntryPayload::Normal(command) => self.apply_batch(id, command, &mut gathered)?,
                EntryPayload::Blank => self.shared.state.lock().skip(id),
                EntryPayload::Membership(membership) => {
                    self.shared.state.lock().skip(id);
                    self.membership = StoredMembershipOf::<TypeConfig>::new(Some(entry.log_id), membership);
                }
            }
            gathered.entries += 1;
            responders.extend(responder);
        }
        self.publish(gathered);
        for responder in responders {
            responder.send(());
        }
        self.freeze_if_due();
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Snapshots {
        self.snapshots.clone()
    }

    async fn install_snapshot(&mut self, _: &SnapshotMetaOf<TypeConfig>, (): ()) -> io::Result<()> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "installing state from another member is not supported yet",
        ))
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<SnapshotOf<TypeConfig, ()>>> {
        let meta = self.snapshots.newest();
        Ok(meta.map(|meta| SnapshotOf::<TypeConfig, ()> { meta, snapshot: () }))
    }
}

impl RaftSnapshotBuilder<TypeConfig> for Snapshots {
    type SnapshotData = ();

    async fn build_snapshot(&mut self) -> io::Result<SnapshotOf<TypeConfig, ()>> {
        let meta = self.newest().ok_or_else(|| io::Error::other("nothing was flushed yet"))?;
        Ok(SnapshotOf::<TypeConfig, ()> { meta, snapshot: () })
    }
}
