//! What every call passes on its way in and out.

use http::{HeaderMap, HeaderValue};
use raft::Store;
use tonic::codec::CompressionEncoding;
use tonic::metadata::MetadataMap;
use tonic::{Code, Response, Status};

use super::Context;
use crate::error::Refusal;
use crate::flag::Flag;
use crate::http::metrics::grpc::{Handling, Method};
use crate::pb::etcdserverpb::ResponseHeader;

/// How the messages of a request are compressed.
///
/// # Errors
/// [`Refusal::UnknownCompression`].
pub(super) fn compression(headers: &HeaderMap) -> Result<Option<CompressionEncoding>, Refusal> {
    match headers.get("grpc-encoding").map(HeaderValue::as_bytes) {
        None | Some(b"identity") => Ok(None),
        Some(b"gzip") => Ok(Some(CompressionEncoding::Gzip)),
        Some(other) => Err(Refusal::UnknownCompression(String::from_utf8_lossy(other).into_owned())),
    }
}

/// A call that was admitted.
#[derive(Debug)]
pub(super) struct Call {
    handling: Handling,
    /// The client wants the call ended if the member loses its leader.
    pub(super) needs_leader: bool,
}

impl Call {
    /// Counts how a unary call ends, and makes its answer or its refusal.
    pub(super) fn answer<T>(self, result: Result<T, Status>) -> Result<Response<T>, Status> {
        self.end(result.as_ref().map_or_else(Status::code, |_| Code::Ok));
        result.map(Response::new)
    }

    /// Counts how the call ends.
    pub(super) fn end(self, code: Code) {
        self.handling.end(code);
    }
}

impl Context {
    /// Begins a call, if its metadata allows it.
    ///
    /// # Errors
    /// [`Refusal::InvalidClientApiVersion`], [`Refusal::NoLeader`].
    pub(super) fn begin(&self, method: Method, metadata: &MetadataMap) -> Result<Call, Status> {
        let handling = self.metrics.grpc.begin(method);
        match self.admit(method, metadata) {
            Ok(needs_leader) => Ok(Call { handling, needs_leader }),
            Err(refusal) => {
                handling.end(refusal.code());
                Err(refusal.into())
            }
        }
    }

    /// Whether the call needs a leader.
    fn admit(&self, method: Method, metadata: &MetadataMap) -> Result<bool, Refusal> {
        let version = match metadata.get("client-api-version") {
            Some(version) => {
                std::str::from_utf8(version.as_bytes()).map_err(|_| Refusal::InvalidClientApiVersion)?
            }
            None => "unknown",
        };
        self.metrics.clients.count(method.is_unary(), version);
        let needs_leader = metadata.get("hasleader").is_some_and(|value| value.as_bytes() == b"true");
        if needs_leader && self.store.status().leader == 0 {
            return Err(Refusal::NoLeader);
        }
        Ok(needs_leader)
    }

    /// The header of an answer that holds at `revision`.
    pub(super) fn header(&self, revision: i64) -> Option<ResponseHeader> {
        Some(header(&self.store, revision))
    }

    /// What ends a stream from within.
    pub(super) fn endings(&self, needs_leader: bool) -> Endings {
        Endings { stopping: self.stopping.clone(), leaderless: needs_leader.then(|| self.leaderless.clone()) }
    }
}

fn header(store: &Store, revision: i64) -> ResponseHeader {
    ResponseHeader {
        cluster_id: store.cluster_id(),
        member_id: store.member_id(),
        revision,
        raft_term: store.raft_term(),
    }
}

/// What ends a stream from within.
#[derive(Debug)]
pub(super) struct Endings {
    stopping: Flag,
    /// `None` if the client does not mind.
    leaderless: Option<Flag>,
}

impl Endings {
    /// Waits until the stream must end; gives the reason. Safe to drop and call again.
    pub(super) async fn reached(&mut self) -> Refusal {
        let leaderless = async {
            match &mut self.leaderless {
                Some(leaderless) => leaderless.raised().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.stopping.raised() => Refusal::Stopped,
            () = leaderless => Refusal::NoLeader,
        }
    }
}
