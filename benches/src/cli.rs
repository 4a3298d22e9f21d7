//! The command line: subcommands and options, with examples in `--help`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::client::{Endpoint, Failure};
use crate::load::driver::{Limit, Plan};
use crate::rounds::names::VALUE_BYTES_MIN;

/// Seconds of a load when neither --total nor --seconds is given.
const SECONDS_DEFAULT: f64 = 5.0;

const EXAMPLES: &str = "\
Examples:
  Throughput of puts with 64 callers, and what they cost the server:
    keelson-load put --connections 8 --calls 8 --seconds 10 --server-pid $(pidof etcd)
  Latency at a fixed 2,000 puts a second, waiting included (open loop):
    keelson-load put --connections 8 --calls 8 --rate 2000 --seconds 10
  A store of 200,000 keys, then pages of 500 of it:
    keelson-load load --keys 200000
    keelson-load list --keys 200000 --limit 500 --total 100
  Does an acknowledged write survive kill -9? Fresh data directory, 20 rounds:
    keelson-load kill-rounds --rounds 20 --server-cmd 'keelson --data-dir /tmp/rounds'
  Is every promise kept on a running store that nobody else writes to?
    keelson-load verify --seconds 10

Exit status: 0 if all went well, 1 if any call failed or any promise was broken, 2 for a wrong command line.";

/// A lean load generator and a checker for any etcd endpoint.
#[derive(Debug, Parser)]
#[command(name = "keelson-load", version, after_help = EXAMPLES)]
pub(crate) struct CommandLine {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Put random values to random keys.
    Put(LoadArgs),
    /// kube-apiserver's update of random keys: put if the mod revision is the one known, else read.
    TxnUpdate(LoadArgs),
    /// Read random keys.
    Get(GetArgs),
    /// List all keys, or a page; answers are counted in bytes, not decoded.
    List(ListArgs),
    /// Count all keys and print the count.
    Count(LoadArgs),
    /// Write every key once.
    Load(FillArgs),
    /// Start a server, time it to its first linearizable read, kill it.
    StartTime(StartTimeArgs),
    /// Load a server, kill -9 it, start it again, check every promise; over and over.
    KillRounds(KillRoundsArgs),
    /// Load a running server for a while, then check every promise. Deletes the keys under /keelson-rounds/ first.
    Verify(VerifyArgs),
}

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

/// Options of `load`.
#[derive(Debug, Args)]
pub(crate) struct FillArgs {
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    /// Keys of one transaction; etcd allows 128.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) keys_per_txn: u64,
}

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

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => Ok(number),
        _ => Err("must be a number above 0".to_owned()),
    }
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(line: &str) -> Result<Command, clap::Error> {
        let words = std::iter::once("keelson-load").chain(line.split_whitespace());
        Ok(CommandLine::try_parse_from(words)?.command)
    }

    #[test]
    fn the_definition_is_consistent() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn limits_by_option() {
        for (line, total, want, why) in [
            ("put", None, Limit::Time(Duration::from_secs(5)), "five seconds if nothing is said"),
            ("put --seconds 0.5", None, Limit::Time(Duration::from_millis(500)), "by time"),
            ("put --total 7", None, Limit::Operations(7), "by operations"),
            ("count", Some(1), Limit::Operations(1), "once if nothing is said"),
            ("count --seconds 2", Some(1), Limit::Time(Duration::from_secs(2)), "said"),
        ] {
            let (Command::Put(args) | Command::Count(args)) = parse(line).expect(line) else {
                panic!("{line}")
            };
            assert_eq!(args.plan(total).limit, want, "{why}");
        }
    }

    #[test]
    fn wrong_lines_are_refused() {
        for (line, why) in [
            ("put --total 5 --seconds 5", "two limits"),
            ("put --connections 0", "no connection"),
            ("put --rate 0", "never"),
            ("put --rate nan", "no number"),
            ("put --endpoint https://127.0.0.1:2379", "TLS"),
            ("list --keys-only --count-only", "two answers"),
            ("kill-rounds", "no server"),
            ("kill-rounds --server-cmd x --round-ms 9..1", "ends before it begins"),
            ("verify --value-size 15", "cannot name the write"),
        ] {
            assert!(parse(line).is_err(), "{line}: {why}");
        }
    }

    #[test]
    fn round_lengths() {
        assert_eq!(milliseconds("500..2000"), Ok((500, 2000)));
        assert_eq!(milliseconds("700"), Ok((700, 700)));
    }
}
