//! A member apart from threads, sockets and clocks: how its store is opened, and what serves its connections.
//!
//! The process puts it on a directory, threads and sockets (`home`). A simulation puts it on a world of its own, and
//! runs the steps of the [`Committer`] and [`Store::maintain_step`] where the process has threads.

use std::sync::Arc;
use std::time::Duration;

use engine::disk::Disk;
use engine::{Engine, Opened};
use raft::request::Member as MemberFacts;
use raft::{Committer, Identity, Store, StoreConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::HealthServer;
use tonic_health::server::{HealthReporter, HealthService};

use super::connection::Connections;
use super::front::{Front, Parts, Surface};
use super::settings::Settings;
use super::slow::{Remote, Slow};
use super::{ServeError, compactor, leader};
use crate::api::{Context, Limits, Services};
use crate::flag::{Flag, FlagPole};
use crate::http::metrics::Metrics;
use crate::http::metrics::store::Facts;
use crate::http::{self, Access, View};

/// The file that a store with data has.
const MANIFEST_POINTER: &str = "CURRENT";

/// Opens engine and store of the member in `disk`, or makes a new one, in the runtime of the calling task, which
/// becomes the home shard. What is drawn by chance comes from `seed`, which must differ from one opening to the next.
/// `wake` and `run_committer` are those of [`Store::open`].
///
/// # Errors
/// [`ServeError::Config`] if identity and data do not belong together, [`ServeError::Open`] and
/// [`ServeError::Store`].
pub async fn open_store(
    settings: &Settings,
    disk: Arc<dyn Disk>,
    seed: u64,
    wake: Arc<dyn Fn() + Send + Sync>,
    run_committer: impl FnOnce(Arc<Committer>),
) -> Result<Store, ServeError> {
    let mut options = settings.engine.clone();
    options.log.seed = seed;
    let known = known_identity(disk.as_ref())?;
    let opened = Engine::open(Arc::clone(&disk), options).map_err(ServeError::Open)?;
    let identity = match known {
        Some(identity) => identity,
        None => new_identity(settings, disk.as_ref(), &opened)?,
    };
    let config = StoreConfig {
        cluster_id: identity.cluster_id,
        member: MemberFacts {
            id: identity.member_id,
            name: settings.name.clone(),
            peer_urls: settings.peer_urls.clone(),
            client_urls: settings.client_urls.clone(),
            is_learner: false,
        },
        heartbeat_ms: settings.heartbeat_ms,
        election_ms: settings.election_ms,
        max_txn_ops: settings.max_txn_ops,
        max_request_bytes: settings.max_request_bytes,
        quota_bytes: settings.quota_bytes,
        progress_interval_ms: settings.progress_interval_ms,
        seed,
    };
    Ok(Store::open(opened, config, wake, run_committer).await?)
}

/// Who this member is, if it was started before.
fn known_identity(disk: &dyn Disk) -> Result<Option<Identity>, ServeError> {
    let identity = Identity::load(disk)?;
    let names = disk.list().map_err(|error| ServeError::Open(engine::Error::io("data directory", &error)))?;
    if identity.is_some() && !names.iter().any(|name| name == MANIFEST_POINTER) {
        // It may have voted and acknowledged what is gone: under its id it would break promises.
        return Err(ServeError::Config(format!(
            "the data directory names a member (IDENTITY) but its data is gone (no {MANIFEST_POINTER}); restore the \
             directory, or start a new member on an empty one"
        )));
    }
    Ok(identity)
}

/// Who a new member becomes, stored before it says a word.
fn new_identity(settings: &Settings, disk: &dyn Disk, opened: &Opened) -> Result<Identity, ServeError> {
    if opened.state.is_some() || opened.engine.log().bounds(0).is_some() {
        return Err(ServeError::Config(
            "the data directory has data but no IDENTITY, which says whose it is; restore that file"
                .to_owned(),
        ));
    }
    let (cluster_id, member_id) = settings.bootstrap.clone().map_err(ServeError::Config)?;
    let identity = Identity::new(cluster_id, member_id);
    identity.store(disk)?;
    Ok(identity)
}

/// What every shard makes its services from.
#[derive(Clone)]
pub struct Member {
    store: Store,
    limits: Limits,
    request_timeout: Duration,
    metrics: Arc<Metrics>,
    slow: Arc<Slow>,
    stopping: Flag,
    leaderless: Flag,
    health: HealthReporter,
    connections: Connections,
    access: Arc<Access>,
}

impl std::fmt::Debug for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Member").field("store", &self.store).finish_non_exhaustive()
    }
}

