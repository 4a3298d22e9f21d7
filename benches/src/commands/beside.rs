//! `beside`: options made into a run of puts beside a background.

use std::time::Duration;

use super::print;
use crate::beside::background::Amount;
use crate::beside::report::Report;
use crate::beside::run::{self, Options};
use crate::cli::BesideArgs;
use crate::client::Failure;
use crate::load::driver::{Limit, Plan};
use crate::load::payload::{Keys, Values};

/// Puts a second when --rate is not given.
const RATE_DEFAULT: f64 = 2000.0;
/// Length of each window when --seconds is not given.
const WINDOW_DEFAULT: Duration = Duration::from_secs(10);
/// Calls in flight altogether when neither --connections nor --calls says more.
const SLOTS_MIN: usize = 64;

pub(super) async fn beside(args: &BesideArgs) -> Result<bool, Failure> {
    let load = &args.load;
    if load.total.is_some() {
        return Err(Failure::Usage(
            "beside runs through two windows: give --seconds of one, no --total".to_owned(),
        ));
    }
    let window = load.seconds.map_or(WINDOW_DEFAULT, Duration::from_secs_f64);
    let connections: usize = load.connections.into();
    let report = run::run(&Options {
        puts: Plan {
            endpoint: load.endpoint.clone(),
            connections,
            // Fewer would queue behind each other in this process and not in the server.
            calls: usize::from(load.calls).max(SLOTS_MIN.div_ceil(connections)),
            limit: Limit::Time(window),
            rate: Some(load.rate.unwrap_or(RATE_DEFAULT)),
        },
        window,
        amount: Amount {
            kind: args.background,
            amount: args.amount.unwrap_or(args.background.amount_default()),
            pieces: args.pieces,
            value_bytes: args.background_value_size,
            seed: load.seed,
        },
        keys: Keys::new(&load.prefix, load.key_size, load.keys)?,
        values: Values::new(load.value_size, load.seed),
        seed: load.seed,
        server_pid: load.server_pid,
    })
    .await?;
    print(&report, load.json, Report::text)?;
    Ok(report.errors == 0)
}
