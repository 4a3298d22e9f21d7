//! Options of `watch`.

use clap::Args;

use super::positive;
use crate::client::Endpoint;
use crate::watch::stamp::STAMP_BYTES;

/// Options of `watch`.
#[derive(Debug, Clone, Args)]
pub(crate) struct WatchArgs {
    /// The server, plain text.
    #[arg(long, default_value = "http://127.0.0.1:2379")]
    pub(crate) endpoint: Endpoint,
    /// Watchers.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) watchers: u32,
    /// TCP connections of the watchers; the writer has one of its own.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) connections: u16,
    /// Watch streams on each connection, which share its watchers; etcd's own client opens one.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) streams: u16,
    /// Different prefixes: a watcher watches one of them and a put goes to one of them, in turn, so an event has
    /// watchers / prefixes receivers.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) prefixes: u32,
    /// Ask for the previous version of each key, as kube-apiserver does.
    #[arg(long)]
    pub(crate) prev_kv: bool,
    /// Progress requests a second, over the streams in turn; a stream that still owes an answer is passed over.
    #[arg(long, value_parser = positive, value_name = "RATE", num_args = 0..=1, default_missing_value = "10")]
    pub(crate) progress: Option<f64>,
    /// Puts a second, started on time whatever the server does.
    #[arg(long, default_value_t = 2000.0, value_parser = positive)]
    pub(crate) rate: f64,
    /// Puts in flight at most.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) calls: u16,
    /// Seconds of writing.
    #[arg(long, default_value_t = 5.0, value_parser = positive)]
    pub(crate) seconds: f64,
    /// Keys begin so.
    #[arg(long, default_value = "/watch/")]
    pub(crate) prefix: String,
    /// Bytes of a key.
    #[arg(long, default_value_t = 60)]
    pub(crate) key_size: usize,
    /// Bytes of a value: when it was sent, then random.
    #[arg(long, default_value_t = 1024, value_parser = stamped_size)]
    pub(crate) value_size: usize,
    /// Different keys.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) keys: u64,
    /// Seed of keys and values.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// The server's process: print its CPU by event, and memory.
    #[arg(long)]
    pub(crate) server_pid: Option<u32>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

fn stamped_size(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(size) if size >= STAMP_BYTES => Ok(size),
        _ => Err(format!("must be at least {STAMP_BYTES}, for the time of sending")),
    }
}
