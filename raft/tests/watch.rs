//! Watches of one member.

mod harness;

use std::time::Duration;

use engine::disk::MemoryDisk;
use harness::{Server, bytes, events, next, put, silent, txn};
use raft::WatchCreate;
use raft::request::TxnOp;

fn watch(key: &str, end: &str, start_revision: i64) -> WatchCreate {
    WatchCreate { key: bytes(key), range_end: bytes(end), start_revision, ..WatchCreate::default() }
}

#[tokio::test(start_paused = true)]
async fn a_watch_gets_what_comes_and_nothing_else() {
    let server = Server::open(&MemoryDisk::new()).await;
    server.put("a", "before").await;
    let mut stream = server.store.watch_stream();
    stream.create(watch("a", "c", 0));
    let created = next(&mut stream).await;
    assert_eq!((created.watch_id, created.revision, created.created), (0, 2, true));
    server.put("a", "1").await;
    server.put("c", "outside").await;
    server.delete("a").await;
    assert_eq!(events(&next(&mut stream).await), ["put a=1@3"]);
    let last = next(&mut stream).await;
    assert_eq!((events(&last), last.revision), (vec!["del a@5".to_owned()], 5));
    silent(&mut stream).await;
}

#[tokio::test(start_paused = true)]
async fn a_transaction_is_one_answer_in_the_order_of_its_operations() {
    let server = Server::open(&MemoryDisk::new()).await;
    let mut stream = server.store.watch_stream();
    stream.create(watch("\0", "\0", 0));
    next(&mut stream).await;
    server
        .store
        .txn(txn(vec![], vec![TxnOp::Put(put("b", "1")), TxnOp::Put(put("a", "2"))], vec![]))
        .await
        .expect("txn");
    assert_eq!(events(&next(&mut stream).await), ["put b=1@2", "put a=2@2"]);
}

