//! A whole server, asked over gRPC by clients generated from the same `proto/`.

mod common;

use bytes::Bytes;
use common::clients::etcdserverpb::auth_client::AuthClient;
use common::clients::etcdserverpb::cluster_client::ClusterClient;
use common::clients::etcdserverpb::kv_client::KvClient;
use common::clients::etcdserverpb::lease_client::LeaseClient;
use common::clients::etcdserverpb::maintenance_client::MaintenanceClient;
use common::clients::etcdserverpb::watch_client::WatchClient;
use common::{Connection, LARGEST, RawCodec, Running, served, soon};
use server::pb::etcdserverpb::{self as pb, compare, request_op, response_op, watch_request};
use server::pb::mvccpb::event::EventType;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Code, Status};

type Kv = KvClient<Connection>;

fn put(key: &'static str, value: &'static str) -> pb::PutRequest {
    pb::PutRequest { key: Bytes::from(key), value: Bytes::from(value), ..Default::default() }
}

fn get(key: &'static str) -> pb::RangeRequest {
    pb::RangeRequest { key: Bytes::from(key), ..Default::default() }
}

fn op(request: request_op::Request) -> pb::RequestOp {
    pb::RequestOp { request: Some(request) }
}

/// The only value of an answer.
fn value(answer: &pb::RangeResponse) -> &[u8] {
    assert_eq!(answer.kvs.len(), 1, "one pair");
    &answer.kvs[0].value
}

fn revision(header: Option<pb::ResponseHeader>) -> i64 {
    header.expect("a header").revision
}

#[test]
fn keys_are_written_read_and_deleted() {
    served(async |running| {
        let mut kv = Kv::new(Connection::new(running.client).await);

        let written = kv.put(put("a", "1")).await.expect("written").into_inner();
        let header = written.header.expect("a header");
        assert_eq!((header.cluster_id, header.member_id, header.revision), (0xc1, 0xd2, 2));
        assert!(header.raft_term > 0, "a leader has a term");
        kv.put(put("b", "2")).await.expect("written");
        let again = pb::PutRequest { prev_kv: true, ..put("a", "3") };
        let before = kv.put(again).await.expect("written").into_inner().prev_kv.expect("it was there");
        assert_eq!((&before.value[..], before.mod_revision, before.version), (&b"1"[..], 2, 1));

        let now = kv.range(get("a")).await.expect("read").into_inner();
        assert_eq!((value(&now), now.count, revision(now.header)), (&b"3"[..], 1, 4));
        let then = kv.range(pb::RangeRequest { revision: 2, ..get("a") }).await.expect("read").into_inner();
        assert_eq!((value(&then), revision(then.header)), (&b"1"[..], 4), "the header says what is newest");

        let all =
            pb::DeleteRangeRequest { key: Bytes::from("a"), range_end: Bytes::from("c"), prev_kv: true };
        let gone = kv.delete_range(all).await.expect("deleted").into_inner();
        assert_eq!((gone.deleted, gone.prev_kvs.len(), revision(gone.header)), (2, 2, 5));
        let none = kv.range(get("a")).await.expect("read").into_inner();
        assert_eq!((none.kvs.len(), none.count), (0, 0));
    });
}

#[test]
fn a_transaction_takes_one_branch_at_one_revision() {
    served(async |running| {
        let mut kv = Kv::new(Connection::new(running.client).await);
        let absent = pb::Compare {
            key: Bytes::from("k"),
            target: compare::CompareTarget::Mod as i32,
            target_union: Some(compare::TargetUnion::ModRevision(0)),
            ..Default::default()
        };
        let create = pb::TxnRequest {
            compare: vec![absent],
            success: vec![
                op(request_op::Request::RequestPut(put("k", "1"))),
                op(request_op::Request::RequestRange(get("k"))),
            ],
            failure: vec![op(request_op::Request::RequestRange(get("k")))],
        };
        let first = kv.txn(create.clone()).await.expect("done").into_inner();
        assert!(first.succeeded);
        assert_eq!(revision(first.header), 2);
        let Some(response_op::Response::ResponseRange(read)) = &first.responses[1].response else {
            panic!("the second operation reads")
        };
        assert_eq!(value(read), b"1", "an operation sees those before it");
        let inner = read.header.expect("a header");
        assert_eq!((inner.revision, inner.cluster_id, inner.member_id, inner.raft_term), (2, 0, 0, 0));

        let second = kv.txn(create).await.expect("done").into_inner();
        assert!(!second.succeeded, "it is there now");
        assert_eq!((second.responses.len(), revision(second.header)), (1, 2), "nothing was written");
    });
}

