//! One connection to an endpoint and unary calls on it.
//!
//! A [`Connection`] is a cheap handle; clones share the TCP stream. A local task drives it until the last handle is
//! dropped or the peer is gone. Must be used inside a `LocalSet` of a current-thread runtime.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, Version};
use tokio::net::TcpStream;

use super::coalesce::Gathered;
use super::failure::{Failure, percent_decode};

/// Receive window of a stream and of a connection: large, so that lists are limited by the server and not by windows.
const WINDOW_BYTES: u32 = 16 << 20;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// `host:port`.
    pub(crate) authority: String,
}

impl std::str::FromStr for Endpoint {
    type Err = String;

    /// Reads `http://host:port` or `host:port`.
    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with("https://") {
            return Err("only plain text is spoken here: use an http:// endpoint".to_owned());
        }
        let authority = text.strip_prefix("http://").unwrap_or(text).trim_end_matches('/');
        match authority.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
                Ok(Endpoint { authority: authority.to_owned() })
            }
            _ => Err(format!("`{text}` is not http://HOST:PORT")),
        }
    }
}

/// A handle of one HTTP/2 connection.
#[derive(Clone)]
pub(crate) struct Connection {
    sender: h2::client::SendRequest<Bytes>,
    authority: String,
    /// The headers of every call: cloning them is cheaper than inserting.
    headers: HeaderMap,
    /// The address of the last method called, kept because building a `Uri` costs more than cloning one.
    target: Option<(&'static str, Uri)>,
}

impl Connection {
    /// Connects and starts the task that drives the connection.
    ///
    /// # Errors
    /// [`Failure::Transport`] if nobody listens there or it does not speak HTTP/2.
    pub(crate) async fn open(endpoint: &Endpoint) -> Result<Self, Failure> {
        let stream = TcpStream::connect(&endpoint.authority).await?;
        stream.set_nodelay(true)?;
        let gathered = Gathered::new(stream);
        let (sender, mut driver) = h2::client::Builder::new()
            .initial_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .max_frame_size(1 << 20)
            .enable_push(false)
            .handshake(gathered.clone())
            .await?;
        tokio::task::spawn_local(async move {
            // Calls see the end of the connection as errors of their own; nothing is left to report here.
            let _ = poll_fn(move |cx| {
                let polled = Pin::new(&mut driver).poll(cx);
                match gathered.send(cx) {
                    Poll::Ready(Err(error)) => Poll::Ready(Err(Failure::from(error))),
                    _ => polled.map_err(Failure::from),
                }
            })
            .await;
        });
        let mut headers = HeaderMap::with_capacity(2);
        headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert(http::header::TE, HeaderValue::from_static("trailers"));
        Ok(Connection { sender, authority: endpoint.authority.clone(), headers, target: None })
    }

    /// Starts a call with a first message; `end` closes our side.
    pub(super) async fn start(
        &mut self,
        path: &'static str,
        body: Bytes,
        end: bool,
    ) -> Result<(h2::client::ResponseFuture, h2::SendStream<Bytes>), Failure> {
        poll_fn(|cx| self.sender.poll_ready(cx)).await?;
        let uri = self.uri(path)?;
        let mut request = Request::new(());
        *request.method_mut() = Method::POST;
        *request.version_mut() = Version::HTTP_2;
        *request.uri_mut() = uri;
        *request.headers_mut() = self.headers.clone();
        let (response, mut body_sender) = self.sender.send_request(request, false)?;
        body_sender.send_data(body, end)?;
        Ok((response, body_sender))
    }

    /// Calls a unary method with a framed request; returns the answer's message.
    ///
    /// # Errors
    /// [`Failure::Status`] if the server refused, [`Failure::Transport`] if it is unknown what became of the call.
    pub(crate) async fn unary(&mut self, path: &'static str, request: Bytes) -> Result<Bytes, Failure> {
        let (response, _) = self.start(path, request, true).await?;
        let (head, mut body) = response.await?.into_parts();
        let mut answer = Bytes::new();
        let mut parts = BytesMut::new();
        while let Some(chunk) = body.data().await {
            let chunk = chunk?;
            body.flow_control().release_capacity(chunk.len())?;
            if answer.is_empty() && parts.is_empty() {
                answer = chunk;
            } else {
                parts.extend_from_slice(&std::mem::take(&mut answer));
                parts.extend_from_slice(&chunk);
            }
        }
        check_status(&head.headers, body.trailers().await?.as_ref())?;
        if !parts.is_empty() {
            answer = parts.freeze();
        }
        if answer.len() < 5 || answer[0] != 0 {
            return Err(Failure::Transport(format!("{} bytes are not one plain gRPC message", answer.len())));
        }
        answer.advance(5);
        Ok(answer)
    }

