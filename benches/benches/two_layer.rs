//! One layer beside two: the engine, and the two-layer design on sled, doing the same on the same disk.
//!
//! A put is durable when it returns: the engine commits a frame, sled flushes. Reads find everything in memory or in the
//! system's cache.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use criterion::{Criterion, Throughput};
use engine::disk::DirDisk;
use engine::{Direction, KeyRange, Space};

#[path = "support/data.rs"]
mod data;
#[path = "support/node.rs"]
mod node;
#[path = "support/shuffled.rs"]
mod shuffled;
#[path = "support/two_layer.rs"]
mod two_layer;

use node::Node;
use shuffled::Shuffled;
use two_layer::TwoLayer;

/// Keys of both stores, each with two versions.
const KEYS: u64 = 20_000;
/// Puts made durable at once.
const BATCH: u64 = 64;
/// Rows of a page.
const ROWS: usize = 500;

fn puts(numbers: impl Iterator<Item = u64>) -> Vec<(Bytes, Bytes)> {
    numbers.map(|number| (data::key(number), data::value(number))).collect()
}

fn filled_node(directory: &Path) -> Node {
    std::fs::create_dir(directory).expect("a directory of our own");
    let mut node = Node::new(Arc::new(DirDisk::open(directory).expect("a directory")));
    for _ in 0..2 {
        for first in (0..KEYS).step_by(BATCH as usize) {
            node.put(&puts(first..(first + BATCH).min(KEYS)));
        }
    }
    node.flush();
    node
}

fn filled_two_layer(directory: &Path) -> TwoLayer {
    let mut store = TwoLayer::open(directory).expect("a directory");
    for _ in 0..2 {
        for number in 0..KEYS {
            store.put(&data::key(number), &data::value(number)).expect("the disk works");
        }
    }
    assert!(!store.delete(b"/registry/none").expect("the disk works"), "nothing to delete");
    store.sync().expect("the disk works");
    store
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let mut node = filled_node(&directory.path().join("engine"));
    let mut store = filled_two_layer(&directory.path().join("sled"));
    let (start, end) = (data::key(0), data::key(KEYS));
    let all = KeyRange { start: start.clone(), end: Some(end.clone()) };

    for (name, batch) in [("put, each durable", 1), ("put, 64 durable at once", BATCH)] {
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Elements(batch));
        let mut numbers = Shuffled::below(KEYS);
        group.bench_function("engine", |bencher| {
            bencher.iter(|| node.put(&puts((0..batch).map(|_| numbers.step()))));
        });
        group.bench_function("two layers", |bencher| {
            bencher.iter(|| {
                for (key, value) in puts((0..batch).map(|_| numbers.step())) {
                    store.put(&key, &value).expect("the disk works");
                }
                store.sync().expect("the disk works");
            });
        });
        group.finish();
    }

    let (engine, revision) = (&node.engine, node.engine.revision());
    let mut group = criterion.benchmark_group("get");
    let mut numbers = Shuffled::below(KEYS);
    group.bench_function("engine", |bencher| {
        bencher.iter(|| {
            let found = engine.get(Space::Kv, &data::key(numbers.step()), revision).expect("not compacted");
            let value = found.and_then(|meta| meta.value).expect("every key has one");
            black_box(engine.value(&value).expect("the disk works"))
        });
    });
    group.bench_function("two layers", |bencher| {
        bencher.iter(|| store.get(&data::key(numbers.step())).expect("the disk works").expect("every key"));
    });
    group.finish();

    let mut group = criterion.benchmark_group("list of 500 with values");
    group.throughput(Throughput::Elements(ROWS as u64));
    group.bench_function("engine", |bencher| {
        let (mut rows, mut values) = (Vec::new(), Vec::new());
        bencher.iter(|| {
            rows.clear();
            values.clear();
            let start = data::key(numbers.step() % (KEYS - ROWS as u64));
            let range = KeyRange { start, end: Some(end.clone()) };
            engine
                .scan(Space::Kv, &range, revision, Direction::Forward, ROWS, &mut rows)
                .expect("not compacted");
            let pointers: Vec<_> = rows
                .iter()
                .filter_map(|row| match &row.value {
                    Some(engine::Value::Pointer(pointer)) => Some(*pointer),
                    _ => None,
                })
                .collect();
            engine.log().values(&pointers, &mut values).expect("the disk works");
            assert_eq!(values.len(), ROWS);
        });
    });
    group.bench_function("two layers", |bencher| {
        bencher.iter(|| {
            let start = data::key(numbers.step() % (KEYS - ROWS as u64));
            let rows = store.list(&start, &end, ROWS).expect("the disk works");
            assert_eq!(rows.len(), ROWS);
        });
    });
    group.finish();

    let mut group = criterion.benchmark_group("count of 20,000");
    group.bench_function("engine", |bencher| {
        bencher.iter(|| assert_eq!(engine.count(Space::Kv, &all, revision).expect("not compacted"), KEYS));
    });
    group.bench_function("two layers", |bencher| {
        bencher.iter(|| assert_eq!(store.count(&start, &end).expect("the disk works"), KEYS));
    });
    group.finish();
    criterion.final_summary();
}
