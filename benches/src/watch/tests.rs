//! A run against a small server of watches that can be told to lose, to double and to keep silent.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Response};
use prost::Message;
use tokio::net::TcpListener;

use super::crowd::Shape;
use super::fanout::{Options, run};
use super::report::Report;
use crate::client::Endpoint;
use crate::client::wire::{self, frame, path};
use crate::load::driver::{Limit, Plan};

/// How the server errs.
#[derive(Clone, Copy, Default)]
struct Faults {
    /// The event of every so many puts is not sent.
    lose_every: Option<u64>,
    /// The event of every so many puts is sent twice.
    double_every: Option<u64>,
    /// Progress requests are not answered.
    silent: bool,
}

/// All that the server's connections share: the streams of the watchers, one watcher counted once for each create.
#[derive(Default)]
struct Store {
    watchers: RefCell<Vec<Rc<RefCell<h2::SendStream<Bytes>>>>>,
    puts: Cell<u64>,
}

/// Takes the messages of a request's body one by one.
async fn message(body: &mut h2::RecvStream, received: &mut BytesMut) -> Option<Bytes> {
    loop {
        if let Some(len) = received.get(1..5) {
            let len = 5 + u32::from_be_bytes(len.try_into().expect("four bytes")) as usize;
            if received.len() >= len {
                return Some(received.split_to(len).freeze().slice(5..));
            }
        }
        let chunk = body.data().await?.ok()?;
        let _ = body.flow_control().release_capacity(chunk.len());
        received.extend_from_slice(&chunk);
    }
}

async fn call(
    store: Rc<Store>,
    faults: Faults,
    request: http::Request<h2::RecvStream>,
    mut respond: h2::server::SendResponse<Bytes>,
) {
    let watch = request.uri().path() == path::WATCH;
    let (mut body, mut received) = (request.into_body(), BytesMut::new());
    let sender = respond.send_response(Response::new(()), false).expect("the client is there");
    let sender = Rc::new(RefCell::new(sender));
    let send = |answer: &wire::WatchResponse| {
        let _ = sender.borrow_mut().send_data(frame(answer), false);
    };
    while let Some(request) = message(&mut body, &mut received).await {
        if watch {
            let request = wire::WatchRequest::decode(request).expect("a watch request");
            if request.create.is_some() {
                store.watchers.borrow_mut().push(Rc::clone(&sender));
                send(&wire::WatchResponse { created: true, ..Default::default() });
            } else if !faults.silent {
                send(&wire::WatchResponse { watch_id: -1, ..Default::default() });
            }
            continue;
        }
        let put = wire::PutRequest::decode(request).expect("a put");
        let number = store.puts.get() + 1;
        store.puts.set(number);
        let every = |period: Option<u64>| period.is_some_and(|period| number.is_multiple_of(period));
        let times = if every(faults.lose_every) { 0 } else { 1 + usize::from(every(faults.double_every)) };
        let kv = wire::KeyValue { key: put.key, value: put.value, ..Default::default() };
        let events = vec![wire::Event { kind: 0, kv: Some(kv) }; times];
        let answer = wire::WatchResponse { events, ..Default::default() };
        for watcher in store.watchers.borrow().iter() {
            let _ = watcher.borrow_mut().send_data(frame(&answer), false);
        }
        let _ = sender.borrow_mut().send_data(frame(&wire::PutResponse::default()), false);
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        let _ = sender.borrow_mut().send_trailers(trailers);
    }
}

async fn serve(faults: Faults) -> Endpoint {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let endpoint = listener.local_addr().expect("bound").to_string().parse().expect("an endpoint");
    let store = Rc::new(Store::default());
    tokio::task::spawn_local(async move {
        loop {
            let (stream, _) = listener.accept().await.expect("a client");
            let store = Rc::clone(&store);
            tokio::task::spawn_local(async move {
                let mut connection = h2::server::handshake(stream).await.expect("a preface");
                while let Some(Ok((request, respond))) = connection.accept().await {
                    tokio::task::spawn_local(call(Rc::clone(&store), faults, request, respond));
                }
            });
        }
    });
    endpoint
}

/// 100 puts to 5 watchers on 2 connections.
async fn ran(faults: Faults) -> Report {
    let endpoint = serve(faults).await;
    let shape = Shape {
        endpoint: endpoint.clone(),
        connections: 2,
        streams: 2,
        watchers: 5,
        prefixes: vec!["/watch/".to_owned()],
        prev_kv: false,
    };
    let limit = Limit::Operations(100);
    run(&Options {
        shape,
        writer: Plan { endpoint, connections: 1, calls: 4, limit, rate: Some(1000.0) },
        progress: Some(200.0),
        key_bytes: 20,
        value_bytes: 32,
        keys: 10,
        seed: 1,
        lost_after: Duration::from_millis(200),
        server_pid: None,
    })
    .await
    .expect("it begins")
}

#[tokio::test(flavor = "local")]
async fn every_event_is_counted_and_what_is_missing_is_an_error() {
    for (faults, events, kind, why) in [
        (Faults::default(), 500, None, "five watchers see a hundred puts"),
        (
            Faults { lose_every: Some(10), ..Faults::default() },
            450,
            Some(("events lost", 50)),
            "ten puts lost",
        ),
        (
            Faults { double_every: Some(50), ..Faults::default() },
            510,
            Some(("events too many", 10)),
            "two puts doubled",
        ),
    ] {
        let report = ran(faults).await;
        assert_eq!((report.operations, report.puts.operations), (events, 100), "{why}");
        let kinds: Vec<_> = report.error_kinds.iter().map(|(kind, count)| (kind.as_str(), *count)).collect();
        assert_eq!(kinds, kind.into_iter().collect::<Vec<_>>(), "{why}");
        assert!(report.progress.answered > 0, "progress is asked for and answered: {why}");
        assert!(report.latency_us.p50 > 0.0, "{why}");
    }
}

#[tokio::test(flavor = "local")]
async fn progress_without_an_answer_is_an_error() {
    let report = ran(Faults { silent: true, ..Faults::default() }).await;
    assert_eq!((report.operations, report.progress.answered), (500, 0));
    // Four streams, each asked once: a stream that owes an answer is not asked again within a second.
    let owed = report.error_kinds.get("progress requests without an answer");
    assert_eq!(owed, Some(&4), "{:?}", report.error_kinds);
}
