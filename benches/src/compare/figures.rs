//! Figures: what is read from the JSON report of a load, in which unit, and which way is better.

use serde_json::Value;

/// Which way a figure is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Better {
    /// Less is better.
    Less,
    /// More is better.
    More,
    /// Neither: it is shown to judge the others by.
    Neither,
}

/// A figure of a case.
#[derive(Clone, Copy)]
pub(crate) struct Figure {
    /// Its name and unit.
    pub(crate) name: &'static str,
    /// Which way is better.
    pub(crate) better: Better,
    /// Whether its ratio is in the plot.
    pub(crate) plotted: bool,
    /// Reads it from a report.
    pub(crate) read: fn(&Value) -> Option<f64>,
}

fn at(report: &Value, pointer: &str) -> Option<f64> {
    report.pointer(pointer)?.as_f64()
}

const MIB: f64 = (1 << 20) as f64;

const fn figure(name: &'static str, better: Better, read: fn(&Value) -> Option<f64>) -> Figure {
    Figure { name, better, plotted: false, read }
}

const fn plotted(name: &'static str, better: Better, read: fn(&Value) -> Option<f64>) -> Figure {
    Figure { name, better, plotted: true, read }
}

const P50: Figure = figure("p50 ms", Better::Less, |report| Some(at(report, "/latency_us/p50")? / 1e3));
const P99: Figure = plotted("p99 ms", Better::Less, |report| Some(at(report, "/latency_us/p99")? / 1e3));
const RATE: Figure = plotted("ops/s", Better::More, |report| at(report, "/operations_per_second"));
const CPU: Figure =
    plotted("server CPU µs/op", Better::Less, |report| at(report, "/server/cpu_us_per_operation"));
const CLIENT_CPU: Figure =
    figure("client CPU µs/op", Better::Neither, |report| at(report, "/client_cpu_us_per_operation"));
const WRITTEN: Figure = figure("KiB sent to the disk/op", Better::Neither, |report| {
    Some(at(report, "/server/written_bytes")? / at(report, "/operations")? / 1024.0)
});
const RESIDENT: Figure =
    figure("RSS MiB after", Better::Less, |report| Some(at(report, "/server/resident_bytes_after")? / MIB));
/// What is below 1 MiB is 1: a ratio of two noises would say nothing.
const GROWTH: Figure = plotted("RSS MiB grown to the peak", Better::Less, |report| {
    let before = at(report, "/server/resident_bytes_before")?;
    Some(((at(report, "/server/resident_bytes_peak")? - before) / MIB).max(1.0))
});

/// A closed loop of writes.
pub(crate) const WRITES: &[Figure] = &[RATE, P50, P99, CPU, CLIENT_CPU, WRITTEN];
/// A closed loop of reads.
pub(crate) const READS: &[Figure] = &[RATE, P50, P99, CPU, CLIENT_CPU];
/// A load at a given rate.
pub(crate) const AT_RATE: &[Figure] = &[P50, P99, CPU, CLIENT_CPU];
/// One caller, one small answer.
pub(crate) const SMALL: &[Figure] =
    &[plotted("p50 ms", Better::Less, |report| Some(at(report, "/latency_us/p50")? / 1e3)), P99, CPU];
