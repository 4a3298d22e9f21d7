//! Each subcommand put together from options, work, driver and report.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use crate::cli::{
    self, Command, FillArgs, GetArgs, KillRoundsArgs, ListArgs, LoadArgs, StartTimeArgs, VerifyArgs,
};
use crate::client::Failure;
use crate::client::wire::{self, Framer, frame, path, prefix_end};
use crate::clock;
use crate::load::driver::{self, Plan, Tally};
use crate::load::payload::{Keys, Values, slot_random};
use crate::load::process::sample;
use crate::load::report::Report;
use crate::load::work::{Count, Fill, Get, KnownRevisions, List, Put, Update, Work};
use crate::rounds::run::{Options, Summary};
use crate::rounds::server::Server;

/// Runs a subcommand; whether all went well.
///
/// # Errors
/// [`Failure`] if it could not be run. Failed calls and findings are printed and give `false`.
pub(crate) async fn run(command: Command) -> Result<bool, Failure> {
    match command {
        Command::Put(args) => put(&args).await,
        Command::TxnUpdate(args) => txn_update(&args).await,
        Command::Get(args) => get(&args).await,
        Command::List(args) => list(&args).await,
        Command::Count(args) => count(&args).await,
        Command::Load(args) => fill(&args).await,
        Command::StartTime(args) => start_time(&args).await,
        Command::KillRounds(args) => kill_rounds(args).await,
        Command::Verify(args) => verify(args).await,
    }
}

fn keys(args: &LoadArgs) -> Result<Keys, Failure> {
    Keys::new(&args.prefix, args.key_size, args.keys)
}

/// Drives a load between two samples of this process and the server's and prints the report; `extra` is asked at the end.
async fn measure<W: Work + 'static>(
    name: &'static str,
    args: &LoadArgs,
    plan: &Plan,
    make: impl FnMut(usize) -> W,
    extra: impl FnOnce() -> BTreeMap<&'static str, i64>,
) -> Result<bool, Failure> {
    let connections = driver::connect(plan).await?;
    let server = args.server_pid.map(|pid| pid.to_string());
    let sample_server = || server.as_deref().map(sample).transpose();
    let (server_before, client_before) = (sample_server()?, sample("self")?);
    let tally: Tally = driver::drive(plan, &connections, make).await?;
    let (client_after, server_after) = (sample("self")?, sample_server()?);
    let server = server_before.zip(server_after);
    let report = Report::new(name, plan, &tally, (client_before, client_after), server, extra());
    if args.json {
        println!("{}", json(&report)?);
    } else {
        println!("{}", report.text());
    }
    Ok(report.errors == 0)
}

fn json(value: &impl serde::Serialize) -> Result<String, Failure> {
    serde_json::to_string(value)
        .map_err(|error| Failure::Transport(format!("a report does not encode: {error}")))
}

async fn put(args: &LoadArgs) -> Result<bool, Failure> {
    let (keys, values) = (keys(args)?, Values::new(args.value_size, args.seed));
    let make = |slot| Put {
        keys: keys.clone(),
        values: values.clone(),
        random: slot_random(args.seed, slot),
        framer: Framer::default(),
    };
    measure("put", args, &args.plan(None), make, BTreeMap::new).await
}

async fn txn_update(args: &LoadArgs) -> Result<bool, Failure> {
    cli::check_slots(args)?;
    let (keys, values) = (keys(args)?, Values::new(args.value_size, args.seed));
    let known = Rc::new(KnownRevisions::new(args.keys));
    let plan = args.plan(None);
    let slots = plan.slots() as u64;
    let make = |slot: usize| Update {
        keys: keys.clone(),
        values: values.clone(),
        random: slot_random(args.seed, slot),
        known: Rc::clone(&known),
        slot: slot as u64,
        slots,
        framer: Framer::default(),
    };
    let extra = || BTreeMap::from([("compares_failed", known.compares_failed.get() as i64)]);
    measure("txn-update", args, &plan, make, extra).await
}

async fn get(args: &GetArgs) -> Result<bool, Failure> {
    let load = &args.load;
    let keys = keys(load)?;
    let serializable = args.serializable;
    let make = |slot| Get {
        keys: keys.clone(),
        random: slot_random(load.seed, slot),
        serializable,
        framer: Framer::default(),
    };
    measure("get", load, &load.plan(None), make, BTreeMap::new).await
}

async fn list(args: &ListArgs) -> Result<bool, Failure> {
    let load = &args.load;
    let keys = keys(load)?;
    let request = wire::RangeRequest {
        limit: args.limit,
        keys_only: args.keys_only,
        count_only: args.count_only,
        serializable: args.serializable,
        ..all_keys(load)
    };
    let method = if args.stream { path::RANGE_STREAM } else { path::RANGE };
    let make = |slot| {
        let random_start = args.random_start.then(|| (keys.clone(), slot_random(load.seed, slot)));
        List::new(request.clone(), method, random_start)
    };
    measure("list", load, &load.plan(Some(1)), make, BTreeMap::new).await
}

async fn count(args: &LoadArgs) -> Result<bool, Failure> {
    let request = wire::RangeRequest { count_only: true, ..all_keys(args) };
    let last = Rc::new(Cell::new(0));
    let make = |_| Count { framed: frame(&request), last: Rc::clone(&last) };
    measure("count", args, &args.plan(Some(1)), make, || BTreeMap::from([("count", last.get())])).await
}

/// A read of all keys with the load's prefix.
fn all_keys(args: &LoadArgs) -> wire::RangeRequest {
    let (key, range_end) = (args.prefix.clone().into(), prefix_end(args.prefix.as_bytes()));
    wire::RangeRequest { key, range_end, ..Default::default() }
}

async fn fill(args: &FillArgs) -> Result<bool, Failure> {
    let load = &args.load;
    let (keys, values) = (keys(load)?, Values::new(load.value_size, load.seed));
    let next = Rc::new(Cell::new(0));
    let make = |slot| Fill {
        keys: keys.clone(),
        values: values.clone(),
        random: slot_random(load.seed, slot),
        keys_per_txn: args.keys_per_txn,
        next: Rc::clone(&next),
    };
    let whole = load.keys.div_ceil(args.keys_per_txn);
    let plan = load.plan(Some(whole));
    if plan.limit != driver::Limit::Operations(whole) {
        return Err(Failure::Usage(
            "load writes every key once: give --keys, no --total or --seconds".to_owned(),
        ));
    }
    measure("load", load, &plan, make, || BTreeMap::from([("keys", next.get() as i64)])).await
}

async fn start_time(args: &StartTimeArgs) -> Result<bool, Failure> {
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

async fn kill_rounds(args: KillRoundsArgs) -> Result<bool, Failure> {
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

async fn verify(args: VerifyArgs) -> Result<bool, Failure> {
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
