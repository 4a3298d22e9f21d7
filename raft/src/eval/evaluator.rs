//! The home group's one sequential evaluator.
//!
//! It takes what waits, evaluates each request on the applied state with everything in flight on top, and
//! proposes the effects as one batch. Revisions are known at evaluation; so are the answers, which are held
//! until their batch is applied. Meanwhile the next batch is evaluated: at most [`IN_FLIGHT_MAX`] are under
//! way, one being synced and one waiting for that, so that requests gather into batches by themselves.
//!
//! WHAT DOES NOT WRITE (a failed compare, a deletion of nothing, a refusal that depends on state) is answered
//! once what it was evaluated on is applied and leadership in that same term is confirmed afterwards: nobody
//! else can then have acknowledged a write in between.
//!
//! A PROPOSAL THAT FAILS voids all that was evaluated on top of it: everything in flight ends with an unknown
//! outcome, a new fence is proposed, and evaluation starts anew from the applied state.
//!
//! INVARIANTS
//! * `revision`, `leases`, `alarms`, `compacted` are what the home state will hold once all in flight is
//!   applied. The applier asserts the revision of each batch.
//! * `order.seq` is the number of the last batch proposed after the fence.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use engine::batch::{Change, Encoder, Header, Op};
use engine::{Direction, KeyRange, Space};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::overlay::{Layered, Overlay};
use super::view::EngineView;
use super::write::{Context, Outcome, Write, evaluate};
use crate::error::{Error, Result};
use crate::group::{Group, Proposed};
use crate::lease::{Leases, TTL_SECONDS_MAX};
use crate::note::Note;
use crate::request::{Alarm, AlarmKind, At, LeaseGrant, Member, Txn, TxnOp, TxnOpAnswer};
use crate::shared::{Counters, Pending, ReplyTo, Shared};
use crate::state::{Order, attachment_key};

/// Batches under way at most.
const IN_FLIGHT_MAX: usize = 2;
/// Requests evaluated in one turn at most.
const ASKS_MAX: usize = 1024;
/// A batch is proposed once it has this many bytes.
const BATCH_BYTES: usize = 1024 * 1024;
/// Leases revoked in one turn at most.
const EXPIRED_MAX: usize = 1000;
/// While there are leases, lease time is recorded at least this often: a crash loses at most so much of it.
const LEASE_TIME_EVERY: Duration = Duration::from_secs(10);

/// Where an answer goes.
pub(crate) type Reply = ReplyTo<Settled>;

/// What only the evaluator may do.
#[derive(Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub(crate) enum Ask {
    Write(Write),
    Compact(i64),
    LeaseGrant(LeaseGrant),
    LeaseRevoke(i64),
    LeaseRenew(i64),
    AlarmRaise(Alarm),
    AlarmClear(Alarm),
    MemberUpdate(Member),
}

/// Answer to an [`Ask`].
#[derive(Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub(crate) enum WriteAnswer {
    Op(TxnOpAnswer),
    Lease { id: i64, ttl_seconds: i64 },
    Alarms(Vec<Alarm>),
    Done,
}

/// An answer, and what must still be known before it is given out.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) result: Result<At<WriteAnswer>>,
    /// Nothing was written: leadership in this term must be confirmed first.
    pub(crate) confirm: Option<u64>,
}

impl Settled {
    /// The outcome is not known.
    pub(crate) fn unknown(error: Error) -> Self {
        Settled { result: Err(error), confirm: None }
    }
}

/// A batch being made.
struct Building {
    encoder: Encoder,
    lease_time_ms: u64,
    keys: Vec<Bytes>,
    replies: Vec<(Reply, Settled)>,
    /// Whether it attaches keys to leases or detaches them.
    attaches: bool,
}

/// A batch under way.
struct InFlight {
    revision: i64,
    keys: Vec<Bytes>,
    attaches: bool,
    proposed: Proposed,
}

/// See the module's text.
pub(crate) struct Evaluator {
    shared: Arc<Shared>,
    group: Group,
    asks: mpsc::UnboundedReceiver<(Ask, Option<Reply>)>,
    shard: usize,
    overlay: Overlay,
    in_flight: VecDeque<InFlight>,
    order: Order,
    revision: i64,
    compacted: i64,
    leases: Leases,
    alarms: BTreeSet<Alarm>,
    last_proposal: Instant,
    random: SmallRng,
}

/// Why a leader stops evaluating.
enum Lost {
    /// Leadership, or a proposal.
    Leadership(Error),
    /// All who could ask are gone.
    Callers,
}

