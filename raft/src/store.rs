//! The face of the store: everything that the server asks of it.
//!
//! A [`Store`] is a handle for one shard. The one that [`Store::open`] gives belongs to the home shard, where
//! the evaluator and the raft group run; [`Store::on_this_shard`] makes one for another runtime. Reads run on
//! the caller's shard; writes go to the evaluator and come back in one message per shard and batch.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use bytes::Bytes;
use engine::{KeyRange, Opened, Work};
use parking_lot::{Mutex, RwLock};
use tokio::sync::{mpsc, oneshot, watch};

use crate::config::StoreConfig;
use crate::error::{Error, Result};
use crate::eval::{
    Ask, EngineView, Evaluator, Reply, Settled, View, Write, WriteAnswer, attached_keys, check_delete_range,
    check_put, check_range, check_txn, comes_in_pieces, evaluate_read_only, key_range, range, read_revision,
};
use crate::group::{Committer, Group, HOME, StoredState};
use crate::read::{RangePieces, RangeRead, RangeStream};
use crate::request::{
    Alarm, At, DeleteRange, DeleteRangeAnswer, LeaseGrant, LeaseStatus, Member, Put, PutAnswer, Range,
    RangeAnswer, SortOrder, Status, Txn, TxnAnswer, TxnOp, TxnOpAnswer,
};
use crate::shared::{Counters, ReplyTo, ShardPort, Shared};
use crate::watch::{Hub, HubPort, Tail, WatchStream};

/// Requests that may wait for the evaluator or for their batch.
const WAITING_MAX: usize = 65_536;
/// What protobuf and raft add to a request's keys and values, bytes, in etcd.
const REQUEST_OVERHEAD: usize = 32;

/// See the module's text. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
    group: Group,
    asks: mpsc::UnboundedSender<(Ask, Option<Reply>)>,
    hub: Arc<Hub>,
    shard: usize,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("shard", &self.shard).finish_non_exhaustive()
    }
}

/// Quantities for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Metrics {
    pub proposals_applied: u64,
    pub proposals_pending: u64,
    pub proposals_failed: u64,
    pub leader_changes: u64,
    pub puts: u64,
    pub deletes: u64,
    pub ranges: u64,
    pub txns: u64,
    pub events: u64,
    pub watchers: u64,
    pub watch_streams: u64,
    pub slow_watchers: u64,
    pub leases_granted: u64,
    pub leases_revoked: u64,
    pub leases_renewed: u64,
    pub leases_expired: u64,
    /// Live keys.
    pub keys: u64,
}

impl Store {
    /// Opens the store of one member in the runtime of the calling task, which becomes the home shard, and
    /// waits until it can serve. `wake` is called when the log has something to write: whoever owns the
    /// [`Committer`] then calls its step.
    ///
    /// # Errors
    /// [`Error::Storage`] if the stored state or the log cannot be used.
    pub async fn open(
        opened: Opened,
        config: StoreConfig,
        wake: Arc<dyn Fn() + Send + Sync>,
        run_committer: impl FnOnce(Arc<Committer>),
    ) -> Result<Store> {
        let stored = StoredState::open(opened.state.as_deref())?;
        let engine = Arc::new(opened.engine);
        if stored.home.compacted > 0 {
            engine.compact(stored.home.compacted);
        }
        let revision = stored.home.revision;
        // A new engine has no revision; an empty store is at 1.
        engine.apply(&[], revision);
        let member = config.member.clone();
        let shared = Arc::new(Shared {
            engine,
            config,
            state: Mutex::new(stored.home),
            pending: Mutex::default(),
            tail: Tail::new(revision),
            leads_alone: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            shards: RwLock::default(),
            counters: Counters::default(),
            waiting: AtomicUsize::new(0),
            failure: watch::Sender::new(None),
            flushed: watch::Sender::new(opened.applied.groups.get(&HOME).copied().unwrap_or(0)),
            lease_clock: Mutex::new(None),
        });
        let seed = shared.config.seed;
        let opening = Group::open(Arc::clone(&shared), stored.membership, 0, wake, run_committer);
        let group = Group::with_seed(seed, opening).await?;
        let (asks, queue) = mpsc::unbounded_channel();
        let (hub, shard) = add_shard(&shared);
        let evaluator = Evaluator::new(Arc::clone(&shared), group.clone(), queue, shard);
        tokio::spawn(evaluator.run());
        let store = Store { shared, group, asks, hub, shard };
        let known = store.shared.state.lock().members.get(&member.id).cloned();
        let member = match &known {
            // Name and client URLs are the member's to tell; where its peers reach it, the cluster has decided.
            Some(known) => {
                Member { peer_urls: known.peer_urls.clone(), is_learner: known.is_learner, ..member }
            }
            None => member,
        };
        if known.as_ref() == Some(&member) {
            store.confirm().await?;
        } else {
            store.ask(Ask::MemberUpdate(member)).await?;
        }
        Ok(store)
    }

