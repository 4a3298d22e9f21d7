//! `keelson-load`: load and correctness from the outside, for any server that speaks etcd's API.
//!
//! It shares no code with the store, on purpose: what it says of Keelson it says of etcd by the same means.
//! One thread: a current-thread runtime, so that the client costs little on a machine that the server shares.
//!
//! Reading order: [`cli`], [`client`] (gRPC on h2), [`load`] (throughput and latency), [`watch`] (fan-out),
//! [`beside`] (puts beside background work), [`kube`] (a cluster), [`rounds`] (kill -9 and the checker), [`compare`] (etcd and Keelson in turn), [`commands`] (each subcommand put together).

mod beside;
mod cli;
mod client;
mod clock;
mod commands;
mod compare;
mod kube;
mod load;
mod rounds;
mod watch;

use std::process::ExitCode;

use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

use crate::client::Failure;

fn main() -> ExitCode {
    let command = cli::CommandLine::parse().command;
    match run(command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(failure) => {
            eprintln!("keelson-load: {failure}");
            ExitCode::from(if matches!(failure, Failure::Usage(_)) { 2 } else { 1 })
        }
    }
}

/// Runs a subcommand; a signal drops it, and with it a server that it has started.
fn run(command: cli::Command) -> Result<bool, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        tokio::select! {
            done = commands::run(command) => done,
            _ = terminate.recv() => Err(Failure::Transport("terminated".to_owned())),
            _ = interrupt.recv() => Err(Failure::Transport("interrupted".to_owned())),
        }
    })
}