impl Evaluator {
    pub(crate) fn new(
        shared: Arc<Shared>,
        group: Group,
        asks: mpsc::UnboundedReceiver<(Ask, Option<Reply>)>,
        shard: usize,
    ) -> Self {
        let random = SmallRng::seed_from_u64(shared.config.seed ^ 0x6c65_6173_6573);
        let now = Instant::now();
        Evaluator {
            shared,
            group,
            asks,
            shard,
            overlay: Overlay::default(),
            in_flight: VecDeque::new(),
            order: Order::default(),
            revision: 0,
            compacted: -1,
            leases: Leases::default(),
            alarms: BTreeSet::new(),
            last_proposal: now,
            random,
        }
    }

    /// Evaluates whenever this member leads, until all who could ask are gone.
    pub(crate) async fn run(mut self) {
        loop {
            self.group.set_ticking(true);
            let term = self.group.until_leader().await;
            let lost = match self.begin(term).await {
                Ok(()) => self.lead(term).await,
                Err(error) => Lost::Leadership(error),
            };
            self.shared.leads_alone.store(false, Ordering::SeqCst);
            *self.shared.lease_clock.lock() = None;
            let error = match &lost {
                Lost::Leadership(error) => error.clone(),
                Lost::Callers => Error::Stopped,
            };
            self.shared.fail_pending(self.shard, &error);
            self.in_flight.clear();
            self.overlay.clear();
            if matches!(lost, Lost::Callers) || self.shared.stopping.load(Ordering::SeqCst) {
                return;
            }
            tracing::warn!(%error, "evaluation starts anew");
            self.group.pause_after_loss().await;
        }
    }

    /// Proposes a fence and, once it is applied, takes over the applied state.
    async fn begin(&mut self, term: u64) -> Result<()> {
        {
            let state = self.shared.state.lock();
            let last = state.order;
            let generation = if last.term == term { last.generation + 1 } else { 0 };
            // Generations of one process only grow, even if an earlier fence of it has not landed.
            let generation =
                if self.order.term == term { generation.max(self.order.generation + 1) } else { generation };
            self.order = Order { term, generation, seq: 0 };
            *self.shared.lease_clock.lock() = Some((state.lease_time_ms, Instant::now()));
        }
        let mut encoder = Encoder::new(64);
        encoder.note(&Note::Fence.encode());
        let lease_time_ms = self.shared.lease_time_ms();
        let body = encoder.finish(&self.header(0, lease_time_ms));
        self.group.propose(term, body).await?.applied().await?;
        let state = self.shared.state.lock();
        if state.order != self.order {
            return Err(Error::LeaderChanged);
        }
        self.revision = state.revision;
        self.compacted = state.compacted;
        self.leases = state.leases.clone();
        self.alarms = state.alarms.clone();
        let alone = self.group.is_sole_voter();
        self.shared.leads_alone.store(alone, Ordering::SeqCst);
        self.group.set_ticking(!alone);
        Ok(())
    }

    async fn lead(&mut self, term: u64) -> Lost {
        let mut asks = Vec::with_capacity(ASKS_MAX);
        loop {
            let room = self.in_flight.len() < IN_FLIGHT_MAX;
            let alarm = self.next_lease_work();
            let turn = tokio::select! {
                biased;
                changed = self.group.until_not_leader(term) => return Lost::Leadership(changed),
                applied = front(&mut self.in_flight) => applied.map(|()| self.settle_front()),
                taken = self.asks.recv_many(&mut asks, ASKS_MAX), if room => {
                    if taken == 0 {
                        return Lost::Callers;
                    }
                    self.turn(&mut asks).await
                }
                () = tokio::time::sleep_until(alarm.unwrap_or(self.last_proposal)), if room && alarm.is_some() => {
                    self.lease_work().await
                }
            };
            if let Err(error) = turn {
                return Lost::Leadership(error);
            }
        }
    }

    /// The oldest batch under way is applied.
    fn settle_front(&mut self) {
        let done = self.in_flight.pop_front().expect("the front was awaited");
        for key in &done.keys {
            self.overlay.settle(key, done.revision);
        }
    }

    /// Waits until nothing is under way.
    async fn quiesce(&mut self) -> Result<()> {
        while !self.in_flight.is_empty() {
            front(&mut self.in_flight).await?;
            self.settle_front();
        }
        Ok(())
    }

