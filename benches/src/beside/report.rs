//! The figures of puts beside a background, as text for people or as JSON.

use std::collections::BTreeMap;

use serde::Serialize;

use super::background::Amount;
use super::spans::{BESIDE, BETWEEN, IDLE};
use crate::load::driver::{Plan, Tally};
use crate::load::process::Used;
use crate::load::report::{Kind, Server, cpu_us_per};

/// The figures of one run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// The subcommand.
    pub(crate) load: &'static str,
    /// The background.
    pub(crate) background: &'static str,
    /// Its keys or changes.
    pub(crate) amount: u64,
    /// Seconds of each piece of it.
    pub(crate) piece_seconds: Vec<f64>,
    /// Puts a second asked for.
    pub(crate) rate: Option<f64>,
    /// Puts that succeeded.
    pub(crate) operations: u64,
    /// Puts that failed.
    pub(crate) errors: u64,
    /// Why they failed.
    pub(crate) error_kinds: BTreeMap<String, u64>,
    /// Length of the run.
    pub(crate) seconds: f64,
    /// Puts of the idle window.
    pub(crate) idle: Option<Kind>,
    /// Puts meant to start while the background was at work.
    pub(crate) beside: Option<Kind>,
    /// Puts of neither.
    pub(crate) between: Option<Kind>,
    /// 99th percentile beside by idle.
    pub(crate) p99_ratio: Option<f64>,
    /// Median beside by idle.
    pub(crate) p50_ratio: Option<f64>,
    /// CPU of this client by put, background included.
    pub(crate) client_cpu_us_per_operation: f64,
    /// The server's side, background included.
    pub(crate) server: Option<Server>,
}

impl Report {
    /// Puts the figures together.
    pub(crate) fn new(
        amount: &Amount,
        plan: &Plan,
        tally: &Tally,
        piece_seconds: Vec<f64>,
        used: &Used,
    ) -> Self {
        let kind = |name| tally.by_kind.get(name).map(Kind::of);
        let (idle, beside) = (kind(IDLE), kind(BESIDE));
        let ratio = |of: fn(&Kind) -> f64| Some(of(beside.as_ref()?) / of(idle.as_ref()?));
        let operations = tally.latency.len();
        Report {
            load: "beside",
            background: amount.kind.name(),
            amount: amount.amount,
            piece_seconds,
            rate: plan.rate,
            operations,
            errors: tally.failed(),
            error_kinds: tally.errors.clone(),
            seconds: tally.elapsed.as_secs_f64(),
            p99_ratio: ratio(|kind| kind.latency_us.p99),
            p50_ratio: ratio(|kind| kind.latency_us.p50),
            idle,
            beside,
            between: kind(BETWEEN),
            client_cpu_us_per_operation: cpu_us_per(&used.client, operations),
            server: used.server.as_ref().map(|span| Server::of(span, operations)),
        }
    }

    /// A few lines for people.
    pub(crate) fn text(&self) -> String {
        let mut lines = vec![format!(
            "{} {} of {}: {} puts at {:.0}/s, {} errors, {:.2} s",
            self.load,
            self.background,
            self.amount,
            self.operations,
            self.rate.unwrap_or(0.0),
            self.errors,
            self.seconds
        )];
        for (name, kind) in [(IDLE, &self.idle), (BESIDE, &self.beside), (BETWEEN, &self.between)] {
            lines.extend(
                kind.iter().map(|kind| format!("{}  ({} puts)", kind.latency_us.text(name), kind.operations)),
            );
        }
        match (self.p50_ratio, self.p99_ratio) {
            (Some(p50), Some(p99)) => {
                lines.push(format!("  beside/idle  p50 {p50:.2}x  p99 {p99:.2}x"));
            }
            _ => lines.push("  no put was meant to start while the background was at work".to_owned()),
        }
        let pieces: Vec<String> = self.piece_seconds.iter().map(|seconds| format!("{seconds:.3}")).collect();
        lines.push(format!("  pieces       {} s", pieces.join(" ")));
        lines.push(format!("  client       {:.1} us CPU/put", self.client_cpu_us_per_operation));
        lines.extend(self.server.iter().map(|server| server.text("put")));
        lines.extend(self.error_kinds.iter().map(|(kind, count)| format!("  error        {count} x {kind}")));
        lines.join("\n")
    }
}
