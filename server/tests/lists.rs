//! Large lists over a real connection: whole, and cheap while nobody reads them.

mod common;

use bytes::Bytes;
use common::clients::etcdserverpb::kv_client::KvClient;
use common::{Connection, served, soon};
use http_body_util::BodyExt as _;
use server::pb::etcdserverpb as pb;
use tonic::body::Body;
use tower::Service as _;

/// Keys of a list, and bytes of each value: 20 MB together.
const KEYS: usize = 2000;
const VALUE_BYTES: usize = 10_000;

fn key(n: usize) -> Bytes {
    Bytes::from(format!("k{n:05}"))
}

fn value(n: usize) -> Bytes {
    Bytes::from(vec![u8::try_from(n % 251).expect("small"); VALUE_BYTES])
}

/// Keys written in one transaction.
const TOGETHER: usize = 100;

async fn fill(kv: &mut KvClient<Connection>) {
    for first in (0..KEYS).step_by(TOGETHER) {
        let put = |n| {
            let put = pb::PutRequest { key: key(n), value: value(n), ..Default::default() };
            pb::RequestOp { request: Some(pb::request_op::Request::RequestPut(put)) }
        };
        let success = (first..first + TOGETHER).map(put).collect();
        kv.txn(pb::TxnRequest { success, ..Default::default() }).await.expect("written");
    }
}

fn all() -> pb::RangeRequest {
    pb::RangeRequest { key: Bytes::from("k"), range_end: Bytes::from("l"), ..Default::default() }
}

/// Memory of this process in use, bytes.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("it says");
    let kib: u64 = line.split_whitespace().nth(1).expect("a number").parse().expect("a number");
    kib * 1024
}

#[test]
fn a_list_of_many_pieces_is_whole() {
    served(async |running| {
        let mut kv =
            KvClient::new(Connection::new(running.client).await).max_decoding_message_size(usize::MAX);
        fill(&mut kv).await;
        for (request, rows, more, why) in [
            (all(), KEYS, false, "everything"),
            (pb::RangeRequest { limit: 1500, ..all() }, 1500, true, "a limit beyond the first piece"),
            (pb::RangeRequest { limit: 2000, ..all() }, 2000, false, "a limit that cuts nothing"),
        ] {
            let answer = soon(kv.range(request)).await.expect("read").into_inner();
            assert_eq!((answer.kvs.len(), answer.more, answer.count), (rows, more, 2000), "{why}");
            assert_eq!(answer.header.expect("a header").revision, 21, "{why}");
            for (n, pair) in answer.kvs.iter().enumerate() {
                assert_eq!((&pair.key, &pair.value), (&key(n), &value(n)), "{why}, row {n}");
                assert_eq!(
                    (pair.mod_revision, pair.version),
                    ((n / TOGETHER) as i64 + 2, 1),
                    "{why}, row {n}"
                );
            }
        }
        let backwards =
            pb::RangeRequest { sort_order: pb::range_request::SortOrder::Descend.into(), ..all() };
        let answer = soon(kv.range(backwards)).await.expect("read").into_inner();
        assert!(answer.kvs.iter().map(|pair| &pair.key[..]).eq((0..KEYS).rev().map(|n| key(n).to_vec())));
    });
}

#[test]
fn lists_that_nobody_reads_cost_little_and_delay_nobody() {
    served(async |running| {
        let mut kv = KvClient::new(Connection::new(running.client).await);
        fill(&mut kv).await;
        let before = resident_bytes();
        let mut unread = Vec::new();
        for _ in 0..40 {
            let mut connection = Connection::new(running.client).await;
            let message = prost::Message::encode_to_vec(&all());
            let mut framed = vec![0];
            framed.extend(u32::try_from(message.len()).expect("small").to_be_bytes());
            framed.extend(message);
            let request = http::Request::post("/etcdserverpb.KV/Range")
                .header("content-type", "application/grpc")
                .header("te", "trailers")
                .body(Body::new(http_body_util::Full::new(Bytes::from(framed))))
                .expect("a request");
            let response = soon(connection.call(request)).await.expect("an answer begins");
            unread.push((connection, response));
        }
        for n in 0..50 {
            let put = pb::PutRequest { key: Bytes::from("x"), value: value(n), ..Default::default() };
            soon(kv.put(put)).await.expect("written");
        }
        let grown = resident_bytes().saturating_sub(before);
        assert!(grown < 200 << 20, "40 unread lists of 20 MB took {} MiB", grown >> 20);
        // One of them is read after all.
        let (_connection, response) = unread.pop().expect("forty");
        let body = soon(response.into_body().collect()).await.expect("the rest comes");
        assert_eq!(body.trailers().expect("a status")["grpc-status"], "0");
        assert!(body.to_bytes().len() > KEYS * VALUE_BYTES);
    });
}
