//! The index: writes into the memtable; point reads, scans and counts in a memtable and in tables, on a memory disk.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use criterion::{BatchSize, BenchmarkGroup, Criterion, Throughput, measurement::WallTime};
use engine::disk::MemoryDisk;
use engine::{Direction, KeyRange, Revision, Space, Value, Write};

#[path = "support/data.rs"]
mod data;
#[path = "support/node.rs"]
mod node;
#[path = "support/shuffled.rs"]
mod shuffled;

use node::Node;
use shuffled::Shuffled;

/// Keys of the index that is read.
const KEYS: u64 = 50_000;
/// Puts of a batch.
const BATCH: u64 = 64;
/// Rows of a scan.
const ROWS: usize = 500;

fn filled() -> Node {
    let mut node = Node::new(Arc::new(MemoryDisk::new()));
    for first in (0..KEYS).step_by(BATCH as usize) {
        let keys = first..(first + BATCH).min(KEYS);
        let puts: Vec<(Bytes, Bytes)> = keys.map(|number| (data::key(number), data::value(number))).collect();
        node.put(&puts);
    }
    node
}

fn writes(revision: i64, numbers: &mut Shuffled) -> Vec<Write> {
    let write = |main| Write {
        space: Space::Kv,
        key: data::key(numbers.step()),
        revision: Revision { main, sub: 0 },
        create: main,
        version: 1,
        lease: 0,
        weight: 1,
        value: Some(Value::Inline(Bytes::from_static(b"pointer"))),
    };
    (revision + 1..=revision + BATCH as i64).map(write).collect()
}

fn apply(group: &mut BenchmarkGroup<'_, WallTime>) {
    const BATCHES: u64 = 100;
    group.throughput(Throughput::Elements(BATCH * BATCHES));
    group.bench_function("memtable, apply batches of 64 puts", |bencher| {
        bencher.iter_batched(
            || {
                let mut numbers = Shuffled::below(KEYS);
                let batches = (0..BATCHES).map(|at| writes((at * BATCH) as i64, &mut numbers));
                (Node::new(Arc::new(MemoryDisk::new())), batches.collect::<Vec<_>>())
            },
            |(node, batches)| {
                for batch in &batches {
                    let last = batch.last().expect("64 writes").revision.main;
                    node.engine.apply(batch, last);
                }
                node
            },
            BatchSize::PerIteration,
        );
    });
}

fn reads(group: &mut BenchmarkGroup<'_, WallTime>, place: &str, node: &Node) {
    let (engine, revision) = (&node.engine, node.engine.revision());
    let mut numbers = Shuffled::below(KEYS);
    group.throughput(Throughput::Elements(1));
    group.bench_function(format!("{place}, get"), |bencher| {
        bencher.iter(|| engine.get(Space::Kv, &data::key(numbers.step()), revision).expect("not compacted"));
    });
    group.bench_function(format!("{place}, get of no key"), |bencher| {
        bencher.iter(|| {
            engine.get(Space::Kv, &data::key(KEYS + numbers.step()), revision).expect("not compacted")
        });
    });
    group.bench_function(format!("{place}, count of all"), |bencher| {
        bencher.iter(|| {
            let count = engine.count(Space::Kv, &KeyRange::all(), revision).expect("not compacted");
            assert_eq!(black_box(count), KEYS);
        });
    });
    group.throughput(Throughput::Elements(ROWS as u64));
    group.bench_function(format!("{place}, scan of 500 keys"), |bencher| {
        let mut rows = Vec::new();
        bencher.iter(|| {
            rows.clear();
            let start = data::key(numbers.step() % (KEYS - ROWS as u64));
            let range = KeyRange { start, end: None };
            engine
                .scan(Space::Kv, &range, revision, Direction::Forward, ROWS, &mut rows)
                .expect("not compacted");
            assert_eq!(rows.len(), ROWS);
        });
    });
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    let mut group = criterion.benchmark_group("index");
    apply(&mut group);
    let node = filled();
    reads(&mut group, "memtable", &node);
    node.flush();
    reads(&mut group, "tables", &node);
    group.finish();
    criterion.final_summary();
}
