//! How long the disk takes.
//!
//! etcd's two alerts of a slow disk look at these. Its "backend commit" writes out what the log already has;
//! here that is the flush of a memtable.

use std::time::Duration;

use prometheus::{Histogram, Registry, exponential_buckets};

use super::{histogram, register};

/// Histograms that the threads of the log and of upkeep observe.
#[derive(Debug)]
pub struct DiskMetrics {
    wal_fsync: Histogram,
    backend_commit: Histogram,
}

impl DiskMetrics {
    pub(super) fn new(registry: &Registry) -> Self {
        let metrics = DiskMetrics {
            wal_fsync: histogram(
                "etcd_disk_wal_fsync_duration_seconds",
                "The latency distributions of fsync called by WAL.",
                buckets(),
            ),
            backend_commit: histogram(
                "etcd_disk_backend_commit_duration_seconds",
                "The latency distributions of commit called by backend.",
                buckets(),
            ),
        };
        register(registry, &metrics.wal_fsync);
        register(registry, &metrics.backend_commit);
        metrics
    }

    /// A frame of the log was written and synced in `time`.
    pub fn synced(&self, time: Duration) {
        self.wal_fsync.observe(time.as_secs_f64());
    }

    /// A step that flushed a memtable took `time`.
    pub fn flushed(&self, time: Duration) {
        self.backend_commit.observe(time.as_secs_f64());
    }
}

/// etcd's buckets: 1 ms to 8.192 s, each twice the one before.
fn buckets() -> Vec<f64> {
    exponential_buckets(0.001, 2.0, 14).expect("a positive start and a factor above one")
}
