//! A server for tests: answers every call on one connection as a script says, over real TCP and h2.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Response};
use tokio::net::TcpListener;

use super::connection::Endpoint;

/// How to answer one call.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    /// Wait so long before reading the next request of the connection, so that everything behind it waits too.
    pub(crate) stall: Duration,
    /// Frames of the body.
    pub(crate) body: Vec<Bytes>,
    /// `grpc-status` and `grpc-message`.
    pub(crate) status: (&'static str, &'static str),
}

impl Answer {
    /// Success with a body.
    pub(crate) fn body(frames: Vec<Bytes>) -> Self {
        Answer { stall: Duration::ZERO, body: frames, status: ("0", "") }
    }
}

/// Starts the server; call number `n` on its only connection gets `script(n, size of the request in bytes)`.
pub(crate) async fn serve(mut script: impl FnMut(u64, usize) -> Answer + 'static) -> Endpoint {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let authority = listener.local_addr().expect("bound").to_string();
    tokio::task::spawn_local(async move {
        let (stream, _) = listener.accept().await.expect("a client");
        let mut connection = h2::server::handshake(stream).await.expect("a preface");
        let mut number = 0;
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            let mut body = request.into_body();
            let reading = async {
                let mut received = BytesMut::new();
                while let Some(Ok(chunk)) = body.data().await {
                    let _ = body.flow_control().release_capacity(chunk.len());
                    received.extend_from_slice(&chunk);
                }
                received.len()
            };
            // The connection must be polled for the request to come in; the next call waits its turn.
            let size = tokio::select! {
                size = reading => size,
                _ = std::future::poll_fn(|cx| connection.poll_closed(cx)) => return,
            };
            let answer = script(number, size);
            number += 1;
            tokio::time::sleep(answer.stall).await;
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", HeaderValue::from_static(answer.status.0));
            trailers.insert("grpc-message", HeaderValue::from_static(answer.status.1));
            if answer.body.is_empty() {
                let mut head = Response::new(());
                *head.headers_mut() = trailers;
                let _ = respond.send_response(head, true);
                continue;
            }
            let Ok(mut sender) = respond.send_response(Response::new(()), false) else { return };
            for part in answer.body {
                let _ = sender.send_data(part, false);
            }
            let _ = sender.send_trailers(trailers);
        }
    });
    Endpoint { authority }
}