#[tokio::test(start_paused = true)]
async fn the_past_is_watched_from_any_kept_revision_also_after_a_restart() {
    let disk = MemoryDisk::new();
    let server = Server::open(&disk).await;
    for n in 0..3000 {
        server.put(&format!("k{}", n % 10), &format!("{n:0>100}")).await;
    }
    server.kill().await;
    let server = Server::open(&disk).await;
    for start in [2, 1000, 2999, 3001] {
        let mut stream = server.store.watch_stream();
        stream.create(watch("k3", "", start));
        assert!(next(&mut stream).await.created);
        let want: Vec<String> = (0..3000)
            .filter(|n| n % 10 == 3 && n + 2 >= start)
            .map(|n| format!("put k3={n:0>100}@{}", n + 2))
            .collect();
        let mut got = Vec::new();
        while got.len() < want.len() {
            got.extend(events(&next(&mut stream).await));
        }
        assert_eq!(got, want, "from {start}");
        silent(&mut stream).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_compacted_start_is_told_after_the_creation() {
    let server = Server::open(&MemoryDisk::new()).await;
    for n in 0..5 {
        server.put("a", &n.to_string()).await;
    }
    server.store.compact(4).await.expect("compact");
    let mut stream = server.store.watch_stream();
    stream.create(watch("a", "", 3));
    let created = next(&mut stream).await;
    assert!(created.created && !created.canceled);
    let canceled = next(&mut stream).await;
    assert_eq!((canceled.canceled, canceled.compact_revision, canceled.revision), (true, 4, 0));
    stream.create(watch("a", "", 4));
    assert!(next(&mut stream).await.created);
    assert_eq!(
        events(&next(&mut stream).await),
        ["put a=2@4"],
        "the compaction revision itself can be watched"
    );
}

#[tokio::test(start_paused = true)]
async fn a_deletion_at_the_compaction_revision_is_still_delivered() {
    // etcd#18089, etcd#19179.
    let disk = MemoryDisk::new();
    let server = Server::open(&disk).await;
    for value in ["1", "2", "3"] {
        server.put("a", value).await;
    }
    let deleted = server.delete("a").await;
    server.put("a", "4").await;
    server.store.compact(deleted).await.expect("compact");
    server.kill().await;
    let server = Server::open(&disk).await;
    let mut stream = server.store.watch_stream();
    stream.create(watch("a", "", deleted));
    next(&mut stream).await;
    let mut got = Vec::new();
    while got.len() < 2 {
        got.extend(events(&next(&mut stream).await));
    }
    assert_eq!(got, ["del a@5", "put a=4@6"]);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_watched_is_refused_with_id_minus_one() {
    let server = Server::open(&MemoryDisk::new()).await;
    server.put("a", "1").await;
    let mut stream = server.store.watch_stream();
    stream.create(WatchCreate { watch_id: 5, ..watch("a", "", 0) });
    assert_eq!(next(&mut stream).await.watch_id, 5);
    for (create, reason) in [
        (watch("b", "a", 0), "mvcc: watcher range is empty"),
        (watch("a", "", -1), "etcdserver: mvcc: required revision has been compacted"),
        (
            WatchCreate { watch_id: 5, ..watch("a", "", 0) },
            "mvcc: duplicate watch ID provided on the WatchStream",
        ),
    ] {
        stream.create(create);
        let answer = next(&mut stream).await;
        assert_eq!((answer.watch_id, answer.created, answer.canceled), (-1, true, true), "{reason}");
        assert_eq!(answer.cancel_reason, reason);
    }
    stream.cancel(5);
    assert!(next(&mut stream).await.canceled);
    stream.cancel(5);
    silent(&mut stream).await;
}

#[tokio::test(start_paused = true)]
async fn progress_is_promised_only_for_what_was_delivered() {
    let server = Server::open(&MemoryDisk::new()).await;
    server.put("a", "1").await;
    let mut stream = server.store.watch_stream();
    stream.progress();
    silent(&mut stream).await;
    stream.create(watch("quiet", "", 0));
    assert!(next(&mut stream).await.created);
    stream.progress();
    let progress = next(&mut stream).await;
    assert_eq!(
        (progress.watch_id, progress.revision),
        (-1, 2),
        "a fresh watch of a quiet key is answered at once"
    );
    stream.create(watch("a", "", 1));
    assert!(next(&mut stream).await.created);
    for n in 0..50 {
        server.put("a", &n.to_string()).await;
        stream.progress();
    }
    let mut promised = 2;
    let mut delivered = 0;
    while promised < 52 {
        let answer = next(&mut stream).await;
        if answer.watch_id == -1 {
            promised = answer.revision;
            assert_eq!(delivered, promised, "everything up to the promise was delivered");
        } else {
            for event in &answer.events {
                assert!(event.kv.mod_revision > promised || delivered == 0, "an event at or below a promise");
                delivered = event.kv.mod_revision;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_in_the_future_waits_for_its_revision() {
    let server = Server::open(&MemoryDisk::new()).await;
    let mut stream = server.store.watch_stream();
    stream.create(watch("a", "", 4));
    assert!(next(&mut stream).await.created);
    stream.progress();
    server.put("a", "1").await;
    server.put("a", "2").await;
    silent(&mut stream).await;
    server.put("a", "3").await;
    assert_eq!(events(&next(&mut stream).await), ["put a=3@4"]);
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_loses_nothing() {
    let server = Server::open(&MemoryDisk::new()).await;
    let mut stream = server.store.watch_stream();
    stream.create(watch("a", "", 0));
    assert!(next(&mut stream).await.created);
    let value = "v".repeat(100_000);
    for _ in 0..200 {
        server.put("a", &value).await;
    }
    assert!(server.store.metrics().slow_watchers > 0, "20 MB do not wait in memory");
    let mut seen = 1;
    while seen < 201 {
        for event in next(&mut stream).await.events {
            assert_eq!(event.kv.mod_revision, seen + 1, "in order, each once");
            seen += 1;
        }
    }
    server.put("a", "live").await;
    assert_eq!(events(&next(&mut stream).await), ["put a=live@202"]);
    assert_eq!(server.store.metrics().slow_watchers, 0);
}

#[tokio::test(start_paused = true)]
async fn an_idle_watch_is_told_its_progress_if_it_asked() {
    let disk = MemoryDisk::new();
    let config = raft::StoreConfig { progress_interval_ms: 100, ..harness::config() };
    let server = Server::open_with(&disk, harness::small(), config).await;
    let mut stream = server.store.watch_stream();
    stream.create(WatchCreate { progress_notify: true, ..watch("a", "", 0) });
    assert!(next(&mut stream).await.created);
    server.put("other", "1").await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    let note = next(&mut stream).await;
    assert_eq!((note.watch_id, note.revision, note.events.len()), (0, 2, 0));
}

#[tokio::test(start_paused = true)]
async fn previous_pairs_and_filters() {
    let server = Server::open(&MemoryDisk::new()).await;
    let mut stream = server.store.watch_stream();
    stream.create(WatchCreate { prev_kv: true, ..watch("a", "", 0) });
    stream.create(WatchCreate { no_put: true, ..watch("a", "", 0) });
    next(&mut stream).await;
    next(&mut stream).await;
    server.put("a", "1").await;
    server.put("a", "2").await;
    server.delete("a").await;
    let mut previous = Vec::new();
    let mut deletions = 0;
    while previous.len() < 3 || deletions < 1 {
        let answer = next(&mut stream).await;
        for event in &answer.events {
            if answer.watch_id == 0 {
                previous.push(event.prev_kv.as_ref().map(|pair| pair.value.clone()));
            } else {
                assert!(event.delete, "puts are filtered");
                deletions += 1;
            }
        }
    }
    assert_eq!(previous, [None, Some(bytes("1")), Some(bytes("2"))]);
}
