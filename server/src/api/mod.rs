//! etcd's gRPC services: protobuf in, typed requests to the store, protobuf out. Nothing is decided here.
//!
//! * [`codec`]: messages on the wire.
//! * `translate`: protobuf ↔ typed, field by field.
//! * `call`: what every call passes: counted, metadata checked, header of the answer.
//! * one file for each service: `kv`, `watch`, `lease`, `cluster`, `maintenance`; `range`: KV's Range, whose
//!   answers are sent piece by piece.
//!
//! A stream of answers is a state that makes the next answer when it is asked for one: the connection asks
//! when it can send, so a slow client holds back the reading, and nothing is queued for it. No task is
//! spawned for a call.

mod call;
mod cluster;
pub mod codec;
mod kv;
mod lease;
mod maintenance;
mod range;
mod translate;
mod watch;

use std::sync::Arc;

use raft::Store;
use tonic::body::Body;

use crate::flag::Flag;
use crate::http::metrics::Metrics;
use crate::pb::etcdserverpb::cluster_server::ClusterServer;
use crate::pb::etcdserverpb::kv_server::KvServer;
use crate::pb::etcdserverpb::lease_server::LeaseServer;
use crate::pb::etcdserverpb::maintenance_server::MaintenanceServer;

use cluster::ClusterApi;
use kv::KvApi;
use lease::LeaseApi;
use maintenance::MaintenanceApi;

/// What gRPC adds to etcd's request limit, bytes.
const MESSAGE_OVERHEAD: usize = 512 * 1024;

/// What the services of one shard share.
#[derive(Debug)]
pub struct Context {
    /// The shard's handle of the store.
    pub store: Store,
    /// The member's metrics.
    pub metrics: Arc<Metrics>,
    /// Limits and figures from the configuration.
    pub limits: Limits,
    /// Set once the server is on its way down.
    pub stopping: Flag,
    /// Set while there has been no leader for so long that streams that ask for one must end.
    pub leaderless: Flag,
}

/// What the configuration says of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Largest request, bytes.
    pub max_request_bytes: usize,
    /// Space that keys may use, bytes, as shown to clients.
    pub quota_bytes: i64,
}

/// The services of one shard, to be cloned for a call.
#[derive(Debug, Clone)]
pub struct Services {
    context: Arc<Context>,
    largest: usize,
    pub(crate) kv: KvServer<KvApi>,
    pub(crate) lease: LeaseServer<LeaseApi>,
    pub(crate) cluster: ClusterServer<ClusterApi>,
    pub(crate) maintenance: MaintenanceServer<MaintenanceApi>,
}

impl Services {
    /// The services of a shard.
    #[must_use]
    pub fn new(context: Context) -> Self {
        let largest = context.limits.max_request_bytes.saturating_add(MESSAGE_OVERHEAD);
        let context = Arc::new(context);
        Services {
            context: Arc::clone(&context),
            largest,
            kv: KvServer::new(KvApi(Arc::clone(&context))).max_decoding_message_size(largest),
            lease: LeaseServer::new(LeaseApi(Arc::clone(&context))).max_decoding_message_size(largest),
            cluster: ClusterServer::new(ClusterApi(Arc::clone(&context))).max_decoding_message_size(largest),
            maintenance: MaintenanceServer::new(MaintenanceApi(context)).max_decoding_message_size(largest),
        }
    }

    /// Serves a stream of Watch.
    pub(crate) fn watch<B>(
        &self,
        request: http::Request<B>,
    ) -> impl Future<Output = http::Response<Body>> + use<B>
    where
        B: http_body::Body + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send,
    {
        watch::answer(Arc::clone(&self.context), request, self.largest)
    }

    /// Answers KV's Range.
    pub(crate) fn range<B>(
        &self,
        request: http::Request<B>,
    ) -> impl Future<Output = http::Response<Body>> + use<B>
    where
        B: http_body::Body + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        range::answer(Arc::clone(&self.context), request, self.largest)
    }
}