#[test]
fn refusals_have_etcds_codes_and_texts() {
    served(async |running| {
        let connection = Connection::new(running.client).await;
        let mut kv = Kv::new(connection.clone());
        for _ in 0..4 {
            kv.put(put("k", "v")).await.expect("written");
        }
        let compact = |revision| pb::CompactionRequest { revision, physical: true };
        kv.compact(compact(4)).await.expect("compacted");

        let txn = |op| pb::TxnRequest { success: vec![op], ..Default::default() };
        let many = pb::TxnRequest {
            success: vec![op(request_op::Request::RequestRange(get("k"))); 129],
            ..Default::default()
        };
        let twice = pb::TxnRequest {
            success: vec![op(request_op::Request::RequestPut(put("k", "v"))); 2],
            ..Default::default()
        };
        let large = pb::PutRequest { value: Bytes::from(vec![0; 1_572_864]), ..put("k", "") };
        for (got, code, text, why) in [
            (
                kv.put(put("", "v")).await.err(),
                Code::InvalidArgument,
                "etcdserver: key is not provided",
                "no key",
            ),
            (
                kv.range(pb::RangeRequest { sort_order: 7, ..get("k") }).await.err(),
                Code::InvalidArgument,
                "etcdserver: invalid sort option",
                "no such order",
            ),
            (
                kv.range(pb::RangeRequest { revision: 3, ..get("k") }).await.err(),
                Code::OutOfRange,
                "etcdserver: mvcc: required revision has been compacted",
                "below the compaction",
            ),
            (
                kv.range(pb::RangeRequest { revision: 99, ..get("k") }).await.err(),
                Code::OutOfRange,
                "etcdserver: mvcc: required revision is a future revision",
                "not yet",
            ),
            (
                kv.compact(compact(4)).await.err(),
                Code::OutOfRange,
                "etcdserver: mvcc: required revision has been compacted",
                "twice",
            ),
            (
                kv.put(pb::PutRequest { ignore_value: true, ..put("k", "v") }).await.err(),
                Code::InvalidArgument,
                "etcdserver: value is provided",
                "kept and given",
            ),
            (
                kv.put(pb::PutRequest { lease: 77, ..put("k", "v") }).await.err(),
                Code::NotFound,
                "etcdserver: requested lease not found",
                "no such lease",
            ),
            (
                kv.txn(txn(pb::RequestOp { request: None })).await.err(),
                Code::InvalidArgument,
                "etcdserver: key not found",
                "an operation of no kind",
            ),
            (
                kv.txn(many).await.err(),
                Code::InvalidArgument,
                "etcdserver: too many operations in txn request",
                "129",
            ),
            (
                kv.txn(twice).await.err(),
                Code::InvalidArgument,
                "etcdserver: duplicate key given in txn request",
                "twice",
            ),
            (
                kv.put(large).await.err(),
                Code::InvalidArgument,
                "etcdserver: request is too large",
                "above the limit",
            ),
            (
                kv.range_stream(pb::RangeRequest { sort_order: 2, ..get("k") }).await.err(),
                Code::Unimplemented,
                "RangeStream does not support custom sort orders",
                "backwards",
            ),
            (
                kv.range_stream(pb::RangeRequest { max_mod_revision: 2, ..get("k") }).await.err(),
                Code::Unimplemented,
                "RangeStream does not support revision filters",
                "filtered",
            ),
            (
                ClusterClient::new(connection.clone())
                    .member_add(pb::MemberAddRequest::default())
                    .await
                    .err(),
                Code::Unimplemented,
                "keelson does not implement MemberAdd",
                "not there",
            ),
            (
                AuthClient::new(connection.clone()).auth_status(pb::AuthStatusRequest {}).await.err(),
                Code::Unimplemented,
                "keelson does not implement etcdserverpb.Auth",
                "a whole service that is not there",
            ),
        ] {
            let got = got.unwrap_or_else(|| panic!("{why}: it was not refused"));
            assert_eq!((got.code(), got.message()), (code, text), "{why}");
        }
    });
}

