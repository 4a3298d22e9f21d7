//! A store on a memory disk, its log written by a task.

#![allow(dead_code, reason = "each test program uses its own part")]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use engine::disk::MemoryDisk;
use engine::log::LogOptions;
use engine::{Engine, Options};
use raft::request::{
    Compare, CompareResult, CompareTarget, DeleteRange, KeyValue, LeaseGrant, Member, Put, Range, Txn, TxnOp,
};
use raft::{Committer, Store, StoreConfig, WatchAnswer, WatchStream};
use tokio::sync::Notify;

pub(crate) fn config() -> StoreConfig {
    let member = Member { id: 7, name: "m".to_owned(), ..Member::default() };
    StoreConfig {
        cluster_id: 9,
        member,
        heartbeat_ms: 100,
        election_ms: 1000,
        max_txn_ops: 128,
        max_request_bytes: 1_572_864,
        quota_bytes: 0,
        progress_interval_ms: 600_000,
        seed: 1,
    }
}

/// Small segments and memtables, so that short tests seal, flush and merge.
pub(crate) fn small() -> Options {
    let log = LogOptions { segment_bytes: 64 * 1024, tail_bytes: 32 * 1024, ..LogOptions::default() };
    Options {
        log,
        memtable_bytes_max: 16 * 1024,
        log_bytes_max_since_flush: 128 * 1024,
        ..Options::default()
    }
}

pub(crate) struct Server {
    pub(crate) store: Store,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Server {
    pub(crate) async fn open(disk: &MemoryDisk) -> Server {
        Server::open_with(disk, small(), config()).await
    }

    pub(crate) async fn open_with(disk: &MemoryDisk, options: Options, config: StoreConfig) -> Server {
        let opened = Engine::open(Arc::new(disk.clone()), options).expect("the engine opens");
        let work = Arc::new(Notify::new());
        let wake = Arc::clone(&work);
        let (sender, mut committers) = tokio::sync::mpsc::unbounded_channel::<Arc<Committer>>();
        let mut tasks = Vec::new();
        tasks.push(tokio::spawn(async move {
            let committer = committers.recv().await.expect("a committer");
            loop {
                while committer.step().expect("the disk works") {}
                work.notified().await;
            }
        }));
        let store = Store::open(opened, config, Arc::new(move || wake.notify_one()), move |committer| {
            sender.send(committer).expect("a task waits for it");
        })
        .await
        .expect("the store opens");
        let maintained = store.clone();
        tasks.push(tokio::spawn(async move {
            loop {
                maintained.maintain_step(64 * 1024).expect("the disk works");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }));
        Server { store, tasks }
    }

    /// Ends the process at once: nothing more is written.
    pub(crate) async fn kill(self) {
        for task in &self.tasks {
            task.abort();
        }
        self.store.shutdown().await;
    }

    pub(crate) async fn put(&self, key: &str, value: &str) -> i64 {
        self.store.put(put(key, value)).await.expect("put").revision
    }

    pub(crate) async fn delete(&self, key: &str) -> i64 {
        self.store.delete_range(delete(key, "")).await.expect("delete").revision
    }

    pub(crate) async fn get(&self, key: &str, revision: i64) -> Option<KeyValue> {
        let request = Range { key: bytes(key), revision, ..Range::default() };
        self.store.range(request).await.expect("range").answer.kvs.pop()
    }

    pub(crate) async fn grant(&self, id: i64, ttl_seconds: i64) -> i64 {
        self.store.lease_grant(LeaseGrant { id, ttl_seconds }).await.expect("grant").answer.id
    }
}

pub(crate) fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

pub(crate) fn put(key: &str, value: &str) -> Put {
    Put { key: bytes(key), value: bytes(value), ..Put::default() }
}

pub(crate) fn delete(key: &str, end: &str) -> DeleteRange {
    DeleteRange { key: bytes(key), range_end: bytes(end), prev_kv: false }
}

pub(crate) fn compare(key: &str, result: CompareResult, target: CompareTarget) -> Compare {
    Compare { key: bytes(key), range_end: Bytes::new(), result, target }
}

pub(crate) fn txn(compare: Vec<Compare>, success: Vec<TxnOp>, failure: Vec<TxnOp>) -> Txn {
    Txn { compare, success, failure }
}

/// The next answer of a stream; there must be one within a second.
pub(crate) async fn next(stream: &mut WatchStream) -> WatchAnswer {
    tokio::time::timeout(Duration::from_secs(1), stream.next())
        .await
        .expect("an answer within a second")
        .expect("history")
}

/// Asserts that a stream has nothing to say for a while.
pub(crate) async fn silent(stream: &mut WatchStream) {
    let answer = tokio::time::timeout(Duration::from_millis(300), stream.next()).await;
    assert!(answer.is_err(), "an answer nobody expected: {answer:?}");
}

/// The events of an answer as short text: `put key=value@revision` or `del key@revision`.
pub(crate) fn events(answer: &WatchAnswer) -> Vec<String> {
    let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
    let event = |event: &raft::Event| {
        let (key, revision) = (text(&event.kv.key), event.kv.mod_revision);
        if event.delete {
            format!("del {key}@{revision}")
        } else {
            format!("put {key}={}@{revision}", text(&event.kv.value))
        }
    };
    answer.events.iter().map(event).collect()
}
