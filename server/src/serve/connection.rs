//! One connection: HTTP/1.1 or HTTP/2, whichever the client begins with.

use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use super::front::Front;
use super::pings::Guarded;
use super::settings::ListenSettings;
use super::socket::Socket;
use crate::flag::Flag;

/// Bytes that a client may send on one stream before it is told that they were read.
const STREAM_WINDOW_BYTES: u32 = 1024 * 1024;
/// The same for all streams of a connection.
const CONNECTION_WINDOW_BYTES: u32 = 8 * 1024 * 1024;
/// Time that an HTTP/1 client has for its headers, as in etcd.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// A wait that never ends, for a timer that must have an end.
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// How connections are served.
#[derive(Clone)]
pub(super) struct Connections {
    builder: auto::Builder<TokioExecutor>,
    ping_min_time: Duration,
}

impl Connections {
    pub(super) fn new(listen: &ListenSettings) -> Self {
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
        builder
            .http2()
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_concurrent_streams(listen.max_concurrent_streams)
            .keep_alive_interval(listen.keepalive_interval)
            .keep_alive_timeout(listen.keepalive_timeout.unwrap_or(FOR_EVER));
        Connections { builder, ping_min_time: listen.keepalive_min_time }
    }

    /// Serves a connection until either side ends it, or `stopping` is raised and what was under way is answered.
    pub(super) async fn serve(self, socket: Socket, front: Front, stopping: Flag) {
        // A socket that this runtime cannot take is closed; the client tries again.
        match socket {
            Socket::Tcp(stream) => {
                if let Ok(stream) = TcpStream::from_std(stream) {
                    self.serve_stream(stream, front, stopping).await;
                }
            }
            Socket::Unix(stream) => {
                if let Ok(stream) = UnixStream::from_std(stream) {
                    self.serve_stream(stream, front, stopping).await;
                }
            }
        }
    }

    /// The same for a stream that is in this runtime already.
    pub(super) async fn serve_stream<S>(self, stream: S, front: Front, mut stopping: Flag)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let stream = TokioIo::new(Guarded::new(stream, self.ping_min_time));
        let mut connection = std::pin::pin!(self.builder.serve_connection(stream, front));
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = stopping.raised() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            // Clients come and go without a word; only the curious want to know.
            tracing::debug!(%error, "connection ended");
        }
    }
}
