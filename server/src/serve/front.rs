//! One request: which service or page it is for.
//!
//! gRPC requests are told by their content type, since both kinds may come over HTTP/2, and go to their service
//! by the first part of the path, without a router in between. What tonic answers by itself is put in etcd's
//! words on the way out; such answers have their status in the headers, so others cost one look.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use http::{HeaderValue, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use parking_lot::Mutex;
use tonic::Status;
use tonic::body::Body;
use tonic_health::pb::health_server::HealthServer;
use tonic_health::server::HealthService;
use tower::Service;

use super::slow::{Call, Remote, Slow};
use super::tap::{Counted, Kept, Noted, Watched};
use crate::api::Services;
use crate::error::{Refusal, too_large};
use crate::http::metrics::Metrics;
use crate::http::metrics::grpc::Method;

/// What is served at a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Surface {
    /// gRPC and pages for clients.
    Client,
    /// gRPC alone.
    Grpc,
    /// Pages for clients alone.
    Http,
    /// Metrics and health.
    Metrics,
    /// Pages for other members.
    Peer,
}

impl Surface {
    /// What a log line calls it.
    pub(super) fn traffic(self) -> &'static str {
        match self {
            Surface::Client => "grpc+http",
            Surface::Grpc => "grpc",
            Surface::Http => "http",
            Surface::Metrics => "metrics",
            Surface::Peer => "peer",
        }
    }

    fn has_grpc(self) -> bool {
        matches!(self, Surface::Client | Surface::Grpc)
    }
}

/// Everything that a shard serves.
pub(super) struct Parts {
    pub(super) metrics_of_calls: Arc<Metrics>,
    pub(super) slow: Arc<Slow>,
    pub(super) services: Services,
    pub(super) health: HealthServer<HealthService>,
    pub(super) client: Router,
    pub(super) metrics: Router,
    pub(super) peer: Router,
}

/// What a connection's requests meet. Cheap to clone.
#[derive(Clone)]
pub(super) struct Front {
    pub(super) parts: Arc<Parts>,
    pub(super) surface: Surface,
    /// Who is at the other end.
    pub(super) remote: Remote,
}

type Boxed = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

impl hyper::service::Service<Request<Incoming>> for Front {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, request: Request<Incoming>) -> Answering {
        let kind = request.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
        let is_grpc = kind.is_some_and(|kind| kind.starts_with(b"application/grpc"));
        if is_grpc && self.surface.has_grpc() { self.observed(request) } else { self.page(request) }
    }
}

impl Front {
    /// A gRPC call whose messages are counted, and that is told of if it takes too long.
    fn observed(&self, request: Request<Incoming>) -> Answering {
        let method = Method::at(request.uri().path());
        let calls = &self.parts.metrics_of_calls.grpc;
        let mut call = None;
        let (mut kept, mut received, mut sent) = (None, None, None);
        match method {
            Some(method) if method.is_unary() => {
                let request = Arc::new(Mutex::new(Kept::default()));
                kept = Some(Arc::clone(&request));
                call = Some(Call::begin(Arc::clone(&self.parts.slow), method.path(), self.remote, request));
            }
            Some(method) => {
                received = (!method.has_one_request()).then(|| Counted::new(calls.received(method)));
                sent = Some(Counted::new(calls.sent(method)));
            }
            None => {}
        }
        let answering = self.grpc(request.map(|body| Noted::new(body, kept, received)));
        Answering { call, sent, ..answering }
    }

    fn grpc(&self, request: Request<Noted>) -> Answering {
        let parts = &self.parts;
        let path = request.uri().path();
        let (service, method) =
            path.strip_prefix('/').and_then(|path| path.rsplit_once('/')).unwrap_or((path, ""));
        let (service, answer): (&'static str, Boxed) = match service {
            "etcdserverpb.KV" if method == "Range" => {
                let answer = parts.services.range(request);
                ("etcdserverpb.KV", Box::pin(async move { Ok(answer.await) }))
            }
            "etcdserverpb.KV" => ("etcdserverpb.KV", parts.services.kv.clone().call(request)),
            "etcdserverpb.Watch" if method == "Watch" => {
                let answer = parts.services.watch(request);
                ("etcdserverpb.Watch", Box::pin(async move { Ok(answer.await) }))
            }
            "etcdserverpb.Watch" => return refused(Refusal::UnknownMethod("etcdserverpb.Watch")),
            "etcdserverpb.Lease" => ("etcdserverpb.Lease", parts.services.lease.clone().call(request)),
            "etcdserverpb.Cluster" => ("etcdserverpb.Cluster", parts.services.cluster.clone().call(request)),
            "etcdserverpb.Maintenance" => {
                ("etcdserverpb.Maintenance", parts.services.maintenance.clone().call(request))
            }
            "grpc.health.v1.Health" => ("grpc.health.v1.Health", parts.health.clone().call(request)),
            "etcdserverpb.Auth" => return refused(Refusal::NotImplemented("etcdserverpb.Auth")),
            "v3lockpb.Lock" => return refused(Refusal::NotImplemented("v3lockpb.Lock")),
            "v3electionpb.Election" => return refused(Refusal::NotImplemented("v3electionpb.Election")),
            unknown => return refused(Refusal::UnknownService(unknown.to_owned())),
        };
        Answering::new(answer, Some(service))
    }

    fn page(&self, request: Request<Incoming>) -> Answering {
        let router = match self.surface {
            Surface::Client | Surface::Http => &self.parts.client,
            Surface::Metrics => &self.parts.metrics,
            Surface::Peer => &self.parts.peer,
            Surface::Grpc => {
                let mut response = Status::from(Refusal::NotGrpc).into_http();
                *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
                return Answering::new(Box::pin(std::future::ready(Ok(response))), None);
            }
        };
        let mut router = router.clone();
        let answer = async move { Ok(router.call(request).await?.map(Body::new)) };
        Answering::new(Box::pin(answer), None)
    }
}

fn refused(refusal: Refusal) -> Answering {
    let response = Status::from(refusal).into_http();
    Answering::new(Box::pin(std::future::ready(Ok(response))), None)
}

/// An answer on its way.
pub(super) struct Answering {
    answer: Boxed,
    /// The gRPC service that makes it.
    service: Option<&'static str>,
    /// The call, if it is a unary one.
    call: Option<Call>,
    /// Counts the answers, if they are a stream.
    sent: Option<Counted>,
}

impl Answering {
    fn new(answer: Boxed, service: Option<&'static str>) -> Answering {
        Answering { answer, service, call: None, sent: None }
    }
}

impl Future for Answering {
    type Output = Result<Response<Body>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Poll::Ready(Ok(mut response)) = self.answer.as_mut().poll(context) else { return Poll::Pending };
        if let Some(service) = self.service {
            response = in_etcds_words(response, service);
        }
        if let Some(call) = self.call.take() {
            response = call.answered(response);
        }
        if let Some(sent) = self.sent.take() {
            response = response.map(|body| Body::new(Watched::new(body, sent)));
        }
        Poll::Ready(Ok(response))
    }
}

/// Puts what tonic answers by itself in etcd's words.
fn in_etcds_words(response: Response<Body>, service: &'static str) -> Response<Body> {
    if !response.headers().contains_key(Status::GRPC_STATUS) {
        return response;
    }
    let refusal = match response.extensions().get::<Status>() {
        Some(status) => too_large(status),
        // Only the answer to an unknown method has no status to look at.
        None => Some(Refusal::UnknownMethod(service)),
    };
    refusal.map_or(response, |refusal| Status::from(refusal).into_http())
}
