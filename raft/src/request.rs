//! What callers ask of the [`crate::Store`], as typed values. The server makes them from protobuf.
//!
//! Fields mean what etcd's API says of the fields of the same name. Numbers out of range are kept as they
//! came where etcd gives them a meaning (a limit below zero is none).

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Order of a range's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SortOrder {
    /// As stored; with a target other than the key it means ascending.
    #[default]
    None,
    /// Smallest first.
    Ascend,
    /// Largest first.
    Descend,
}

/// What a range is sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the names say it")]
pub enum SortTarget {
    #[default]
    Key,
    Version,
    Create,
    Mod,
    Value,
}

/// Reads the keys of a range at a revision.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Range {
    /// First key.
    pub key: Bytes,
    /// Empty: `key` alone. `\0`: every key from `key` on. Otherwise the first key not wanted.
    pub range_end: Bytes,
    /// Most rows wanted; 0 and below: all.
    pub limit: i64,
    /// Revision to read at; 0 and below: the newest.
    pub revision: i64,
    /// See [`SortOrder`].
    pub sort_order: SortOrder,
    /// See [`SortTarget`].
    pub sort_target: SortTarget,
    /// Answer from local state, without asking whether it is the newest.
    pub serializable: bool,
    /// Rows without values.
    pub keys_only: bool,
    /// The count alone.
    pub count_only: bool,
    /// Smallest and largest mod revision of rows; 0: no bound.
    pub min_mod_revision: i64,
    /// See `min_mod_revision`.
    pub max_mod_revision: i64,
    /// Smallest and largest create revision of rows; 0: no bound.
    pub min_create_revision: i64,
    /// See `min_create_revision`.
    pub max_create_revision: i64,
}

impl Range {
    /// Most rows wanted.
    #[must_use]
    pub fn rows_max(&self) -> usize {
        if self.limit <= 0 { usize::MAX } else { usize::try_from(self.limit).unwrap_or(usize::MAX) }
    }
}

/// Writes one key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Put {
    /// The key; not empty.
    pub key: Bytes,
    /// The value.
    pub value: Bytes,
    /// Lease to attach, 0 for none.
    pub lease: i64,
    /// Answer with the pair as it was.
    pub prev_kv: bool,
    /// Keep the value as it is; `value` must be empty.
    pub ignore_value: bool,
    /// Keep the lease as it is; `lease` must be 0.
    pub ignore_lease: bool,
}

/// Deletes the keys of a range.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeleteRange {
    /// First key.
    pub key: Bytes,
    /// As [`Range::range_end`].
    pub range_end: Bytes,
    /// Answer with the pairs as they were.
    pub prev_kv: bool,
}

/// How a compare relates what is stored to its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum CompareResult {
    Equal,
    Greater,
    Less,
    NotEqual,
    /// A number that etcd does not know: always true, as in etcd.
    Unknown,
}

/// What a compare looks at, with the value to compare with.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum CompareTarget {
    Version(i64),
    Create(i64),
    Mod(i64),
    Value(Bytes),
    Lease(i64),
    /// A number that etcd does not know: compares as equal, as in etcd.
    Unknown,
}

/// One condition of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compare {
    /// First key.
    pub key: Bytes,
    /// As [`Range::range_end`]; every key of the range must satisfy the condition.
    pub range_end: Bytes,
    /// The relation.
    pub result: CompareResult,
    /// The quantity.
    pub target: CompareTarget,
}

/// One operation of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum TxnOp {
    Range(Range),
    Put(Put),
    DeleteRange(DeleteRange),
    Txn(Txn),
}

/// Conditions, and what to do where they hold and where not. One revision, whatever it writes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Txn {
    /// All must hold.
    pub compare: Vec<Compare>,
    /// Done if they do.
    pub success: Vec<TxnOp>,
    /// Done if one does not.
    pub failure: Vec<TxnOp>,
}

