//! The machine that a comparison runs on, and what others took of it meanwhile.

use std::fs;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::clock;

/// USER_HZ of every Linux of today.
const TICKS_PER_SECOND: f64 = 100.0;

/// What the machine is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// Cores.
    pub(crate) cores: usize,
    /// The processor's name.
    pub(crate) processor: String,
    /// The kernel's release.
    pub(crate) kernel: String,
    /// Memory in GiB.
    pub(crate) memory_gib: f64,
}

impl Machine {
    /// This machine.
    pub(crate) fn this() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let (cpus, memory) = (read("/proc/cpuinfo"), read("/proc/meminfo"));
        let name = cpus.lines().find(|line| line.starts_with("model name"));
        let total = memory.lines().find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next());
        Machine {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            processor: name
                .and_then(|line| line.split_once(':'))
                .map_or("unknown".to_owned(), |(_, name)| name.trim().to_owned()),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            memory_gib: total.and_then(|kib| kib.parse::<f64>().ok()).unwrap_or(0.0) / f64::from(1 << 20),
        }
    }
}

/// The load average of the last minute.
pub(crate) fn load_average() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|load| load.parse().ok()).unwrap_or(0.0)
}

/// Ticks in which some core was busy, from the first line of `/proc/stat`: all but idle and waiting for disks.
fn busy_ticks(stat: &str) -> Option<u64> {
    const IDLE: usize = 3;
    const IOWAIT: usize = 4;
    /// user, nice, system, idle, iowait, irq, softirq, steal; guests are part of user.
    const FIELDS: usize = 8;
    let fields = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().take(FIELDS);
    fields
        .enumerate()
        .filter(|(at, _)| *at != IDLE && *at != IOWAIT)
        .map(|(_, ticks)| ticks.parse::<u64>().ok())
        .sum()
}

/// Ticks of a process (`own`) or of its children that have ended, from its `stat`.
fn process_ticks(stat: &str, own: bool) -> Option<u64> {
    let skip = if own { 11 } else { 13 };
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(skip);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

/// Measures what others take of the machine from now on.
pub(crate) struct Others {
    begun: Instant,
    server: Option<u32>,
    before: Option<(u64, u64)>,
}

impl Others {
    /// Begins; the server's process and this one's children are not others.
    pub(crate) fn begin(server: Option<u32>) -> Self {
        Others { begun: clock::now(), server, before: Self::ticks(server) }
    }

    /// Busy ticks of the machine and of ours.
    fn ticks(server: Option<u32>) -> Option<(u64, u64)> {
        let read = |path: &str| fs::read_to_string(path).ok();
        let own = read("/proc/self/stat")?;
        let server = match server {
            Some(pid) => process_ticks(&read(&format!("/proc/{pid}/stat"))?, true)?,
            None => 0,
        };
        let ours = process_ticks(&own, true)? + process_ticks(&own, false)? + server;
        Some((busy_ticks(&read("/proc/stat")?)?, ours))
    }

    /// The cores that others have kept busy on average; `None` if the kernel does not say.
    pub(crate) fn cores(&self) -> Option<f64> {
        let (busy_before, ours_before) = self.before?;
        let (busy, ours) = Self::ticks(self.server)?;
        let others = (busy - busy_before).saturating_sub(ours.saturating_sub(ours_before));
        let seconds = clock::nanos_between(self.begun, clock::now()) as f64 / 1e9;
        Some(others as f64 / TICKS_PER_SECOND / seconds.max(f64::MIN_POSITIVE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_of_machine_and_process() {
        let stat = "cpu  10 1 20 1000 500 3 4 5 7 0\ncpu0 1 2 3 4\n";
        assert_eq!(busy_ticks(stat), Some(10 + 1 + 20 + 3 + 4 + 5), "without idle, waiting and guests");
        let stat = "42 (a) R 9) S 1 42 42 0 -1 4194304 100 0 0 0 17 5 2 3 20 0 8 0 100 1000 200";
        assert_eq!((process_ticks(stat, true), process_ticks(stat, false)), (Some(22), Some(5)));
    }

    #[test]
    fn this_machine_is_known() {
        let machine = Machine::this();
        assert!(machine.cores > 0 && machine.memory_gib > 0.0 && !machine.kernel.is_empty(), "{machine:?}");
        assert!(Others::begin(None).cores().is_some());
    }
}
