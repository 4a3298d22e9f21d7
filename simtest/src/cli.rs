//! The program's flags.

use crate::workload::Profile;

/// Runs a random workload and checks every answer against a model of etcd.
#[derive(Debug, Clone, clap::Parser)]
#[command(name = "simtest", version)]
pub struct Arguments {
    /// Run against the server at this URL; its store must have no keys and no leases, and nobody else may use it.
    #[arg(long)]
    pub endpoint: Option<String>,
    /// Where the choices come from.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// How many operations to run.
    #[arg(long, default_value_t = 100_000)]
    pub operations: u64,
    /// What to run.
    #[arg(long, value_enum, default_value_t = Profile::Mixed)]
    pub profile: Profile,
    /// How many clients run at once.
    #[arg(long, default_value_t = 8)]
    pub clients: u32,
}
