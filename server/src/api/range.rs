//! `etcdserverpb.KV/Range`, the one unary call whose answer may be as large as the store.
//!
//! The answer is one message, and its length goes before it: it is known from the index. Then the message is made
//! piece by piece, each when the connection has room for it. A client that does not read costs one piece and what
//! the connection buffers, whatever it asked for. What fits into the first piece is answered without measuring.
//!
//! INVARIANT: a message has just the length that was told.

use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::stream::{self, BoxStream, StreamExt as _};
use http::{HeaderMap, HeaderValue, Request, Response, header};
use http_body::{Body as HttpBody, Frame};
use http_body_util::StreamBody;
use prost::Message as _;
use prost::encoding;
use raft::request::{At, KeyValue};
use raft::{Piece, RangePieces, RangeRead, RowSize};
use tonic::body::Body;
use tonic::codec::Codec as _;
use tonic::metadata::MetadataMap;
use tonic::{Code, Status, Streaming};

use super::call::{self, Call};
use super::codec::CountingCodec;
use super::{Context, translate};
use crate::error::{Refusal, status};
use crate::http::metrics::grpc::Method;
use crate::http::metrics::wire_bytes;
use crate::pb::etcdserverpb::{RangeRequest, RangeResponse};

/// Keys and values of a piece, bytes.
const PIECE_BYTES: usize = 128 * 1024;
/// What comes before a message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;
/// The longest message that etcd's gRPC sends, bytes.
const MESSAGE_BYTES_MAX: u64 = i32::MAX as u64;
/// The field `kvs` of `RangeResponse`.
const KVS: u32 = 2;

/// Answers a request, which may be `largest` bytes long.
pub(super) async fn answer<B>(context: Arc<Context>, request: Request<B>, largest: usize) -> Response<Body>
where
    B: HttpBody + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match begin(&context, request, largest).await {
        Ok(body) => {
            let mut response = Response::new(body);
            let kind = HeaderValue::from_static("application/grpc");
            response.headers_mut().insert(header::CONTENT_TYPE, kind);
            response
        }
        Err(status) => status.into_http(),
    }
}

async fn begin<B>(context: &Context, request: Request<B>, largest: usize) -> Result<Body, Status>
where
    B: HttpBody + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (head, body) = request.into_parts();
    let compression = call::compression(&head.headers)?;
    let decoder = CountingCodec::<RangeResponse, RangeRequest>::default().decoder();
    let mut messages = Streaming::new_request(decoder, body, compression, Some(largest));
    let request = messages.message().await?.ok_or_else(|| Status::internal("Missing request message."))?;
    let call = context.begin(Method::KvRange, &MetadataMap::from_headers(head.headers))?;
    match read(context, request).await {
        Ok((message, None)) => {
            call.end(Code::Ok);
            Ok(Body::new(StreamBody::new(stream::iter([
                Ok::<_, Status>(Frame::data(message)),
                trailers(&Status::ok("")),
            ]))))
        }
        Ok((message, Some(rest))) => {
            let frames = stream::once(async { Ok(Frame::data(message)) }).chain(rest.frames(call));
            Ok(Body::new(StreamBody::new(frames.boxed())))
        }
        Err(refused) => {
            call.end(refused.code());
            Err(refused)
        }
    }
}

/// The message as far as it goes at once, and what there is to follow.
async fn read(context: &Context, request: RangeRequest) -> Result<(Bytes, Option<Rest>), Status> {
    let failed = |error: raft::Error| status(&error);
    let At { revision, answer } =
        context.store.range_read(translate::range(request)?).await.map_err(failed)?;
    let mut pieces = match answer {
        RangeRead::Whole(answer) => {
            return whole(&translate::range_answer(context.header(revision), answer)).map(|all| (all, None));
        }
        RangeRead::Pieces(pieces) => pieces,
    };
    let Piece { kvs, last } = pieces.next(PIECE_BYTES).await.map_err(failed)?;
    let mut response =
        RangeResponse { header: context.header(revision), count: pieces.count(), ..RangeResponse::default() };
    if let Some(more) = last {
        response.kvs = translate::pairs(kvs);
        response.more = more;
        return whole(&response).map(|all| (all, None));
    }
    let (to_come, more) = pieces.measure(row_len).await.map_err(failed)?;
    // protobuf's fields may come in any order; etcd's come by number, with the rows between these two.
    let end = RangeResponse { more, count: std::mem::take(&mut response.count), ..RangeResponse::default() };
    response.kvs = translate::pairs(kvs);
    let (begin, end) = (response, Bytes::from(end.encode_to_vec()));
    let len = begin.encoded_len() as u64 + to_come + end.len() as u64;
    let mut message = prefixed(len, begin.encoded_len())?;
    begin.encode_raw(&mut message);
    Ok((message.freeze(), Some(Rest { pieces, to_come, end: Some(end) })))
}

