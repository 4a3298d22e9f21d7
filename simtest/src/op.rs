//! Requests and answers as plain data: what the workload asks, the client carries and the model answers.
//!
//! The names are those of etcd's API. Of a header only the revision is kept, since nothing else of it is a
//! function of the history. Enums that a client may fill with numbers that there are not are numbers here.

use std::fmt;

use bytes::Bytes;

/// A stored pair, or one that is gone.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct KeyValue {
    /// The key.
    pub key: Bytes,
    /// Revision that created it.
    pub create_revision: i64,
    /// Revision that wrote this version.
    pub mod_revision: i64,
    /// Versions since it was created; 1 for the first.
    pub version: i64,
    /// The value.
    pub value: Bytes,
    /// The lease that it hangs on; 0 for none.
    pub lease: i64,
}

/// As the fields, but for a long value, of which the beginning is enough for people.
impl fmt::Debug for KeyValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyValue")
            .field("key", &self.key)
            .field("create_revision", &self.create_revision)
            .field("mod_revision", &self.mod_revision)
            .field("version", &self.version)
            .field("value", &Short(&self.value))
            .field("lease", &self.lease)
            .finish()
    }
}

/// A value whose text is at most a few bytes of it.
struct Short<'a>(&'a Bytes);

impl fmt::Debug for Short<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 24;
        if self.0.len() <= MOST {
            return self.0.fmt(f);
        }
        write!(f, "{:?} and {} bytes more", self.0.slice(..MOST), self.0.len() - MOST)
    }
}

/// What a Range asks; the fields are the API's.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the fields of RangeRequest")]
pub struct Range {
    pub key: Bytes,
    pub range_end: Bytes,
    pub limit: i64,
    pub revision: i64,
    pub sort_order: i32,
    pub sort_target: i32,
    pub serializable: bool,
    pub keys_only: bool,
    pub count_only: bool,
    pub min_mod_revision: i64,
    pub max_mod_revision: i64,
    pub min_create_revision: i64,
    pub max_create_revision: i64,
}

/// What a Put asks.
#[derive(Clone, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the fields of PutRequest")]
pub struct Put {
    pub key: Bytes,
    pub value: Bytes,
    pub lease: i64,
    pub prev_kv: bool,
    pub ignore_value: bool,
    pub ignore_lease: bool,
}

/// As the fields, but for a long value.
impl fmt::Debug for Put {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Put")
            .field("key", &self.key)
            .field("value", &Short(&self.value))
            .field("lease", &self.lease)
            .field("prev_kv", &self.prev_kv)
            .field("ignore_value", &self.ignore_value)
            .field("ignore_lease", &self.ignore_lease)
            .finish()
    }
}

/// What a DeleteRange asks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the fields of DeleteRangeRequest")]
pub struct Delete {
    pub key: Bytes,
    pub range_end: Bytes,
    pub prev_kv: bool,
}

/// The right side of a compare.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the arms of Compare.target_union")]
pub enum Operand {
    Version(i64),
    CreateRevision(i64),
    ModRevision(i64),
    Value(Bytes),
    Lease(i64),
}

/// One condition of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compare {
    /// The key, or the first of a range.
    pub key: Bytes,
    /// As in [`Range`]; empty for the key alone.
    pub range_end: Bytes,
    /// 0 equal, 1 greater, 2 less, 3 not equal; any other number holds always.
    pub result: i32,
    /// 0 version, 1 create revision, 2 mod revision, 3 value, 4 lease.
    pub target: i32,
    /// What is compared with; `None` stands for 0 and for no bytes, as one of another kind does.
    pub operand: Option<Operand>,
}

/// Conditions and two branches.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the fields of TxnRequest")]
pub struct Txn {
    pub compare: Vec<Compare>,
    pub success: Vec<TxnOp>,
    pub failure: Vec<TxnOp>,
}

/// One operation of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the arms of RequestOp")]
pub enum TxnOp {
    Range(Range),
    Put(Put),
    Delete(Delete),
    Txn(Txn),
    /// A message with no arm set.
    Nothing,
}

/// A unary request, or a stream that answers one request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields of the API's requests")]
pub enum Request {
    Range(Range),
    /// RangeStream; its pieces merged are the answer.
    RangeStream(Range),
    Put(Put),
    Delete(Delete),
    Txn(Txn),
    Compact {
        revision: i64,
        physical: bool,
    },
    Grant {
        id: i64,
        ttl: i64,
    },
    Revoke {
        id: i64,
    },
    KeepAlive {
        id: i64,
    },
    TimeToLive {
        id: i64,
        keys: bool,
    },
    Leases,
}

