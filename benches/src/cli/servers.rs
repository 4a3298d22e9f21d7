//! Options of what starts servers or checks them: `start-time`, `kill-rounds`, `verify`.

use std::path::PathBuf;

use clap::Args;

use super::positive;
use crate::client::Endpoint;
use crate::rounds::names::VALUE_BYTES_MIN;

/// Options of starting a server.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServerArgs {
    /// Shell command that starts the server. It must not fork: its process is the one that is killed.
    #[arg(long)]
    pub(crate) server_cmd: String,
    /// Where the server will listen.
    #[arg(long, default_value = "http://127.0.0.1:2379")]
    pub(crate) endpoint: Endpoint,
    /// Its output is appended here.
    #[arg(long, default_value = "/dev/null")]
    pub(crate) server_log: PathBuf,
    /// How long it may take to start.
    #[arg(long, default_value_t = 60)]
    pub(crate) ready_seconds: u64,
}

/// Options of `start-time`.
#[derive(Debug, Args)]
pub(crate) struct StartTimeArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// How many times.
    #[arg(long, default_value_t = 1)]
    pub(crate) rounds: u64,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of what the rounds' writers do.
#[derive(Debug, Clone, Args)]
pub(crate) struct WriterArgs {
    /// TCP connections of writers.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) connections: u16,
    /// Writers on each connection.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) calls: u16,
    /// Different keys; few, so that writers meet.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) keys: u32,
    /// Bytes of a value.
    #[arg(long, default_value_t = 256, value_parser = value_size)]
    pub(crate) value_size: usize,
    /// Seed of what is random.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

/// Options of `kill-rounds`.
#[derive(Debug, Args)]
pub(crate) struct KillRoundsArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    #[command(flatten)]
    pub(crate) writers: WriterArgs,
    /// Rounds.
    #[arg(long, default_value_t = 10)]
    pub(crate) rounds: u64,
    /// Shortest and longest load of a round, in milliseconds.
    #[arg(long, default_value = "500..2000", value_parser = milliseconds)]
    pub(crate) round_ms: (u64, u64),
    /// How often, in percent, the server is also killed while it starts.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(..=100))]
    pub(crate) kill_starting_percent: u32,
    /// Compact in every so many rounds; 0 is never.
    #[arg(long, default_value_t = 10)]
    pub(crate) compact_every: u64,
}

/// Options of `verify`.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The server, plain text.
    #[arg(long, default_value = "http://127.0.0.1:2379")]
    pub(crate) endpoint: Endpoint,
    #[command(flatten)]
    pub(crate) writers: WriterArgs,
    /// Seconds of load.
    #[arg(long, default_value_t = 5.0, value_parser = positive)]
    pub(crate) seconds: f64,
}

fn value_size(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(size) if size >= VALUE_BYTES_MIN => Ok(size),
        _ => Err(format!("must be at least {VALUE_BYTES_MIN}, to name the write")),
    }
}

/// Reads `500..2000`, or `700` for always the same.
fn milliseconds(text: &str) -> Result<(u64, u64), String> {
    let (from, to) = text.split_once("..").unwrap_or((text, text));
    match (from.parse(), to.parse()) {
        (Ok(from), Ok(to)) if from <= to => Ok((from, to)),
        _ => Err("must be SHORTEST..LONGEST in milliseconds".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_lengths() {
        assert_eq!(milliseconds("500..2000"), Ok((500, 2000)));
        assert_eq!(milliseconds("700"), Ok((700, 700)));
    }
}
