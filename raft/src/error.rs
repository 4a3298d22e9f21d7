//! What a request can end with, sorted by what the caller does next. The texts and codes that clients of
//! etcd compare are chosen in the server, from these.

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a request was refused or has no known outcome.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    // The request itself is wrong: nothing was done, the same request never succeeds.
    /// A key that must not be empty is.
    #[error("key is not provided")]
    EmptyKey,
    /// `ignore_*` of a key that is not there.
    #[error("key not found")]
    KeyNotFound,
    /// `ignore_value` with a value.
    #[error("value is provided")]
    ValueProvided,
    /// `ignore_lease` with a lease.
    #[error("lease is provided")]
    LeaseProvided,
    /// More operations in a transaction than allowed.
    #[error("too many operations in txn request")]
    TooManyOps,
    /// A transaction writes one key twice.
    #[error("duplicate key given in txn request")]
    DuplicateKey,
    /// The request is larger than `max_request_bytes`.
    #[error("request is too large")]
    TooLarge,
    /// A time to live beyond etcd's maximum.
    #[error("too large lease TTL")]
    LeaseTtlTooLarge,

    // The request does not fit the state: nothing was done.
    /// The revision asked for was compacted.
    #[error("required revision has been compacted")]
    Compacted,
    /// The revision asked for does not exist yet.
    #[error("required revision is a future revision")]
    FutureRevision,
    /// No such lease.
    #[error("requested lease not found")]
    LeaseNotFound,
    /// The lease id is taken.
    #[error("lease already exists")]
    LeaseExists,
    /// The space quota is used up; deletes and compaction still work.
    #[error("database space exceeded")]
    NoSpace,
    /// The corruption alarm is on.
    #[error("corrupt cluster")]
    CorruptAlarm,

    // Try again; nothing was done.
    /// No leader is known.
    #[error("no leader")]
    NoLeader,
    /// More waits than the store admits.
    #[error("too many requests")]
    TooManyRequests,
    /// This member is shutting down.
    #[error("server stopped")]
    Stopped,

    // The outcome is unknown.
    /// No answer in time; a write may or may not happen.
    #[error("request timed out")]
    Timeout,
    /// The leader changed while the request was under way.
    #[error("leader changed")]
    LeaderChanged,

    /// The storage of this member failed; see the text. The member ends.
    #[error("storage failed: {0}")]
    Storage(String),
}

impl From<engine::Error> for Error {
    fn from(error: engine::Error) -> Self {
        match error {
            engine::Error::Compacted { .. } => Error::Compacted,
            engine::Error::Full(_) => Error::NoSpace,
            other => Error::Storage(other.to_string()),
        }
    }
}
