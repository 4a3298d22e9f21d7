//! What is not gRPC: health, version, metrics, and what a member shows on its peer port.
//!
//! Texts, codes and headers are those of etcd's Go handlers, down to the newline after an error.
//!
//! | port | paths |
//! | --- | --- |
//! | client | `/version` `/health` `/livez[/check]` `/readyz[/check]` `/metrics` |
//! | metrics | `/health` `/livez[/check]` `/readyz[/check]` `/metrics` |
//! | peer | `/version` `/members` |

mod access;
mod health;
mod members;
pub mod metrics;
pub mod version;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use raft::Store;

pub use access::Access;
use metrics::Metrics;

/// What the handlers look at.
#[derive(Debug, Clone)]
pub struct View {
    /// The shard's handle of the store.
    pub store: Store,
    /// The member's metrics.
    pub metrics: Arc<Metrics>,
    /// How long a health check may wait for an answer of the store.
    pub request_timeout: Duration,
}

/// The paths of a client port, for those whom `access` allows.
pub fn client_router(view: View, access: Arc<Access>) -> Router {
    router(view)
        .route("/version", any(version::answer))
        .layer(axum::middleware::from_fn_with_state(access, access::control))
}

/// The paths of a port for metrics alone.
pub fn metrics_router(view: View) -> Router {
    router(view)
}

/// The paths of a peer port.
pub fn peer_router(view: View) -> Router {
    Router::new()
        .route("/version", any(version::answer))
        .route("/members", any(members::answer))
        .fallback(not_found)
        .with_state(view)
}

fn router(view: View) -> Router {
    Router::new()
        .route("/health", any(health::health))
        .route("/livez", any(health::livez))
        .route("/livez/{check}", any(health::livez_check))
        .route("/readyz", any(health::readyz))
        .route("/readyz/{check}", any(health::readyz_check))
        .route("/metrics", any(metrics_text))
        .fallback(not_found)
        .with_state(view)
}

async fn metrics_text(axum::extract::State(view): axum::extract::State<View>) -> Response {
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8; escaping=underscores");
    ([(header::CONTENT_TYPE, kind)], view.metrics.text()).into_response()
}

async fn not_found() -> Response {
    not_found_page()
}

/// Go's page for a path that there is not.
fn not_found_page() -> Response {
    error(StatusCode::NOT_FOUND, "404 page not found")
}

/// An error as Go's `http.Error` writes it.
fn error(status: StatusCode, text: &str) -> Response {
    (status, PLAIN, format!("{text}\n")).into_response()
}

const PLAIN: [(header::HeaderName, HeaderValue); 2] = [
    (header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8")),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
];

/// The refusal of every method but GET, which is all that these paths take.
fn refuse_method(method: &Method) -> Option<Response> {
    (method != Method::GET).then(|| {
        let mut refused = error(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed");
        refused.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET"));
        refused
    })
}
