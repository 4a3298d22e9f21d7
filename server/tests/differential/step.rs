//! What is asked of a server, and what came of it: plain data that can be kept in a file.

use bytes::{Buf, BufMut};
use prost::Message;
use server::pb::etcdserverpb as pb;
use tonic::{Code, Status};

/// One thing to do.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    Range(pb::RangeRequest),
    RangeStream(pb::RangeRequest),
    Put(pb::PutRequest),
    DeleteRange(pb::DeleteRangeRequest),
    Txn(pb::TxnRequest),
    Compact(pb::CompactionRequest),
    /// A lease that the server names, or that ends soon, is revoked at once: nothing may depend on it.
    LeaseGrant(pb::LeaseGrantRequest),
    LeaseRevoke(pb::LeaseRevokeRequest),
    LeaseKeepAlive(pb::LeaseKeepAliveRequest),
    LeaseTimeToLive(pb::LeaseTimeToLiveRequest),
    LeaseLeases(pb::LeaseLeasesRequest),
    Alarm(pb::AlarmRequest),
    HashKv(pb::HashKvRequest),
    WatchCreate(OnStream<pb::WatchCreateRequest>),
    WatchCancel(OnStream<pb::WatchCancelRequest>),
    /// Waits until every watcher has what it is due, and collects it.
    Settle,
}

/// A request on one of several watch streams.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OnStream<T> {
    pub(crate) stream: u32,
    pub(crate) request: T,
}

/// What came of a [`Step`]: the messages of the answer, or the refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Answered(Vec<Vec<u8>>),
    Refused { code: i32, text: String },
}

impl Outcome {
    pub(crate) fn of<T: Message>(result: Result<T, Status>) -> Outcome {
        match result {
            Ok(answer) => Outcome::Answered(vec![answer.encode_to_vec()]),
            Err(status) => Outcome::refused(&status),
        }
    }

    pub(crate) fn refused(status: &Status) -> Outcome {
        Outcome::Refused { code: status.code() as i32, text: status.message().to_owned() }
    }

    /// The only message of an answer.
    pub(crate) fn answer<T: Message + Default>(&self) -> Option<T> {
        match self {
            Outcome::Answered(messages) if messages.len() == 1 => T::decode(&messages[0][..]).ok(),
            _ => None,
        }
    }
}

impl Step {
    /// `outcome` for a person.
    pub(crate) fn show(&self, outcome: &Outcome) -> String {
        fn as_text<T: Message + Default + std::fmt::Debug>(messages: &[Vec<u8>]) -> String {
            let one = |bytes: &Vec<u8>| {
                T::decode(&bytes[..]).map_or("?".to_owned(), |message| format!("{message:?}"))
            };
            messages.iter().map(one).collect::<Vec<_>>().join("\n    ")
        }
        let messages = match outcome {
            Outcome::Answered(messages) => messages,
            Outcome::Refused { code, text } => return format!("{:?}: {text}", Code::from_i32(*code)),
        };
        match self {
            Step::Range(_) => as_text::<pb::RangeResponse>(messages),
            Step::RangeStream(_) => as_text::<pb::RangeStreamResponse>(messages),
            Step::Put(_) => as_text::<pb::PutResponse>(messages),
            Step::DeleteRange(_) => as_text::<pb::DeleteRangeResponse>(messages),
            Step::Txn(_) => as_text::<pb::TxnResponse>(messages),
            Step::Compact(_) => as_text::<pb::CompactionResponse>(messages),
            Step::LeaseGrant(_) => as_text::<pb::LeaseGrantResponse>(messages),
            Step::LeaseRevoke(_) => as_text::<pb::LeaseRevokeResponse>(messages),
            Step::LeaseKeepAlive(_) => as_text::<pb::LeaseKeepAliveResponse>(messages),
            Step::LeaseTimeToLive(_) => as_text::<pb::LeaseTimeToLiveResponse>(messages),
            Step::LeaseLeases(_) => as_text::<pb::LeaseLeasesResponse>(messages),
            Step::Alarm(_) => as_text::<pb::AlarmResponse>(messages),
            Step::HashKv(_) => as_text::<pb::HashKvResponse>(messages),
            Step::WatchCreate(_) | Step::WatchCancel(_) | Step::Settle => {
                as_text::<pb::WatchResponse>(messages)
            }
        }
    }

