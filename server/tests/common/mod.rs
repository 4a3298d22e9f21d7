//! A server in this process on ports of its own, and clients to it.

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of this module of its own")]

pub mod program;

use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf as _, BufMut as _, Bytes};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use server::config::{Allowed, ListenUrl};
use server::http::Access;
use server::serve::{ListenSettings, Server, Settings};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tonic::Status;
use tonic::body::Body;
use tower::Service;

/// Clients generated from `proto/`.
#[allow(missing_docs, unreachable_pub, clippy::all, reason = "generated")]
pub mod clients {
    pub mod etcdserverpb {
        include!(concat!(env!("OUT_DIR"), "/clients/etcdserverpb.rs"));
    }
}

/// The largest message that a test's server takes, bytes: etcd's default and 512 KiB.
pub const LARGEST: usize = 1_572_864 + 512 * 1024;

/// Settings of a server on free ports: one for clients, one for metrics, one for peers.
pub fn settings(data_dir: &Path) -> Settings {
    let any = || vec![ListenUrl::Tcp { host: "127.0.0.1".to_owned(), port: 0 }];
    Settings {
        auto_compaction: server::config::AutoCompaction::Off,
        name: "default".to_owned(),
        data_dir: data_dir.to_owned(),
        listen: ListenSettings {
            client: any(),
            client_http: Vec::new(),
            metrics: any(),
            peer: any(),
            access: Access { hosts: Allowed::All, origins: Allowed::All },
            reuse_port: false,
            max_concurrent_streams: u32::MAX,
            keepalive_interval: None,
            keepalive_timeout: None,
            keepalive_min_time: Duration::from_secs(5),
        },
        bootstrap: Ok((0xc1, 0xd2)),
        peer_urls: vec!["http://127.0.0.1:2380".to_owned()],
        client_urls: vec!["http://127.0.0.1:2379".to_owned()],
        heartbeat_ms: 100,
        election_ms: 1000,
        max_txn_ops: 128,
        max_request_bytes: 1_572_864,
        quota_bytes: 2 << 30,
        progress_interval_ms: 600_000,
        observation: server::serve::Observation::default(),
        engine: engine::Options::default(),
        shards_max: 2,
        signals: false,
    }
}

/// A server on data that goes with it.
pub struct Running {
    server: Option<Server>,
    /// For clients.
    pub client: SocketAddr,
    /// For metrics.
    pub metrics: SocketAddr,
    /// For peers.
    pub peer: SocketAddr,
    dir: tempfile::TempDir,
}

/// Runs `test` against a server on a new directory; the server must end well after it. The clients are gone by
/// then, since they live in a runtime that ends with the test.
pub fn served(test: impl AsyncFnOnce(&mut Running)) {
    let dir = tempfile::tempdir().expect("a directory");
    served_with(settings(dir.path()), dir, test);
}

/// As [`served`], with `settings`, whose data is in `dir`.
pub fn served_with(settings: Settings, dir: tempfile::TempDir, test: impl AsyncFnOnce(&mut Running)) {
    let server = Server::start(settings).expect("it starts");
    let [client, metrics, peer] = server.addresses().try_into().expect("three listeners");
    let mut running = Running { server: Some(server), client, metrics, peer, dir };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(test(&mut running));
    drop(runtime);
    if let Some(server) = running.server.take() {
        end(server);
    }
}

fn end(server: Server) {
    server.stop();
    server.wait().expect("it ends well");
}

impl Running {
    /// Ends it well and starts it again on the same data and, for clients, the same port.
    pub async fn restart(&mut self) {
        self.end().await;
        let mut settings = settings(self.dir.path());
        settings.listen.client =
            vec![ListenUrl::Tcp { host: "127.0.0.1".to_owned(), port: self.client.port() }];
        let started = tokio::task::spawn_blocking(move || Server::start(settings)).await.expect("no panic");
        let server = started.expect("it starts again");
        [self.client, self.metrics, self.peer] = server.addresses().try_into().expect("three listeners");
        self.server = Some(server);
    }

    /// Ends it; panics if it did not end well.
    pub async fn end(&mut self) {
        let server = self.server.take().expect("it runs");
        tokio::task::spawn_blocking(move || end(server)).await.expect("it ends well");
    }
}

/// A connection for generated clients.
#[derive(Clone)]
pub struct Connection(http2::SendRequest<Body>);

impl Connection {
    /// Connects.
    pub async fn new(address: SocketAddr) -> Connection {
        Connection::over(TcpStream::connect(address).await.expect("the server listens")).await
    }

    /// Connects over `stream`.
    pub async fn over(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Connection {
        let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (sender, connection) = handshake.await.expect("it speaks HTTP/2");
        tokio::spawn(connection);
        Connection(sender)
    }
}

impl Service<http::Request<Body>> for Connection {
    type Response = http::Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, hyper::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        // Generated clients know only the path.
        let path = request.uri().path_and_query().expect("a path").as_str();
        *request.uri_mut() = format!("http://localhost{path}").parse().expect("a URI");
        Box::pin(self.0.send_request(request))
    }
}

/// Messages as the bytes that they are on the wire.
#[derive(Debug, Clone, Copy)]
pub struct RawCodec;

impl tonic::codec::Codec for RawCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = RawCodec;
    type Decoder = RawCodec;

    fn encoder(&mut self) -> RawCodec {
        RawCodec
    }

    fn decoder(&mut self) -> RawCodec {
        RawCodec
    }
}

impl tonic::codec::Encoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, buffer: &mut tonic::codec::EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(message);
        Ok(())
    }
}

impl tonic::codec::Decoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut tonic::codec::DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}

/// What a page answered.
#[derive(Debug)]
pub struct Page {
    /// The status code.
    pub status: u16,
    /// A header's value, if there is one.
    pub headers: http::HeaderMap,
    /// The body.
    pub text: String,
}

/// Asks for a page over HTTP/1.1.
pub async fn page(address: SocketAddr, method: &str, path: &str) -> Page {
    let stream = TcpStream::connect(address).await.expect("the server listens");
    page_with(stream, method, path, &[("host", "localhost")]).await
}

/// Asks for a page over `stream` with `headers`.
pub async fn page_with(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> Page {
    use http_body_util::{BodyExt as _, Empty};
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.expect("it speaks HTTP/1");
    tokio::spawn(connection);
    let request = http::Request::builder().method(method).uri(path);
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    let request = request.body(Empty::<Bytes>::new()).expect("a request");
    let response = sender.send_request(request).await.expect("an answer");
    let (parts, body) = response.into_parts();
    let text = body.collect().await.expect("a body").to_bytes();
    Page {
        status: parts.status.as_u16(),
        headers: parts.headers,
        text: String::from_utf8(text.to_vec()).expect("text"),
    }
}

/// Waits for `answer`, but not for ever.
pub async fn soon<T>(answer: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), answer).await.expect("an answer within 20 s")
}
