//! Instructions of the hot paths, counted by valgrind: the same on a busy machine and on an idle one.
//!
//! Needs valgrind and `gungraun-runner` of the version in Cargo.lock; so it is built with the feature `instructions` only.

#![allow(missing_docs, reason = "the macros make modules and functions of every bench")]

use std::hint::black_box;
use std::sync::Arc;

use bytes::Bytes;
use engine::batch::{Change, Decoder, Encoder, Header, Op};
use engine::disk::MemoryDisk;
use engine::{Direction, KeyRange, Space};
use gungraun::{library_benchmark, library_benchmark_group, main};

#[path = "support/data.rs"]
mod data;
#[path = "support/node.rs"]
mod node;

use node::Node;

/// Keys of the index that is read.
const KEYS: u64 = 5_000;
/// Puts of a batch.
const BATCH: u64 = 64;

fn ops() -> Vec<Op> {
    let op = |number| {
        let (key, value) = (data::key(number), data::value(number));
        let change = Change::Put { create: Some(5), version: 3, lease: 0, value, value_crc: 7, value_at: 0 };
        Op { key, old_lease: 0, change }
    };
    (0..BATCH).map(op).collect()
}

fn encoded(ops: &[Op]) -> Bytes {
    let mut encoder = Encoder::new(ops.len() * (data::KEY_BYTES + data::VALUE_BYTES + 64));
    for op in ops {
        encoder.txn(std::slice::from_ref(op));
    }
    encoder.finish(&Header::default())
}

fn batch() -> Bytes {
    encoded(&ops())
}

fn puts(first: u64) -> Vec<(Bytes, Bytes)> {
    (first..first + BATCH).map(|number| (data::key(number), data::value(number))).collect()
}

fn memtable() -> Node {
    let mut node = Node::new(Arc::new(MemoryDisk::new()));
    (0..KEYS).step_by(BATCH as usize).for_each(|first| node.put(&puts(first)));
    node
}

/// Everything in tables, and every block of them in the cache.
fn tables() -> Node {
    let node = memtable();
    node.flush();
    let (mut rows, revision) = (Vec::new(), node.engine.revision());
    node.engine
        .scan(Space::Kv, &KeyRange::all(), revision, Direction::Forward, usize::MAX, &mut rows)
        .expect("not compacted");
    node
}

fn node_and_puts() -> (Node, Vec<(Bytes, Bytes)>) {
    (memtable(), puts(KEYS / 2))
}

#[library_benchmark]
#[bench::puts_64(setup = ops)]
fn encode(ops: Vec<Op>) -> Bytes {
    black_box(encoded(&ops))
}

#[library_benchmark]
#[bench::puts_64(setup = batch)]
fn decode(batch: Bytes) -> usize {
    let (mut ops, mut items) = (Vec::new(), 0);
    let mut decoder = Decoder::new(batch).expect("a batch");
    while decoder.next_item(&mut ops).expect("a batch").is_some() {
        items += black_box(ops.len());
    }
    items
}

#[library_benchmark]
#[bench::puts_64(setup = node_and_puts)]
fn put((mut node, puts): (Node, Vec<(Bytes, Bytes)>)) -> Node {
    node.put(&puts);
    node
}

#[library_benchmark]
#[bench::memtable(setup = memtable)]
#[bench::tables(setup = tables)]
fn get(node: Node) -> Node {
    let key = data::key(KEYS / 3);
    black_box(node.engine.get(Space::Kv, &key, node.engine.revision()).expect("not compacted"));
    node
}

#[library_benchmark]
#[bench::memtable(setup = memtable)]
#[bench::tables(setup = tables)]
fn scan_500(node: Node) -> Node {
    let (range, mut rows) = (KeyRange { start: data::key(KEYS / 3), end: None }, Vec::new());
    let revision = node.engine.revision();
    node.engine.scan(Space::Kv, &range, revision, Direction::Forward, 500, &mut rows).expect("not compacted");
    assert_eq!(black_box(&rows).len(), 500);
    node
}

#[library_benchmark]
#[bench::memtable(setup = memtable)]
#[bench::tables(setup = tables)]
fn count(node: Node) -> Node {
    let range = KeyRange { start: data::key(KEYS / 3), end: Some(data::key(KEYS / 2)) };
    black_box(node.engine.count(Space::Kv, &range, node.engine.revision()).expect("not compacted"));
    node
}

library_benchmark_group!(name = codec; benchmarks = encode, decode);
library_benchmark_group!(name = engine_paths; benchmarks = put, get, scan_500, count);
main!(library_benchmark_groups = codec, engine_paths);
