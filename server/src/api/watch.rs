//! `etcdserverpb.Watch`.
//!
//! A stream's requests and its answers share one state, [`Session`]: it waits for whichever comes first, a
//! request, an answer of the store, or the end. It is driven by the connection, when there is room to send.
//!
//! What many watchers are told alike is encoded once: an answer is its fields, and events of which each may come
//! from an encoding that all of them share. So the service has an encoder of its own, and no generated code.

use std::sync::Arc;

use bytes::{BufMut as _, Bytes};
use futures_util::stream::{self, BoxStream, StreamExt as _};
use http_body::Body as HttpBody;
use prost::Message as _;
use prost::encoding::{self, WireType};
use raft::{Event, WatchAnswer, WatchCreate, WatchStream};
use tonic::body::Body;
use tonic::codec::{Codec, CompressionEncoding, EncodeBuf, Encoder};
use tonic::server::Grpc;
use tonic::{Code, Request, Response, Status, Streaming};

use super::call::{Call, Endings};
use super::codec::{CountingCodec, CountingDecoder};
use super::{Context, translate};
use crate::error::{Refusal, status, too_large};
use crate::http::metrics::grpc::Method;
use crate::http::metrics::wire_bytes;
use crate::pb::etcdserverpb::watch_create_request::FilterType;
use crate::pb::etcdserverpb::watch_request::RequestUnion;
use crate::pb::etcdserverpb::{ResponseHeader, WatchCreateRequest, WatchRequest, WatchResponse};
use crate::pb::mvccpb;

/// The field `events` of `WatchResponse`, the last that it has.
const EVENTS: u32 = 11;

/// Serves a stream whose messages may be `largest` bytes long.
pub(super) async fn answer<B>(
    context: Arc<Context>,
    request: http::Request<B>,
    largest: usize,
) -> http::Response<Body>
where
    B: HttpBody + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send,
{
    let service = tower::service_fn(move |request| std::future::ready(begin(&context, request)));
    Grpc::new(WatchCodec)
        .accept_compressed(CompressionEncoding::Gzip)
        .apply_max_message_size_config(Some(largest), None)
        .streaming(service, request)
        .await
}

type Answers = BoxStream<'static, Result<Answer, Status>>;

fn begin(
    context: &Arc<Context>,
    request: Request<Streaming<WatchRequest>>,
) -> Result<Response<Answers>, Status> {
    let call = context.begin(Method::WatchWatch, request.metadata())?;
    let session = Session {
        endings: context.endings(call.needs_leader),
        context: Arc::clone(context),
        call,
        requests: Some(request.into_inner()),
        watch: context.store.watch_stream(),
    };
    Ok(Response::new(stream::unfold(Some(session), Session::answer).boxed()))
}

/// An answer on its way to the wire.
#[derive(Debug)]
struct Answer {
    /// All but the events.
    fields: WatchResponse,
    events: Vec<Event>,
}

/// Requests as every service reads them; answers with shared events.
#[derive(Debug, Clone, Copy)]
struct WatchCodec;

impl Codec for WatchCodec {
    type Encode = Answer;
    type Decode = WatchRequest;
    type Encoder = WatchCodec;
    type Decoder = CountingDecoder<WatchRequest>;

    fn encoder(&mut self) -> WatchCodec {
        WatchCodec
    }

    fn decoder(&mut self) -> Self::Decoder {
        CountingCodec::<WatchResponse, WatchRequest>::default().decoder()
    }
}

impl Encoder for WatchCodec {
    type Item = Answer;
    type Error = Status;

    fn encode(&mut self, answer: Answer, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        let room = buffer.remaining_mut();
        answer.fields.encode_raw(buffer);
        for event in answer.events {
            match event.encoding.clone() {
                Some(shared) => {
                    let bytes = shared.get_or_init(|| Bytes::from(self::event(event).encode_to_vec()));
                    encoding::encode_key(EVENTS, WireType::LengthDelimited, buffer);
                    encoding::encode_varint(bytes.len() as u64, buffer);
                    buffer.put_slice(bytes);
                }
                None => encoding::message::encode(EVENTS, &self::event(event), buffer),
            }
        }
        wire_bytes().sent.inc_by((room - buffer.remaining_mut()) as u64);
        Ok(())
    }
}

