//! Versions: of etcd's API, which clients act on, and `/version`, which shows them.

use axum::http::{HeaderValue, Method, header};
use axum::response::{IntoResponse as _, Response};

/// The version of etcd whose API this is.
pub const ETCD: &str = "3.7.3";
/// The version that all members of the cluster speak.
pub const CLUSTER: &str = "3.7.0";
/// [`CLUSTER`] as `Downgrade` and a metric show it.
pub const CLUSTER_SHORT: &str = "3.7";
/// The version of what is stored, in etcd's count.
pub const STORAGE: &str = "3.7.0";

pub(super) async fn answer(method: Method) -> Response {
    if let Some(refused) = super::refuse_method(&method) {
        return refused;
    }
    let versions = format!(r#"{{"etcdserver":"{ETCD}","etcdcluster":"{CLUSTER}","storage":"{STORAGE}"}}"#);
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], versions).into_response()
}