/// A message that is there as a whole.
fn whole(response: &RangeResponse) -> Result<Bytes, Status> {
    let len = response.encoded_len();
    let mut message = prefixed(len as u64, len)?;
    response.encode_raw(&mut message);
    Ok(message.freeze())
}

/// The prefix of a message of `len` bytes, with room for the first `room` of them.
fn prefixed(len: u64, room: usize) -> Result<BytesMut, Refusal> {
    if len > MESSAGE_BYTES_MAX {
        return Err(Refusal::AnswerTooLarge { len, limit: MESSAGE_BYTES_MAX });
    }
    wire_bytes().sent.inc_by(len);
    let mut message = BytesMut::with_capacity(PREFIX_BYTES + room);
    message.put_u8(0);
    message.put_u32(u32::try_from(len).expect("it is below the limit"));
    Ok(message)
}

/// What follows the first piece of a message.
struct Rest {
    pieces: RangePieces,
    /// Bytes of the rows to come.
    to_come: u64,
    /// What follows the rows; `None` once it was given.
    end: Option<Bytes>,
}

type Frames = BoxStream<'static, Result<Frame<Bytes>, Status>>;

impl Rest {
    /// The frames to come; the last has the status of the call.
    fn frames(self, call: Call) -> Frames {
        let step = async |under_way: Option<(Rest, Call)>| {
            let (mut rest, call) = under_way?;
            match rest.next().await {
                Ok(Some(piece)) => Some((Ok(Frame::data(piece)), Some((rest, call)))),
                Ok(None) => {
                    call.end(Code::Ok);
                    Some((trailers(&Status::ok("")), None))
                }
                // The client has a part of a message and learns why there is no more of it.
                Err(failed) => {
                    call.end(failed.code());
                    Some((trailers(&failed), None))
                }
            }
        };
        stream::unfold(Some((self, call)), step).boxed()
    }

    async fn next(&mut self) -> Result<Option<Bytes>, Status> {
        if self.end.is_none() {
            return Ok(None);
        }
        let Piece { kvs, last } = self.pieces.next(PIECE_BYTES).await.map_err(|error| status(&error))?;
        let mut piece = BytesMut::with_capacity(PIECE_BYTES + PIECE_BYTES / 4);
        kvs.into_iter().for_each(|pair| put_row(pair, &mut piece));
        let len = piece.len() as u64;
        assert!(len <= self.to_come, "{len} bytes of rows where {} were told", self.to_come);
        self.to_come -= len;
        if last.is_some() {
            assert_eq!(self.to_come, 0, "bytes of rows that were told and are not there");
            piece.put(self.end.take().expect("not given yet"));
        }
        Ok(Some(piece.freeze()))
    }
}

fn trailers(status: &Status) -> Result<Frame<Bytes>, Status> {
    let mut trailers = HeaderMap::new();
    status.add_header(&mut trailers)?;
    Ok(Frame::trailers(trailers))
}

/// A row as an element of `kvs`.
fn put_row(pair: KeyValue, buffer: &mut BytesMut) {
    encoding::message::encode(KVS, &translate::pair(pair), buffer);
}

/// Bytes that [`put_row`] writes.
fn row_len(row: &RowSize) -> usize {
    let bytes = |len: usize| if len == 0 { 0 } else { 1 + encoding::encoded_len_varint(len as u64) + len };
    let number = |n: i64| if n == 0 { 0 } else { 1 + encoding::encoded_len_varint(n.cast_unsigned()) };
    let pair = bytes(row.key)
        + bytes(row.value)
        + [row.create_revision, row.mod_revision, row.version, row.lease].map(number).iter().sum::<usize>();
    1 + encoding::encoded_len_varint(pair as u64) + pair
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_row_is_as_long_as_told(
            key in 0usize..300, value in prop_oneof![Just(0), 0usize..20_000],
            create in 0..i64::MAX, modified in 0..300i64, version in 0..i64::MAX, lease in any::<i64>(),
        ) {
            let size = RowSize { key, value, create_revision: create, mod_revision: modified, version, lease };
            let pair = KeyValue {
                key: vec![1; key].into(), value: vec![2; value].into(),
                create_revision: create, mod_revision: modified, version, lease,
            };
            let mut buffer = BytesMut::new();
            put_row(pair, &mut buffer);
            prop_assert_eq!(row_len(&size), buffer.len());
        }
    }

    #[test]
    fn what_etcd_cannot_send_is_refused_before_a_byte_of_it() {
        assert!(prefixed(MESSAGE_BYTES_MAX, 0).is_ok());
        let refused = Status::from(prefixed(MESSAGE_BYTES_MAX + 1, 0).expect_err("one more"));
        assert_eq!(refused.code(), Code::ResourceExhausted);
        assert_eq!(refused.message(), "trying to send message larger than max (2147483648 vs. 2147483647)");
    }
}
