//! Every flag of the program: names, types, defaults and a line of help each, one file per section of `--help`.
//!
//! Lives here: what can be written. Does not know: where a value came from (`given`), what Keelson does not do
//! (`support`), or which values fit together (`validate`). Environment variables and keys of the configuration
//! file derive from these names, so there is no second list.

mod auth;
mod clustering;
mod features;
mod logging;
mod member;
mod monitoring;
mod own;
mod security;
mod unsafety;

pub(crate) use auth::AuthFlags;
pub use clustering::ClusterState;
pub(crate) use clustering::{ClusteringFlags, DEFAULT_INITIAL_CLUSTER, DiscoveryFallback};
pub(crate) use features::FeatureFlags;
pub(crate) use logging::LoggingFlags;
pub(crate) use member::MemberFlags;
pub(crate) use monitoring::MonitoringFlags;
pub(crate) use own::OwnFlags;
pub(crate) use security::SecurityFlags;
pub(crate) use unsafety::UnsafeFlags;

use super::values::Switch;

/// Section of Keelson's own flags; theirs are the `KEELSON_` variables.
pub(crate) const OWN_SECTION: &str = "Keelson";

/// Names that etcd accepts and ignores, as switches, for the sake of very old scripts.
pub(crate) const IGNORED: [&str; 15] = [
    "cluster-active-size",
    "cluster-remove-delay",
    "cluster-sync-interval",
    "config",
    "force",
    "max-result-buffer",
    "max-retry-attempts",
    "peer-heartbeat-interval",
    "peer-election-timeout",
    "retry-interval",
    "snapshot",
    "v",
    "vv",
    "test.coverprofile",
    "test.outputdir",
];

/// All flags, as parsed, before any rule between them is applied.
#[derive(clap::Parser, Debug)]
#[command(
    name = "keelson",
    disable_help_flag = true,
    disable_version_flag = true,
    args_override_self = true,
    color = clap::ColorChoice::Never
)]
pub(crate) struct Flags {
    #[command(flatten)]
    pub(crate) member: MemberFlags,
    #[command(flatten)]
    pub(crate) clustering: ClusteringFlags,
    #[command(flatten)]
    pub(crate) security: SecurityFlags,
    #[command(flatten)]
    pub(crate) auth: AuthFlags,
    #[command(flatten)]
    pub(crate) monitoring: MonitoringFlags,
    #[command(flatten)]
    pub(crate) logging: LoggingFlags,
    #[command(flatten)]
    pub(crate) features: FeatureFlags,
    #[command(flatten)]
    pub(crate) unsafety: UnsafeFlags,
    #[command(flatten)]
    pub(crate) own: OwnFlags,
    #[command(flatten)]
    pub(crate) program: ProgramFlags,
}

/// Flags about the program rather than the member.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Program")]
pub(crate) struct ProgramFlags {
    /// Path to a configuration file in YAML or JSON: keys are the flags' names, durations are whole nanoseconds. If it
    /// is given, all other flags and variables are ignored.
    #[arg(long, default_value = "")]
    pub(crate) config_file: String,
    /// Print the version and exit.
    #[arg(long, default_value = "false")]
    pub(crate) version: Switch,
}
