//! The figures of a fan-out run, as text for people or as JSON.

use std::collections::BTreeMap;

use serde::Serialize;

use super::crowd::{Crowd, Shape};
use crate::load::driver::Tally;
use crate::load::process::{Sample, Used};
use crate::load::report::{Latency, Server, cpu_us_per, mib};

/// The puts of the writer.
#[derive(Debug, Serialize)]
pub(crate) struct Puts {
    /// Acknowledged.
    pub(crate) operations: u64,
    /// Acknowledged puts a second.
    pub(crate) operations_per_second: f64,
    /// From the intended start to the answer, in microseconds.
    pub(crate) latency_us: Latency,
}

/// Progress requests.
#[derive(Debug, Serialize)]
pub(crate) struct Progress {
    /// Answered.
    pub(crate) answered: u64,
    /// Asked once more because a second had gone by without an answer.
    pub(crate) asked_again: u64,
    /// From the request to its answer, in microseconds.
    pub(crate) latency_us: Latency,
}

/// Opening connections and streams, and having all watchers confirmed.
#[derive(Debug, Serialize)]
pub(crate) struct Setup {
    /// How long it took.
    pub(crate) seconds: f64,
    /// The server's resident memory before the first watcher.
    pub(crate) resident_bytes_before: Option<u64>,
    /// The server's resident memory with all watchers and no event yet.
    pub(crate) resident_bytes_after: Option<u64>,
}

/// The figures of one run. An operation is an event received.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// The subcommand.
    pub(crate) load: &'static str,
    /// Watchers.
    pub(crate) watchers: usize,
    /// Connections.
    pub(crate) connections: usize,
    /// Streams over all connections.
    pub(crate) streams: usize,
    /// Different prefixes watched.
    pub(crate) prefixes: usize,
    /// Events received.
    pub(crate) operations: u64,
    /// Lost and surplus events, failed puts, canceled watchers.
    pub(crate) errors: u64,
    /// Why.
    pub(crate) error_kinds: BTreeMap<String, u64>,
    /// From the first put to the last event.
    pub(crate) seconds: f64,
    /// Events received a second.
    pub(crate) operations_per_second: f64,
    /// Events in one message of the server, on average.
    pub(crate) events_per_answer: f64,
    /// From sending a put to receiving its event, in microseconds, over all events of all watchers.
    pub(crate) latency_us: Latency,
    /// The writer.
    pub(crate) puts: Puts,
    /// Progress requests.
    pub(crate) progress: Progress,
    /// Setting up.
    pub(crate) setup: Setup,
    /// CPU of this client, by event.
    pub(crate) client_cpu_us_per_operation: f64,
    /// Events received for a second of the server's CPU, puts included.
    pub(crate) operations_per_server_cpu_second: Option<f64>,
    /// The server's side, if its process id was given.
    pub(crate) server: Option<Server>,
}

impl Report {
    /// Puts the figures together; `setup` is its nanoseconds and the server before.
    pub(crate) fn new(
        crowd: &Crowd,
        shape: &Shape,
        setup: (u64, Option<Sample>),
        puts: &Tally,
        seconds: f64,
        answers: u64,
        used: &Used,
    ) -> Self {
        let seen = &crowd.seen;
        let delivery = seen.delivery.borrow();
        let operations = delivery.len();
        let mut error_kinds = seen.errors.borrow().clone();
        for (reason, times) in &puts.errors {
            *error_kinds.entry(format!("put: {reason}")).or_default() += times;
        }
        let server = used.server.as_ref().map(|span| Server::of(span, operations));
        Report {
            load: "watch",
            watchers: shape.watchers,
            connections: shape.connections,
            streams: shape.streams_used(),
            prefixes: shape.prefixes.len(),
            operations,
            errors: error_kinds.values().sum(),
            error_kinds,
            seconds,
            operations_per_second: operations as f64 / seconds.max(f64::MIN_POSITIVE),
            events_per_answer: operations as f64 / answers.max(1) as f64,
            latency_us: Latency::of(&delivery),
            puts: Puts {
                operations: puts.latency.len(),
                operations_per_second: puts.latency.len() as f64
                    / puts.elapsed.as_secs_f64().max(f64::MIN_POSITIVE),
                latency_us: Latency::of(&puts.latency),
            },
            progress: Progress {
                answered: seen.progress.borrow().len(),
                asked_again: crowd.asked_again,
                latency_us: Latency::of(&seen.progress.borrow()),
            },
            setup: Setup {
                seconds: setup.0 as f64 / 1e9,
                resident_bytes_before: setup.1.map(|sample| sample.resident_bytes),
                resident_bytes_after: used.server.map(|(before, _)| before.resident_bytes),
            },
            client_cpu_us_per_operation: cpu_us_per(&used.client, operations),
            operations_per_server_cpu_second: server
                .as_ref()
                .map(|server| operations as f64 / server.cpu_seconds.max(f64::MIN_POSITIVE)),
            server,
        }
    }

    /// A few lines for people.
    pub(crate) fn text(&self) -> String {
        let mut lines = vec![
            format!(
                "{} {} watchers of {} prefixes, {} streams on {} connections: {} events, {} errors, {:.2} s, {:.0} events/s",
                self.load,
                self.watchers,
                self.prefixes,
                self.streams,
                self.connections,
                self.operations,
                self.errors,
                self.seconds,
                self.operations_per_second
            ),
            self.latency_us.text("put to event"),
            self.puts.latency_us.text("put"),
        ];
        if self.progress.answered > 0 {
            lines.push(self.progress.latency_us.text("progress"));
            lines.push(format!(
                "  progress     {} answered, {} asked again",
                self.progress.answered, self.progress.asked_again
            ));
        }
        lines.push(format!(
            "  writer       {} puts, {:.0} puts/s; {:.1} events a message",
            self.puts.operations, self.puts.operations_per_second, self.events_per_answer
        ));
        let resident =
            |bytes: Option<u64>| bytes.map_or("?".to_owned(), |bytes| format!("{:.1}", mib(bytes)));
        lines.push(format!(
            "  setup        {:.3} s, server RSS {} -> {} MiB",
            self.setup.seconds,
            resident(self.setup.resident_bytes_before),
            resident(self.setup.resident_bytes_after)
        ));
        lines.push(format!("  client       {:.2} us CPU/event", self.client_cpu_us_per_operation));
        lines.extend(self.server.iter().map(|server| server.text("event")));
        if let Some(rate) = self.operations_per_server_cpu_second {
            lines.push(format!("  server       {rate:.0} events for a second of its CPU"));
        }
        lines.extend(self.error_kinds.iter().map(|(kind, count)| format!("  error        {count} x {kind}")));
        lines.join("\n")
    }
}
