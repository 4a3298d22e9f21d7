//! The command line: subcommands and options, with examples in `--help`.

mod beside;
mod compare;
mod kube;
mod loads;
mod servers;
mod watch;

use clap::{Parser, Subcommand};

pub(crate) use beside::BesideArgs;
pub(crate) use compare::CompareArgs;
pub(crate) use kube::KubeArgs;
pub(crate) use loads::{FillArgs, GetArgs, ListArgs, LoadArgs, MixedArgs, PageArgs, StreamArgs, check_slots};
pub(crate) use servers::{KillRoundsArgs, StartTimeArgs, VerifyArgs};
pub(crate) use watch::WatchArgs;

const EXAMPLES: &str = "\
Examples:
  Throughput of puts with 64 callers, and what they cost the server:
    keelson-load put --connections 8 --calls 8 --seconds 10 --server-pid $(pidof etcd)
  Latency at a fixed 2,000 puts a second, waiting included (open loop):
    keelson-load put --connections 8 --calls 8 --rate 2000 --seconds 10
  A store of 200,000 keys, then pages of 500 of it:
    keelson-load load --keys 200000
    keelson-load page --keys 200000 --limit 500 --pages walk --total 400
  100 watchers of a prefix that is written 2,000 times a second: how fast do events arrive, and what do they cost?
    keelson-load watch --watchers 100 --rate 2000 --seconds 10 --server-pid $(pidof etcd)
  What does revoking a lease with 100,000 keys do to everybody else's puts?
    keelson-load beside --background lease
  A cluster of 5,000 nodes with two API servers, one of them restarted in the middle:
    keelson-load kubemix --nodes 5000 --apiservers 2 --seconds 60 --storm restart --server-pid $(pidof etcd)
  Keelson beside etcd: the puts, and pages and counts of stores of two sizes; five rounds of each:
    keelson-load compare 'put*' count 'page*' --keys 100000,1000000
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
    /// Pages of a list: first pages, whole walks, or pages from anywhere.
    Page(PageArgs),
    /// All keys by RangeStream, over and over: throughput, CPU and memory of big lists.
    RangeStream(StreamArgs),
    /// A mixture of calls at a rate.
    Mixed(MixedArgs),
    /// Puts at a rate through an idle window and one with background work: what the work does to their latency.
    Beside(BesideArgs),
    /// Watchers of a prefix, and a writer: events a second, time from put to event, memory and set-up time of the watchers.
    Watch(WatchArgs),
    /// What a Kubernetes cluster of so many nodes does to its store.
    Kubemix(KubeArgs),
    /// etcd and Keelson in turn, over several rounds: medians, spreads and ratios, as a table and as plots.
    Compare(CompareArgs),
    /// Start a server, time it to its first linearizable read, kill it.
    StartTime(StartTimeArgs),
    /// Load a server, kill -9 it, start it again, check every promise; over and over.
    KillRounds(KillRoundsArgs),
    /// Load a running server for a while, then check every promise. Deletes the keys under /keelson-rounds/ first.
    Verify(VerifyArgs),
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => Ok(number),
        _ => Err("must be a number above 0".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::CommandFactory;

    use super::*;
    use crate::load::driver::Limit;

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
            ("page --limit 0", "no page"),
            ("mixed --mix get", "no weight"),
            ("beside", "beside what"),
            ("beside --background lease --pieces 0", "no lease"),
            ("kubemix --nodes 0", "no cluster"),
            ("compare --rounds 0", "nothing to compare"),
            ("watch --watchers 0", "nobody watches"),
            ("watch --value-size 15", "no room for the stamp"),
            ("watch --progress 0", "never asks"),
            ("verify --value-size 15", "cannot name the write"),
        ] {
            assert!(parse(line).is_err(), "{line}: {why}");
        }
    }
}