    async fn turn(&mut self, asks: &mut Vec<(Ask, Option<Reply>)>) -> Result<()> {
        let db_size = self.shared.engine.db_size_bytes();
        // Just the room that is needed: the log's tail keeps the batch in memory for a while.
        let expected = asks.iter().map(|(ask, _)| cost(ask)).sum::<usize>().min(BATCH_BYTES);
        let mut batch = self.building(expected);
        for (ask, reply) in asks.drain(..) {
            if matches!(ask, Ask::LeaseRevoke(_)) {
                batch = self.settle_attachments(batch).await?;
            }
            let mut notes = Vec::new();
            let evaluated = match self.refusal(&ask, db_size, &mut notes) {
                Some(error) => Err(error),
                None => self.evaluate(ask, &mut batch, &mut notes),
            };
            for note in &notes {
                batch.encoder.note(&note.encode());
            }
            self.hold(&mut batch, evaluated, !notes.is_empty(), reply);
            if batch.encoder.len() >= BATCH_BYTES {
                let full = std::mem::replace(&mut batch, self.building(expected));
                self.propose(full).await?;
            }
        }
        self.propose(batch).await
    }

    /// Which keys a lease holds is read from the applied state alone, so attachments under way come first.
    async fn settle_attachments(&mut self, batch: Building) -> Result<Building> {
        if !batch.attaches && !self.in_flight.iter().any(|batch| batch.attaches) {
            return Ok(batch);
        }
        self.propose(batch).await?;
        self.quiesce().await?;
        Ok(self.building(0))
    }

    /// Keeps an answer until its time. `noted`: it changed state without keys.
    fn hold(
        &mut self,
        batch: &mut Building,
        evaluated: Result<(WriteAnswer, bool)>,
        noted: bool,
        reply: Option<Reply>,
    ) {
        let Some(reply) = reply else { return };
        let wrote = noted || matches!(evaluated, Ok((_, true)));
        let result = evaluated.map(|(answer, _)| At { revision: self.revision, answer });
        let settled = Settled { result, confirm: (!wrote).then_some(self.order.term) };
        if wrote || !batch.encoder.is_empty() {
            batch.replies.push((reply, settled));
        } else if let Some(last) = self.shared.pending.lock().back_mut() {
            last.replies.push((reply, settled));
        } else {
            self.shared.answer(self.shard, vec![(reply, settled)]);
        }
    }

    /// Whether an alarm or the quota forbids the request.
    fn refusal(&mut self, ask: &Ask, db_size: u64, notes: &mut Vec<Note>) -> Option<Error> {
        let corrupt = self.alarms.iter().any(|alarm| alarm.kind == AlarmKind::Corrupt);
        if corrupt
            && !matches!(
                ask,
                Ask::AlarmClear(_) | Ask::AlarmRaise(_) | Ask::LeaseRenew(_) | Ask::MemberUpdate(_)
            )
        {
            return Some(Error::CorruptAlarm);
        }
        let cost = cost(ask);
        if cost == 0 {
            return None;
        }
        if self.alarms.iter().any(|alarm| alarm.kind == AlarmKind::NoSpace) {
            return Some(Error::NoSpace);
        }
        let quota = u64::try_from(self.shared.config.quota_bytes).unwrap_or(0);
        if quota > 0 && db_size + cost as u64 >= quota {
            let alarm = Alarm { member: self.shared.config.member.id, kind: AlarmKind::NoSpace };
            tracing::warn!(db_size, quota, "the space quota is used up: alarm raised");
            self.alarms.insert(alarm);
            notes.push(Note::AlarmRaise(alarm));
            return Some(Error::NoSpace);
        }
        None
    }

    /// The answer, and whether keys change.
    fn evaluate(
        &mut self,
        ask: Ask,
        batch: &mut Building,
        notes: &mut Vec<Note>,
    ) -> Result<(WriteAnswer, bool)> {
        let done = Ok((WriteAnswer::Done, false));
        match ask {
            Ask::Write(write) => self.write(&write, batch),
            Ask::Compact(revision) => {
                if revision <= self.compacted {
                    return Err(Error::Compacted);
                }
                if revision > self.revision {
                    return Err(Error::FutureRevision);
                }
                self.compacted = revision;
                notes.push(Note::Compact(revision));
                done
            }
            Ask::LeaseGrant(grant) => self.grant(grant, batch, notes),
            Ask::LeaseRenew(id) => {
                let Some(ttl_seconds) = self.leases.get(id).map(|lease| lease.ttl_seconds) else {
                    return Ok((WriteAnswer::Lease { id, ttl_seconds: 0 }, false));
                };
                self.leases.renew(id, batch.lease_time_ms);
                notes.push(Note::LeaseRenew { id });
                Counters::add(&self.shared.counters.leases_renewed, 1);
                Ok((WriteAnswer::Lease { id, ttl_seconds }, false))
            }
            Ask::LeaseRevoke(id) => self.revoke(id, batch),
            Ask::AlarmRaise(alarm) => {
                if self.alarms.insert(alarm) {
                    notes.push(Note::AlarmRaise(alarm));
                }
                Ok((WriteAnswer::Alarms(vec![alarm]), false))
            }
            Ask::AlarmClear(alarm) => {
                if !self.alarms.remove(&alarm) {
                    return Ok((WriteAnswer::Alarms(Vec::new()), false));
                }
                notes.push(Note::AlarmClear(alarm));
                Ok((WriteAnswer::Alarms(vec![alarm]), false))
            }
            Ask::MemberUpdate(member) => {
                notes.push(Note::MemberUpdate(member));
                done
            }
        }
    }