/// The answer to [`Range`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the fields of RangeResponse")]
pub struct RangeAnswer {
    pub revision: i64,
    pub kvs: Vec<KeyValue>,
    pub more: bool,
    pub count: i64,
    /// Of the model's answers alone, and empty if the order asked for leaves none open: every pair that the limit
    /// chooses from. Pairs of one rank may come in any order; etcd's sort is not stable.
    pub ties: Vec<Tie>,
}

/// A pair and its place in an order with equals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tie {
    /// Classes of equals before its own.
    pub rank: usize,
    /// The pair, as it is answered.
    pub pair: KeyValue,
}

/// The answer to [`Put`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the fields of PutResponse")]
pub struct PutAnswer {
    pub revision: i64,
    pub prev_kv: Option<KeyValue>,
}

/// The answer to [`Delete`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the fields of DeleteRangeResponse")]
pub struct DeleteAnswer {
    pub revision: i64,
    pub deleted: i64,
    pub prev_kvs: Vec<KeyValue>,
}

/// The answer to [`Txn`]. The header of one inside another is empty: revision 0.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the fields of TxnResponse")]
pub struct TxnAnswer {
    pub revision: i64,
    pub succeeded: bool,
    pub responses: Vec<OpAnswer>,
}

/// The answer to a [`TxnOp`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the arms of ResponseOp")]
pub enum OpAnswer {
    Range(RangeAnswer),
    Put(PutAnswer),
    Delete(DeleteAnswer),
    Txn(TxnAnswer),
    /// A message with no arm set.
    Nothing,
}

/// The answer to a [`Request`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields of the API's responses")]
pub enum Answer {
    /// Of a Range and of a RangeStream.
    Range(RangeAnswer),
    Put(PutAnswer),
    Delete(DeleteAnswer),
    Txn(TxnAnswer),
    Compact {
        revision: i64,
    },
    Grant {
        revision: i64,
        id: i64,
        ttl: i64,
    },
    Revoke {
        revision: i64,
    },
    KeepAlive {
        revision: i64,
        ttl: i64,
    },
    TimeToLive {
        revision: i64,
        ttl: i64,
        granted_ttl: i64,
        keys: Vec<Bytes>,
    },
    Leases {
        revision: i64,
        ids: Vec<i64>,
    },
}

impl Answer {
    /// The header's revision.
    #[must_use]
    pub fn revision(&self) -> i64 {
        match self {
            Answer::Range(answer) => answer.revision,
            Answer::Put(answer) => answer.revision,
            Answer::Delete(answer) => answer.revision,
            Answer::Txn(answer) => answer.revision,
            Answer::Compact { revision }
            | Answer::Grant { revision, .. }
            | Answer::Revoke { revision }
            | Answer::KeepAlive { revision, .. }
            | Answer::TimeToLive { revision, .. }
            | Answer::Leases { revision, .. } => *revision,
        }
    }
}

/// A refusal or a failure: the gRPC code by number and the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The gRPC status code.
    pub code: i32,
    /// The status's message.
    pub text: String,
}

impl Refusal {
    /// Whether the request was surely not done and the refusal is an answer of the store, which the model
    /// judges. Any other leaves the outcome unknown.
    #[must_use]
    pub fn is_answer(&self) -> bool {
        let answered = [3, 5, 9, 11, 12];
        answered.contains(&self.code)
    }
}

/// A change of one key: what a watch reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Whether the key was deleted; `kv` then has only its key and the revision.
    pub deleted: bool,
    /// The pair as written.
    pub kv: KeyValue,
    /// The pair as it was, if it was asked for and could be had.
    pub prev_kv: Option<KeyValue>,
}

/// What a watch asks to be told.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the fields of WatchCreateRequest")]
pub struct WatchCreate {
    pub key: Bytes,
    pub range_end: Bytes,
    pub start_revision: i64,
    pub progress_notify: bool,
    pub no_put: bool,
    pub no_delete: bool,
    pub prev_kv: bool,
    pub watch_id: i64,
    pub fragment: bool,
}

/// One message to a watch stream.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the arms of WatchRequest")]
pub enum WatchRequest {
    Create(WatchCreate),
    Cancel { watch_id: i64 },
    Progress,
}

/// One message from a watch stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the fields of WatchResponse")]
pub struct WatchMessage {
    pub revision: i64,
    pub watch_id: i64,
    pub created: bool,
    pub canceled: bool,
    pub compact_revision: i64,
    pub cancel_reason: String,
    pub fragment: bool,
    pub events: Vec<Event>,
}