/// Sends `message` as the one message of a call of `path`; gives the refusal.
async fn refusal_of(running: &Running, path: &'static str, message: Vec<u8>) -> Status {
    let mut client = tonic::client::Grpc::new(Connection::new(running.client).await);
    client.ready().await.expect("connected");
    let path = http::uri::PathAndQuery::from_static(path);
    let call = client.unary(tonic::Request::new(Bytes::from(message)), path, RawCodec);
    soon(call).await.expect_err("refused")
}

#[test]
fn what_is_no_request_is_refused_by_grpc_itself() {
    served(async |running| {
        let oversize = LARGEST + 1;
        for (path, message, code, text, why) in [
            (
                "/etcdserverpb.KV/Range",
                vec![0xff; 3],
                Code::Internal,
                "grpc: error unmarshalling request: ".to_owned(),
                "not protobuf",
            ),
            (
                "/etcdserverpb.KV/Put",
                vec![0; oversize],
                Code::ResourceExhausted,
                format!("grpc: received message larger than max ({oversize} vs. {LARGEST})"),
                "one byte too many",
            ),
            (
                "/etcdserverpb.Watch/Watch",
                vec![0; oversize],
                Code::ResourceExhausted,
                format!("grpc: received message larger than max ({oversize} vs. {LARGEST})"),
                "one byte too many on a stream",
            ),
            (
                "/etcdserverpb.KV/Fetch",
                Vec::new(),
                Code::Unimplemented,
                "unknown method for service etcdserverpb.KV".to_owned(),
                "no such method",
            ),
            (
                "/etcdserverpb.KVs/Range",
                Vec::new(),
                Code::Unimplemented,
                "unknown service etcdserverpb.KVs".to_owned(),
                "no such service",
            ),
        ] {
            let got = refusal_of(running, path, message).await;
            assert_eq!(got.code(), code, "{why}: {got}");
            assert!(got.message().starts_with(&text), "{why}: {got}");
        }
        let mut kv = Kv::new(Connection::new(running.client).await);
        kv.put(put("a", "1")).await.expect("it serves on");
    });
}

#[test]
fn metadata_is_looked_at() {
    served(async |running| {
        let mut kv = Kv::new(Connection::new(running.client).await);
        let mut request = tonic::Request::new(get("a"));
        request.metadata_mut().insert("hasleader", "true".parse().expect("text"));
        request.metadata_mut().insert("client-api-version", "3.7".parse().expect("text"));
        kv.range(request).await.expect("there is a leader");
        let text = common::page(running.metrics, "GET", "/metrics").await.text;
        let counted = r#"etcd_server_client_requests_total{client_api_version="3.7",type="unary"} 1"#;
        assert!(text.lines().any(|line| line == counted), "{counted} is not in\n{text}");
    });
}

#[test]
fn a_streamed_range_is_the_range_in_pieces() {
    served(async |running| {
        let mut kv = Kv::new(Connection::new(running.client).await);
        let puts = |n: usize| pb::TxnRequest {
            success: (0..100)
                .map(|i| {
                    let key = Bytes::from(format!("k{n}{i:02}"));
                    op(request_op::Request::RequestPut(pb::PutRequest { key, ..Default::default() }))
                })
                .collect(),
            ..Default::default()
        };
        for n in 0..2 {
            kv.txn(puts(n)).await.expect("written");
        }
        let request = pb::RangeRequest {
            key: Bytes::from("k"),
            range_end: Bytes::from("l"),
            limit: 150,
            ..Default::default()
        };
        let whole = kv.range(request.clone()).await.expect("read").into_inner();
        let mut chunks = kv.range_stream(request).await.expect("begun").into_inner();
        let mut kvs = Vec::new();
        let mut last = None;
        let mut count = 0;
        while let Some(chunk) = soon(chunks.message()).await.expect("a chunk") {
            assert!(last.is_none(), "the one with a header is the last");
            let mut chunk = chunk.range_response.expect("always there");
            count += 1;
            kvs.append(&mut chunk.kvs);
            last = chunk.header.map(|header| (header, chunk.more, chunk.count));
        }
        assert!(count > 1, "150 rows come in more than one chunk");
        let (header, more, count) = last.expect("a last chunk");
        assert_eq!((kvs, more, count), (whole.kvs, whole.more, whole.count));
        assert_eq!(Some(header), whole.header);
        assert_eq!((more, count), (true, 200));
    });
}

