//! The watch streams of one server.
//!
//! How events are spread over messages hangs on timing, so what a watcher got is put together again; on the way
//! it is checked that no revision is torn apart and that no message is older than what it tells.
//!
//! When is everything there? A stream whose watchers have all caught up answers a progress request, with a revision
//! up to which it has told everything. One with a watcher that waits for the future does not answer, in etcd; such
//! watchers get streams of their own, which are not asked before their time.

use std::collections::BTreeMap;
use std::time::Duration;

use prost::Message as _;
use server::pb::etcdserverpb::{self as pb, watch_request::RequestUnion};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::Status;

use crate::common::clients::etcdserverpb::watch_client::WatchClient;
use crate::common::{Connection, soon};
use crate::peer::clean;
use crate::step::{OnStream, Outcome};

/// How long an answer to a progress request is waited for before the next is sent.
const PATIENCE: Duration = Duration::from_millis(30);
/// Progress requests until a stream counts as stuck.
const ATTEMPTS_MAX: usize = 300;

/// See the module's text.
pub(crate) struct Watches {
    connection: Connection,
    streams: BTreeMap<u32, Stream>,
}

struct Stream {
    requests: mpsc::UnboundedSender<pb::WatchRequest>,
    answers: mpsc::UnboundedReceiver<Result<pb::WatchResponse, Status>>,
    /// First revision of each watcher that lives.
    live: BTreeMap<i64, i64>,
    /// What came since the last collection, by watcher.
    got: BTreeMap<i64, Vec<pb::WatchResponse>>,
    /// Revision of the newest answer to a progress request.
    progress: i64,
}

impl Watches {
    pub(crate) fn new(connection: Connection) -> Watches {
        Watches { connection, streams: BTreeMap::new() }
    }

    /// Creates a watcher; gives the answer to that.
    pub(crate) async fn create(
        &mut self,
        on: &OnStream<pb::WatchCreateRequest>,
        newest: &mut i64,
    ) -> Outcome {
        let connection = &self.connection;
        let stream = self.streams.entry(on.stream).or_insert_with(|| Stream::open(connection.clone()));
        stream.send(RequestUnion::CreateRequest(on.request.clone()));
        loop {
            let mut answer = match stream.next().await {
                Ok(answer) => answer,
                Err(status) => return Outcome::refused(&status),
            };
            if !answer.created {
                stream.keep(answer);
                continue;
            }
            clean(&mut answer.header, newest);
            if !answer.canceled {
                stream.live.insert(answer.watch_id, on.request.start_revision);
            }
            return Outcome::Answered(vec![answer.encode_to_vec()]);
        }
    }

    /// Cancels a watcher; gives the answer to that, if it lived.
    pub(crate) async fn cancel(
        &mut self,
        on: &OnStream<pb::WatchCancelRequest>,
        newest: &mut i64,
    ) -> Outcome {
        let Some(stream) = self.streams.get_mut(&on.stream) else { return Outcome::Answered(Vec::new()) };
        stream.send(RequestUnion::CancelRequest(on.request));
        if !stream.live.contains_key(&on.request.watch_id) {
            return Outcome::Answered(Vec::new());
        }
        loop {
            let mut answer = match stream.next().await {
                Ok(answer) => answer,
                Err(status) => return Outcome::refused(&status),
            };
            if !answer.canceled || answer.watch_id != on.request.watch_id {
                stream.keep(answer);
                continue;
            }
            stream.live.remove(&answer.watch_id);
            clean(&mut answer.header, newest);
            return Outcome::Answered(vec![answer.encode_to_vec()]);
        }
    }

    /// Waits until all streams have told everything up to `revision`; gives what they told.
    pub(crate) async fn settle(&mut self, revision: i64) -> Outcome {
        let mut messages = Vec::new();
        for (number, stream) in &mut self.streams {
            if let Err(status) = stream.catch_up(revision).await {
                return Outcome::refused(&Status::new(
                    status.code(),
                    format!("stream {number}: {}", status.message()),
                ));
            }
            for (_, answers) in std::mem::take(&mut stream.got) {
                for mut answer in together(answers) {
                    // Which stream it was, where nothing else is.
                    let header = answer.header.get_or_insert_default();
                    header.member_id = u64::from(*number);
                    messages.push(answer.encode_to_vec());
                }
            }
        }
        Outcome::Answered(messages)
    }
}

