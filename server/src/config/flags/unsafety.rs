//! Section Unsafe: what etcd offers to people in distress.

use crate::config::values::Switch;

#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Unsafe")]
pub(crate) struct UnsafeFlags {
    /// Make a cluster of this member alone out of its data.
    #[arg(long, default_value = "false")]
    pub(crate) force_new_cluster: Switch,
    /// Never sync to disk.
    #[arg(long, default_value = "false")]
    pub(crate) unsafe_no_fsync: Switch,
}
