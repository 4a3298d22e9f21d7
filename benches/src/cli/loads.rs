//! Options of the loads: `put`, `txn-update`, `get`, `list`, `count`, `load`.

use std::time::Duration;

use clap::Args;

use super::positive;
use crate::client::{Endpoint, Failure};
use crate::load::driver::{Limit, Plan};
use crate::load::mixture::Weights;
use crate::load::pages::Choice;

/// Seconds of a load when neither --total nor --seconds is given.
const SECONDS_DEFAULT: f64 = 5.0;

/// Options of all loads.
#[derive(Debug, Clone, Args)]
pub(crate) struct LoadArgs {
    /// The server, plain text.
    #[arg(long, default_value = "http://127.0.0.1:2379")]
    pub(crate) endpoint: Endpoint,
    /// TCP connections.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) connections: u16,
    /// Calls in flight on each connection.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) calls: u16,
    /// Stop after so many operations [default: 1 for list and count].
    #[arg(long, conflicts_with = "seconds")]
    pub(crate) total: Option<u64>,
    /// Stop after so many seconds [default: 5 otherwise].
    #[arg(long, value_parser = positive)]
    pub(crate) seconds: Option<f64>,
    /// Operations a second, started on time whatever the server does; latency counts from the intended start. A server
    /// that is too slow makes the run longer. Without it, as fast as answers come.
    #[arg(long, value_parser = positive)]
    pub(crate) rate: Option<f64>,
    /// Keys begin so.
    #[arg(long, default_value = "/load/")]
    pub(crate) prefix: String,
    /// Bytes of a key.
    #[arg(long, default_value_t = 60)]
    pub(crate) key_size: usize,
    /// Bytes of a value: random, incompressible.
    #[arg(long, default_value_t = 1024)]
    pub(crate) value_size: usize,
    /// Different keys.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) keys: u64,
    /// Seed of keys and values.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// The server's process: print its CPU by operation, memory and bytes written.
    #[arg(long)]
    pub(crate) server_pid: Option<u32>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

impl LoadArgs {
    /// The plan that the options make; `total` is the number of operations where nothing is said.
    pub(crate) fn plan(&self, total: Option<u64>) -> Plan {
        let limit = match (self.total, self.seconds, total) {
            (Some(total), _, _) | (None, None, Some(total)) => Limit::Operations(total),
            (None, seconds, _) => Limit::Time(Duration::from_secs_f64(seconds.unwrap_or(SECONDS_DEFAULT))),
        };
        Plan {
            endpoint: self.endpoint.clone(),
            connections: self.connections.into(),
            calls: self.calls.into(),
            limit,
            rate: self.rate,
        }
    }
}

/// Options of `get`.
#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    /// Let the member answer from what it has, without asking its peers.
    #[arg(long)]
    pub(crate) serializable: bool,
}

/// Options of `list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    /// Rows of a page; 0 is all.
    #[arg(long, default_value_t = 0)]
    pub(crate) limit: i64,
    /// No values.
    #[arg(long)]
    pub(crate) keys_only: bool,
    /// Only the count.
    #[arg(long, conflicts_with = "keys_only")]
    pub(crate) count_only: bool,
    /// By RangeStream.
    #[arg(long)]
    pub(crate) stream: bool,
    /// Let the member answer from what it has, without asking its peers.
    #[arg(long)]
    pub(crate) serializable: bool,
    /// Begin each list at a random key, as pages further down do.
    #[arg(long)]
    pub(crate) random_start: bool,
}

/// Options of `page`.
#[derive(Debug, Args)]
pub(crate) struct PageArgs {
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    /// Rows of a page.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
    /// Which pages.
    #[arg(long, value_enum, default_value_t = Choice::Walk)]
    pub(crate) pages: Choice,
    /// No values.
    #[arg(long)]
    pub(crate) keys_only: bool,
    /// Let the member answer from what it has, without asking its peers.
    #[arg(long)]
    pub(crate) serializable: bool,
}

/// Options of `range-stream`.
#[derive(Debug, Args)]
pub(crate) struct StreamArgs {
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    /// By one unary Range instead.
    #[arg(long)]
    pub(crate) unary: bool,
    /// Let the member answer from what it has, without asking its peers.
    #[arg(long)]
    pub(crate) serializable: bool,
}

/// Options of `mixed`.
#[derive(Debug, Args)]
pub(crate) struct MixedArgs {
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    /// Kinds of calls and their weights: get, stale (a serializable get), put, update, page (500 rows from anywhere),
    /// list (all, by RangeStream), count. Without --rate it is 2,000 operations a second.
    #[arg(long, default_value = "get=50,put=25,update=20,page=4,count=1")]
    pub(crate) mix: Weights,
}

/// Options of `load`.
#[derive(Debug, Args)]
pub(crate) struct FillArgs {
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    /// Keys of one transaction; etcd allows 128.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) keys_per_txn: u64,
}

/// Checks what one option alone cannot say.
///
/// # Errors
/// [`Failure::Usage`].
pub(crate) fn check_slots(args: &LoadArgs) -> Result<(), Failure> {
    let slots = u64::from(args.connections) * u64::from(args.calls);
    if args.keys < slots {
        return Err(Failure::Usage(format!(
            "{slots} callers need at least as many --keys to have keys of their own"
        )));
    }
    Ok(())
}