    fn write(&mut self, write: &Write, batch: &mut Building) -> Result<(WriteAnswer, bool)> {
        let outcome = {
            let applied = EngineView::latest(&self.shared.engine);
            let view = Layered::new(&applied, &self.overlay, self.revision);
            let leases = &self.leases;
            let lease_exists = |id| leases.get(id).is_some();
            evaluate(&view, write, &Context { compacted: self.compacted, lease_exists: &lease_exists })?
        };
        let Outcome { ops, rows, answer } = outcome;
        if ops.is_empty() {
            return Ok((WriteAnswer::Op(answer), false));
        }
        self.revision += 1;
        batch.encoder.txn(&ops);
        for (op, row) in ops.into_iter().zip(rows) {
            let lease = row.as_ref().map_or(0, |row| row.lease);
            batch.attaches |= lease != op.old_lease;
            self.overlay.put(&op.key, self.revision, row);
            batch.keys.push(op.key);
        }
        Ok((WriteAnswer::Op(answer), true))
    }

    fn grant(
        &mut self,
        grant: LeaseGrant,
        batch: &Building,
        notes: &mut Vec<Note>,
    ) -> Result<(WriteAnswer, bool)> {
        if grant.ttl_seconds > TTL_SECONDS_MAX {
            return Err(Error::LeaseTtlTooLarge);
        }
        let mut id = grant.id;
        while id == 0 || (grant.id == 0 && self.leases.get(id).is_some()) {
            id = self.random.random_range(1..=i64::MAX);
        }
        if self.leases.get(id).is_some() {
            return Err(Error::LeaseExists);
        }
        let ttl_seconds = grant.ttl_seconds.max(self.shared.config.min_lease_ttl_seconds());
        self.leases.start(id, ttl_seconds, batch.lease_time_ms);
        notes.push(Note::LeaseGrant { id, ttl_seconds });
        Counters::add(&self.shared.counters.leases_granted, 1);
        Ok((WriteAnswer::Lease { id, ttl_seconds }, false))
    }

    /// Ends a lease and deletes its keys in one revision. No attachment is under way.
    fn revoke(&mut self, id: i64, batch: &mut Building) -> Result<(WriteAnswer, bool)> {
        if self.leases.get(id).is_none() {
            return Err(Error::LeaseNotFound);
        }
        let ops: Vec<Op> = attached_keys(&self.shared.engine, id)?
            .into_iter()
            .map(|key| Op { key, old_lease: id, change: Change::Delete })
            .collect();
        self.leases.end(id);
        batch.encoder.note(&Note::LeaseRevoke { id }.encode());
        Counters::add(&self.shared.counters.leases_revoked, 1);
        if !ops.is_empty() {
            self.revision += 1;
            batch.encoder.txn(&ops);
            batch.attaches = true;
            for op in ops {
                self.overlay.put(&op.key, self.revision, None);
                batch.keys.push(op.key);
            }
        }
        Ok((WriteAnswer::Done, true))
    }

    /// An empty batch with room for `bytes`.
    fn building(&self, bytes: usize) -> Building {
        Building {
            encoder: Encoder::new(bytes),
            lease_time_ms: self.shared.lease_time_ms(),
            keys: Vec::new(),
            replies: Vec::new(),
            attaches: false,
        }
    }

    fn header(&self, seq: u64, lease_time_ms: u64) -> Header {
        Header {
            fence_term: self.order.term,
            fence_gen: self.order.generation,
            seq,
            s0_seen: self.shared.state.lock().index,
            lease_time_ms,
        }
    }