    /// A handle for the runtime of the calling task.
    #[must_use]
    pub fn on_this_shard(&self) -> Store {
        let (hub, shard) = add_shard(&self.shared);
        Store { hub, shard, ..self.clone() }
    }

    // --- keys ---

    /// Reads keys. Reads the disk for values that are not recent.
    ///
    /// # Errors
    /// [`Error::EmptyKey`], [`Error::FutureRevision`], [`Error::Compacted`], and if leadership cannot be
    /// confirmed [`Error::NoLeader`].
    pub async fn range(&self, request: Range) -> Result<At<RangeAnswer>> {
        check_range(&request)?;
        if !request.serializable {
            self.confirm().await?;
        }
        Counters::add(&self.shared.counters.ranges, 1);
        let view = EngineView::latest(&self.shared.engine);
        let answer = range(&view, &request, self.shared.engine.compacted())?;
        Ok(At { revision: view.revision(), answer })
    }

    /// Opens a range that may be too large to be answered at once.
    ///
    /// # Errors
    /// As [`Store::range`].
    pub async fn range_read(&self, request: Range) -> Result<At<RangeRead>> {
        if !comes_in_pieces(&request) {
            let At { revision, answer } = self.range(request).await?;
            return Ok(At { revision, answer: RangeRead::Whole(answer) });
        }
        check_range(&request)?;
        if !request.serializable {
            self.confirm().await?;
        }
        Counters::add(&self.shared.counters.ranges, 1);
        let view = EngineView::latest(&self.shared.engine);
        let newest = view.revision();
        let revision = read_revision(request.revision, newest, self.shared.engine.compacted())?;
        let count = view.count(&key_range(&request.key, &request.range_end), revision)?;
        let pieces = RangePieces::new(Arc::clone(&self.shared), &request, revision, count);
        Ok(At { revision: newest, answer: RangeRead::Pieces(pieces) })
    }

    /// Reads keys in chunks, all at one revision. Only key order without filters can be streamed; whoever
    /// calls refuses the rest.
    ///
    /// # Errors
    /// As [`Store::range`].
    pub async fn range_stream(&self, request: Range) -> Result<RangeStream> {
        check_range(&request)?;
        assert!(request.sort_order != SortOrder::Descend, "a stream has the order of keys");
        if !request.serializable {
            self.confirm().await?;
        }
        Counters::add(&self.shared.counters.ranges, 1);
        let newest = self.shared.engine.revision();
        let revision = read_revision(request.revision, newest, self.shared.engine.compacted())?;
        Ok(RangeStream::new(Arc::clone(&self.shared), &request, revision, newest))
    }

    /// Writes a key.
    ///
    /// # Errors
    /// Those of [`Error`] about keys, leases, space and size; [`Error::LeaderChanged`] if the outcome is
    /// unknown.
    pub async fn put(&self, put: Put) -> Result<At<PutAnswer>> {
        check_put(&put)?;
        self.check_size(put.key.len() + put.value.len())?;
        self.write(
            Write::Put(put),
            |answer| if let TxnOpAnswer::Put(answer) = answer { Some(answer) } else { None },
        )
        .await
    }

    /// Deletes keys.
    ///
    /// # Errors
    /// [`Error::EmptyKey`]; [`Error::LeaderChanged`] if the outcome is unknown.
    pub async fn delete_range(&self, delete: DeleteRange) -> Result<At<DeleteRangeAnswer>> {
        check_delete_range(&delete)?;
        let wanted = |answer| if let TxnOpAnswer::DeleteRange(answer) = answer { Some(answer) } else { None };
        self.write(Write::DeleteRange(delete), wanted).await
    }

