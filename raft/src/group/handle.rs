//! The home group as the rest of the store sees it: proposing, confirming leadership, status.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use openraft::async_runtime::WatchReceiver;
use openraft::error::RaftError;
use openraft::impls::ProgressResponder;
use openraft::metrics::RaftServerMetrics;
use openraft::raft::ClientWriteResult;
use openraft::type_config::alias::WatchReceiverOf;
use openraft::{Config, EmptyNode, ReadPolicy, ServerState, SnapshotPolicy};
use openraft_rt::deterministic_rng::DeterministicRng;
use openraft_rt_tokio::TokioRuntime;
use tokio::sync::oneshot;

use super::log_store::{Committer, LogStore, Wake};
use super::machine::Machine;
use super::network::Network;
use super::types::{Command, CommittedLeaderId, StoredMembership, TypeConfig};
use crate::error::{Error, Result};
use crate::shared::{Counters, Shared};

/// How long a leader that lost a proposal waits before it proposes a fence again.
const PAUSE_AFTER_LOSS: Duration = Duration::from_millis(10);

type Raft = openraft::Raft<TypeConfig, Machine>;

/// See the module's text.
#[derive(Clone)]
pub(crate) struct Group {
    raft: Raft,
    server: WatchReceiverOf<TypeConfig, RaftServerMetrics<TypeConfig>>,
    member: u64,
}

/// What status and metrics show of the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct GroupStatus {
    /// Member that leads, 0 for none.
    pub(crate) leader: u64,
    pub(crate) term: u64,
}

/// A proposal under way.
pub(crate) struct Proposed {
    done: oneshot::Receiver<ClientWriteResult<TypeConfig>>,
}

impl Proposed {
    /// Waits until the proposal is applied here. Safe to drop and call again until it returns.
    ///
    /// # Errors
    /// [`Error::LeaderChanged`] if it will never be, or nobody knows.
    pub(crate) async fn applied(&mut self) -> Result<()> {
        match (&mut self.done).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Error::LeaderChanged),
        }
    }
}

impl Group {
    /// Runs `opening` so that all chance in the group's tasks comes from `seed`.
    pub(crate) async fn with_seed<T>(seed: u64, opening: impl Future<Output = T>) -> T {
        DeterministicRng::<TokioRuntime>::scope(seed, opening).await
    }

    /// Opens the group on the engine's log. A new one is given this member as its only voter.
    ///
    /// # Errors
    /// [`Error::Storage`].
    pub(crate) async fn open(
        shared: Arc<Shared>,
        membership: StoredMembership,
        shard: usize,
        wake: Wake,
        run_committer: impl FnOnce(Arc<Committer>),
    ) -> Result<Group> {
        let member = shared.config.member.id;
        let config = Config {
            cluster_name: format!("{:x}", shared.config.cluster_id),
            heartbeat_interval: shared.config.heartbeat_ms,
            // openraft waits a leader lease first, then the drawn timeout: so a candidate stands 0.75 to 1
            // election timeouts after the last heartbeat.
            election_timeout_min: shared.config.election_ms / 4,
            election_timeout_max: shared.config.election_ms / 2,
            snapshot_policy: SnapshotPolicy::Never,
            max_in_snapshot_log_to_keep: 0,
            enable_pre_vote: Some(true),
            ..Config::default()
        };
        let config = config.validate().map_err(|error| Error::Storage(format!("raft: {error}")))?;
        let log = Arc::clone(shared.engine.log());
        let committer = Committer::new(Arc::clone(&log), wake);
        let store = LogStore::new(log, Arc::clone(&committer));
        run_committer(Arc::clone(&committer));
        let machine = Machine::new(Arc::clone(&shared), shard, membership);
        let raft = Raft::new(member, Arc::new(config), Network, store, machine).await.map_err(fatal)?;
        let group = Group { server: raft.server_metrics(), raft, member };
        if !group.raft.is_initialized().await.map_err(fatal)? {
            let voters = BTreeMap::from([(member, EmptyNode {})]);
            group.raft.initialize(voters).await.map_err(|error| Error::Storage(format!("raft: {error}")))?;
        }
        // Entries that a flush covers are needed by raft no more.
        let purging = group.raft.clone();
        let mut flushes = shared.flushed.subscribe();
        tokio::spawn(async move {
            while flushes.changed().await.is_ok() {
                // One less, since openraft counts from 0.
                let upto = flushes.borrow_and_update().saturating_sub(1);
                if purging.trigger().snapshot().await.is_err()
                    || purging.trigger().purge_log(upto).await.is_err()
                {
                    return;
                }
            }
        });
        let (mut leaders, metrics) = (group.server.clone(), group.raft.metrics());
        tokio::spawn(async move {
            let mut last = 0;
            loop {
                let leader = leaders.borrow_and_update().current_leader.unwrap_or(0);
                if leader != last && leader != 0 {
                    Counters::add(&shared.counters.leader_changes, 1);
                }
                last = leader;
                if leaders.changed().await.is_err() {
                    if !shared.stopping.load(Ordering::SeqCst) {
                        let state = &metrics.borrow_watched().running_state;
                        shared.fail(match state {
                            Err(fatal) => format!("raft ended: {fatal}"),
                            Ok(()) => "raft ended".to_owned(),
                        });
                    }
                    return;
                }
            }
        });
        Ok(group)
    }

