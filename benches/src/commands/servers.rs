//! What starts servers, or checks the promises of one.

use std::collections::BTreeMap;
use std::time::Duration;

use super::json;
use crate::cli::{KillRoundsArgs, StartTimeArgs, VerifyArgs};
use crate::client::Failure;
use crate::clock;
use crate::rounds::run::{Options, Summary};
use crate::rounds::server::Server;

pub(super) async fn start_time(args: &StartTimeArgs) -> Result<bool, Failure> {
    let mut times = Vec::new();
    for _ in 0..args.rounds {
        let begun = clock::now();
        let mut server = Server::start(&args.server.server_cmd, &args.server.server_log)?;
        let patience = Duration::from_secs(args.server.ready_seconds);
        server.ready(&args.server.endpoint, patience).await?;
        times.push(clock::nanos_between(begun, clock::now()) as f64 / 1e6);
        server.kill()?;
    }
    if args.json {
        println!("{}", json(&BTreeMap::from([("start_ms", times)]))?);
    } else {
        times.iter().for_each(|time| println!("{time:.1} ms to the first linearizable read"));
    }
    Ok(true)
}

pub(super) async fn kill_rounds(args: KillRoundsArgs) -> Result<bool, Failure> {
    let KillRoundsArgs { server, writers, rounds, round_ms, kill_starting_percent, compact_every } = args;
    print_summary(
        &crate::rounds::run::run(&Options {
            endpoint: server.endpoint,
            server_command: Some(server.server_cmd),
            server_log: server.server_log,
            ready_patience: Duration::from_secs(server.ready_seconds),
            rounds,
            round_ms,
            connections: writers.connections.into(),
            calls: writers.calls.into(),
            keys: writers.keys,
            value_bytes: writers.value_size,
            seed: writers.seed,
            kill_starting_percent,
            compact_every,
        })
        .await?,
    )
}

pub(super) async fn verify(args: VerifyArgs) -> Result<bool, Failure> {
    let load_ms = (args.seconds * 1000.0) as u64;
    print_summary(
        &crate::rounds::run::run(&Options {
            endpoint: args.endpoint,
            server_command: None,
            server_log: "/dev/null".into(),
            ready_patience: Duration::ZERO,
            rounds: 1,
            round_ms: (load_ms, load_ms),
            connections: args.writers.connections.into(),
            calls: args.writers.calls.into(),
            keys: args.writers.keys,
            value_bytes: args.writers.value_size,
            seed: args.writers.seed,
            kill_starting_percent: 0,
            compact_every: 0,
        })
        .await?,
    )
}

fn print_summary(summary: &Summary) -> Result<bool, Failure> {
    println!("{}", json(summary)?);
    Ok(summary.findings.is_empty())
}