/// A watch stream and its requests.
struct Watching {
    requests: mpsc::UnboundedSender<pb::WatchRequest>,
    answers: tonic::Streaming<pb::WatchResponse>,
}

impl Watching {
    async fn new(running: &Running) -> Watching {
        let mut client = WatchClient::new(Connection::new(running.client).await);
        let (requests, queue) = mpsc::unbounded_channel();
        let answers = client.watch(UnboundedReceiverStream::new(queue)).await.expect("begun").into_inner();
        Watching { requests, answers }
    }

    fn ask(&self, request: watch_request::RequestUnion) {
        self.requests.send(pb::WatchRequest { request_union: Some(request) }).expect("the stream is open");
    }

    fn create(&self, create: pb::WatchCreateRequest) {
        self.ask(watch_request::RequestUnion::CreateRequest(create));
    }

    async fn next(&mut self) -> Result<pb::WatchResponse, Status> {
        soon(self.answers.message()).await.map(|answer| answer.expect("the stream goes on"))
    }
}

#[test]
fn a_watch_tells_what_was_and_what_comes() {
    served(async |running| {
        let mut kv = Kv::new(Connection::new(running.client).await);
        kv.put(put("a", "1")).await.expect("written");
        let mut watching = Watching::new(running).await;
        let all = Bytes::from_static(&[0]);
        let from_two = pb::WatchCreateRequest {
            key: all.clone(),
            range_end: all,
            start_revision: 2,
            prev_kv: true,
            ..Default::default()
        };
        watching.create(from_two);
        let created = watching.next().await.expect("an answer");
        assert!(created.created && !created.canceled && created.events.is_empty());
        assert_eq!((created.watch_id, revision(created.header)), (0, 2));

        let past = watching.next().await.expect("an answer");
        assert_eq!(past.events.len(), 1, "what was");
        kv.put(put("a", "2")).await.expect("written");
        let all_a = pb::DeleteRangeRequest { key: Bytes::from("a"), ..Default::default() };
        kv.delete_range(all_a).await.expect("deleted");
        let mut events = Vec::new();
        while events.len() < 2 {
            let answer = watching.next().await.expect("an answer");
            assert_eq!(answer.watch_id, 0);
            events.extend(answer.events);
        }
        let of = |event: &server::pb::mvccpb::Event| {
            let (kv, before) = (event.kv.clone().expect("a pair"), event.prev_kv.clone().expect("asked for"));
            (event.r#type(), kv.mod_revision, kv.value, before.value)
        };
        assert_eq!(of(&events[0]), (EventType::Put, 3, Bytes::from("2"), Bytes::from("1")));
        assert_eq!(of(&events[1]), (EventType::Delete, 4, Bytes::new(), Bytes::from("2")));

        watching.ask(watch_request::RequestUnion::ProgressRequest(pb::WatchProgressRequest {}));
        let progress = watching.next().await.expect("an answer");
        assert_eq!((progress.watch_id, revision(progress.header), progress.events.len()), (-1, 4, 0));

        watching.ask(watch_request::RequestUnion::CancelRequest(pb::WatchCancelRequest { watch_id: 0 }));
        let canceled = watching.next().await.expect("an answer");
        assert!(canceled.canceled && !canceled.created);
        assert_eq!(canceled.watch_id, 0);
    });
}

#[test]
fn a_stream_that_is_half_closed_goes_on_telling() {
    served(async |running| {
        let mut kv = Kv::new(Connection::new(running.client).await);
        let mut watching = Watching::new(running).await;
        watching.create(pb::WatchCreateRequest { key: Bytes::from("a"), ..Default::default() });
        assert!(watching.next().await.expect("an answer").created);
        let (closed, _) = mpsc::unbounded_channel();
        watching.requests = closed;
        kv.put(put("a", "1")).await.expect("written");
        assert_eq!(watching.next().await.expect("an answer").events.len(), 1);
    });
}

#[test]
fn streams_end_when_the_server_does() {
    served(async |running| {
        let mut watching = Watching::new(running).await;
        watching.create(pb::WatchCreateRequest { key: Bytes::from("a"), ..Default::default() });
        assert!(watching.next().await.expect("an answer").created);
        let ended = tokio::spawn(async move { watching.next().await.expect_err("it ends") });
        running.end().await;
        let status = soon(ended).await.expect("no panic");
        assert_eq!((status.code(), status.message()), (Code::Unavailable, "etcdserver: server stopped"));
    });
}

#[test]
fn what_was_answered_is_there_after_a_restart() {
    served(async |running| {
        let mut kv = Kv::new(Connection::new(running.client).await);
        for value in ["1", "2", "3"] {
            kv.put(put("a", value)).await.expect("written");
        }
        let port = running.client.port();
        running.restart().await;
        assert_eq!(running.client.port(), port, "on the same port at once");
        let mut kv = Kv::new(Connection::new(running.client).await);
        let read = kv.range(get("a")).await.expect("read").into_inner();
        assert_eq!((value(&read), read.kvs[0].version, revision(read.header)), (&b"3"[..], 3, 4));
        assert_eq!(
            revision(kv.put(put("b", "1")).await.expect("written").into_inner().header),
            5,
            "no revision is lost"
        );
    });
}

#[test]
fn keys_go_with_their_lease() {
    served(async |running| {
        let connection = Connection::new(running.client).await;
        let mut kv = Kv::new(connection.clone());
        let mut leases = LeaseClient::new(connection);
        let granted = leases
            .lease_grant(pb::LeaseGrantRequest { ttl: 100, id: 7 })
            .await
            .expect("granted")
            .into_inner();
        assert_eq!((granted.id, granted.ttl, granted.error.as_str()), (7, 100, ""));
        let again = leases.lease_grant(pb::LeaseGrantRequest { ttl: 100, id: 7 }).await.expect_err("taken");
        assert_eq!(
            (again.code(), again.message()),
            (Code::FailedPrecondition, "etcdserver: lease already exists")
        );
        kv.put(pb::PutRequest { lease: 7, ..put("a", "1") }).await.expect("written");

        let asked = pb::LeaseTimeToLiveRequest { id: 7, keys: true };
        let left = leases.lease_time_to_live(asked).await.expect("known").into_inner();
        assert!((98..=100).contains(&left.ttl), "{} s are left", left.ttl);
        assert_eq!((left.id, left.granted_ttl, left.keys), (7, 100, vec![Bytes::from("a")]));
        let unknown = leases.lease_time_to_live(pb::LeaseTimeToLiveRequest { id: 8, keys: false }).await;
        let unknown = unknown.expect("not an error").into_inner();
        assert_eq!((unknown.id, unknown.ttl, unknown.granted_ttl), (8, -1, 0));

        let ids = [7, 8].map(|id| pb::LeaseKeepAliveRequest { id });
        let mut renewed = leases.lease_keep_alive(tokio_stream::iter(ids)).await.expect("begun").into_inner();
        let first = soon(renewed.message()).await.expect("an answer").expect("one for each");
        assert_eq!((first.id, first.ttl), (7, 100));
        let second = soon(renewed.message()).await.expect("an answer").expect("one for each");
        assert_eq!((second.id, second.ttl), (8, 0), "an unknown lease is no error");
        assert_eq!(soon(renewed.message()).await.expect("it ends well"), None);

        let listed =
            leases.lease_leases(pb::LeaseLeasesRequest {}).await.expect("listed").into_inner().leases;
        assert_eq!(listed, [pb::LeaseStatus { id: 7 }]);
        leases.lease_revoke(pb::LeaseRevokeRequest { id: 7 }).await.expect("revoked");
        assert_eq!(kv.range(get("a")).await.expect("read").into_inner().count, 0, "gone with its lease");
    });
}

#[test]
fn a_member_tells_of_itself() {
    served(async |running| {
        let connection = Connection::new(running.client).await;
        let mut maintenance = MaintenanceClient::new(connection.clone());
        let status = maintenance.status(pb::StatusRequest {}).await.expect("known").into_inner();
        assert_eq!((status.version.as_str(), status.storage_version.as_str()), ("3.7.3", "3.7.0"));
        assert_eq!((status.leader, status.db_size_quota, status.is_learner), (0xd2, 2 << 30, false));
        assert!(status.raft_index > 0 && status.raft_term > 0 && status.errors.is_empty());

        let mut cluster = ClusterClient::new(connection.clone());
        let listed = cluster
            .member_list(pb::MemberListRequest { linearizable: true })
            .await
            .expect("listed")
            .into_inner();
        assert_eq!((listed.members.len(), listed.members[0].id, revision(listed.header)), (1, 0xd2, 0));

        let raise = pb::AlarmRequest { action: 1, member_id: 0xd2, alarm: 1 };
        let raised = maintenance.alarm(raise).await.expect("raised").into_inner().alarms;
        assert_eq!(raised, [pb::AlarmMember { member_id: 0xd2, alarm: 1 }]);
        let mut kv = Kv::new(connection);
        let refused = kv.put(put("a", "1")).await.expect_err("no space");
        assert_eq!(refused.message(), "etcdserver: mvcc: database space exceeded");
        let status = maintenance.status(pb::StatusRequest {}).await.expect("known").into_inner();
        assert_eq!(status.errors, ["memberID:210 alarm:NOSPACE"]);
        let health = common::page(running.client, "GET", "/health").await;
        assert_eq!(
            (health.status, health.text.as_str()),
            (503, "{\"health\":\"false\",\"reason\":\"ALARM NOSPACE\"}\n")
        );
        assert_eq!(common::page(running.client, "GET", "/health?exclude=NOSPACE").await.status, 200);
        assert_eq!(common::page(running.client, "GET", "/readyz").await.status, 200, "a full store is ready");
        let clear = pb::AlarmRequest { action: 2, ..raise };
        assert_eq!(maintenance.alarm(clear).await.expect("cleared").into_inner().alarms, raised);
        kv.put(put("a", "1")).await.expect("there is space again");

        let defragmented =
            maintenance.defragment(pb::DefragmentRequest {}).await.expect("at once").into_inner();
        assert_eq!(defragmented.header, None);
    });
}

#[test]
fn many_watchers_are_told_the_same() {
    served(async |running| {
        let connection = Connection::new(running.client).await;
        let mut kv = Kv::new(connection.clone());
        let mut watch = WatchClient::new(connection);
        let (requests, incoming) = mpsc::unbounded_channel();
        let create = |watch_id, prev_kv| {
            let create =
                pb::WatchCreateRequest { key: Bytes::from("a"), watch_id, prev_kv, ..Default::default() };
            pb::WatchRequest { request_union: Some(watch_request::RequestUnion::CreateRequest(create)) }
        };
        for id in 1..=20 {
            requests.send(create(id, id > 10)).expect("open");
        }
        let mut answers =
            watch.watch(UnboundedReceiverStream::new(incoming)).await.expect("a stream").into_inner();
        for _ in 1..=20 {
            assert!(soon(answers.message()).await.expect("well").expect("an answer").created);
        }
        kv.put(put("a", "old")).await.expect("written");
        kv.put(put("a", "new")).await.expect("written");
        let mut told = Vec::new();
        for _ in 0..40 {
            let answer = soon(answers.message()).await.expect("well").expect("an answer");
            for event in answer.events {
                let kv = event.kv.expect("a pair");
                let before = event.prev_kv.map(|pair| pair.value);
                told.push((answer.watch_id, kv.mod_revision, kv.version, kv.value, before));
            }
            if told.len() == 40 {
                break;
            }
        }
        told.sort();
        let want: Vec<_> = (1..=20)
            .flat_map(|id| {
                let before = (id > 10).then(|| Bytes::from("old"));
                [(id, 2, 1, Bytes::from("old"), None), (id, 3, 2, Bytes::from("new"), before)]
            })
            .collect();
        assert_eq!(told, want, "half of them share an encoding, the others have a pair before it");
    });
}