impl Txn {
    /// Whether neither branch can write, at any depth.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.success.iter().chain(&self.failure).all(|op| match op {
            TxnOp::Range(_) => true,
            TxnOp::Put(_) | TxnOp::DeleteRange(_) => false,
            TxnOp::Txn(txn) => txn.is_read_only(),
        })
    }

    /// Whether every range in it, at any depth, is serializable.
    #[must_use]
    pub fn is_serializable(&self) -> bool {
        self.success.iter().chain(&self.failure).all(|op| match op {
            TxnOp::Range(range) => range.serializable,
            TxnOp::Put(_) | TxnOp::DeleteRange(_) => false,
            // etcd sends a nested transaction through the log in any case.
            TxnOp::Txn(_) => false,
        })
    }
}

/// A stored pair, as etcd shows it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeyValue {
    /// The key.
    pub key: Bytes,
    /// Revision that created it.
    pub create_revision: i64,
    /// Revision that last changed it.
    pub mod_revision: i64,
    /// Puts since it was created.
    pub version: i64,
    /// The value; empty if only keys were asked for.
    pub value: Bytes,
    /// Lease that holds it, 0 for none.
    pub lease: i64,
}

/// Answer to [`Range`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RangeAnswer {
    /// The rows.
    pub kvs: Vec<KeyValue>,
    /// Whether the limit cut rows off.
    pub more: bool,
    /// Keys in the range, whatever the limit and the filters.
    pub count: i64,
}

/// Answer to [`Put`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PutAnswer {
    /// The pair as it was, if asked for and there was one.
    pub prev_kv: Option<KeyValue>,
}

/// Answer to [`DeleteRange`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeleteRangeAnswer {
    /// Keys deleted.
    pub deleted: i64,
    /// The pairs as they were, if asked for.
    pub prev_kvs: Vec<KeyValue>,
}

/// Answer to one [`TxnOp`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum TxnOpAnswer {
    Range(RangeAnswer),
    Put(PutAnswer),
    DeleteRange(DeleteRangeAnswer),
    Txn(TxnAnswer),
}

/// Answer to [`Txn`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TxnAnswer {
    /// Which branch ran.
    pub succeeded: bool,
    /// One answer for each of its operations.
    pub answers: Vec<TxnOpAnswer>,
    /// Revision inside the transaction when each operation had run, same length as `answers`.
    pub revisions: Vec<i64>,
}

/// An answer with the place in the history where it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct At<T> {
    /// etcd's `header.revision`.
    pub revision: i64,
    /// The answer.
    pub answer: T,
}

/// Grants a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeaseGrant {
    /// Wanted id, 0: the store picks one.
    pub id: i64,
    /// Seconds to live; raised to the least that the election timeout allows.
    pub ttl_seconds: i64,
}

/// A lease and its time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LeaseStatus {
    /// Its id.
    pub id: i64,
    /// Whole seconds left; −1 if there is no such lease.
    pub ttl_seconds: i64,
    /// Seconds granted; 0 if there is no such lease.
    pub granted_ttl_seconds: i64,
    /// Keys attached, if asked for.
    pub keys: Vec<Bytes>,
}

/// A member of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Member {
    /// etcd's member id.
    pub id: u64,
    /// Human-readable name; empty until it started.
    pub name: String,
    /// Where its peers reach it.
    pub peer_urls: Vec<String>,
    /// Where clients reach it.
    pub client_urls: Vec<String>,
    /// Whether it has no vote.
    pub is_learner: bool,
}

/// Kinds of alarm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum AlarmKind {
    NoSpace,
    Corrupt,
}

/// An alarm that is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Alarm {
    /// The member that raised it.
    pub member: u64,
    /// What it is.
    pub kind: AlarmKind,
}

/// State of this member, as `Maintenance.Status` and the metrics show it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Status {
    /// Bytes of kept records and tables.
    pub db_size: i64,
    /// The same without what compaction hides.
    pub db_size_in_use: i64,
    /// Member that leads the home group, 0 for none.
    pub leader: u64,
    /// Its term.
    pub raft_term: u64,
    /// Last index known committed.
    pub raft_index: u64,
    /// Last index applied.
    pub raft_applied_index: u64,
    /// Newest revision applied.
    pub revision: i64,
    /// Newest revision compacted, 0 for none.
    pub compacted: i64,
    /// Whether this member has no vote.
    pub is_learner: bool,
    /// Alarms that are on.
    pub alarms: Vec<Alarm>,
}
