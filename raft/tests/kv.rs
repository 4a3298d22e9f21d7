//! Keys, transactions and compaction of one member, as etcd 3.7.3 answers them.

mod harness;

use bytes::Bytes;
use engine::disk::MemoryDisk;
use harness::{Server, bytes, compare, delete, put, txn};
use raft::Error;
use raft::request::{
    CompareResult as Is, CompareTarget as Of, Put, Range, SortOrder, SortTarget, TxnOp, TxnOpAnswer,
};

#[tokio::test(start_paused = true)]
async fn a_key_counts_its_versions_from_its_creation() {
    let server = Server::open(&MemoryDisk::new()).await;
    assert_eq!(server.store.revision(), 1, "an empty store is at revision 1");
    assert_eq!(server.put("a", "1").await, 2);
    assert_eq!(server.put("a", "2").await, 3);
    let pair = server.get("a", 0).await.expect("there");
    assert_eq!(
        (pair.create_revision, pair.mod_revision, pair.version, &pair.value[..]),
        (2, 3, 2, &b"2"[..])
    );
    assert_eq!(server.get("a", 2).await.expect("there").version, 1, "older revisions can be read");
    assert_eq!(server.delete("a").await, 4);
    assert_eq!(server.get("a", 0).await, None);
    assert_eq!(server.delete("a").await, 4, "a deletion of nothing takes no revision");
    assert_eq!(server.put("a", "3").await, 5);
    let pair = server.get("a", 0).await.expect("there");
    assert_eq!((pair.create_revision, pair.version), (5, 1), "a deleted key begins anew");
}