    /// Calls a method and throws its answer away as it comes; returns its size in bytes. For unary and streamed answers.
    ///
    /// # Errors
    /// As [`Connection::unary`].
    pub(crate) async fn drain(&mut self, path: &'static str, request: Bytes) -> Result<u64, Failure> {
        let (response, _) = self.start(path, request, true).await?;
        let (head, mut body) = response.await?.into_parts();
        let mut bytes = 0;
        while let Some(chunk) = body.data().await {
            let chunk = chunk?;
            body.flow_control().release_capacity(chunk.len())?;
            bytes += chunk.len() as u64;
        }
        check_status(&head.headers, body.trailers().await?.as_ref())?;
        Ok(bytes)
    }

    fn uri(&mut self, path: &'static str) -> Result<Uri, Failure> {
        if let Some((known, uri)) = &self.target
            && std::ptr::eq(*known, path)
        {
            return Ok(uri.clone());
        }
        let uri: Uri = format!("http://{}{path}", self.authority)
            .parse()
            .map_err(|_| Failure::Usage(format!("`{}` is not an authority", self.authority)))?;
        self.target = Some((path, uri.clone()));
        Ok(uri)
    }
}

/// Reads the gRPC status of a finished call: from the trailers, or from the headers of an answer without body.
pub(super) fn check_status(headers: &HeaderMap, trailers: Option<&HeaderMap>) -> Result<(), Failure> {
    const STATUS: HeaderName = HeaderName::from_static("grpc-status");
    const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
    let found = trailers.filter(|trailers| trailers.contains_key(&STATUS)).unwrap_or(headers);
    let code = found.get(&STATUS).and_then(|code| code.to_str().ok()?.parse::<i32>().ok());
    match code {
        Some(0) => Ok(()),
        Some(code) => {
            let message =
                found.get(&MESSAGE).map_or_else(String::new, |text| percent_decode(text.as_bytes()));
            Err(Failure::Status { code, message })
        }
        None => Err(Failure::Transport("the answer carries no grpc-status".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::client::scripted::{Answer, serve};
    use crate::client::wire::path;

    async fn called(
        script: impl FnMut(u64, usize) -> Answer + 'static,
        request: Bytes,
    ) -> Result<Bytes, Failure> {
        let endpoint = serve(script).await;
        Connection::open(&endpoint).await?.unary(path::PUT, request).await
    }

    #[tokio::test(flavor = "local")]
    async fn an_answer_is_put_together_from_any_parts() {
        let script =
            |_, _| Answer::body([&b"\0\0\0\0"[..], b"\x03a", b"bc"].map(Bytes::from_static).to_vec());
        assert_eq!(called(script, Bytes::from_static(b"\0\0\0\0\0")).await, Ok(Bytes::from_static(b"abc")));
    }

    #[tokio::test(flavor = "local")]
    async fn a_refusal_is_a_status_and_a_short_answer_is_none() {
        let refuse =
            |_, _| Answer { body: Vec::new(), status: ("8", "no space"), ..Answer::body(Vec::new()) };
        let want = Failure::Status { code: 8, message: "no space".to_owned() };
        assert_eq!(called(refuse, Bytes::from_static(b"\0\0\0\0\0")).await, Err(want));
        let short = |_, _| Answer::body(vec![Bytes::from_static(b"\0\0")]);
        assert!(matches!(called(short, Bytes::from_static(b"\0\0\0\0\0")).await, Err(Failure::Transport(_))));
    }

    #[tokio::test(flavor = "local")]
    async fn a_request_larger_than_every_buffer_arrives_whole() {
        let size = 5 << 20;
        let script = move |_, received| {
            assert_eq!(received, size);
            Answer::body(vec![Bytes::from_static(b"\0\0\0\0\0")])
        };
        assert_eq!(called(script, vec![7; size].into()).await, Ok(Bytes::new()));
    }

    #[test]
    fn endpoints() {
        for (text, want, why) in [
            ("http://127.0.0.1:2379", Some("127.0.0.1:2379"), "etcd's form"),
            ("localhost:1/", Some("localhost:1"), "scheme left out, slash at the end"),
            ("http://[::1]:2379", Some("[::1]:2379"), "IPv6"),
            ("https://127.0.0.1:2379", None, "no TLS here"),
            ("http://127.0.0.1", None, "no port"),
            ("127.0.0.1:x", None, "no number"),
        ] {
            assert_eq!(text.parse::<Endpoint>().ok().map(|e| e.authority).as_deref(), want, "{why}");
        }
    }

    #[test]
    fn the_status_comes_from_trailers_or_from_a_lone_head() {
        let head = |pairs: &[(&'static str, &'static str)]| {
            pairs
                .iter()
                .map(|(k, v)| (HeaderName::from_static(k), HeaderValue::from_static(v)))
                .collect::<HeaderMap>()
        };
        assert_eq!(check_status(&head(&[]), Some(&head(&[("grpc-status", "0")]))), Ok(()));
        let refused = head(&[("grpc-status", "11"), ("grpc-message", "etcdserver: mvcc%3A compacted")]);
        let want = Failure::Status { code: 11, message: "etcdserver: mvcc: compacted".to_owned() };
        assert_eq!(check_status(&refused, None), Err(want));
        assert!(
            matches!(check_status(&head(&[]), None), Err(Failure::Transport(_))),
            "a cut answer is no success"
        );
    }
}
