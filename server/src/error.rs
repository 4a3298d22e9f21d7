//! The one table of codes and texts.
//!
//! Clients of etcd compare texts, so they are part of the API, letter by letter, with what looks like slips:
//! `too many requests` comes as Unknown, and some texts carry no `etcdserver: ` before them.
//!
//! Everything that refuses a request passes here: what the store says ([`raft::Error`]) and what the server
//! itself finds ([`Refusal`]).

use std::borrow::Cow;

use raft::Error;
use tonic::{Code, Status};

/// The code and the text with which a client hears of `error`.
#[must_use]
pub fn answer(error: &Error) -> (Code, Cow<'static, str>) {
    let (code, text) = match error {
        Error::EmptyKey => (Code::InvalidArgument, "etcdserver: key is not provided"),
        Error::KeyNotFound => (Code::InvalidArgument, "etcdserver: key not found"),
        Error::ValueProvided => (Code::InvalidArgument, "etcdserver: value is provided"),
        Error::LeaseProvided => (Code::InvalidArgument, "etcdserver: lease is provided"),
        Error::TooManyOps => (Code::InvalidArgument, "etcdserver: too many operations in txn request"),
        Error::DuplicateKey => (Code::InvalidArgument, "etcdserver: duplicate key given in txn request"),
        Error::TooLarge => (Code::InvalidArgument, "etcdserver: request is too large"),
        Error::LeaseTtlTooLarge => (Code::OutOfRange, "etcdserver: too large lease TTL"),
        Error::Compacted => (Code::OutOfRange, "etcdserver: mvcc: required revision has been compacted"),
        Error::FutureRevision => {
            (Code::OutOfRange, "etcdserver: mvcc: required revision is a future revision")
        }
        Error::LeaseNotFound => (Code::NotFound, "etcdserver: requested lease not found"),
        Error::LeaseExists => (Code::FailedPrecondition, "etcdserver: lease already exists"),
        Error::NoSpace => (Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded"),
        Error::CorruptAlarm => (Code::DataLoss, "etcdserver: corrupt cluster"),
        Error::NoLeader => (Code::Unavailable, "etcdserver: no leader"),
        Error::TooManyRequests => (Code::Unknown, "etcdserver: too many requests"),
        Error::Stopped => (Code::Unavailable, "etcdserver: server stopped"),
        Error::Timeout => (Code::Unavailable, "etcdserver: request timed out"),
        Error::LeaderChanged => (Code::Unavailable, "etcdserver: leader changed"),
        // etcd has no text for it: it dies. A code that clients do not retry until their deadline hides the reason.
        Error::Storage(_) => return (Code::DataLoss, Cow::Owned(format!("etcdserver: {error}"))),
        // The enum may grow; a client can do nothing with what it does not know.
        _ => return (Code::Unknown, Cow::Owned(format!("etcdserver: {error}"))),
    };
    (code, Cow::Borrowed(text))
}

/// [`answer`] as tonic sends it.
#[must_use]
pub fn status(error: &Error) -> Status {
    let (code, text) = answer(error);
    if matches!(error, Error::Storage(_)) {
        tracing::error!(%error, "a request failed on the storage");
    }
    Status::new(code, text)
}

/// What the server refuses before, or beside, the store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A sort order or target with a number that there is not.
    #[error("etcdserver: invalid sort option")]
    InvalidSortOption,
    /// An operation of a transaction that is none of the four kinds.
    #[error("etcdserver: key not found")]
    EmptyOperation,
    /// The client's version in the metadata is not text.
    #[error("etcdserver: invalid client api version")]
    InvalidClientApiVersion,
    /// The client asked for a member that knows a leader.
    #[error("etcdserver: no leader")]
    NoLeader,
    /// The server is on its way down.
    #[error("etcdserver: server stopped")]
    Stopped,
    /// The client left a watch stream.
    #[error("etcdserver: watch canceled")]
    WatchCanceled,
    /// A streamed range in another order than the stored one.
    #[error("RangeStream does not support custom sort orders")]
    StreamSortOrder,
    /// A streamed range with bounds of revisions.
    #[error("RangeStream does not support revision filters")]
    StreamRevisionFilters,
    /// A message larger than the server takes.
    #[error("grpc: received message larger than max ({found} vs. {limit})")]
    MessageTooLarge {
        /// Bytes of the message.
        found: u64,
        /// Bytes that the server takes.
        limit: u64,
    },
    /// An answer larger than gRPC sends.
    #[error("trying to send message larger than max ({len} vs. {limit})")]
    AnswerTooLarge {
        /// Bytes of the message.
        len: u64,
        /// Bytes that can be sent.
        limit: u64,
    },
    /// A request whose compression is not known; with its name.
    #[error("grpc: Decompressor is not installed for grpc-encoding \"{0}\"")]
    UnknownCompression(String),
    /// A message that is not protobuf; with the reason.
    #[error("grpc: error unmarshalling request: {0}")]
    Undecodable(String),
    /// A method of etcd that there is none of here; with its name.
    #[error("keelson does not implement {0}")]
    NotImplemented(&'static str),
    /// A service that is not served; with its name.
    #[error("unknown service {0}")]
    UnknownService(String),
    /// A method that its service does not have; with the service's name.
    #[error("unknown method for service {0}")]
    UnknownMethod(&'static str),
    /// A request that is not gRPC where only gRPC is served.
    #[error("invalid gRPC request content-type")]
    NotGrpc,
}

impl Refusal {
    /// The code that goes with the text.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Refusal::InvalidSortOption | Refusal::EmptyOperation | Refusal::InvalidClientApiVersion => {
                Code::InvalidArgument
            }
            Refusal::NoLeader | Refusal::Stopped => Code::Unavailable,
            Refusal::WatchCanceled => Code::Cancelled,
            Refusal::MessageTooLarge { .. } | Refusal::AnswerTooLarge { .. } => Code::ResourceExhausted,
            Refusal::Undecodable(_) => Code::Internal,
            Refusal::NotGrpc => Code::Unknown,
            Refusal::StreamSortOrder
            | Refusal::StreamRevisionFilters
            | Refusal::NotImplemented(_)
            | Refusal::UnknownService(_)
            | Refusal::UnknownCompression(_)
            | Refusal::UnknownMethod(_) => Code::Unimplemented,
        }
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Status {
        Status::new(refusal.code(), refusal.to_string())
    }
}