    /// Runs a transaction.
    ///
    /// # Errors
    /// Any of [`Error`].
    pub async fn txn(&self, txn: Txn) -> Result<At<TxnAnswer>> {
        check_txn(&txn, self.shared.config.max_txn_ops)?;
        self.check_size(txn_bytes(&txn))?;
        Counters::add(&self.shared.counters.txns, 1);
        let wanted = |answer| if let TxnOpAnswer::Txn(answer) = answer { Some(answer) } else { None };
        if !txn.is_read_only() {
            return self.write(Write::Txn(txn), wanted).await;
        }
        if !txn.is_serializable() {
            self.confirm().await?;
        }
        let compacted = self.shared.state.lock().compacted;
        let view = EngineView::latest(&self.shared.engine);
        let answer = evaluate_read_only(&view, txn, compacted)?;
        Ok(At { revision: view.revision(), answer })
    }

    /// Ends the history before `revision`; reads below it fail from the moment this answers.
    ///
    /// # Errors
    /// [`Error::Compacted`] if it was done already, [`Error::FutureRevision`].
    pub async fn compact(&self, revision: i64) -> Result<At<()>> {
        let At { revision, .. } = self.ask(Ask::Compact(revision)).await?;
        Ok(At { revision, answer: () })
    }

    // --- leases ---

    /// Begins a lease.
    ///
    /// # Errors
    /// [`Error::LeaseExists`], [`Error::LeaseTtlTooLarge`], [`Error::NoSpace`].
    pub async fn lease_grant(&self, grant: LeaseGrant) -> Result<At<LeaseStatus>> {
        let At { revision, answer } = self.ask(Ask::LeaseGrant(grant)).await?;
        let WriteAnswer::Lease { id, ttl_seconds } = answer else {
            unreachable!("a grant answers with a lease")
        };
        let answer = LeaseStatus { id, ttl_seconds, granted_ttl_seconds: ttl_seconds, keys: Vec::new() };
        Ok(At { revision, answer })
    }

    /// Ends a lease and deletes its keys, in one revision.
    ///
    /// # Errors
    /// [`Error::LeaseNotFound`].
    pub async fn lease_revoke(&self, id: i64) -> Result<At<()>> {
        let At { revision, .. } = self.ask(Ask::LeaseRevoke(id)).await?;
        Ok(At { revision, answer: () })
    }

    /// Begins a lease anew; the seconds that it now has, 0 if there is no such lease.
    ///
    /// # Errors
    /// [`Error::LeaderChanged`] if the outcome is unknown.
    pub async fn lease_keep_alive(&self, id: i64) -> Result<At<i64>> {
        let At { revision, answer } = self.ask(Ask::LeaseRenew(id)).await?;
        let WriteAnswer::Lease { ttl_seconds, .. } = answer else {
            unreachable!("a renewal answers with a lease")
        };
        Ok(At { revision, answer: ttl_seconds })
    }

    /// How long a lease has, and with `keys` what it holds.
    ///
    /// # Errors
    /// [`Error::NoLeader`].
    pub async fn lease_time_to_live(&self, id: i64, keys: bool) -> Result<At<LeaseStatus>> {
        self.confirm().await?;
        let revision = self.shared.engine.revision();
        let lease = self.shared.state.lock().leases.get(id).copied();
        let Some(lease) = lease else {
            let answer = LeaseStatus { id, ttl_seconds: -1, ..LeaseStatus::default() };
            return Ok(At { revision, answer });
        };
        let left_ms = lease.deadline_ms.saturating_sub(self.shared.lease_time_ms());
        let keys = if keys { attached_keys(&self.shared.engine, id)? } else { Vec::new() };
        let ttl_seconds = i64::try_from(left_ms / 1000).unwrap_or(i64::MAX);
        let answer = LeaseStatus { id, ttl_seconds, granted_ttl_seconds: lease.ttl_seconds, keys };
        Ok(At { revision, answer })
    }

    /// Ids of all leases, the one that ends first first.
    ///
    /// # Errors
    /// [`Error::NoLeader`].
    pub async fn leases(&self) -> Result<At<Vec<i64>>> {
        self.confirm().await?;
        let ids = self.shared.state.lock().leases.ids_by_deadline();
        Ok(At { revision: self.shared.engine.revision(), answer: ids })
    }

    // --- watches ---

    /// A stream for watchers, to be used by one task of this shard.
    #[must_use]
    pub fn watch_stream(&self) -> WatchStream {
        WatchStream::new(Arc::clone(&self.hub), self.group.clone())
    }

