//! Leases of one member.

mod harness;

use std::time::Duration;

use engine::disk::MemoryDisk;
use harness::{Server, events, next, put};
use raft::request::{LeaseGrant, Put};
use raft::{Error, WatchCreate};

async fn attach(server: &Server, key: &str, lease: i64) {
    server.store.put(Put { lease, ..put(key, "v") }).await.expect("put");
}

#[tokio::test(start_paused = true)]
async fn an_expired_lease_takes_its_keys_in_one_revision() {
    let server = Server::open(&MemoryDisk::new()).await;
    let id = server.grant(0, 5).await;
    assert!(id > 0);
    for key in ["b", "a", "c"] {
        attach(&server, key, id).await;
    }
    server.put("c", "detached").await;
    let mut stream = server.store.watch_stream();
    stream.create(WatchCreate {
        key: harness::bytes("a"),
        range_end: harness::bytes("z"),
        ..WatchCreate::default()
    });
    next(&mut stream).await;
    tokio::time::sleep(Duration::from_millis(4_900)).await;
    assert!(server.get("a", 0).await.is_some(), "not before its time");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(events(&next(&mut stream).await), ["del a@6", "del b@6"], "in key order, one revision");
    assert!(server.get("c", 0).await.is_some(), "a put without the lease detached it");
    assert_eq!(server.store.lease_time_to_live(id, true).await.expect("ttl").answer.ttl_seconds, -1);
}

#[tokio::test(start_paused = true)]
async fn a_lease_kept_alive_lives() {
    let server = Server::open(&MemoryDisk::new()).await;
    let id = server.grant(77, 3).await;
    attach(&server, "a", id).await;
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(server.store.lease_keep_alive(77).await.expect("renew").answer, 3);
    }
    assert!(server.get("a", 0).await.is_some());
    let status = server.store.lease_time_to_live(77, true).await.expect("ttl").answer;
    assert_eq!((status.granted_ttl_seconds, status.keys.len()), (3, 1));
    assert_eq!(server.store.lease_keep_alive(78).await.expect("renew").answer, 0, "no such lease");
}

#[tokio::test(start_paused = true)]
async fn grants_and_revocations_follow_etcd() {
    let server = Server::open(&MemoryDisk::new()).await;
    let grant = |id, ttl_seconds| server.store.lease_grant(LeaseGrant { id, ttl_seconds });
    assert_eq!(
        grant(5, -10).await.expect("grant").answer.ttl_seconds,
        2,
        "raised to one and a half elections"
    );
    assert_eq!(grant(5, 10).await, Err(Error::LeaseExists));
    assert_eq!(grant(-5, 10).await.expect("negative ids are ids").answer.id, -5);
    assert_eq!(grant(6, 9_000_000_001).await, Err(Error::LeaseTtlTooLarge));
    assert_eq!(grant(7, 9_000_000_000).await.expect("the longest").answer.ttl_seconds, 9_000_000_000);
    assert_eq!(server.store.leases().await.expect("leases").answer, [5, -5, 7], "soonest first");
    assert_eq!(server.store.lease_revoke(404).await, Err(Error::LeaseNotFound));
    assert_eq!(server.store.lease_revoke(-5).await.expect("revoke").revision, 1, "no keys, no revision");
    attach(&server, "a", 7).await;
    attach(&server, "b", 7).await;
    assert_eq!(server.store.lease_revoke(7).await.expect("revoke").revision, 4);
    assert_eq!(server.get("a", 0).await, None);
    let gone = server.store.put(Put { lease: 7, ..put("c", "v") }).await;
    assert_eq!(gone.expect_err("the lease is gone"), Error::LeaseNotFound);
}

#[tokio::test(start_paused = true)]
async fn deadlines_survive_a_restart() {
    let disk = MemoryDisk::new();
    let server = Server::open(&disk).await;
    let id = server.grant(1, 30).await;
    attach(&server, "a", id).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    server.put("tick", "carries lease time").await;
    server.kill().await;
    tokio::time::sleep(Duration::from_secs(100)).await;
    let server = Server::open(&disk).await;
    let left = server.store.lease_time_to_live(id, false).await.expect("ttl").answer.ttl_seconds;
    assert!((9..=10).contains(&left), "lease time stood still while the member was down: {left} s left");
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(server.get("a", 0).await, None, "the deadline was kept");
}
