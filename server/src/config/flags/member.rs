//! Section Member: names, listeners, timers, limits.

use crate::config::url::UrlList;
use crate::config::values::{GoDuration, Signed, Switch, Whole, Whole32};

#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Member")]
pub(crate) struct MemberFlags {
    /// Human-readable name of this member.
    #[arg(long, default_value = "default")]
    pub(crate) name: String,
    /// Path to the data directory; empty means NAME.keelson in the working directory.
    #[arg(long, default_value = "")]
    pub(crate) data_dir: String,
    /// Path to a dedicated directory of the write-ahead log.
    #[arg(long, default_value = "")]
    pub(crate) wal_dir: String,
    /// Number of committed transactions after which etcd takes a snapshot.
    #[arg(long, default_value = "10000")]
    pub(crate) snapshot_count: Whole,
    /// Milliseconds between the leader's heartbeats.
    #[arg(long, default_value = "100")]
    pub(crate) heartbeat_interval: Whole,
    /// Milliseconds without a heartbeat after which a follower stands for election; at least 5 heartbeats, at most
    /// 50000.
    #[arg(long, default_value = "1000")]
    pub(crate) election_timeout: Whole,
    /// Whether to shorten the first election after a start.
    #[arg(long, default_value = "true")]
    pub(crate) initial_election_tick_advance: Switch,
    /// URLs to listen on for other members.
    #[arg(long, default_value = "http://localhost:2380")]
    pub(crate) listen_peer_urls: UrlList,
    /// URLs to listen on for clients: gRPC, and HTTP unless --listen-client-http-urls is set.
    #[arg(long, default_value = "http://localhost:2379")]
    pub(crate) listen_client_urls: UrlList,
    /// URLs to listen on for HTTP clients only; takes HTTP away from --listen-client-urls.
    #[arg(long, default_value = "")]
    pub(crate) listen_client_http_urls: UrlList,
    /// Number of snapshot files etcd keeps. Deprecated.
    #[arg(long, default_value = "5")]
    pub(crate) max_snapshots: Whole,
    /// Number of write-ahead log files etcd keeps.
    #[arg(long, default_value = "5")]
    pub(crate) max_wals: Whole,
    /// Lock the process's memory in RAM.
    #[arg(long, default_value = "false")]
    pub(crate) memory_mlock: Switch,
    /// Bytes of data above which the member raises the NOSPACE alarm and takes only deletes and compactions; 0 means
    /// 2 GiB, below 0 no limit.
    #[arg(long, default_value = "0")]
    pub(crate) quota_backend_bytes: Signed,
    /// Kind of free list in etcd's bbolt database.
    #[arg(long, default_value = "")]
    pub(crate) backend_bbolt_freelist_type: String,
    /// Longest time etcd's backend gathers a batch.
    #[arg(long, default_value = "0s")]
    pub(crate) backend_batch_interval: GoDuration,
    /// Most operations etcd's backend gathers in a batch.
    #[arg(long, default_value = "0")]
    pub(crate) backend_batch_limit: Signed,
    /// Most operations in a transaction.
    #[arg(long, default_value = "128")]
    pub(crate) max_txn_ops: Whole,
    /// Most bytes of a client's request.
    #[arg(long, default_value = "1572864")]
    pub(crate) max_request_bytes: Whole,
    /// Most streams a client may have open on one connection.
    #[arg(long, default_value = "4294967295")]
    pub(crate) max_concurrent_streams: Whole32,
    /// Least time a client must let pass between its pings; one that pings too early too often is sent away. 0 means
    /// gRPC's default, 5m.
    #[arg(long, default_value = "5s")]
    pub(crate) grpc_keepalive_min_time: GoDuration,
    /// Idle time after which the server pings a client; 0 means never.
    #[arg(long, default_value = "2h")]
    pub(crate) grpc_keepalive_interval: GoDuration,
    /// Time the server waits for the answer to its ping before it closes the connection; 0 means never.
    #[arg(long, default_value = "20s")]
    pub(crate) grpc_keepalive_timeout: GoDuration,
    /// Set SO_REUSEPORT on listeners.
    #[arg(long, default_value = "false")]
    pub(crate) socket_reuse_port: Switch,
    /// Set SO_REUSEADDR on listeners.
    #[arg(long, default_value = "false")]
    pub(crate) socket_reuse_address: Switch,
    /// Serve the JSON gateway under /v3/.
    #[arg(long, default_value = "true")]
    pub(crate) enable_grpc_gateway: Switch,
    /// Read timeout of connections between members; at least 5s.
    #[arg(long, default_value = "5s")]
    pub(crate) raft_read_timeout: GoDuration,
    /// Write timeout of connections between members; at least 5s.
    #[arg(long, default_value = "5s")]
    pub(crate) raft_write_timeout: GoDuration,
}
