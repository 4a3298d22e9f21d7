//! Protobuf in and out, with the bytes counted as etcd counts them: messages, without frames and headers.
//!
//! A message that does not decode ends with the code and the beginning of the text that etcd's gRPC gives.

use std::marker::PhantomData;

use bytes::{Buf as _, BufMut as _};
use prometheus::IntCounter;
use prost::Message;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

use crate::error::Refusal;
use crate::http::metrics::wire_bytes;

/// The codec of every service of the API. `T` is sent, `U` received.
#[derive(Debug)]
pub struct CountingCodec<T, U> {
    types: PhantomData<fn() -> (T, U)>,
}

impl<T, U> Default for CountingCodec<T, U> {
    fn default() -> Self {
        CountingCodec { types: PhantomData }
    }
}

impl<T, U> Codec for CountingCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = CountingEncoder<T>;
    type Decoder = CountingDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        CountingEncoder { sent: &wire_bytes().sent, message: PhantomData }
    }

    fn decoder(&mut self) -> Self::Decoder {
        CountingDecoder { received: &wire_bytes().received, message: PhantomData }
    }
}

/// Writes messages.
#[derive(Debug)]
pub struct CountingEncoder<T> {
    sent: &'static IntCounter,
    message: PhantomData<fn(T)>,
}

impl<T: Message> Encoder for CountingEncoder<T> {
    type Item = T;
    type Error = Status;

    fn encode(&mut self, message: T, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        let room = buffer.remaining_mut();
        message.encode_raw(buffer);
        self.sent.inc_by((room - buffer.remaining_mut()) as u64);
        Ok(())
    }
}

/// Reads messages.
#[derive(Debug)]
pub struct CountingDecoder<U> {
    received: &'static IntCounter,
    message: PhantomData<fn() -> U>,
}

impl<U: Message + Default> Decoder for CountingDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        self.received.inc_by(buffer.remaining() as u64);
        U::decode(buffer).map(Some).map_err(|error| Refusal::Undecodable(error.to_string()).into())
    }
}
