//! Who may ask for a client's pages: by the `Host` that a request is addressed to, and from which web pages.
//!
//! Both guard people's browsers: the first against names that an attacker points at this machine (DNS rebinding),
//! the second against scripts of other sites.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::error;
use crate::config::Allowed;

/// What is allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// Names that requests may be addressed to.
    pub hosts: Allowed,
    /// Origins of web pages whose scripts may read answers.
    pub origins: Allowed,
}

/// Lets a request through to the pages, or not.
pub(super) async fn control(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    let host = host(&request);
    if !access.hosts.contains(host) {
        tracing::warn!(host, "rejecting HTTP request to prevent DNS rebinding attacks");
        return error(StatusCode::MISDIRECTED_REQUEST, &rebinding(host));
    }
    let origin = access.allowed_origin(&request);
    let mut response = if request.method() == Method::OPTIONS {
        StatusCode::OK.into_response()
    } else {
        next.run(request).await
    };
    if let Some(origin) = origin {
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HEADERS);
    }
    response
}

impl Access {
    /// What `Access-Control-Allow-Origin` says, if anything.
    fn allowed_origin(&self, request: &Request) -> Option<HeaderValue> {
        if self.origins == Allowed::All {
            return Some(HeaderValue::from_static("*"));
        }
        let origin = request.headers().get(header::ORIGIN)?;
        self.origins.contains(origin.to_str().ok()?).then(|| origin.clone())
    }
}

/// The name of the host that a request is addressed to; empty if it says none.
fn host(request: &Request) -> &str {
    // HTTP/2 has it in the URI.
    if let Some(host) = request.uri().host() {
        return host;
    }
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    host.map(without_port).unwrap_or_default()
}

const METHODS: HeaderValue = HeaderValue::from_static("POST, GET, OPTIONS, PUT, DELETE");
const HEADERS: HeaderValue = HeaderValue::from_static("accept, content-type, authorization");

/// The name in a `Host` header: without the port, and an IPv6 address without its brackets.
fn without_port(host: &str) -> &str {
    if let Some((address, rest)) = host.strip_prefix('[').and_then(|host| host.split_once(']'))
        && rest.starts_with(':')
    {
        return address;
    }
    match host.split_once(':') {
        Some((name, port)) if !port.contains(':') => name,
        _ => host,
    }
}

fn rebinding(host: &str) -> String {
    format!(
        "\netcd received your request, but the Host header was unrecognized.\n\n\
         To fix this, choose one of the following options:\n\
         - Enable TLS, then any HTTPS request will be allowed.\n\
         - Add the hostname you want to use to the whitelist in settings.\n  \
         - e.g. etcd --host-whitelist {host:?}\n\n\
         This requirement has been added to help prevent \"DNS Rebinding\" attacks (CVE-2018-5702).\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_split_as_go_splits_them() {
        for (host, want, why) in [
            ("localhost:2379", "localhost", "a name and a port"),
            ("localhost", "localhost", "no port"),
            ("[::1]:2379", "::1", "brackets go with the port"),
            ("[::1]", "[::1]", "and stay without one"),
            ("::1", "::1", "two colons are no port"),
            ("", "", "none"),
        ] {
            assert_eq!(without_port(host), want, "{host}: {why}");
        }
    }
}
