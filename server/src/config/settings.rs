//! The configuration as the rest of the server reads it: typed, complete, valid in itself.
//!
//! INVARIANTS
//! * Every field has its final value; nobody looks at flags, variables or files again.
//! * Nothing asks for what Keelson does not do.
//! * No secret is in here.

use std::path::PathBuf;
use std::time::Duration;

use super::allowed::Allowed;
use super::flags::ClusterState;
use super::gates::FeatureGates;
use super::notice::Notice;
use super::url::{ListenUrl, Url};
use crate::logging::LogConfig;

/// What one member needs to know to start.
#[derive(Debug, Clone)]
pub struct Config {
    /// Human-readable name. May be the default, which is warned about.
    pub name: String,
    /// Where data lives. Need not exist yet.
    pub data_dir: PathBuf,

    /// For gRPC, and for HTTP too unless `listen_client_http_urls` has any. Never empty.
    pub listen_client_urls: Vec<ListenUrl>,
    /// For HTTP clients only. May be empty.
    pub listen_client_http_urls: Vec<ListenUrl>,
    /// For /metrics, /health, /livez and /readyz only. May be empty.
    pub listen_metrics_urls: Vec<ListenUrl>,
    /// For other members. Never empty.
    pub listen_peer_urls: Vec<ListenUrl>,
    /// What clients are told to connect to; sorted.
    pub advertise_client_urls: Vec<String>,
    /// What peers are told to connect to; sorted.
    pub initial_advertise_peer_urls: Vec<String>,
    /// Set SO_REUSEPORT on listeners.
    pub socket_reuse_port: bool,
    /// Set SO_REUSEADDR on listeners.
    pub socket_reuse_address: bool,

    /// The members a new cluster starts with, by name. Checked against name and advertised URLs by
    /// [`Config::bootstrap`], and only then: a member with data goes by its data.
    pub initial_cluster: Vec<InitialMember>,
    /// Whether a member without data starts a cluster or joins one.
    pub initial_cluster_state: ClusterState,
    /// Makes ids differ from those of another cluster with the same URLs.
    pub initial_cluster_token: String,
    /// Refuse membership changes that would lose the quorum.
    pub strict_reconfig_check: bool,
    /// Most learners the cluster may have.
    pub max_learners: usize,

    /// Time between heartbeats, in milliseconds. Above 0.
    pub heartbeat_interval_ms: u64,
    /// Election timeout in milliseconds. Invariant: 5 x heartbeat <= election <= 50000.
    pub election_timeout_ms: u64,
    /// Transactions between two of etcd's snapshots, for whoever reports it.
    pub snapshot_count: u64,
    /// Entries etcd keeps for slow followers, for whoever reports it.
    pub snapshot_catchup_entries: u64,

    /// Bytes of data above which NOSPACE is raised, as written: 0 is etcd's default, below 0 is no limit. See
    /// [`Config::quota_bytes`].
    pub quota_backend_bytes: i64,
    /// Most operations in a transaction.
    pub max_txn_ops: usize,
    /// Most bytes of a request.
    pub max_request_bytes: usize,
    /// Most streams of one connection.
    pub max_concurrent_streams: u32,
    /// Idle time after which the server pings a client; `None` for never.
    pub grpc_keepalive_interval: Option<Duration>,
    /// Time the server waits for the answer to its ping; `None` for ever.
    pub grpc_keepalive_timeout: Option<Duration>,
    /// Least time a client must let pass between its pings.
    pub grpc_keepalive_min_time: Duration,
    /// Serve the JSON gateway.
    pub enable_grpc_gateway: bool,
    /// Origins that browsers may call from.
    pub cors: Allowed,
    /// Host names that HTTP requests in the clear may be addressed to.
    pub host_whitelist: Allowed,

    /// What compaction the member does by itself.
    pub auto_compaction: AutoCompaction,
    /// Idle time after which a watch that asked for it gets a progress notification. At least 100 ms.
    pub watch_progress_notify_interval: Duration,
    /// Time to apply a request above which a warning is logged.
    pub warning_apply_duration: Duration,
    /// Time of a unary request above which a warning is logged.
    pub warning_unary_request_duration: Duration,
    /// Features turned on or off.
    pub feature_gates: FeatureGates,

    /// Cost of hashing a password, 4 to 31.
    pub bcrypt_cost: u32,
    /// Seconds that an unused simple token lives.
    pub auth_token_ttl_seconds: u64,

    /// Detail of metrics.
    pub metrics: MetricsDetail,
    /// How to log.
    pub log: LogConfig,

    /// Bytes of memory for blocks read from tables.
    pub block_cache_bytes: u64,
    /// Bytes gathered in memory before they become a table.
    pub memtable_bytes: u64,
    /// Bytes of the log's newest entries kept in memory.
    pub log_tail_bytes: u64,
    /// Bytes of a log segment.
    pub log_segment_bytes: u32,

    /// What to tell the operator once the log is open: settings without effect, misspelt variables, and the like.
    pub notices: Vec<Notice>,
}

impl Config {
    /// etcd's default quota.
    pub const DEFAULT_QUOTA_BYTES: u64 = 2 * 1024 * 1024 * 1024;

    /// The quota in bytes; `None` for no limit.
    pub fn quota_bytes(&self) -> Option<u64> {
        match self.quota_backend_bytes {
            0 => Some(Self::DEFAULT_QUOTA_BYTES),
            bytes => u64::try_from(bytes).ok(),
        }
    }
}

/// A member of `--initial-cluster`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InitialMember {
    /// Its name; unique in the cluster.
    pub name: String,
    /// Its peer URLs, sorted. Never empty.
    pub peer_urls: Vec<Url>,
}

/// Compaction that the member does by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AutoCompaction {
    /// None.
    Off,
    /// Keep the history of this time.
    Periodic(Duration),
    /// Keep this many revisions. Above 0.
    Revisions(i64),
}

/// Detail of the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricsDetail {
    /// Counters and gauges.
    Basic,
    /// Histograms of each gRPC method too.
    Extensive,
}