/// Big lists.
pub(crate) const LISTS: &[Figure] = &[
    plotted("MiB/s", Better::More, |report| at(report, "/received_mib_per_second")),
    plotted("server CPU ms/list", Better::Less, |report| {
        Some(at(report, "/server/cpu_us_per_operation")? / 1e3)
    }),
    GROWTH,
    RESIDENT,
];
/// Watch fan-out.
pub(crate) const FANOUT: &[Figure] = &[
    plotted("events per second of server CPU", Better::More, |report| {
        at(report, "/operations_per_server_cpu_second")
    }),
    figure("events/s", Better::More, |report| at(report, "/operations_per_second")),
    figure("put to event p50 ms", Better::Less, |report| Some(at(report, "/latency_us/p50")? / 1e3)),
    plotted("put to event p99 ms", Better::Less, |report| Some(at(report, "/latency_us/p99")? / 1e3)),
    figure("client CPU µs/event", Better::Neither, |report| at(report, "/client_cpu_us_per_operation")),
];
/// Progress requests.
pub(crate) const PROGRESS: &[Figure] = &[
    figure("answered after p50 ms", Better::Less, |report| {
        Some(at(report, "/progress/latency_us/p50")? / 1e3)
    }),
    plotted("answered after p99 ms", Better::Less, |report| {
        Some(at(report, "/progress/latency_us/p99")? / 1e3)
    }),
    figure("put to event p99 ms", Better::Less, |report| Some(at(report, "/latency_us/p99")? / 1e3)),
];
/// Many watchers.
pub(crate) const CROWD: &[Figure] = &[
    plotted("set-up s", Better::Less, |report| at(report, "/setup/seconds")),
    plotted("RSS KiB per watcher", Better::Less, |report| {
        let before = at(report, "/setup/resident_bytes_before")?;
        Some((at(report, "/setup/resident_bytes_after")? - before) / at(report, "/watchers")? / 1024.0)
    }),
    figure("put to event p99 ms", Better::Less, |report| Some(at(report, "/latency_us/p99")? / 1e3)),
];
/// Puts beside background work.
pub(crate) const BESIDE: &[Figure] = &[
    figure("put p99 ms, idle", Better::Less, |report| Some(at(report, "/idle/latency_us/p99")? / 1e3)),
    plotted("put p99 ms, beside", Better::Less, |report| Some(at(report, "/beside/latency_us/p99")? / 1e3)),
    figure("p99 beside / idle", Better::Less, |report| at(report, "/p99_ratio")),
    figure("p50 beside / idle", Better::Less, |report| at(report, "/p50_ratio")),
    figure("s per piece of background", Better::Less, |report| {
        let pieces = report.pointer("/piece_seconds")?.as_array()?;
        let sum: f64 = pieces.iter().filter_map(Value::as_f64).sum();
        (!pieces.is_empty()).then(|| sum / pieces.len() as f64)
    }),
];
/// A Kubernetes cluster.
pub(crate) const CLUSTER: &[Figure] = &[
    figure("writes/s", Better::Neither, |report| at(report, "/writes_per_second")),
    figure("write p50 ms", Better::Less, |report| Some(at(report, "/write_latency_us/p50")? / 1e3)),
    plotted("write p99 ms", Better::Less, |report| Some(at(report, "/write_latency_us/p99")? / 1e3)),
    plotted("put to event p99 ms", Better::Less, |report| Some(at(report, "/watch_latency_us/p99")? / 1e3)),
    plotted("progress p99 ms", Better::Less, |report| Some(at(report, "/progress_latency_us/p99")? / 1e3)),
    plotted("server CPU µs/call", Better::Less, |report| at(report, "/server/cpu_us_per_operation")),
    figure("disk bytes per user byte", Better::Neither, |report| {
        Some(at(report, "/device_written_bytes")? / at(report, "/user_bytes")?)
    }),
    RESIDENT,
];
/// A restart.
pub(crate) const RESTART: &[Figure] = &[
    plotted("ms to the first read", Better::Less, |report| at(report, "/start_ms/0")),
    figure("MiB on disk", Better::Less, |report| Some(at(report, "/data_bytes")? / MIB)),
    plotted("RSS MiB before", Better::Less, |report| Some(at(report, "/resident_bytes")? / MIB)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_in_their_units() {
        let report = serde_json::json!({
            "operations": 100, "operations_per_second": 50.0, "latency_us": {"p50": 2500.0, "p99": 9000.0},
            "client_cpu_us_per_operation": 7.0,
            "server": {"cpu_us_per_operation": 30.0, "written_bytes": 409_600,
                "resident_bytes_before": 1 << 20, "resident_bytes_peak": 5 << 20, "resident_bytes_after": 3 << 20},
        });
        let read = |figures: &[Figure]| -> Vec<f64> {
            figures.iter().map(|figure| (figure.read)(&report).expect(figure.name)).collect()
        };
        assert_eq!(read(WRITES), [50.0, 2.5, 9.0, 30.0, 7.0, 4.0]);
        assert_eq!(read(&[GROWTH, RESIDENT]), [4.0, 3.0]);
        assert_eq!((CPU.read)(&serde_json::json!({"server": null})), None, "no server was watched");
    }
}
