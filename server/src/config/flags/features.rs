//! Section Features: checks, watch progress, and what etcd tries out.

use crate::config::gates::FeatureGates;
use crate::config::values::{GoDuration, Signed, Whole};

#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Features")]
pub(crate) struct FeatureFlags {
    /// Features to turn on or off, as NAME=true|false pairs separated by commas:
    /// AllAlpha, AllBeta, CompactHashCheck, FastLeaseKeepAlive, InitialCorruptCheck, LeaseCheckpoint,
    /// LeaseCheckpointPersist, PriorityRequest, SetMemberLocalAddr, StopGRPCServiceOnDefrag,
    /// TxnModeWriteWithSharedBuffer.
    #[arg(long, default_value = "")]
    pub(crate) feature_gates: FeatureGates,
    /// Time between comparisons of all members' data; 0 means never.
    #[arg(long, default_value = "0s")]
    pub(crate) corrupt_check_time: GoDuration,
    /// Time between the leader's comparisons of compaction hashes; above 0.
    #[arg(long, default_value = "1m")]
    pub(crate) compact_hash_check_time: GoDuration,
    /// Most revisions etcd deletes in one batch of a compaction.
    #[arg(long, default_value = "1000")]
    pub(crate) compaction_batch_limit: Signed,
    /// Time etcd sleeps between two batches of a compaction.
    #[arg(long, default_value = "10ms")]
    pub(crate) compaction_sleep_interval: GoDuration,
    /// Time without events after which a watch that asked for it gets a progress notification; at least 100ms, 0
    /// means 10m.
    #[arg(long, default_value = "10m")]
    pub(crate) watch_progress_notify_interval: GoDuration,
    /// Time between two looks at a downgrade under way.
    #[arg(long, default_value = "5s")]
    pub(crate) downgrade_check_time: GoDuration,
    /// Megabytes that a defragmentation must free to be done at start.
    #[arg(long, default_value = "0")]
    pub(crate) bootstrap_defrag_threshold_megabytes: Whole,
    /// Entries etcd keeps in memory for slow followers.
    #[arg(long, default_value = "5000")]
    pub(crate) snapshot_catchup_entries: Whole,
}
