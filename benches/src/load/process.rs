//! What a process has used, from `/proc`: CPU, memory, bytes written; and a [`Meter`] of client and server over a run.
//!
//! CPU is the sum over threads of `schedstat` (nanoseconds on a core): exact, but blind to threads that have ended.
//! Where the kernel keeps none it is `utime + stime` of `stat`, in ticks of 10 ms. Each sample says which it is.

use std::fs;

use serde::Serialize;

use crate::client::Failure;

/// Nanoseconds of one tick of `/proc/PID/stat`; USER_HZ is 100 on every Linux of today.
const TICK_NANOS: u64 = 10_000_000;

/// Where a CPU figure comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CpuSource {
    /// `/proc/PID/task/*/schedstat`.
    Schedstat,
    /// `/proc/PID/stat`.
    Stat,
}

/// What a process has used so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// Time on a core.
    pub(crate) cpu_nanos: u64,
    /// Where `cpu_nanos` comes from.
    pub(crate) cpu_source: CpuSource,
    /// Memory resident now.
    pub(crate) resident_bytes: u64,
    /// Most memory resident since [`reset_peak`], or since its start.
    pub(crate) peak_bytes: u64,
    /// Bytes sent towards the disk; `None` if the kernel does not say (another user's process).
    pub(crate) written_bytes: Option<u64>,
}

/// Samples the process `pid`, or this one for `self`.
///
/// # Errors
/// [`Failure::Usage`] if there is no such process.
pub(crate) fn sample(pid: &str) -> Result<Sample, Failure> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))
        .map_err(|error| Failure::Usage(format!("no process {pid}: {error}")))?;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    let (cpu_nanos, cpu_source) = match schedstat_nanos(pid) {
        Some(nanos) => (nanos, CpuSource::Schedstat),
        None => (stat_ticks(&stat).unwrap_or(0) * TICK_NANOS, CpuSource::Stat),
    };
    Ok(Sample {
        cpu_nanos,
        cpu_source,
        resident_bytes: field(&status, "VmRSS:").unwrap_or(0) * 1024,
        peak_bytes: field(&status, "VmHWM:").unwrap_or(0) * 1024,
        written_bytes: field(&io, "write_bytes:"),
    })
}

/// Makes the kernel forget the most memory that the process `pid` has had. Without the right to, the peak stays that
/// of its whole life, which is never too low.
fn reset_peak(pid: &str) {
    const PEAK_RESIDENT: &str = "5";
    let _ = fs::write(format!("/proc/{pid}/clear_refs"), PEAK_RESIDENT);
}

/// Samples of a process before and after.
pub(crate) type Span = (Sample, Sample);

/// What this process and the server's use from a moment on.
pub(crate) struct Meter {
    server: Option<(String, Sample)>,
    client: Sample,
}

/// What a [`Meter`] has seen.
pub(crate) struct Used {
    /// This process.
    pub(crate) client: Span,
    /// The server's, if its id was given.
    pub(crate) server: Option<Span>,
}

impl Meter {
    /// Starts to measure.
    ///
    /// # Errors
    /// As [`sample`].
    pub(crate) fn start(server_pid: Option<u32>) -> Result<Self, Failure> {
        let server = match server_pid.map(|pid| pid.to_string()) {
            Some(pid) => {
                reset_peak(&pid);
                let before = sample(&pid)?;
                Some((pid, before))
            }
            None => None,
        };
        Ok(Meter { server, client: sample("self")? })
    }

    /// What has been used up to now.
    ///
    /// # Errors
    /// As [`sample`].
    pub(crate) fn stop(&self) -> Result<Used, Failure> {
        let client = (self.client, sample("self")?);
        let server = match &self.server {
            Some((pid, before)) => Some((*before, sample(pid)?)),
            None => None,
        };
        Ok(Used { client, server })
    }
}

/// Bytes that all disks of the machine have been told to write since it started; `None` if the kernel does not say.
/// Partitions, loop and memory devices are not counted.
pub(crate) fn device_written_bytes() -> Option<u64> {
    const SECTOR_BYTES: u64 = 512;
    let mut sectors = 0;
    for device in fs::read_dir("/sys/block").ok()? {
        let device = device.ok()?;
        let name = device.file_name();
        if ["loop", "ram", "zram", "dm-", "md"].iter().any(|kind| name.to_string_lossy().starts_with(kind)) {
            continue;
        }
        let stat = fs::read_to_string(device.path().join("stat")).ok()?;
        sectors += stat.split_whitespace().nth(6)?.parse::<u64>().ok()?;
    }
    Some(sectors * SECTOR_BYTES)
}

/// The sum of the first number of every thread's `schedstat`; `None` if the kernel keeps none.
fn schedstat_nanos(pid: &str) -> Option<u64> {
    let mut sum = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        // A thread may end while we look.
        let Ok(text) = fs::read_to_string(task.ok()?.path().join("schedstat")) else { continue };
        sum += text.split_whitespace().next()?.parse::<u64>().ok()?;
    }
    (sum > 0).then_some(sum)
}

/// `utime + stime` of a `stat` line. The name in parentheses may hold anything, so counting starts after the last `)`.
fn stat_ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// The number behind `name` in a file of `name number` lines.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_with_a_hostile_name() {
        let stat = "42 (a) R 9 9) S 1 42 42 0 -1 4194304 100 0 0 0 17 5 0 0 20 0 8 0 100 1000 200";
        assert_eq!(stat_ticks(stat), Some(22));
    }

    #[test]
    fn fields_of_status_and_io() {
        assert_eq!(field("Name:\tx\nVmRSS:\t  1234 kB\n", "VmRSS:"), Some(1234));
        assert_eq!(field("cancelled_write_bytes: 5\nwrite_bytes: 4096\n", "write_bytes:"), Some(4096));
        assert_eq!(field("", "VmRSS:"), None);
    }

    #[test]
    fn this_process_has_used_something() {
        let sample = sample("self").expect("there is a /proc");
        assert!(sample.cpu_nanos > 0 && sample.resident_bytes > 0);
        assert!(super::sample("0").is_err(), "no process has id 0");
    }
}