/// A stream under way.
struct Session {
    context: Arc<Context>,
    call: Call,
    /// `None` once the client has said that no more will come; its watches go on.
    requests: Option<Streaming<WatchRequest>>,
    watch: WatchStream,
    endings: Endings,
}

impl Session {
    /// The next answer, and what is left; nothing after an error.
    async fn answer(session: Option<Session>) -> Option<(Result<Answer, Status>, Option<Session>)> {
        let mut session = session?;
        match session.next().await {
            Ok(answer) => {
                let header = session.context.header(answer.revision);
                Some((Ok(response(header, answer)), Some(session)))
            }
            Err(status) => {
                session.call.end(status.code());
                Some((Err(status), None))
            }
        }
    }

    async fn next(&mut self) -> Result<WatchAnswer, Status> {
        loop {
            let request = async {
                match &mut self.requests {
                    Some(requests) => requests.message().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                answer = self.watch.next() => return answer.map_err(|error| status(&error)),
                request = request => match request {
                    Ok(Some(request)) => self.take(request),
                    Ok(None) => self.requests = None,
                    Err(status) => return Err(broken(status)),
                },
                ending = self.endings.reached() => return Err(ending.into()),
            }
        }
    }

    /// Hands a request to the store. One of a kind that there is not is passed over, as in etcd.
    fn take(&mut self, request: WatchRequest) {
        match request.request_union {
            Some(RequestUnion::CreateRequest(request)) => self.watch.create(create(request)),
            Some(RequestUnion::CancelRequest(request)) => self.watch.cancel(request.watch_id),
            Some(RequestUnion::ProgressRequest(_)) => self.watch.progress(),
            None => tracing::debug!("watch request of an unknown kind"),
        }
    }
}

/// How a stream ends whose requests cannot be read.
fn broken(status: Status) -> Status {
    if status.code() == Code::Cancelled {
        return Refusal::WatchCanceled.into();
    }
    too_large(&status).map_or(status, Status::from)
}

fn create(request: WatchCreateRequest) -> WatchCreate {
    let filtered = |kind: FilterType| request.filters.contains(&(kind as i32));
    WatchCreate {
        no_put: filtered(FilterType::Noput),
        no_delete: filtered(FilterType::Nodelete),
        key: request.key,
        range_end: request.range_end,
        start_revision: request.start_revision,
        progress_notify: request.progress_notify,
        prev_kv: request.prev_kv,
        watch_id: request.watch_id,
        fragment: request.fragment,
    }
}

fn response(header: Option<ResponseHeader>, answer: WatchAnswer) -> Answer {
    let fields = WatchResponse {
        header,
        watch_id: answer.watch_id,
        created: answer.created,
        canceled: answer.canceled,
        compact_revision: answer.compact_revision,
        cancel_reason: answer.cancel_reason.to_owned(),
        fragment: answer.fragment,
        events: Vec::new(),
    };
    Answer { fields, events: answer.events }
}

fn event(event: Event) -> mvccpb::Event {
    let kind = if event.delete { mvccpb::event::EventType::Delete } else { mvccpb::event::EventType::Put };
    mvccpb::Event {
        r#type: kind as i32,
        kv: Some(translate::pair(event.kv)),
        prev_kv: event.prev_kv.map(translate::pair),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_that_there_are_not_filter_nothing() {
        for (filters, want, why) in [
            (vec![], (false, false), "none"),
            (vec![0], (true, false), "no puts"),
            (vec![1, 1], (false, true), "one twice"),
            (vec![0, 1], (true, true), "both"),
            (vec![7], (false, false), "an unknown one"),
        ] {
            let made = create(WatchCreateRequest { filters, ..Default::default() });
            assert_eq!((made.no_put, made.no_delete), want, "{why}");
        }
    }
}
