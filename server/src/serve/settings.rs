//! What a server is started with: the configuration, less what concerns the program around it.

use std::path::PathBuf;
use std::time::Duration;

use engine::Options;
use engine::log::LogOptions;

use super::ServeError;
use super::slow::SlowLimits;
use crate::config::{AutoCompaction, Config, FeatureGates, ListenUrl, MetricsDetail};
use crate::http::Access;

/// Everything that a server needs to know.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Human-readable name of the member.
    pub name: String,
    /// Where its data is.
    pub data_dir: PathBuf,
    /// Where it listens.
    pub listen: ListenSettings,
    /// What a member without data is and becomes part of: cluster id and member id, or why it cannot start.
    pub bootstrap: Result<(u64, u64), String>,
    /// Where other members reach it.
    pub peer_urls: Vec<String>,
    /// Where clients reach it.
    pub client_urls: Vec<String>,
    /// Interval of the leader's heartbeats, milliseconds.
    pub heartbeat_ms: u64,
    /// Election timeout, milliseconds.
    pub election_ms: u64,
    /// Most operations in a list of a transaction.
    pub max_txn_ops: usize,
    /// Largest request, bytes.
    pub max_request_bytes: usize,
    /// Space that keys may use, bytes; below 0: no limit.
    pub quota_bytes: i64,
    /// Interval of progress notes, milliseconds.
    pub progress_interval_ms: u64,
    /// Compaction that the member does by itself.
    pub auto_compaction: AutoCompaction,
    /// What is told of what goes on.
    pub observation: Observation,
    /// Settings of the storage.
    pub engine: Options,
    /// Most shards, at least 1; there are never more than cores.
    pub shards_max: usize,
    /// End on SIGTERM and SIGINT.
    pub signals: bool,
}

/// What is told of what goes on, in metrics and in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Observation {
    /// Detail of the metrics.
    pub metrics: MetricsDetail,
    /// How long requests may take before they are told of.
    pub slow: SlowLimits,
    /// Features turned on or off, which are shown.
    pub feature_gates: FeatureGates,
}

impl Default for Observation {
    /// etcd's.
    fn default() -> Self {
        Observation {
            metrics: MetricsDetail::Basic,
            slow: SlowLimits { apply: Duration::from_millis(100), unary: Duration::from_millis(300) },
            feature_gates: FeatureGates::default(),
        }
    }
}

/// Where a server listens, and how it speaks there.
#[derive(Debug, Clone)]
pub struct ListenSettings {
    /// For gRPC, and for HTTP unless `client_http` has any.
    pub client: Vec<ListenUrl>,
    /// For HTTP clients only.
    pub client_http: Vec<ListenUrl>,
    /// For metrics and health only.
    pub metrics: Vec<ListenUrl>,
    /// For other members.
    pub peer: Vec<ListenUrl>,
    /// Who may ask for pages at `client` and `client_http`.
    pub access: Access,
    /// Set SO_REUSEPORT.
    pub reuse_port: bool,
    /// Most streams of one connection.
    pub max_concurrent_streams: u32,
    /// Idle time after which a client is pinged; `None` for never.
    pub keepalive_interval: Option<Duration>,
    /// Time to wait for the answer to a ping; `None` for ever.
    pub keepalive_timeout: Option<Duration>,
    /// Least time that a client must let pass between its pings; zero for gRPC's default.
    pub keepalive_min_time: Duration,
}

impl Settings {
    /// The settings that `config` asks for.
    ///
    /// # Errors
    /// [`ServeError::Config`] if numbers do not fit.
    pub fn from_config(config: &Config) -> Result<Settings, ServeError> {
        let quota_bytes = match config.quota_bytes() {
            Some(bytes) => {
                i64::try_from(bytes).map_err(|_| ServeError::Config("the quota is too large".to_owned()))?
            }
            None => -1,
        };
        let bootstrap = config.bootstrap();
        Ok(Settings {
            name: config.name.clone(),
            auto_compaction: config.auto_compaction,
            data_dir: config.data_dir.clone(),
            listen: ListenSettings {
                client: config.listen_client_urls.clone(),
                client_http: config.listen_client_http_urls.clone(),
                metrics: config.listen_metrics_urls.clone(),
                peer: config.listen_peer_urls.clone(),
                access: Access { hosts: config.host_whitelist.clone(), origins: config.cors.clone() },
                reuse_port: config.socket_reuse_port,
                max_concurrent_streams: config.max_concurrent_streams,
                keepalive_interval: config.grpc_keepalive_interval,
                keepalive_timeout: config.grpc_keepalive_timeout,
                keepalive_min_time: config.grpc_keepalive_min_time,
            },
            bootstrap: bootstrap
                .map(|bootstrap| (bootstrap.cluster_id, bootstrap.member_id))
                .map_err(|error| error.to_string()),
            peer_urls: config.initial_advertise_peer_urls.clone(),
            client_urls: config.advertise_client_urls.clone(),
            heartbeat_ms: config.heartbeat_interval_ms,
            election_ms: config.election_timeout_ms,
            max_txn_ops: config.max_txn_ops,
            max_request_bytes: config.max_request_bytes,
            quota_bytes,
            progress_interval_ms: u64::try_from(config.watch_progress_notify_interval.as_millis())
                .unwrap_or(u64::MAX),
            observation: Observation {
                metrics: config.metrics,
                slow: SlowLimits {
                    apply: config.warning_apply_duration,
                    unary: config.warning_unary_request_duration,
                },
                feature_gates: config.feature_gates,
            },
            engine: Options {
                log: LogOptions {
                    segment_bytes: config.log_segment_bytes,
                    tail_bytes: config.log_tail_bytes,
                    ..LogOptions::default()
                },
                memtable_bytes_max: config.memtable_bytes,
                block_cache_bytes: config.block_cache_bytes,
                ..Options::default()
            },
            shards_max: usize::MAX,
            signals: true,
        })
    }

    /// How long a request may take before it is given up: etcd's 5 s and two election timeouts.
    pub(super) fn request_timeout(&self) -> Duration {
        Duration::from_secs(5) + Duration::from_millis(self.election_ms.saturating_mul(2))
    }
}