impl Member {
    /// Begins to serve an open store: starts the tasks that a member has once, in the runtime of the calling task.
    /// Connections and streams end when `stopping` is raised.
    #[must_use]
    pub fn begin(store: Store, settings: &Settings, metrics: Arc<Metrics>, stopping: Flag) -> Member {
        let compacted = metrics.grpc.compaction_last.clone();
        tokio::spawn(compactor::run(store.clone(), settings.auto_compaction, compacted));
        let leaderless = FlagPole::new();
        let facts =
            Facts { quota_bytes: settings.quota_bytes, feature_gates: settings.observation.feature_gates };
        metrics.add_store(store.clone(), facts);
        let member = Member {
            limits: Limits {
                max_request_bytes: settings.max_request_bytes,
                quota_bytes: settings.quota_bytes,
            },
            request_timeout: settings.request_timeout(),
            slow: Arc::new(Slow {
                limits: settings.observation.slow,
                applies: metrics.slow_applies.clone(),
                lease_ttls: metrics.lease_ttls.clone(),
            }),
            metrics,
            stopping,
            leaderless: leaderless.flag(),
            health: HealthReporter::new(),
            connections: Connections::new(&settings.listen),
            access: Arc::new(settings.listen.access.clone()),
            store: store.clone(),
        };
        tokio::spawn(leader::watch(store, settings.election_ms, leaderless));
        member
    }

    /// The same member for the runtime of the calling task.
    #[must_use]
    pub fn on_this_shard(&self) -> Member {
        Member { store: self.store.on_this_shard(), ..self.clone() }
    }

    /// What serves clients' connections in this runtime.
    #[must_use]
    pub fn client_port(&self) -> Port {
        Port {
            connections: self.connections.clone(),
            front: Front { parts: self.parts(), surface: Surface::Client, remote: Remote::Unknown },
            stopping: self.stopping.clone(),
        }
    }

    /// Tells whoever asks for the member's health that it serves no more.
    pub async fn retire(&self) {
        self.health.set_service_status("", ServingStatus::NotServing).await;
    }

    /// What this shard serves.
    pub(super) fn parts(&self) -> Arc<Parts> {
        let view = View {
            store: self.store.clone(),
            metrics: Arc::clone(&self.metrics),
            request_timeout: self.request_timeout,
        };
        let context = Context {
            store: self.store.clone(),
            metrics: Arc::clone(&self.metrics),
            limits: self.limits,
            stopping: self.stopping.clone(),
            leaderless: self.leaderless.clone(),
        };
        Arc::new(Parts {
            metrics_of_calls: Arc::clone(&self.metrics),
            slow: Arc::clone(&self.slow),
            services: Services::new(context),
            health: HealthServer::new(HealthService::from_health_reporter(self.health.clone())),
            client: http::client_router(view.clone(), Arc::clone(&self.access)),
            metrics: http::metrics_router(view.clone()),
            peer: http::peer_router(view),
        })
    }

    pub(super) fn connections(&self) -> Connections {
        self.connections.clone()
    }

    pub(super) fn stopping(&self) -> Flag {
        self.stopping.clone()
    }
}

/// Serves clients' connections that somebody else accepted. Cheap to clone.
#[derive(Clone)]
pub struct Port {
    connections: Connections,
    front: Front,
    stopping: Flag,
}

impl std::fmt::Debug for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Port").finish_non_exhaustive()
    }
}

impl Port {
    /// Serves one connection until either side ends it, or the member stops and what was under way is answered.
    pub async fn serve<S>(self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        self.connections.serve_stream(stream, self.front, self.stopping).await;
    }
}
