//! Options of `beside`.

use clap::Args;

use super::LoadArgs;
use crate::beside::background::Kind;

/// Options of `beside`. `--seconds` is the length of each of the two windows.
#[derive(Debug, Args)]
pub(crate) struct BesideArgs {
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    /// The background work.
    #[arg(long, value_enum)]
    pub(crate) background: Kind,
    /// Keys or changes of it [default: 100,000; 500,000 changes for catch-up].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) amount: Option<u64>,
    /// Leases to revoke, or steps of the compaction. The others are repeated until the window ends.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) pieces: u32,
    /// Bytes of a value of the background.
    #[arg(long, default_value_t = 256)]
    pub(crate) background_value_size: usize,
}