#[tokio::test(start_paused = true)]
async fn ranges_limit_filter_and_sort_as_etcd_does() {
    let server = Server::open(&MemoryDisk::new()).await;
    for key in ["c", "b", "e", "a", "d"] {
        server.put(key, key).await;
    }
    let all = Range { key: bytes("a"), range_end: bytes("z"), ..Range::default() };
    let keys = async |request: Range| {
        let answer = server.store.range(request).await.expect("range").answer;
        let keys: Vec<u8> = answer.kvs.iter().map(|pair| pair.key[0]).collect();
        (String::from_utf8(keys).expect("ascii"), answer.more, answer.count)
    };
    for (request, want, why) in [
        (all.clone(), ("abcde", false, 5), "key order"),
        (Range { limit: 2, ..all.clone() }, ("ab", true, 5), "the count ignores the limit"),
        (Range { limit: -1, ..all.clone() }, ("abcde", false, 5), "a limit below zero is none"),
        (Range { limit: 5, ..all.clone() }, ("abcde", false, 5), "nothing was cut"),
        (
            Range { limit: 2, sort_target: SortTarget::Mod, ..all.clone() },
            ("cb", true, 5),
            "a target without an order: the first three keys, sorted, then cut",
        ),
        (
            Range { limit: 2, sort_target: SortTarget::Mod, sort_order: SortOrder::Descend, ..all.clone() },
            ("da", true, 5),
            "with an order everything is sorted",
        ),
        (Range { sort_order: SortOrder::Descend, ..all.clone() }, ("edcba", false, 5), "keys backwards"),
        (Range { min_mod_revision: 4, max_mod_revision: 5, ..all.clone() }, ("ae", false, 5), "filters"),
        (Range { max_create_revision: 1, ..all.clone() }, ("", false, 5), "the count ignores filters"),
        (
            Range { key: bytes("z"), range_end: bytes("a"), ..Range::default() },
            ("", false, 0),
            "a reversed range",
        ),
        (
            Range { key: bytes("c"), range_end: Bytes::from_static(&[0]), ..Range::default() },
            ("cde", false, 3),
            "from a key on",
        ),
        (Range { count_only: true, max_mod_revision: 1, ..all.clone() }, ("", false, 5), "the count alone"),
    ] {
        let (got, more, count) = keys(request).await;
        assert_eq!((got.as_str(), more, count), want, "{why}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_transaction_is_one_revision_and_sees_its_own_writes() {
    let server = Server::open(&MemoryDisk::new()).await;
    server.put("x", "old").await;
    let get = |key: &str| TxnOp::Range(Range { key: bytes(key), ..Range::default() });
    let request = txn(
        vec![compare("x", Is::Equal, Of::Value(bytes("old"))), compare("y", Is::Equal, Of::Version(0))],
        vec![get("y"), TxnOp::Put(put("y", "1")), get("y"), TxnOp::DeleteRange(delete("x", "")), get("x")],
        vec![],
    );
    let done = server.store.txn(request).await.expect("txn");
    assert_eq!((done.revision, done.answer.succeeded), (3, true));
    let counts: Vec<Option<i64>> = done
        .answer
        .answers
        .iter()
        .map(|answer| if let TxnOpAnswer::Range(range) = answer { Some(range.count) } else { None })
        .collect();
    assert_eq!(counts, [Some(0), None, Some(1), None, Some(0)]);
    assert_eq!(done.answer.revisions, [2, 3, 3, 3, 3], "what each operation's header shows");
}

#[tokio::test(start_paused = true)]
async fn compares_are_evaluated_on_the_state_before() {
    let server = Server::open(&MemoryDisk::new()).await;
    server.put("a", "1").await;
    for (condition, want, why) in [
        (compare("a", Is::Equal, Of::Mod(2)), true, "mod revision"),
        (compare("a", Is::Less, Of::Mod(1_000_000)), true, "a mod revision in the future is only a number"),
        (compare("a", Is::Equal, Of::Mod(1_000_000)), false, "and equals nothing"),
        (compare("a", Is::Greater, Of::Version(0)), true, "version"),
        (compare("none", Is::Equal, Of::Create(0)), true, "an absent key has numbers 0"),
        (compare("none", Is::NotEqual, Of::Value(bytes("x"))), false, "an absent key has no value"),
        (compare("a", Is::Unknown, Of::Version(5)), true, "an unknown relation holds"),
        (compare("a", Is::Equal, Of::Lease(0)), true, "no lease is lease 0"),
        (compare("a", Is::Equal, Of::Unknown), true, "an unknown target compares as equal"),
        (compare("a", Is::Less, Of::Unknown), false, "an unknown target compares as equal"),
    ] {
        let done = server.store.txn(txn(vec![condition], vec![], vec![])).await.expect("txn");
        assert_eq!((done.answer.succeeded, done.revision), (want, 2), "{why}");
    }
    // The nested compare sees no `b`, although the put before it makes one.
    let nested = txn(vec![compare("b", Is::Equal, Of::Version(0))], vec![TxnOp::Put(put("c", "1"))], vec![]);
    let done = server
        .store
        .txn(txn(vec![], vec![TxnOp::Put(put("b", "1")), TxnOp::Txn(nested)], vec![]))
        .await
        .expect("txn");
    assert_eq!(done.revision, 3);
    assert!(server.get("c", 0).await.is_some(), "the path is chosen before anything runs");
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_changes_nothing() {
    let server = Server::open(&MemoryDisk::new()).await;
    server.put("a", "1").await;
    let future = Range { key: bytes("a"), revision: 99, ..Range::default() };
    let with_future = txn(vec![], vec![TxnOp::Put(put("b", "1")), TxnOp::Range(future.clone())], vec![]);
    assert_eq!(
        server.store.txn(with_future).await,
        Err(Error::FutureRevision),
        "a later range refuses the put before it"
    );
    for (request, want, why) in [
        (put("", "x"), Error::EmptyKey, "no key"),
        (Put { ignore_value: true, ..put("a", "x") }, Error::ValueProvided, "a value to ignore"),
        (Put { ignore_lease: true, lease: 5, ..put("a", "x") }, Error::LeaseProvided, "a lease to ignore"),
        (Put { ignore_value: true, ..put("none", "") }, Error::KeyNotFound, "no value to keep"),
        (Put { lease: 404, ..put("a", "x") }, Error::LeaseNotFound, "no such lease"),
        (put("a", &"x".repeat(1_572_864)), Error::TooLarge, "too large"),
    ] {
        assert_eq!(server.store.put(request).await.expect_err(why), want, "{why}");
    }
    assert_eq!(server.store.range(future).await, Err(Error::FutureRevision));
    assert_eq!(server.store.revision(), 2, "none of it took a revision");
    assert_eq!(server.get("b", 0).await, None);
}

#[tokio::test(start_paused = true)]
async fn compaction_hides_older_revisions_and_no_others() {
    let server = Server::open(&MemoryDisk::new()).await;
    for value in ["1", "2", "3"] {
        server.put("a", value).await;
    }
    server.delete("gone").await;
    assert_eq!(server.store.compact(5).await, Err(Error::FutureRevision));
    assert_eq!(server.store.compact(3).await.expect("compact").revision, 4, "a compaction takes no revision");
    assert_eq!(server.store.compact(3).await, Err(Error::Compacted), "once is enough");
    let at = |revision| Range { key: bytes("a"), revision, ..Range::default() };
    assert_eq!(server.store.range(at(2)).await, Err(Error::Compacted));
    assert_eq!(
        server.get("a", 3).await.expect("there").value,
        "2",
        "the compaction revision itself is readable"
    );
}

#[tokio::test(start_paused = true)]
async fn a_deletion_from_a_key_on_and_a_put_in_one_transaction_survive_compaction() {
    // etcd loses the key, and then the store (etcd#22376).
    let disk = MemoryDisk::new();
    let server = Server::open(&disk).await;
    server.put("k", "old").await;
    let from_key = TxnOp::DeleteRange(harness::delete("k", "\0"));
    let done =
        server.store.txn(txn(vec![], vec![from_key, TxnOp::Put(put("k", "v"))], vec![])).await.expect("txn");
    server.store.compact(done.revision).await.expect("compact");
    assert_eq!(server.get("k", 0).await.expect("there").value, "v");
    server.kill().await;
    let server = Server::open(&disk).await;
    let pair = server.get("k", 0).await.expect("there after a restart");
    assert_eq!((&pair.value[..], pair.version, pair.create_revision), (&b"v"[..], 1, 3));
}

#[tokio::test(start_paused = true)]
async fn acknowledged_writes_survive_a_power_cut_and_revisions_go_on() {
    let mut disk = MemoryDisk::new();
    let mut last = 1;
    for round in 0..20u64 {
        let server = Server::open(&disk).await;
        assert!(server.store.revision() >= last, "round {round}: the revision went back");
        last = server.store.revision();
        for n in 0..40 {
            let revision = server.put(&format!("k{}", n % 7), &"v".repeat(n * 50)).await;
            assert_eq!(revision, last + 1, "round {round}: revisions are dense");
            last = revision;
        }
        if round % 3 == 2 {
            server.store.compact(last - 20).await.expect("compact");
        }
        server.kill().await;
        disk = disk.crash(round);
        let server = Server::open(&disk).await;
        for n in 33..40 {
            let pair = server.get(&format!("k{}", n % 7), 0).await.expect("acknowledged");
            assert_eq!(pair.value.len(), n * 50, "round {round}: key {}", n % 7);
        }
        server.kill().await;
    }
}