    /// Proposes a batch in `term`. It is in the log, or refused, in the order of these calls.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub(crate) async fn propose(&self, term: u64, body: Bytes) -> Result<Proposed> {
        let (responder, done) = ProgressResponder::complete_only();
        let request = self.raft.write(Command { body, at: None });
        request
            .with_leader(CommittedLeaderId::new(term))
            .responder(responder)
            .await
            .map_err(|_| Error::Stopped)?;
        Ok(Proposed { done })
    }

    /// The term in which this member leads, if it does.
    pub(crate) fn leads_in(&self) -> Option<u64> {
        let server = self.server.borrow_watched();
        (server.state == ServerState::Leader).then_some(server.vote.leader_id.term)
    }

    /// Whether raft's clock ticks. A sole voter that leads has nobody to send heartbeats to and no election to
    /// fear, so its clock may rest; an idle member then costs next to nothing.
    pub(crate) fn set_ticking(&self, ticking: bool) {
        self.raft.runtime_config().tick(ticking);
    }

    /// Waits until this member leads; gives the term.
    pub(crate) async fn until_leader(&mut self) -> u64 {
        loop {
            // What changes after this look is seen by `changed`.
            drop(self.server.borrow_and_update());
            if let Some(term) = self.leads_in() {
                return term;
            }
            if self.server.changed().await.is_err() {
                // raft has ended; this member leads no more.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Waits until this member no longer leads in `term`; gives what to tell those who wait.
    pub(crate) async fn until_not_leader(&mut self, term: u64) -> Error {
        loop {
            if self.leads_in() != Some(term) {
                return Error::LeaderChanged;
            }
            if self.server.changed().await.is_err() {
                return Error::Stopped;
            }
        }
    }

    pub(crate) async fn pause_after_loss(&self) {
        tokio::time::sleep(PAUSE_AFTER_LOSS).await;
    }

    /// Whether this member is the only voter.
    pub(crate) fn is_sole_voter(&self) -> bool {
        let server = self.server.borrow_watched();
        let mut voters = server.membership_config.voter_ids();
        voters.next() == Some(self.member) && voters.next().is_none()
    }

    /// Confirms by a quorum that this member leads, and waits until all committed before is applied; gives
    /// the term.
    ///
    /// # Errors
    /// [`Error::NoLeader`] if it does not lead or no quorum answers.
    pub(crate) async fn confirm(&self) -> Result<u64> {
        match self.raft.ensure_linearizable(ReadPolicy::ReadIndex).await {
            Ok(_) => self.leads_in().ok_or(Error::NoLeader),
            Err(RaftError::Fatal(_)) => Err(Error::Stopped),
            Err(RaftError::APIError(_)) => Err(Error::NoLeader),
        }
    }

    pub(crate) fn status(&self) -> GroupStatus {
        let server = self.server.borrow_watched();
        GroupStatus { leader: server.current_leader.unwrap_or(0), term: server.vote.leader_id.term }
    }

    /// Ends the group's tasks.
    pub(crate) async fn shutdown(&self, shared: &Shared) {
        shared.leads_alone.store(false, Ordering::SeqCst);
        if let Err(error) = self.raft.shutdown().await {
            tracing::warn!(%error, "raft did not end cleanly");
        }
    }
}

fn fatal(error: impl std::fmt::Display) -> Error {
    Error::Storage(format!("raft: {error}"))
}
