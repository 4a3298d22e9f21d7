//! The figures of one run, as text for people or as JSON.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::driver::{Plan, Tally};
use super::process::{CpuSource, Span, Used};

/// Latency percentiles in microseconds.
#[derive(Debug, Serialize)]
pub(crate) struct Latency {
    /// Half are at or below.
    pub(crate) p50: f64,
    /// Nine of ten.
    pub(crate) p90: f64,
    /// 99 of 100.
    pub(crate) p99: f64,
    /// 999 of 1000.
    pub(crate) p99_9: f64,
    /// The slowest.
    pub(crate) max: f64,
}

impl Latency {
    /// The percentiles of a histogram of nanoseconds; zeros if it is empty.
    pub(crate) fn of(histogram: &Histogram<u64>) -> Self {
        let micros = |nanos: u64| nanos as f64 / 1000.0;
        let at = |quantile| micros(histogram.value_at_quantile(quantile));
        Latency { p50: at(0.5), p90: at(0.9), p99: at(0.99), p99_9: at(0.999), max: micros(histogram.max()) }
    }

    /// A line for people, in milliseconds.
    pub(crate) fn text(&self, name: &str) -> String {
        format!(
            "  {:<12} ms p50 {:.3}  p90 {:.3}  p99 {:.3}  p99.9 {:.3}  max {:.3}",
            name,
            self.p50 / 1e3,
            self.p90 / 1e3,
            self.p99 / 1e3,
            self.p99_9 / 1e3,
            self.max / 1e3
        )
    }
}

/// What the server used during the run.
#[derive(Debug, Serialize)]
pub(crate) struct Server {
    /// CPU of all its threads, by operation.
    pub(crate) cpu_us_per_operation: f64,
    /// CPU of all its threads.
    pub(crate) cpu_seconds: f64,
    /// Where these figures come from.
    pub(crate) cpu_source: CpuSource,
    /// Resident memory before.
    pub(crate) resident_bytes_before: u64,
    /// Resident memory after.
    pub(crate) resident_bytes_after: u64,
    /// Most resident memory in between.
    pub(crate) resident_bytes_peak: u64,
    /// Bytes sent towards the disk.
    pub(crate) written_bytes: Option<u64>,
}

/// CPU of a span in nanoseconds.
fn cpu_nanos((before, after): &Span) -> u64 {
    after.cpu_nanos.saturating_sub(before.cpu_nanos)
}

/// CPU of a span in microseconds by operation.
pub(crate) fn cpu_us_per(span: &Span, operations: u64) -> f64 {
    cpu_nanos(span) as f64 / 1000.0 / operations.max(1) as f64
}

/// Bytes as MiB.
pub(crate) fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

impl Server {
    /// What a span of the server means for `operations`.
    pub(crate) fn of(span: &Span, operations: u64) -> Self {
        let (before, after) = span;
        Server {
            cpu_us_per_operation: cpu_us_per(span, operations),
            cpu_seconds: cpu_nanos(span) as f64 / 1e9,
            cpu_source: after.cpu_source,
            resident_bytes_before: before.resident_bytes,
            resident_bytes_after: after.resident_bytes,
            resident_bytes_peak: after.peak_bytes.max(before.resident_bytes),
            written_bytes: after
                .written_bytes
                .zip(before.written_bytes)
                .map(|(after, before)| after - before),
        }
    }

    /// A line for people; `noun` is what one operation is.
    pub(crate) fn text(&self, noun: &str) -> String {
        format!(
            "  server       {:.2} us CPU/{noun} ({}), RSS {:.1} -> {:.1} MiB, peak {:.1}, written {}",
            self.cpu_us_per_operation,
            match self.cpu_source {
                CpuSource::Schedstat => "schedstat",
                CpuSource::Stat => "stat ticks",
            },
            mib(self.resident_bytes_before),
            mib(self.resident_bytes_after),
            mib(self.resident_bytes_peak),
            self.written_bytes.map_or("unknown".to_owned(), |bytes| format!("{:.1} MiB", mib(bytes))),
        )
    }
}

/// The operations of one kind.
#[derive(Debug, Serialize)]
pub(crate) struct Kind {
    /// Operations that succeeded.
    pub(crate) operations: u64,
    /// Latency percentiles in microseconds.
    pub(crate) latency_us: Latency,
}