impl Stream {
    fn open(connection: Connection) -> Stream {
        let (requests, outgoing) = mpsc::unbounded_channel();
        let (incoming, answers) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut client = WatchClient::new(connection).max_decoding_message_size(usize::MAX);
            // etcd sends nothing before the first answer.
            let mut messages = match client.watch(UnboundedReceiverStream::new(outgoing)).await {
                Ok(response) => response.into_inner(),
                Err(status) => return drop(incoming.send(Err(status))),
            };
            loop {
                let message = messages.message().await;
                let end = !matches!(message, Ok(Some(_)));
                let _ =
                    incoming.send(message.and_then(|message| message.ok_or_else(|| Status::ok("the end"))));
                if end {
                    return;
                }
            }
        });
        Stream { requests, answers, live: BTreeMap::new(), got: BTreeMap::new(), progress: 0 }
    }

    fn send(&self, request: RequestUnion) {
        // A stream that has ended tells so when it is read.
        let _ = self.requests.send(pb::WatchRequest { request_union: Some(request) });
    }

    async fn next(&mut self) -> Result<pb::WatchResponse, Status> {
        soon(self.answers.recv()).await.unwrap_or_else(|| Err(Status::unknown("the stream has ended")))
    }

    /// Keeps an answer that is not to a request just sent.
    fn keep(&mut self, answer: pb::WatchResponse) {
        let header = answer.header.expect("answers have a header");
        if answer.events.is_empty() && !answer.canceled && !answer.created {
            if answer.watch_id == -1 {
                self.progress = header.revision;
            }
            return;
        }
        if answer.canceled {
            self.live.remove(&answer.watch_id);
        }
        self.got.entry(answer.watch_id).or_default().push(answer);
    }

    async fn catch_up(&mut self, revision: i64) -> Result<(), Status> {
        self.progress = 0;
        for _ in 0..ATTEMPTS_MAX {
            while let Ok(answer) = self.answers.try_recv() {
                self.keep(answer?);
            }
            let waits_for_the_future = self.live.values().any(|start| *start > revision);
            if self.live.is_empty() || waits_for_the_future || self.progress >= revision {
                return Ok(());
            }
            self.send(RequestUnion::ProgressRequest(pb::WatchProgressRequest {}));
            if let Ok(answer) = tokio::time::timeout(PATIENCE, self.next()).await {
                self.keep(answer?);
            }
        }
        let live = &self.live;
        Err(Status::deadline_exceeded(format!(
            "told up to {} of {revision}, watchers {live:?}",
            self.progress
        )))
    }
}

/// One message for all consecutive events of a watcher.
fn together(answers: Vec<pb::WatchResponse>) -> Vec<pb::WatchResponse> {
    let mut whole: Vec<pb::WatchResponse> = Vec::new();
    for answer in answers {
        let header = answer.header.expect("answers have a header");
        if answer.canceled {
            // A cancellation by compaction has no revision of its own.
            let header = Some(pb::ResponseHeader { revision: header.revision, ..Default::default() });
            whole.push(pb::WatchResponse { header, ..answer });
            continue;
        }
        let revisions =
            || answer.events.iter().map(|event| event.kv.as_ref().expect("events have a pair").mod_revision);
        assert!(revisions().is_sorted(), "{answer:?}");
        let last = revisions().next_back().expect("a message of events has one");
        assert!(header.revision >= last, "{answer:?} is older than what it tells");
        match whole.last_mut() {
            Some(before) if !before.canceled => {
                let told = before.events.last().and_then(|event| event.kv.as_ref()).expect("it has events");
                let first = revisions().next().expect("a message of events has one");
                assert!(
                    told.mod_revision < first,
                    "a revision torn apart or told twice: {before:?}, then {answer:?}"
                );
                before.events.extend(answer.events);
            }
            _ => whole.push(pb::WatchResponse { header: None, ..answer }),
        }
    }
    whole
}