    // --- members and state ---

    /// Alarms that are on.
    #[must_use]
    pub fn alarms(&self) -> Vec<Alarm> {
        self.shared.state.lock().alarms.iter().copied().collect()
    }

    /// Turns an alarm on; gives it back.
    ///
    /// # Errors
    /// [`Error::LeaderChanged`] if the outcome is unknown.
    pub async fn alarm_raise(&self, alarm: Alarm) -> Result<Vec<Alarm>> {
        self.alarm(Ask::AlarmRaise(alarm)).await
    }

    /// Turns an alarm off; gives it back, or nothing if it was not on.
    ///
    /// # Errors
    /// [`Error::LeaderChanged`] if the outcome is unknown.
    pub async fn alarm_clear(&self, alarm: Alarm) -> Result<Vec<Alarm>> {
        self.alarm(Ask::AlarmClear(alarm)).await
    }

    async fn alarm(&self, ask: Ask) -> Result<Vec<Alarm>> {
        let At { answer, .. } = self.ask(ask).await?;
        let WriteAnswer::Alarms(alarms) = answer else { unreachable!("alarms are answered with alarms") };
        Ok(alarms)
    }

    /// Members of the cluster, by id.
    #[must_use]
    pub fn members(&self) -> Vec<Member> {
        self.shared.state.lock().members.values().cloned().collect()
    }

    /// Confirms that what this member has applied is the newest there is; gives its revision.
    ///
    /// # Errors
    /// [`Error::NoLeader`] if no quorum confirms it.
    pub async fn linearizable_barrier(&self) -> Result<i64> {
        self.confirm().await?;
        Ok(self.shared.engine.revision())
    }

    /// Newest revision applied.
    #[must_use]
    pub fn revision(&self) -> i64 {
        self.shared.engine.revision()
    }

    /// Term of the home group.
    #[must_use]
    pub fn raft_term(&self) -> u64 {
        self.group.status().term
    }

    /// This member's id.
    #[must_use]
    pub fn member_id(&self) -> u64 {
        self.shared.config.member.id
    }

    /// The cluster's id.
    #[must_use]
    pub fn cluster_id(&self) -> u64 {
        self.shared.config.cluster_id
    }

    /// The engine, for its steps and figures.
    #[must_use]
    pub fn engine(&self) -> &Arc<engine::Engine> {
        &self.shared.engine
    }

    /// One bounded step of the engine's background work, about `budget_bytes` of reading and writing, for one
    /// thread to call again and again.
    ///
    /// # Errors
    /// [`engine::Error::Full`] if a table could not be written: a later step tries again. Otherwise the process
    /// should end.
    pub fn maintain_step(&self, budget_bytes: u64) -> engine::Result<Work> {
        let work = self.shared.engine.maintain_step(budget_bytes)?;
        if let Work::Flushed(applied) = &work {
            let index = applied.groups.get(&HOME).copied().unwrap_or(0);
            self.shared.flushed.send_replace(index);
        }
        Ok(work)
    }

    /// State of this member, from its own memory.
    #[must_use]
    pub fn status(&self) -> Status {
        let group = self.group.status();
        let stats = self.shared.engine.stats();
        let state = self.shared.state.lock();
        let member = state.members.get(&self.member_id());
        Status {
            db_size: i64::try_from(stats.db_size_bytes).unwrap_or(i64::MAX),
            db_size_in_use: i64::try_from(stats.db_size_in_use_bytes).unwrap_or(i64::MAX),
            leader: group.leader,
            raft_term: group.term,
            raft_index: state.index,
            raft_applied_index: state.index,
            revision: state.revision,
            compacted: state.compacted.max(0),
            is_learner: member.is_some_and(|member| member.is_learner),
            alarms: state.alarms.iter().copied().collect(),
        }
    }