/// The figures of one run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// The subcommand.
    pub(crate) load: &'static str,
    /// Connections.
    pub(crate) connections: usize,
    /// Calls in flight on each.
    pub(crate) calls: usize,
    /// Operations per second asked for, in an open loop.
    pub(crate) rate: Option<f64>,
    /// Operations that succeeded.
    pub(crate) operations: u64,
    /// Operations that failed.
    pub(crate) errors: u64,
    /// Why they failed.
    pub(crate) error_kinds: BTreeMap<String, u64>,
    /// Length of the run.
    pub(crate) seconds: f64,
    /// Succeeded operations per second.
    pub(crate) operations_per_second: f64,
    /// Latency percentiles in microseconds.
    pub(crate) latency_us: Latency,
    /// The same by kind, of loads that tell kinds apart.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) kinds: BTreeMap<&'static str, Kind>,
    /// Bytes of all answers.
    pub(crate) received_bytes: u64,
    /// MiB of answers a second.
    pub(crate) received_mib_per_second: f64,
    /// CPU of this client, by operation.
    pub(crate) client_cpu_us_per_operation: f64,
    /// The server's side, if its process id was given.
    pub(crate) server: Option<Server>,
    /// What only this subcommand counts.
    #[serde(flatten)]
    pub(crate) extra: BTreeMap<&'static str, i64>,
}

impl Kind {
    /// The operations whose latencies in nanoseconds are these.
    pub(crate) fn of(latency: &Histogram<u64>) -> Self {
        Kind { operations: latency.len(), latency_us: Latency::of(latency) }
    }
}

impl Report {
    /// Puts the figures together.
    pub(crate) fn new(
        load: &'static str,
        plan: &Plan,
        tally: &Tally,
        used: &Used,
        extra: BTreeMap<&'static str, i64>,
    ) -> Self {
        let operations = tally.latency.len();
        let seconds = tally.elapsed.as_secs_f64();
        Report {
            load,
            connections: plan.connections,
            calls: plan.calls,
            rate: plan.rate,
            operations,
            errors: tally.failed(),
            error_kinds: tally.errors.clone(),
            seconds,
            operations_per_second: operations as f64 / seconds.max(f64::MIN_POSITIVE),
            latency_us: Latency::of(&tally.latency),
            kinds: tally.by_kind.iter().map(|(kind, latency)| (*kind, Kind::of(latency))).collect(),
            received_bytes: tally.received_bytes,
            received_mib_per_second: mib(tally.received_bytes) / seconds.max(f64::MIN_POSITIVE),
            client_cpu_us_per_operation: cpu_us_per(&used.client, operations),
            server: used.server.as_ref().map(|span| Server::of(span, operations)),
            extra,
        }
    }

    /// A few lines for people.
    pub(crate) fn text(&self) -> String {
        let mut lines = vec![format!(
            "{} {}x{}: {} ops, {} errors, {:.2} s, {:.0} ops/s",
            self.load,
            self.connections,
            self.calls,
            self.operations,
            self.errors,
            self.seconds,
            self.operations_per_second
        )];
        lines.push(self.latency_us.text("latency"));
        for (name, kind) in &self.kinds {
            lines.push(format!("{}  ({} ops)", kind.latency_us.text(name), kind.operations));
        }
        lines.push(format!(
            "  client       {:.1} us CPU/op, {:.1} MiB received, {:.1} MiB/s",
            self.client_cpu_us_per_operation,
            mib(self.received_bytes),
            self.received_mib_per_second
        ));
        lines.extend(self.server.iter().map(|server| server.text("op")));
        lines.extend(self.extra.iter().map(|(name, value)| format!("  {name:<12} {value}")));
        lines.extend(self.error_kinds.iter().map(|(kind, count)| format!("  error        {count} x {kind}")));
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_a_known_distribution() {
        let mut histogram = Histogram::new_with_bounds(1_000, 120_000_000_000, 3).expect("bounds");
        for micros in 1..=1000_u64 {
            histogram.record(micros * 1000).expect("in bounds");
        }
        let latency = Latency::of(&histogram);
        for (got, want, name) in [
            (latency.p50, 500.0, "p50"),
            (latency.p90, 900.0, "p90"),
            (latency.p99, 990.0, "p99"),
            (latency.p99_9, 999.0, "p99.9"),
            (latency.max, 1000.0, "max"),
        ] {
            assert!((got - want).abs() <= want * 0.002, "{name}: {got}, three digits of {want} expected");
        }
    }

    #[test]
    fn no_operation_has_no_latency() {
        let histogram = Histogram::new_with_bounds(1_000, 120_000_000_000, 3).expect("bounds");
        let latency = Latency::of(&histogram);
        assert_eq!((latency.p50, latency.max), (0.0, 0.0));
    }
}