    async fn propose(&mut self, batch: Building) -> Result<()> {
        if batch.encoder.is_empty() {
            assert!(batch.replies.is_empty(), "answers held by a batch that is not proposed");
            return Ok(());
        }
        self.propose_any(batch).await
    }

    async fn propose_any(&mut self, batch: Building) -> Result<()> {
        self.order.seq += 1;
        let body = batch.encoder.finish(&self.header(self.order.seq, batch.lease_time_ms));
        let pending = Pending { order: self.order, revision: self.revision, replies: batch.replies };
        self.shared.pending.lock().push_back(pending);
        Counters::add(&self.shared.counters.proposals_pending, 1);
        let proposed = self.group.propose(self.order.term, body).await?;
        self.last_proposal = Instant::now();
        self.in_flight.push_back(InFlight {
            revision: self.revision,
            keys: batch.keys,
            attaches: batch.attaches,
            proposed,
        });
        Ok(())
    }

    /// When leases next need something: the first to end, or lease time to be recorded.
    fn next_lease_work(&self) -> Option<Instant> {
        let (deadline_ms, _) = self.leases.next_deadline()?;
        let left = Duration::from_millis(deadline_ms.saturating_sub(self.shared.lease_time_ms()));
        let record = self.last_proposal + LEASE_TIME_EVERY;
        // A lease may outlive what an instant can express; then there is nothing to wait for but recording.
        let ends = Instant::now().checked_add(left);
        Some(ends.map_or(record, |ends| record.min(ends)))
    }

    async fn lease_work(&mut self) -> Result<()> {
        let now = self.shared.lease_time_ms();
        let due = |leases: &Leases| leases.next_deadline().is_some_and(|(deadline_ms, _)| deadline_ms <= now);
        if !due(&self.leases) {
            let batch = self.building(0);
            return self.propose_any(batch).await;
        }
        // A leader that was cut off or paused must not end what its successor keeps alive.
        if !self.shared.leads_alone.load(Ordering::SeqCst) {
            self.group.confirm().await?;
        }
        let mut batch = self.building(0);
        batch = self.settle_attachments(batch).await?;
        for _ in 0..EXPIRED_MAX {
            if !due(&self.leases) {
                break;
            }
            let (_, id) = self.leases.next_deadline().expect("one is due");
            self.revoke(id, &mut batch)?;
            Counters::add(&self.shared.counters.leases_expired, 1);
        }
        self.propose(batch).await
    }
}

/// Keys that the applied state attaches to a lease, in key order.
pub(crate) fn attached_keys(engine: &engine::Engine, lease: i64) -> Result<Vec<Bytes>> {
    let start = attachment_key(lease, b"");
    let end = lease.checked_add(1).filter(|next| *next != 0).map(|next| attachment_key(next, b""));
    let mut range = KeyRange { start, end };
    let revision = engine.revision();
    let (mut keys, mut chunk) = (Vec::new(), Vec::new());
    loop {
        engine.scan(Space::Lease, &range, revision, Direction::Forward, ASKS_MAX, &mut chunk)?;
        let Some(last) = chunk.last() else { return Ok(keys) };
        range.start = super::view::after(&last.key);
        let full = chunk.len() == ASKS_MAX;
        keys.extend(chunk.drain(..).map(|attached| attached.key.slice(8..)));
        if !full {
            return Ok(keys);
        }
    }
}

/// What etcd's quota charges for a transaction: the dearer of its branches.
/// What a request is reckoned to add to the log, bytes: keys, values and, as in etcd, 256 for each put.
fn cost(ask: &Ask) -> usize {
    match ask {
        Ask::Write(Write::Put(put)) => 256 + put.key.len() + put.value.len(),
        Ask::Write(Write::Txn(txn)) => txn_cost(txn),
        Ask::LeaseGrant(_) => 64,
        _ => 0,
    }
}

fn txn_cost(txn: &Txn) -> usize {
    let cost = |ops: &[TxnOp]| {
        let one = |op: &TxnOp| match op {
            TxnOp::Put(put) => 256 + put.key.len() + put.value.len(),
            TxnOp::Txn(nested) => txn_cost(nested),
            TxnOp::Range(_) | TxnOp::DeleteRange(_) => 0,
        };
        ops.iter().map(one).sum::<usize>()
    };
    cost(&txn.success).max(cost(&txn.failure))
}

/// Waits for the oldest batch under way; for ever if there is none.
async fn front(in_flight: &mut VecDeque<InFlight>) -> Result<()> {
    match in_flight.front_mut() {
        Some(front) => front.proposed.applied().await,
        None => std::future::pending().await,
    }
}