/// tonic's words before the numbers in the status of a message beyond the limit.
const TONIC_TOO_LARGE: &str = "Error, decoded message length too large: found ";

/// etcd's answer in place of tonic's, if `status` says that a message is too large.
#[must_use]
pub fn too_large(status: &Status) -> Option<Refusal> {
    let numbers = status.message().strip_prefix(TONIC_TOO_LARGE)?;
    let mut numbers = numbers.split(|c: char| !c.is_ascii_digit()).filter(|number| !number.is_empty());
    let found = numbers.next()?.parse().ok()?;
    let limit = numbers.next()?.parse().ok()?;
    Some(Refusal::MessageTooLarge { found, limit })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tonics_words_become_etcds() {
        for (code, text, want, why) in [
            (
                Code::OutOfRange,
                "Error, decoded message length too large: found 2097164 bytes, the limit is: 2097152 bytes",
                Some("grpc: received message larger than max (2097164 vs. 2097152)"),
                "as tonic 0.14 says it",
            ),
            (Code::OutOfRange, "etcdserver: too large lease TTL", None, "another matter of the same code"),
            (Code::OutOfRange, "Error, decoded message length too large: found", None, "no numbers"),
        ] {
            let got = too_large(&Status::new(code, text)).map(|refusal| refusal.to_string());
            assert_eq!(got.as_deref(), want, "{why}");
        }
    }
}
