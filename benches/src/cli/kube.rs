//! Options of `kubemix`.

use clap::Args;

use super::positive;
use crate::client::Endpoint;
use crate::kube::run::Storm;

/// Options of `kubemix`.
#[derive(Debug, Args)]
pub(crate) struct KubeArgs {
    /// The server, plain text. Keys under /registry/ are deleted first.
    #[arg(long, default_value = "http://127.0.0.1:2379")]
    pub(crate) endpoint: Endpoint,
    /// Nodes; leases make most of the writes, one in ten seconds each.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) nodes: u32,
    /// Pods started and stopped a second [default: nodes / 250].
    #[arg(long)]
    pub(crate) churn: Option<f64>,
    /// API servers; each watches everything and lists everything in turn.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) apiservers: u16,
    /// Components with a leader election.
    #[arg(long, default_value_t = 20)]
    pub(crate) leaders: u16,
    /// Seconds in which an API server lists every resource once.
    #[arg(long, default_value_t = 375.0, value_parser = positive)]
    pub(crate) scan_seconds: f64,
    /// Seconds between two compactions, each to where the store was at the one before.
    #[arg(long, default_value_t = 300.0, value_parser = positive)]
    pub(crate) compact_seconds: f64,
    /// What happens at half of the time.
    #[arg(long, value_enum, default_value_t = Storm::Quiet)]
    pub(crate) storm: Storm,
    /// Length of the run.
    #[arg(long, default_value_t = 30.0, value_parser = positive)]
    pub(crate) seconds: f64,
    /// Seed of names, sizes, values and arrivals.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// The server's process: print its CPU by call, and memory.
    #[arg(long)]
    pub(crate) server_pid: Option<u32>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
