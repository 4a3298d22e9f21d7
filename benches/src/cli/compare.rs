//! Options of `compare`.

use std::path::PathBuf;

use clap::Args;

use super::positive;

/// Options of `compare`.
#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// Cases to run; `put*` is all whose name begins so [default: all].
    pub(crate) cases: Vec<String>,
    /// Name all cases and end.
    #[arg(long)]
    pub(crate) list_cases: bool,
    /// etcd's binary [default: $PEERS/bin/etcd, $PEERS being ~/.cache/keelson-peers if not set].
    #[arg(long)]
    pub(crate) etcd: Option<PathBuf>,
    /// Keelson's binary [default: keelson beside this program].
    #[arg(long)]
    pub(crate) keelson: Option<PathBuf>,
    /// One more flag of etcd, as --etcd-flag=--quota-backend-bytes=8589934592.
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    pub(crate) etcd_flag: Vec<String>,
    /// One more flag of Keelson.
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    pub(crate) keelson_flag: Vec<String>,
    /// Rounds; which one goes first changes by round.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
    /// Seconds of one load.
    #[arg(long, default_value_t = 5.0, value_parser = positive)]
    pub(crate) seconds: f64,
    /// Keys in the stores of the cases that count, page and list; several sizes as 100000,1000000. Values are 1 KiB, so
    /// beyond 1,500,000 keys etcd needs a larger quota.
    #[arg(long, default_value = "200000", value_delimiter = ',')]
    pub(crate) keys: Vec<u64>,
    /// Where both keep their data while it runs. What decides is its disk.
    #[arg(long, default_value = "target/compare")]
    pub(crate) directory: PathBuf,
    /// The servers' port; the next one is used too.
    #[arg(long, default_value_t = 24890)]
    pub(crate) port: u16,
    /// Where table, plots and samples go.
    #[arg(long, default_value = "docs/benchmarks")]
    pub(crate) out: PathBuf,
    /// Their name there: NAME.md, NAME.json, NAME-ratios.svg.
    #[arg(long, default_value = "compare")]
    pub(crate) name: String,
    /// Run nothing: make table and plots anew from NAME.json.
    #[arg(long)]
    pub(crate) render: bool,
}
