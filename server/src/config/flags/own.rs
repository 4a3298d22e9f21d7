//! Keelson's own section: what etcd has no word for. Variables begin with `KEELSON_`.

use crate::config::values::{Whole, Whole32};

#[derive(clap::Args, Debug)]
#[command(next_help_heading = super::OWN_SECTION)]
pub(crate) struct OwnFlags {
    /// Bytes of memory for blocks read from tables.
    #[arg(long, default_value = "67108864")]
    pub(crate) block_cache_bytes: Whole,
    /// Bytes of keys and versions gathered in memory before they become a table.
    #[arg(long, default_value = "67108864")]
    pub(crate) memtable_bytes: Whole,
    /// Bytes of the log's newest entries kept in memory for watches and reads.
    #[arg(long, default_value = "67108864")]
    pub(crate) log_tail_bytes: Whole,
    /// Bytes of a log segment, the unit in which disk space is reused; from 1 MiB to 1 GiB.
    #[arg(long, default_value = "67108864")]
    pub(crate) log_segment_bytes: Whole32,
}
