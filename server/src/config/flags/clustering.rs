//! Section Clustering: who the members are, and what they keep of history.

use std::fmt;
use std::str::FromStr;

use crate::config::url::UrlList;
use crate::config::values::{GoDuration, Signed, Switch, ValueError, Words};

#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Clustering")]
pub(crate) struct ClusteringFlags {
    /// This member's peer URLs, as the other members reach them.
    #[arg(long, default_value = "http://localhost:2380")]
    pub(crate) initial_advertise_peer_urls: UrlList,
    /// The members to start a cluster with: NAME=URL pairs, separated by commas. Empty means this member alone. More
    /// than one member is not supported yet. Ignored once the member has data.
    #[arg(long, default_value = DEFAULT_INITIAL_CLUSTER)]
    pub(crate) initial_cluster: String,
    /// 'new' to start a cluster, 'existing' to join one (not supported yet). Ignored once the member has data.
    #[arg(long, default_value = "new")]
    pub(crate) initial_cluster_state: ClusterState,
    /// A word that makes the ids of this cluster differ from those of another with the same URLs.
    #[arg(long, default_value = "etcd-cluster")]
    pub(crate) initial_cluster_token: String,
    /// This member's client URLs, as clients reach them. Required on the command line with --listen-client-urls.
    #[arg(long, default_value = "http://localhost:2379")]
    pub(crate) advertise_client_urls: UrlList,
    /// Discovery service: token of the cluster.
    #[arg(long, default_value = "")]
    pub(crate) discovery_token: String,
    /// Discovery service: its endpoints.
    #[arg(long, default_value = "")]
    pub(crate) discovery_endpoints: Words,
    /// Discovery service: time to connect.
    #[arg(long, default_value = "2s")]
    pub(crate) discovery_dial_timeout: GoDuration,
    /// Discovery service: time for an answer.
    #[arg(long, default_value = "5s")]
    pub(crate) discovery_request_timeout: GoDuration,
    /// Discovery service: time between pings.
    #[arg(long, default_value = "2s")]
    pub(crate) discovery_keepalive_time: GoDuration,
    /// Discovery service: time to wait for the answer to a ping.
    #[arg(long, default_value = "6s")]
    pub(crate) discovery_keepalive_timeout: GoDuration,
    /// Discovery service: connect without TLS.
    #[arg(long, default_value = "true")]
    pub(crate) discovery_insecure_transport: Switch,
    /// Discovery service: do not verify its certificate.
    #[arg(long, default_value = "false")]
    pub(crate) discovery_insecure_skip_tls_verify: Switch,
    /// Discovery service: client certificate.
    #[arg(long, default_value = "")]
    pub(crate) discovery_cert: String,
    /// Discovery service: key of the client certificate.
    #[arg(long, default_value = "")]
    pub(crate) discovery_key: String,
    /// Discovery service: certificates of the authorities to trust.
    #[arg(long, default_value = "")]
    pub(crate) discovery_cacert: String,
    /// Discovery service: user.
    #[arg(long, default_value = "")]
    pub(crate) discovery_user: String,
    /// Discovery service: password.
    #[arg(long, default_value = "")]
    pub(crate) discovery_password: String,
    /// What to do when discovery fails; only 'exit'.
    #[arg(long, default_value = "exit")]
    pub(crate) discovery_fallback: DiscoveryFallback,
    /// DNS domain whose SRV records name the members.
    #[arg(long, default_value = "")]
    pub(crate) discovery_srv: String,
    /// Suffix of the SRV service name.
    #[arg(long, default_value = "")]
    pub(crate) discovery_srv_name: String,
    /// Refuse membership changes that would lose the quorum.
    #[arg(long, default_value = "true")]
    pub(crate) strict_reconfig_check: Switch,
    /// Ask for votes tentatively before standing for election.
    #[arg(long, default_value = "true")]
    pub(crate) pre_vote: Switch,
    /// What automatic compaction keeps: a time ('5m'; a bare number is hours) or a number of revisions. 0 turns it off.
    #[arg(long, default_value = "0")]
    pub(crate) auto_compaction_retention: String,
    /// How to read --auto-compaction-retention: 'periodic' or 'revision'.
    #[arg(long, default_value = "periodic")]
    pub(crate) auto_compaction_mode: String,
    /// Most learners the cluster may have.
    #[arg(long, default_value = "1")]
    pub(crate) max_learners: Signed,
    /// Phase of etcd's farewell to its version 2 store. Deprecated.
    #[arg(long, default_value = "write-only")]
    pub(crate) v2_deprecation: StoreV2Deprecation,
}

/// What --initial-cluster is when nobody sets it.
pub(crate) const DEFAULT_INITIAL_CLUSTER: &str = "default=http://localhost:2380";

/// Whether a member without data starts a cluster or joins one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClusterState {
    /// It starts one.
    New,
    /// It joins one.
    Existing,
}

impl FromStr for ClusterState {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        match text {
            "new" => Ok(ClusterState::New),
            "existing" => Ok(ClusterState::Existing),
            _ => Err(ValueError::new("invalid value: write new or existing")),
        }
    }
}

impl fmt::Display for ClusterState {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            ClusterState::New => "new",
            ClusterState::Existing => "existing",
        })
    }
}

/// What to do when discovery fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiscoveryFallback {
    Exit,
    /// etcd's version 2 proxy, gone since long.
    Proxy,
}

impl FromStr for DiscoveryFallback {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        match text {
            "exit" => Ok(DiscoveryFallback::Exit),
            "proxy" => Ok(DiscoveryFallback::Proxy),
            _ => Err(ValueError::new("invalid value: write exit")),
        }
    }
}

/// The phases etcd knows, whose choice it ignores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoreV2Deprecation;

impl FromStr for StoreV2Deprecation {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        const PHASES: [&str; 4] = ["write-only", "write-only-skip-check", "write-only-drop-data", "gone"];
        match text.split(',').find(|phase| !PHASES.contains(phase)) {
            Some(unknown) => {
                Err(ValueError::new(format!("invalid value {unknown:?}: write {}", PHASES.join(" or "))))
            }
            None => Ok(StoreV2Deprecation),
        }
    }
}
