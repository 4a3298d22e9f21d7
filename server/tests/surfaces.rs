//! Where which kind of request is served, and for whom.

mod common;

use bytes::Bytes;
use common::clients::etcdserverpb::kv_client::KvClient;
use common::{Connection, Page, page_with, served_with, settings};
use server::config::{Allowed, ListenUrl};
use server::http::Access;
use server::pb::etcdserverpb::PutRequest;

#[test]
fn a_port_for_pages_takes_them_away_from_the_grpc_port() {
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("localhost:2379");
    let mut settings = settings(&dir.path().join("data"));
    settings.listen.client_http =
        std::mem::replace(&mut settings.listen.client, vec![ListenUrl::Unix { path: socket.clone() }]);
    served_with(settings, dir, async |running| {
        // Of the TCP addresses the first is now that of the pages.
        let pages = running.client;
        let stream = tokio::net::UnixStream::connect(&socket).await.expect("the socket is there");
        let mut kv = KvClient::new(Connection::over(stream).await);
        let put = PutRequest { key: Bytes::from("a"), ..Default::default() };
        kv.put(put).await.expect("gRPC over a Unix socket");

        let stream = tokio::net::UnixStream::connect(&socket).await.expect("the socket is there");
        let refused = page_with(stream, "GET", "/health", &[]).await;
        assert_eq!(refused.status, 415, "no pages on the gRPC port: {refused:?}");
        assert_eq!(common::page(pages, "GET", "/health").await.status, 200, "they have their own");
        let grpc = [("content-type", "application/grpc")];
        let stream = tokio::net::TcpStream::connect(pages).await.expect("it listens");
        let lost = page_with(stream, "POST", "/etcdserverpb.KV/Range", &grpc).await;
        assert_eq!(lost.status, 404, "and no gRPC there: {lost:?}");
    });
}

#[test]
fn only_known_hosts_and_origins_are_answered() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut settings = settings(dir.path());
    settings.listen.access = Access {
        hosts: Allowed::Only(vec!["good".to_owned()]),
        origins: Allowed::Only(vec!["http://here".to_owned()]),
    };
    served_with(settings, dir, async |running| {
        let ask = async |method: &'static str, host: &'static str, origin: &'static str| -> Page {
            let stream = tokio::net::TcpStream::connect(running.client).await.expect("it listens");
            page_with(stream, method, "/health", &[("host", host), ("origin", origin)]).await
        };
        for (method, host, origin, status, allowed, why) in [
            ("GET", "good:2379", "http://here", 200, Some("http://here"), "both known"),
            ("GET", "good", "http://there", 200, None, "a page elsewhere may not read it"),
            ("GET", "bad:2379", "http://here", 421, None, "a name that was pointed here"),
            ("OPTIONS", "good", "http://here", 200, Some("http://here"), "a browser asks first"),
        ] {
            let got = ask(method, host, origin).await;
            let origin =
                got.headers.get("access-control-allow-origin").map(|origin| origin.to_str().expect("text"));
            assert_eq!((got.status, origin), (status, allowed), "{method} {host} {origin:?}: {why}");
        }
        let refused = ask("GET", "bad:1", "").await.text;
        assert!(refused.contains(r#"etcd --host-whitelist "bad""#), "{refused}");
        assert_eq!(
            common::page(running.metrics, "GET", "/health").await.status,
            200,
            "metrics have no such guard"
        );
    });
}
