//! The log: appending to memory, and committing a frame to a memory disk.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use criterion::{BatchSize, Criterion, Throughput};
use engine::disk::MemoryDisk;
use engine::log::{Kind, Log, LogOptions, Record};

/// Bytes of an entry with one put of 60 B and 1 KiB.
const ENTRY_BYTES: usize = 1140;
/// Entries of one measurement.
const ENTRIES: u64 = 512;

fn new_log() -> Log {
    let disk = MemoryDisk::new();
    Log::create(&disk).expect("an empty disk");
    let log = Log::open(Arc::new(disk), LogOptions::default(), None).expect("a new log");
    // The first frame makes the file and gives it room for all that follow here.
    log.append([record(1, &Bytes::from_static(b"first"))]).expect("memory only");
    log.commit_step().expect("the disk works");
    log
}

fn record(index: u64, body: &Bytes) -> Record {
    Record { group: 1, kind: Kind::Entry, term: 1, index, body: body.clone() }
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    let body = Bytes::from(vec![7; ENTRY_BYTES]);

    let mut group = criterion.benchmark_group("log");
    group.throughput(Throughput::Elements(ENTRIES));
    group.bench_function("append", |bencher| {
        bencher.iter_batched(
            new_log,
            |log| {
                for index in 2..=ENTRIES + 1 {
                    black_box(log.append([record(index, &body)]).expect("memory only"));
                }
                log
            },
            BatchSize::PerIteration,
        );
    });
    for frame in [1, 16, 64] {
        group.bench_function(format!("append and commit, {frame} entries a frame"), |bencher| {
            bencher.iter_batched(
                new_log,
                |log| {
                    for first in (2..=ENTRIES + 1).step_by(frame) {
                        let records = (first..first + frame as u64).map(|index| record(index, &body));
                        log.append(records).expect("memory only");
                        black_box(log.commit_step().expect("the disk works"));
                    }
                    log
                },
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
    criterion.final_summary();
}
