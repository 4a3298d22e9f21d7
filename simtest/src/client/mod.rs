//! The wire: plain requests out, plain answers in, over a channel that somebody else made.
//!
//! It knows no deadline and tries nothing twice; the workload does.

mod decode;
mod encode;

use server::pb::etcdserverpb as pb;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

use crate::op::{Answer, Refusal, Request, WatchMessage, WatchRequest};

#[allow(missing_docs, unreachable_pub, clippy::all, reason = "generated")]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/etcdserverpb.rs"));
}

use generated::kv_client::KvClient;
use generated::lease_client::LeaseClient;
use generated::watch_client::WatchClient;

/// Asks over one channel.
#[derive(Debug, Clone)]
pub struct Client {
    kv: KvClient<Channel>,
    lease: LeaseClient<Channel>,
    watch: WatchClient<Channel>,
}

impl Client {
    /// A client over `channel`, taking answers of any size.
    #[must_use]
    pub fn new(channel: Channel) -> Client {
        Client {
            kv: KvClient::new(channel.clone()).max_decoding_message_size(usize::MAX),
            lease: LeaseClient::new(channel.clone()).max_decoding_message_size(usize::MAX),
            watch: WatchClient::new(channel).max_decoding_message_size(usize::MAX),
        }
    }

    /// Asks once and waits for the answer, however long it takes.
    ///
    /// # Errors
    /// What the server refused, or how the connection failed.
    pub async fn ask(&mut self, request: &Request) -> Result<Answer, Refusal> {
        self.call(request).await.map_err(|status| refusal(&status))
    }

    async fn call(&mut self, request: &Request) -> Result<Answer, Status> {
        Ok(match request {
            Request::Range(range) => {
                let answer = self.kv.range(encode::range(range)).await?.into_inner();
                Answer::Range(decode::range(answer))
            }
            Request::RangeStream(range) => {
                let mut pieces = self.kv.range_stream(encode::range(range)).await?.into_inner();
                let mut whole = pb::RangeResponse::default();
                let mut complete = false;
                while let Some(piece) = pieces.message().await? {
                    let Some(piece) = piece.range_response else { continue };
                    whole.kvs.extend(piece.kvs);
                    complete = piece.header.is_some();
                    if complete {
                        (whole.header, whole.more, whole.count) = (piece.header, piece.more, piece.count);
                    }
                }
                if !complete {
                    return Err(Status::internal("a streamed range whose last piece has no header"));
                }
                Answer::Range(decode::range(whole))
            }
            Request::Put(put) => {
                let answer = self.kv.put(encode::put(put)).await?.into_inner();
                Answer::Put(decode::put(answer))
            }
            Request::Delete(delete) => {
                let answer = self.kv.delete_range(encode::delete(delete)).await?.into_inner();
                Answer::Delete(decode::delete(answer))
            }
            Request::Txn(txn) => {
                let answer = self.kv.txn(encode::txn(txn)).await?.into_inner();
                Answer::Txn(decode::txn(answer))
            }
            Request::Compact { revision, physical } => {
                let request = pb::CompactionRequest { revision: *revision, physical: *physical };
                let answer = self.kv.compact(request).await?.into_inner();
                Answer::Compact { revision: decode::revision(answer.header) }
            }
            Request::Grant { id, ttl } => {
                let request = pb::LeaseGrantRequest { ttl: *ttl, id: *id };
                let answer = self.lease.lease_grant(request).await?.into_inner();
                Answer::Grant { revision: decode::revision(answer.header), id: answer.id, ttl: answer.ttl }
            }
            Request::Revoke { id } => {
                let answer = self.lease.lease_revoke(pb::LeaseRevokeRequest { id: *id }).await?.into_inner();
                Answer::Revoke { revision: decode::revision(answer.header) }
            }
            Request::KeepAlive { id } => self.keep_alive(*id).await?,
            Request::TimeToLive { id, keys } => {
                let request = pb::LeaseTimeToLiveRequest { id: *id, keys: *keys };
                let answer = self.lease.lease_time_to_live(request).await?.into_inner();
                Answer::TimeToLive {
                    revision: decode::revision(answer.header),
                    ttl: answer.ttl,
                    granted_ttl: answer.granted_ttl,
                    keys: answer.keys,
                }
            }
            Request::Leases => {
                let answer = self.lease.lease_leases(pb::LeaseLeasesRequest {}).await?.into_inner();
                let ids = answer.leases.iter().map(|lease| lease.id).collect();
                Answer::Leases { revision: decode::revision(answer.header), ids }
            }
        })
    }

    /// One renewal on a stream of its own.
    async fn keep_alive(&mut self, id: i64) -> Result<Answer, Status> {
        let once = tokio_stream::once(pb::LeaseKeepAliveRequest { id });
        let mut answers = self.lease.lease_keep_alive(once).await?.into_inner();
        match answers.message().await? {
            Some(answer) => {
                Ok(Answer::KeepAlive { revision: decode::revision(answer.header), ttl: answer.ttl })
            }
            None => Err(Status::unavailable("the stream ended without an answer")),
        }
    }

    /// Opens a watch stream with its first request, without which servers answer nothing.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub async fn watch(&mut self, first: &WatchRequest) -> Result<WatchLink, Refusal> {
        let (sender, receiver) = mpsc::unbounded_channel();
        // The receiver is right here.
        let _ = sender.send(encode::watch(first));
        let answered = self.watch.watch(UnboundedReceiverStream::new(receiver)).await;
        let receiver = answered.map_err(|status| refusal(&status))?.into_inner();
        Ok(WatchLink { sender, receiver })
    }
}

/// An open watch stream.
#[derive(Debug)]
pub struct WatchLink {
    /// Bounded by what the workload asks: a few requests for each of its watches.
    sender: mpsc::UnboundedSender<pb::WatchRequest>,
    receiver: Streaming<pb::WatchResponse>,
}

impl WatchLink {
    /// Sends; on a broken stream it is lost, as [`WatchLink::receive`] tells.
    pub fn send(&self, request: &WatchRequest) {
        let _ = self.sender.send(encode::watch(request));
    }

    /// The next message.
    ///
    /// # Errors
    /// How the stream ended.
    pub async fn receive(&mut self) -> Result<WatchMessage, Refusal> {
        match self.receiver.message().await {
            Ok(Some(message)) => Ok(decode::watch(message)),
            Ok(None) => Err(lost("the stream ended")),
            Err(status) => Err(refusal(&status)),
        }
    }
}

/// An outcome that nobody knows.
pub(crate) fn lost(text: &str) -> Refusal {
    Refusal { code: Code::Unavailable as i32, text: text.to_owned() }
}

fn refusal(status: &Status) -> Refusal {
    Refusal { code: status.code() as i32, text: status.message().to_owned() }
}
