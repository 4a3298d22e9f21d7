//! The process as the kernel sees it: `/proc/self`, read on every scrape.

use std::str::FromStr;

use prometheus::core::{Collector, Desc};
use prometheus::proto::{MetricFamily, MetricType};

use super::family::{Table, descriptions, families};

const TABLE: &Table = &[
    ("process_cpu_seconds_total", MetricType::COUNTER, "Total user and system CPU time spent in seconds."),
    ("process_open_fds", MetricType::GAUGE, "Number of open file descriptors."),
    ("process_max_fds", MetricType::GAUGE, "Maximum number of open file descriptors."),
    ("process_virtual_memory_bytes", MetricType::GAUGE, "Virtual memory size in bytes."),
    (
        "process_virtual_memory_max_bytes",
        MetricType::GAUGE,
        "Maximum amount of virtual memory available in bytes.",
    ),
    ("process_resident_memory_bytes", MetricType::GAUGE, "Resident memory size in bytes."),
    (
        "process_start_time_seconds",
        MetricType::GAUGE,
        "Start time of the process since unix epoch in seconds.",
    ),
    (
        "process_network_receive_bytes_total",
        MetricType::COUNTER,
        "Number of bytes received by the process over the network.",
    ),
    (
        "process_network_transmit_bytes_total",
        MetricType::COUNTER,
        "Number of bytes sent by the process over the network.",
    ),
    ("os_fd_used", MetricType::GAUGE, "The number of used file descriptors."),
    ("os_fd_limit", MetricType::GAUGE, "The file descriptor limit."),
];

/// The kernel's unit of CPU time in `/proc`, on every Linux that there is.
const TICKS_PER_SECOND: f64 = 100.0;

/// Reads `/proc/self`.
#[derive(Clone)]
pub(super) struct ProcessCollector {
    descriptions: Vec<Desc>,
}

impl ProcessCollector {
    pub(super) fn new() -> Self {
        ProcessCollector { descriptions: descriptions(TABLE) }
    }
}

impl Collector for ProcessCollector {
    fn desc(&self) -> Vec<&Desc> {
        self.descriptions.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let process = Process {
            stat: read("/proc/self/stat"),
            limits: read("/proc/self/limits"),
            kernel: read("/proc/stat"),
            status: read("/proc/self/status"),
            network: read("/proc/self/net/netstat"),
        };
        let open = std::fs::read_dir("/proc/self/fd").map(|files| files.count());
        families(TABLE, |name| match name {
            // The directory that is being read is one of them.
            "process_open_fds" | "os_fd_used" => open.as_ref().ok().map(|&n| n.saturating_sub(1) as f64),
            "process_max_fds" | "os_fd_limit" => process.limit("Max open files"),
            "process_virtual_memory_max_bytes" => process.limit("Max address space"),
            "process_network_receive_bytes_total" => process.network_bytes("InOctets"),
            "process_network_transmit_bytes_total" => process.network_bytes("OutOctets"),
            "process_cpu_seconds_total" => process.cpu_seconds(),
            "process_virtual_memory_bytes" => process.memory_bytes("VmSize:"),
            "process_resident_memory_bytes" => process.memory_bytes("VmRSS:"),
            "process_start_time_seconds" => process.start_seconds(),
            _ => None,
        })
    }
}

/// The kernel's texts.
struct Process {
    stat: String,
    limits: String,
    kernel: String,
    status: String,
    network: String,
}

impl Process {
    /// Field `n` of `/proc/self/stat` as proc(5) numbers them; the name, which may hold anything, is cut off.
    fn stat<T: FromStr>(&self, n: usize) -> Option<T> {
        let (_, fields) = self.stat.rsplit_once(')')?;
        fields.split_whitespace().nth(n - 3)?.parse().ok()
    }

    fn cpu_seconds(&self) -> Option<f64> {
        Some((self.stat::<f64>(14)? + self.stat::<f64>(15)?) / TICKS_PER_SECOND)
    }

    fn start_seconds(&self) -> Option<f64> {
        let boot: f64 =
            self.kernel.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
        Some(boot + self.stat::<f64>(22)? / TICKS_PER_SECOND)
    }

    fn memory_bytes(&self, name: &str) -> Option<f64> {
        let line = self.status.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: f64 = line.split_whitespace().next()?.parse().ok()?;
        Some(kib * 1024.0)
    }

    /// A soft limit; what is not limited is as large as a number can be.
    fn limit(&self, name: &str) -> Option<f64> {
        let line = self.limits.lines().find_map(|line| line.strip_prefix(name))?;
        match line.split_whitespace().next()? {
            "unlimited" => Some(u64::MAX as f64),
            number => number.parse().ok(),
        }
    }

    /// A quantity of `IpExt`: one line has the names, the next the values. It is the network namespace's, as in etcd.
    fn network_bytes(&self, name: &str) -> Option<f64> {
        let mut lines = self.network.lines().filter_map(|line| line.strip_prefix("IpExt:"));
        let (names, values) = (lines.next()?, lines.next()?);
        let position = names.split_whitespace().position(|other| other == name)?;
        values.split_whitespace().nth(position)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_read() {
        let families = ProcessCollector::new().collect();
        assert_eq!(families.len(), TABLE.len(), "every family has a value");
        for family in families {
            let metric = &family.get_metric()[0];
            let value = metric.get_gauge().get_value() + metric.get_counter().get_value();
            let may_be_zero = family.name() == "process_cpu_seconds_total";
            assert!(value > 0.0 || may_be_zero, "{} is {value}", family.name());
        }
    }

    #[test]
    fn a_name_with_blanks_and_brackets_shifts_nothing() {
        let fields = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 150 50 13 14 15 16 17 18 1000 rest";
        let process = Process {
            stat: fields.to_owned(),
            limits: "Max open files            1024                 4096                 files\n\
                     Max address space         unlimited            unlimited            bytes\n"
                .to_owned(),
            kernel: "cpu 1\nbtime 100\n".to_owned(),
            status: "VmSize:\t   8 kB\nVmRSS:\t   4 kB\n".to_owned(),
            network: "TcpExt: A InOctets\nTcpExt: 1 2\nIpExt: A InOctets OutOctets\nIpExt: 1 5 6\n"
                .to_owned(),
        };
        assert_eq!(process.cpu_seconds(), Some(2.0));
        assert_eq!(process.start_seconds(), Some(110.0));
        assert_eq!(process.memory_bytes("VmRSS:"), Some(4096.0));
        assert_eq!(process.limit("Max open files"), Some(1024.0), "the soft limit");
        assert_eq!(process.limit("Max address space"), Some(18_446_744_073_709_551_615.0), "none");
        assert_eq!(
            (process.network_bytes("InOctets"), process.network_bytes("OutOctets")),
            (Some(5.0), Some(6.0))
        );
    }
}
