//! What a connection is allowed, and how long it may be silent.

mod common;

use std::time::Duration;

use bytes::Bytes;
use common::clients::etcdserverpb::cluster_client::ClusterClient;
use common::clients::etcdserverpb::kv_client::KvClient;
use common::clients::etcdserverpb::watch_client::WatchClient;
use common::{Connection, served, served_with, settings, soon};
use server::pb::etcdserverpb::{MemberListRequest, PutRequest, WatchRequest};
use server::serve::Server;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

fn put() -> PutRequest {
    PutRequest { key: Bytes::from("a"), ..PutRequest::default() }
}

#[test]
fn streams_beyond_the_limit_wait() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut settings = settings(dir.path());
    settings.listen.max_concurrent_streams = 2;
    served_with(settings, dir, async |running| {
        let connection = Connection::new(running.client).await;
        let mut kv = KvClient::new(connection.clone());
        kv.put(put()).await.expect("one at a time");
        let mut watches = Vec::new();
        for _ in 0..2 {
            let (requests, queue) = mpsc::channel::<WatchRequest>(1);
            let mut client = WatchClient::new(connection.clone());
            let answers = soon(client.watch(ReceiverStream::new(queue))).await.expect("begun").into_inner();
            watches.push((requests, answers));
        }
        let mut third = std::pin::pin!(kv.put(put()));
        tokio::time::timeout(Duration::from_millis(300), third.as_mut()).await.expect_err("there is no room");
        drop(watches.pop());
        soon(third).await.expect("now there is");
    });
}

/// What every HTTP/2 client begins with: the preface and no settings.
const BEGINNING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const PING: &[u8] = &[0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];

/// Reads until the server closes.
async fn all_of(stream: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    let mut piece = [0; 1024];
    loop {
        match soon(stream.read(&mut piece)).await {
            // One that was in the middle of sending is told so.
            Ok(0) | Err(_) => return all,
            Ok(len) => all.extend_from_slice(&piece[..len]),
        }
    }
}

#[test]
fn who_does_not_answer_is_left() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut settings = settings(dir.path());
    settings.listen.keepalive_interval = Some(Duration::from_millis(200));
    settings.listen.keepalive_timeout = Some(Duration::from_millis(200));
    served_with(settings, dir, async |running| {
        let connection = Connection::new(running.client).await;
        let mut silent = TcpStream::connect(running.client).await.expect("it listens");
        silent.write_all(BEGINNING).await.expect("sent");
        let came = all_of(&mut silent).await;
        assert!(came.windows(5).any(|frame| frame == [0, 0, 8, 6, 0]), "it was pinged first: {came:?}");
        tokio::time::sleep(Duration::from_millis(600)).await;
        KvClient::new(connection).put(put()).await.expect("one that answers is kept");
    });
}

#[test]
fn who_pings_too_often_is_sent_away() {
    served(async |running| {
        let connection = Connection::new(running.client).await;
        let mut pinging = TcpStream::connect(running.client).await.expect("it listens");
        pinging.write_all(BEGINNING).await.expect("sent");
        for _ in 0..4 {
            pinging.write_all(PING).await.expect("sent");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let came = all_of(&mut pinging).await;
        let goaway = b"\0\0\x16\x07\0\0\0\0\0\0\0\0\0\0\0\0\x0btoo_many_pings";
        assert!(came.ends_with(goaway), "{came:?}");
        let pongs = came.windows(5).filter(|frame| *frame == [0, 0, 8, 6, 1]).count();
        assert_eq!(pongs, 4, "all were answered: {came:?}");
        KvClient::new(connection).put(put()).await.expect("nobody else minds");
    });
}

#[test]
fn the_cluster_remembers_where_peers_reach_a_member() {
    let dir = tempfile::tempdir().expect("a directory");
    let first = settings(dir.path());
    let mut second = first.clone();
    second.peer_urls = vec!["http://elsewhere:2380".to_owned()];
    second.client_urls = vec!["http://elsewhere:2379".to_owned()];
    second.name = "renamed".to_owned();
    for (settings, name, client, why) in [
        (first, "default", "http://127.0.0.1:2379", "a first start"),
        (second, "renamed", "http://elsewhere:2379", "only name and client URLs are its own to tell"),
    ] {
        let server = Server::start(settings).expect("it starts");
        let address = server.addresses()[0];
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let members = runtime.block_on(async {
            let mut cluster = ClusterClient::new(Connection::new(address).await);
            let request = MemberListRequest { linearizable: true };
            soon(cluster.member_list(request)).await.expect("listed").into_inner().members
        });
        drop(runtime);
        server.stop();
        server.wait().expect("it ends well");
        assert_eq!(members.len(), 1, "{why}");
        assert_eq!(members[0].peer_ur_ls, ["http://127.0.0.1:2380"], "{why}");
        assert_eq!(
            (members[0].name.as_str(), &members[0].client_ur_ls[..]),
            (name, &[client.to_owned()][..]),
            "{why}"
        );
    }
}