    /// Quantities for metrics. Counts the live keys.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        let counters = &self.shared.counters;
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let view = EngineView::latest(&self.shared.engine);
        let all = KeyRange { start: Bytes::new(), end: None };
        Metrics {
            proposals_applied: of(&counters.proposals_applied),
            proposals_pending: of(&counters.proposals_pending),
            proposals_failed: of(&counters.proposals_failed),
            leader_changes: of(&counters.leader_changes),
            puts: of(&counters.puts),
            deletes: of(&counters.deletes),
            ranges: of(&counters.ranges),
            txns: of(&counters.txns),
            events: of(&counters.events),
            watchers: of(&counters.watchers),
            watch_streams: of(&counters.watch_streams),
            slow_watchers: of(&counters.slow_watchers),
            leases_granted: of(&counters.leases_granted),
            leases_revoked: of(&counters.leases_revoked),
            leases_renewed: of(&counters.leases_renewed),
            leases_expired: of(&counters.leases_expired),
            keys: view.count(&all, view.revision()).map_or(0, |count| count.max(0).cast_unsigned()),
        }
    }

    /// Waits until this member can serve no more, which may be never; gives the reason. The process should end.
    pub async fn failed(&self) -> Error {
        let mut failure = self.shared.failure.subscribe();
        match failure.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().expect("waited for"),
            Err(_) => Error::Stopped,
        }
    }

    /// Ends the store's tasks; nothing is answered afterwards.
    pub async fn shutdown(&self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        self.group.shutdown(&self.shared).await;
    }

    async fn confirm(&self) -> Result<()> {
        if self.shared.leads_alone.load(Ordering::SeqCst) {
            return Ok(());
        }
        self.group.confirm().await.map(drop)
    }

    fn check_size(&self, bytes: usize) -> Result<()> {
        if bytes + REQUEST_OVERHEAD > self.shared.config.max_request_bytes {
            Err(Error::TooLarge)
        } else {
            Ok(())
        }
    }

    async fn write<T>(&self, write: Write, wanted: impl Fn(TxnOpAnswer) -> Option<T>) -> Result<At<T>> {
        let At { revision, answer } = self.ask(Ask::Write(write)).await?;
        let WriteAnswer::Op(answer) = answer else { unreachable!("a write answers as an operation") };
        let answer = wanted(answer).expect("an operation answers in its own kind");
        Ok(At { revision, answer })
    }

    async fn ask(&self, ask: Ask) -> Result<At<WriteAnswer>> {
        if self.shared.stopping.load(Ordering::SeqCst) {
            return Err(Error::Stopped);
        }
        let waiting = &self.shared.waiting;
        // Counted down when this future ends or is dropped.
        let _counted = Counted(waiting);
        if waiting.fetch_add(1, Ordering::Relaxed) >= WAITING_MAX {
            return Err(Error::TooManyRequests);
        }
        let (sender, answered) = oneshot::channel();
        let reply = ReplyTo { shard: self.shard, sender };
        self.asks.send((ask, Some(reply))).map_err(|_| Error::Stopped)?;
        let settled = answered.await.map_err(|_| Error::Stopped)?;
        if let Some(term) = settled.confirm
            && !self.shared.leads_alone.load(Ordering::SeqCst)
            && self.group.confirm().await? != term
        {
            return Err(Error::LeaderChanged);
        }
        settled.result
    }
}

/// One request that waits.
struct Counted<'a>(&'a AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Adds a shard, with its tasks in the calling task's runtime.
fn add_shard(shared: &Arc<Shared>) -> (Arc<Hub>, usize) {
    let (answers, mut arriving) = mpsc::unbounded_channel::<Vec<(Reply, Settled)>>();
    let port = Arc::new(HubPort::default());
    let hub = Hub::new(Arc::clone(shared), Arc::clone(&port));
    tokio::spawn(Arc::clone(&hub).run());
    tokio::spawn(async move {
        while let Some(replies) = arriving.recv().await {
            for (reply, settled) in replies {
                reply.send(settled);
            }
        }
    });
    let mut shards = shared.shards.write();
    shards.push(Arc::new(ShardPort { answers, hub: port }));
    (hub, shards.len() - 1)
}

fn txn_bytes(txn: &Txn) -> usize {
    let ops = txn.success.iter().chain(&txn.failure).map(|op| match op {
        TxnOp::Range(range) => range.key.len() + range.range_end.len(),
        TxnOp::Put(put) => put.key.len() + put.value.len(),
        TxnOp::DeleteRange(delete) => delete.key.len() + delete.range_end.len(),
        TxnOp::Txn(nested) => txn_bytes(nested),
    });
    let compares = txn.compare.iter().map(|compare| compare.key.len() + compare.range_end.len());
    ops.sum::<usize>() + compares.sum::<usize>()
}
