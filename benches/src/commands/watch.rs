//! `watch`: options made into a fan-out run.

use std::time::Duration;

use super::print;
use crate::cli::WatchArgs;
use crate::client::Failure;
use crate::load::driver::{Limit, Plan};
use crate::watch::crowd::Shape;
use crate::watch::fanout::{self, Options};
use crate::watch::report::Report;

/// Events still missing after this time without any are lost.
const LOST_AFTER: Duration = Duration::from_secs(10);

/// The prefixes watched: the one given, or numbered ones below it.
fn prefixes(prefix: &str, count: u32) -> Vec<String> {
    if count == 1 {
        return vec![prefix.to_owned()];
    }
    (0..count).map(|number| format!("{prefix}{number:05}/")).collect()
}

pub(super) async fn watch(args: &WatchArgs) -> Result<bool, Failure> {
    let report = fanout::run(&Options {
        shape: Shape {
            endpoint: args.endpoint.clone(),
            connections: args.connections.into(),
            streams: args.streams.into(),
            watchers: args.watchers as usize,
            prefixes: prefixes(&args.prefix, args.prefixes),
            prev_kv: args.prev_kv,
        },
        writer: Plan {
            endpoint: args.endpoint.clone(),
            connections: 1,
            calls: args.calls.into(),
            limit: Limit::Time(Duration::from_secs_f64(args.seconds)),
            rate: Some(args.rate),
        },
        progress: args.progress,
        key_bytes: args.key_size,
        value_bytes: args.value_size,
        keys: args.keys,
        seed: args.seed,
        lost_after: LOST_AFTER,
        server_pid: args.server_pid,
    })
    .await?;
    print(&report, args.json, Report::text)?;
    Ok(report.errors == 0)
}
