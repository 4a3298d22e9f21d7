//! The figures of a cluster's run, as text for people or as JSON.

use std::collections::BTreeMap;

use serde::Serialize;

use super::run::Options;
use super::tally::Tally;
use crate::load::process::Used;
use crate::load::report::{Kind, Latency, Server, cpu_us_per, mib};
use crate::watch::crowd::Crowd;

/// The figures of one run. An operation is a call of any kind.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// The subcommand.
    pub(crate) load: &'static str,
    /// Nodes.
    pub(crate) nodes: usize,
    /// Pods started a second.
    pub(crate) churn: f64,
    /// API servers.
    pub(crate) apiservers: usize,
    /// Seconds of filling the store.
    pub(crate) fill_seconds: f64,
    /// Length of the run.
    pub(crate) seconds: f64,
    /// Calls that succeeded.
    pub(crate) operations: u64,
    /// Calls that failed, events lost.
    pub(crate) errors: u64,
    /// Why.
    pub(crate) error_kinds: BTreeMap<String, u64>,
    /// Writes a second.
    pub(crate) writes_per_second: f64,
    /// All writes, in microseconds.
    pub(crate) write_latency_us: Latency,
    /// By kind of call.
    pub(crate) kinds: BTreeMap<&'static str, Kind>,
    /// Compares that failed.
    pub(crate) conflicts: u64,
    /// Events received by all watches.
    pub(crate) events: u64,
    /// From sending a put to receiving its event, in microseconds.
    pub(crate) watch_latency_us: Latency,
    /// From a progress request to its answer, in microseconds.
    pub(crate) progress_latency_us: Latency,
    /// Progress requests answered.
    pub(crate) progress_answered: u64,
    /// Progress requests asked again after a second without an answer.
    pub(crate) progress_asked_again: u64,
    /// Rows of all lists.
    pub(crate) listed_rows: u64,
    /// MiB of all lists by second of the run.
    pub(crate) listed_mib_per_second: f64,
    /// How late this tool sent what it meant to send, in microseconds.
    pub(crate) late_us: Latency,
    /// Bytes of keys and values written.
    pub(crate) user_bytes: u64,
    /// Bytes that all disks of the machine have written meanwhile.
    pub(crate) device_written_bytes: Option<u64>,
    /// CPU of this client, by call.
    pub(crate) client_cpu_us_per_operation: f64,
    /// The server's side, if its process id was given.
    pub(crate) server: Option<Server>,
}

impl Report {
    /// Puts the figures together.
    pub(crate) fn new(
        options: &Options,
        tally: &Tally,
        crowd: &Crowd,
        fill_nanos: u64,
        seconds: f64,
        device_written_bytes: Option<u64>,
        used: &Used,
    ) -> Self {
        let kinds: BTreeMap<_, _> =
            tally.kinds.borrow().iter().map(|(kind, latency)| (*kind, Kind::of(latency))).collect();
        let operations = kinds.values().map(|kind| kind.operations).sum();
        let mut error_kinds = tally.errors.borrow().clone();
        error_kinds.extend(crowd.seen.errors.borrow().clone());
        let (writes, delivery) = (tally.writes.borrow(), crowd.seen.delivery.borrow());
        let progress = crowd.seen.progress.borrow();
        Report {
            load: "kubemix",
            nodes: options.cluster.nodes,
            churn: options.cluster.churn,
            apiservers: options.cluster.apiservers,
            fill_seconds: fill_nanos as f64 / 1e9,
            seconds,
            operations,
            errors: error_kinds.values().sum(),
            error_kinds,
            writes_per_second: writes.len() as f64 / seconds,
            write_latency_us: Latency::of(&writes),
            kinds,
            conflicts: tally.conflicts.get(),
            events: delivery.len() + crowd.seen.unstamped.get(),
            watch_latency_us: Latency::of(&delivery),
            progress_latency_us: Latency::of(&progress),
            progress_answered: progress.len(),
            progress_asked_again: crowd.asked_again,
            listed_rows: tally.rows.get(),
            listed_mib_per_second: mib(tally.listed_bytes.get()) / seconds,
            late_us: Latency::of(&tally.late.borrow()),
            user_bytes: tally.user_bytes.get(),
            device_written_bytes,
            client_cpu_us_per_operation: cpu_us_per(&used.client, operations),
            server: used.server.as_ref().map(|span| Server::of(span, operations)),
        }
    }

    /// Lines for people.
    pub(crate) fn text(&self) -> String {
        let mut lines = vec![format!(
            "{} {} nodes, {} pods/s, {} API servers: {} calls, {} errors, {:.1} s, {:.0} writes/s, {} conflicts; filled in {:.1} s",
            self.load,
            self.nodes,
            self.churn,
            self.apiservers,
            self.operations,
            self.errors,
            self.seconds,
            self.writes_per_second,
            self.conflicts,
            self.fill_seconds
        )];
        for (name, kind) in &self.kinds {
            lines.push(format!("{}  ({} calls)", kind.latency_us.text(name), kind.operations));
        }
        lines.push(self.write_latency_us.text("all writes"));
        lines.push(format!("{}  ({} events)", self.watch_latency_us.text("put to event"), self.events));
        lines.push(format!(
            "{}  ({} answered, {} asked again)",
            self.progress_latency_us.text("progress"),
            self.progress_answered,
            self.progress_asked_again
        ));
        lines.push(self.late_us.text("tool late"));
        lines.push(format!(
            "  lists        {} rows, {:.1} MiB/s",
            self.listed_rows, self.listed_mib_per_second
        ));
        let device = self.device_written_bytes.map_or("unknown".to_owned(), |bytes| {
            format!("{:.1} MiB, {:.2} per byte", mib(bytes), bytes as f64 / self.user_bytes.max(1) as f64)
        });
        lines.push(format!("  user bytes   {:.1} MiB; disks wrote {device}", mib(self.user_bytes)));
        lines.push(format!("  client       {:.1} us CPU/call", self.client_cpu_us_per_operation));
        if let Some(server) = &self.server {
            lines.push(server.text("call"));
            lines
                .push(format!("  server       {:.1} % of a core", 100.0 * server.cpu_seconds / self.seconds));
        }
        lines.extend(self.error_kinds.iter().map(|(kind, count)| format!("  error        {count} x {kind}")));
        lines.join("\n")
    }
}