    /// A number for the kind, the stream, and the request.
    fn parts(&self) -> (u8, u32, Vec<u8>) {
        match self {
            Step::Range(request) => (0, 0, request.encode_to_vec()),
            Step::RangeStream(request) => (1, 0, request.encode_to_vec()),
            Step::Put(request) => (2, 0, request.encode_to_vec()),
            Step::DeleteRange(request) => (3, 0, request.encode_to_vec()),
            Step::Txn(request) => (4, 0, request.encode_to_vec()),
            Step::Compact(request) => (5, 0, request.encode_to_vec()),
            Step::LeaseGrant(request) => (6, 0, request.encode_to_vec()),
            Step::LeaseRevoke(request) => (7, 0, request.encode_to_vec()),
            Step::LeaseKeepAlive(request) => (8, 0, request.encode_to_vec()),
            Step::LeaseTimeToLive(request) => (9, 0, request.encode_to_vec()),
            Step::LeaseLeases(request) => (10, 0, request.encode_to_vec()),
            Step::Alarm(request) => (11, 0, request.encode_to_vec()),
            Step::HashKv(request) => (12, 0, request.encode_to_vec()),
            Step::WatchCreate(on) => (13, on.stream, on.request.encode_to_vec()),
            Step::WatchCancel(on) => (14, on.stream, on.request.encode_to_vec()),
            Step::Settle => (15, 0, Vec::new()),
        }
    }

    /// Appends it to a recording.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let (kind, stream, request) = self.parts();
        out.put_u8(kind);
        out.put_u32_le(stream);
        put_bytes(out, &request);
    }

    /// Takes one from a recording.
    pub(crate) fn take(from: &mut &[u8]) -> Step {
        fn message<T: Message + Default>(bytes: &[u8]) -> T {
            T::decode(bytes).expect("a recorded request")
        }
        let (kind, stream) = (from.get_u8(), from.get_u32_le());
        let bytes = take_bytes(from);
        match kind {
            0 => Step::Range(message(bytes)),
            1 => Step::RangeStream(message(bytes)),
            2 => Step::Put(message(bytes)),
            3 => Step::DeleteRange(message(bytes)),
            4 => Step::Txn(message(bytes)),
            5 => Step::Compact(message(bytes)),
            6 => Step::LeaseGrant(message(bytes)),
            7 => Step::LeaseRevoke(message(bytes)),
            8 => Step::LeaseKeepAlive(message(bytes)),
            9 => Step::LeaseTimeToLive(message(bytes)),
            10 => Step::LeaseLeases(message(bytes)),
            11 => Step::Alarm(message(bytes)),
            12 => Step::HashKv(message(bytes)),
            13 => Step::WatchCreate(OnStream { stream, request: message(bytes) }),
            14 => Step::WatchCancel(OnStream { stream, request: message(bytes) }),
            15 => Step::Settle,
            other => panic!("a step of kind {other}"),
        }
    }
}

impl Outcome {
    /// Appends it to a recording.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        match self {
            Outcome::Answered(messages) => {
                out.put_u8(0);
                out.put_u32_le(messages.len() as u32);
                messages.iter().for_each(|message| put_bytes(out, message));
            }
            Outcome::Refused { code, text } => {
                out.put_u8(1);
                out.put_i32_le(*code);
                put_bytes(out, text.as_bytes());
            }
        }
    }

    /// Takes one from a recording.
    pub(crate) fn take(from: &mut &[u8]) -> Outcome {
        match from.get_u8() {
            0 => {
                let messages = from.get_u32_le();
                Outcome::Answered((0..messages).map(|_| take_bytes(from).to_vec()).collect())
            }
            1 => {
                let code = from.get_i32_le();
                let text = String::from_utf8(take_bytes(from).to_vec()).expect("text");
                Outcome::Refused { code, text }
            }
            other => panic!("an outcome of kind {other}"),
        }
    }
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.put_u32_le(bytes.len() as u32);
    out.put_slice(bytes);
}

fn take_bytes<'a>(from: &mut &'a [u8]) -> &'a [u8] {
    let len = from.get_u32_le() as usize;
    let (bytes, rest) = from.split_at(len);
    *from = rest;
    bytes
}
