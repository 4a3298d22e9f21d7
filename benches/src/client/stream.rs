//! Streams: a watch in two halves, so that requests go out while answers are awaited, and calls with a streamed answer.

use bytes::{Buf, Bytes, BytesMut};
use prost::Message;

use super::connection::{Connection, check_status};
use super::failure::Failure;
use super::wire::{WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse, frame, path};

/// Takes the next whole gRPC message off `received`; `None` if it has not come yet.
fn next_message(received: &mut BytesMut) -> Option<Bytes> {
    let len = u32::from_be_bytes(received.get(1..5)?.try_into().ok()?) as usize;
    if received.len() < 5 + len {
        return None;
    }
    received.advance(5);
    Some(received.split_to(len).freeze())
}

/// The asking half of a watch stream. Dropping it resets the stream.
pub(crate) struct Requests(h2::SendStream<Bytes>);

impl Requests {
    /// Asks for one more watcher.
    ///
    /// # Errors
    /// [`Failure::Transport`] if the stream is gone.
    pub(crate) fn create(&mut self, create: WatchCreateRequest) -> Result<(), Failure> {
        let request = WatchRequest { create: Some(create), progress: None };
        Ok(self.0.send_data(frame(&request), false)?)
    }

    /// Asks up to which revision everything has been sent.
    ///
    /// # Errors
    /// [`Failure::Transport`] if the stream is gone.
    pub(crate) fn ask_progress(&mut self) -> Result<(), Failure> {
        let request = WatchRequest { create: None, progress: Some(WatchProgressRequest {}) };
        Ok(self.0.send_data(frame(&request), false)?)
    }
}

/// The answers of a stream: the answering half of a watch, or all of a call with a streamed answer.
pub(crate) struct Answers {
    stream: h2::RecvStream,
    received: BytesMut,
}

impl Answers {
    /// The next answer, not decoded; `None` once the server has ended the stream well. May be dropped and called again.
    ///
    /// # Errors
    /// As [`Connection::unary`].
    pub(crate) async fn next_bytes(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            if let Some(message) = next_message(&mut self.received) {
                return Ok(Some(message));
            }
            let Some(chunk) = self.stream.data().await else {
                let trailers = self.stream.trailers().await?.unwrap_or_default();
                check_status(&trailers, None)?;
                return Ok(None);
            };
            let chunk = chunk?;
            self.stream.flow_control().release_capacity(chunk.len())?;
            self.received.extend_from_slice(&chunk);
        }
    }

    /// The next answer; otherwise as [`Answers::next_bytes`].
    ///
    /// # Errors
    /// As [`Connection::unary`].
    pub(crate) async fn next(&mut self) -> Result<Option<WatchResponse>, Failure> {
        Ok(self.next_bytes().await?.map(WatchResponse::decode).transpose()?)
    }
}

/// Calls a method whose answer is a stream, with a framed request.
///
/// # Errors
/// As [`Connection::unary`].
pub(crate) async fn answers(
    connection: &mut Connection,
    path: &'static str,
    request: Bytes,
) -> Result<Answers, Failure> {
    let (response, _) = connection.start(path, request, true).await?;
    let (head, stream) = response.await?.into_parts();
    if stream.is_end_stream() {
        check_status(&head.headers, None)?;
    }
    Ok(Answers { stream, received: BytesMut::new() })
}

/// Opens a watch stream on `connection` with a first watcher.
///
/// # Errors
/// As [`Connection::unary`].
pub(crate) async fn watch(
    connection: &mut Connection,
    first: WatchCreateRequest,
) -> Result<(Requests, Answers), Failure> {
    let request = frame(&WatchRequest { create: Some(first), progress: None });
    let (response, requests) = connection.start(path::WATCH, request, false).await?;
    let (head, stream) = response.await?.into_parts();
    if stream.is_end_stream() {
        check_status(&head.headers, None)?;
    }
    Ok((Requests(requests), Answers { stream, received: BytesMut::new() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_out_of_any_chunking() {
        let whole = b"\0\0\0\0\x02ab\0\0\0\0\0\0\0\0\0\x01c";
        for chunk in 1..whole.len() {
            let mut received = BytesMut::new();
            let mut messages = Vec::new();
            for part in whole.chunks(chunk) {
                received.extend_from_slice(part);
                while let Some(message) = next_message(&mut received) {
                    messages.push(message);
                }
            }
            assert_eq!(messages, [&b"ab"[..], b"", b"c"], "chunks of {chunk}");
        }
    }
}
