//! Each subcommand put together from options, work, driver and report.
//!
//! Reading order: this file (which subcommand is where), [`loads`], [`watch`], [`beside`], [`kube`], [`compare`], [`servers`].

mod beside;
mod compare;
mod kube;
mod loads;
mod servers;
mod watch;

use std::collections::BTreeMap;

use crate::cli::{Command, LoadArgs};
use crate::client::Failure;
use crate::load::driver::{self, Plan};
use crate::load::process::Meter;
use crate::load::report::Report;
use crate::load::work::Work;

/// Runs a subcommand; whether all went well.
///
/// # Errors
/// [`Failure`] if it could not be run. Failed calls and findings are printed and give `false`.
pub(crate) async fn run(command: Command) -> Result<bool, Failure> {
    match command {
        Command::Put(args) => loads::put(&args).await,
        Command::TxnUpdate(args) => loads::txn_update(&args).await,
        Command::Get(args) => loads::get(&args).await,
        Command::List(args) => loads::list(&args).await,
        Command::Count(args) => loads::count(&args).await,
        Command::Load(args) => loads::fill(&args).await,
        Command::Page(args) => loads::page(&args).await,
        Command::RangeStream(args) => loads::range_stream(&args).await,
        Command::Mixed(args) => loads::mixed(&args).await,
        Command::Beside(args) => beside::beside(&args).await,
        Command::Watch(args) => watch::watch(&args).await,
        Command::Kubemix(args) => kube::kubemix(&args).await,
        Command::Compare(args) => compare::compare(&args).await,
        Command::StartTime(args) => servers::start_time(&args).await,
        Command::KillRounds(args) => servers::kill_rounds(args).await,
        Command::Verify(args) => servers::verify(args).await,
    }
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
    let meter = Meter::start(args.server_pid)?;
    let tally = driver::drive(plan, &connections, make).await?;
    let report = Report::new(name, plan, &tally, &meter.stop()?, extra());
    print(&report, args.json, Report::text)?;
    Ok(report.errors == 0)
}

/// Prints a report, as JSON or as text.
fn print<R: serde::Serialize>(report: &R, as_json: bool, text: impl Fn(&R) -> String) -> Result<(), Failure> {
    println!("{}", if as_json { json(report)? } else { text(report) });
    Ok(())
}

fn json(value: &impl serde::Serialize) -> Result<String, Failure> {
    serde_json::to_string(value)
        .map_err(|error| Failure::Transport(format!("a report does not encode: {error}")))
}
