//! A watch stream: one watcher on a stream of its own.

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

/// A watch stream with one watcher.
pub(crate) struct Watch {
    requests: h2::SendStream<Bytes>,
    answers: h2::RecvStream,
    received: BytesMut,
}

impl Watch {
    /// Opens a stream on `connection` and asks for a watcher of all keys from `start_revision` on.
    ///
    /// # Errors
    /// As [`Connection::unary`].
    pub(crate) async fn all_keys(connection: &mut Connection, start_revision: i64) -> Result<Self, Failure> {
        let everything = Bytes::from_static(b"\0");
        let create = WatchCreateRequest { key: everything.clone(), range_end: everything, start_revision };
        let request = frame(&WatchRequest { create: Some(create), progress: None });
        let (response, requests) = connection.start(path::WATCH, request, false).await?;
        let (head, answers) = response.await?.into_parts();
        if answers.is_end_stream() {
            check_status(&head.headers, None)?;
        }
        Ok(Watch { requests, answers, received: BytesMut::new() })
    }

    /// Asks up to which revision everything has been sent.
    ///
    /// # Errors
    /// [`Failure::Transport`] if the stream is gone.
    pub(crate) fn ask_progress(&mut self) -> Result<(), Failure> {
        let request = WatchRequest { create: None, progress: Some(WatchProgressRequest {}) };
        Ok(self.requests.send_data(frame(&request), false)?)
    }

    /// The next answer; `None` once the server has ended the stream well. May be dropped and called again.
    ///
    /// # Errors
    /// As [`Connection::unary`].
    pub(crate) async fn next(&mut self) -> Result<Option<WatchResponse>, Failure> {
        loop {
            if let Some(message) = next_message(&mut self.received) {
                return Ok(Some(WatchResponse::decode(message)?));
            }
            let Some(chunk) = self.answers.data().await else {
                let trailers = self.answers.trailers().await?.unwrap_or_default();
                check_status(&trailers, None)?;
                return Ok(None);
            };
            let chunk = chunk?;
            self.answers.flow_control().release_capacity(chunk.len())?;
            self.received.extend_from_slice(&chunk);
        }
    }
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
