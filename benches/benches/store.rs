//! The store without the network: evaluator, raft, committer on a memory disk, apply. One thread.

use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, Throughput};
use engine::disk::MemoryDisk;
use engine::{Engine, Options};
use futures_util::future::join_all;
use raft::request::{Member, Put, Range};
use raft::{Committer, Store, StoreConfig};
use tokio::sync::{Notify, mpsc};

#[path = "support/data.rs"]
mod data;
#[path = "support/shuffled.rs"]
mod shuffled;

use shuffled::Shuffled;

/// Keys of the store.
const KEYS: u64 = 10_000;

fn config() -> StoreConfig {
    StoreConfig {
        cluster_id: 1,
        member: Member { id: 1, name: "bench".to_owned(), ..Member::default() },
        heartbeat_ms: 100,
        election_ms: 1000,
        max_txn_ops: 128,
        max_request_bytes: 1_572_864,
        quota_bytes: 0,
        progress_interval_ms: 600_000,
        seed: 1,
    }
}

/// Opens a store; committer and maintenance are tasks beside it.
async fn open() -> Store {
    let opened = Engine::open(Arc::new(MemoryDisk::new()), Options::default()).expect("an empty disk");
    let work = Arc::new(Notify::new());
    let wake = Arc::clone(&work);
    let (sender, mut committers) = mpsc::unbounded_channel::<Arc<Committer>>();
    tokio::spawn(async move {
        let committer = committers.recv().await.expect("the store sends it");
        loop {
            while committer.step().expect("the disk works") {}
            work.notified().await;
        }
    });
    let store = Store::open(opened, config(), Arc::new(move || wake.notify_one()), move |committer| {
        sender.send(committer).expect("a task waits for it");
    })
    .await
    .expect("an empty store");
    let maintained = store.clone();
    tokio::spawn(async move {
        loop {
            maintained.maintain_step(1 << 20).expect("the disk works");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    store
}

fn put(number: u64) -> Put {
    Put { key: data::key(number), value: data::value(number), ..Put::default() }
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let store = runtime.block_on(open());
    for number in 0..KEYS {
        runtime.block_on(store.put(put(number))).expect("a put");
    }
    let mut numbers = Shuffled::below(KEYS);
    let mut group = criterion.benchmark_group("store");
    for callers in [1, 64] {
        group.throughput(Throughput::Elements(callers));
        group.bench_function(format!("put, {callers} callers"), |bencher| {
            bencher.iter(|| {
                let puts = join_all((0..callers).map(|_| store.put(put(numbers.step()))));
                for answer in runtime.block_on(puts) {
                    answer.expect("a put");
                }
            });
        });
    }
    group.throughput(Throughput::Elements(1));
    group.bench_function("get", |bencher| {
        bencher.iter(|| {
            let range = Range { key: data::key(numbers.step()), ..Range::default() };
            runtime.block_on(store.range(range)).expect("a read")
        });
    });
    group.bench_function("count of all", |bencher| {
        bencher.iter(|| {
            let all = bytes::Bytes::from_static(b"\0");
            let range = Range { key: all.clone(), range_end: all, count_only: true, ..Range::default() };
            runtime.block_on(store.range(range)).expect("a read")
        });
    });
    group.finish();
    criterion.final_summary();
}
