//! Calls that took too long, told as etcd tells them: `apply request took too long` and `request stats`.
//!
//! A call is timed here, from when its headers came in to when its answer is known, so waiting for the disk and for other
//! requests counts, and the client's reading does not. Of its request the first message is kept by reference while it is
//! under way. That is all that a quick call costs: two looks at the clock and one small allocation.
//!
//! Does not know: streams, whose length says nothing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body::Body as _;
use parking_lot::Mutex;
use prometheus::{Histogram, IntCounter};
use prost::Message as _;
use tokio::time::Instant;
use tonic::Status;
use tonic::body::Body;

use super::describe::{Answered, Asked, Stats, is_applied};
use super::rows::Rows;
use super::tap::{Kept, Watched, Watcher};
use crate::clock;
use crate::config::GoDuration;
use crate::logging::time_text;
use crate::pb::etcdserverpb::LeaseGrantResponse;

/// How long a call may take before it is told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlowLimits {
    /// For what is applied or read.
    pub apply: Duration,
    /// For any unary call.
    pub unary: Duration,
}

/// What every call is measured against, and where slow ones are counted.
#[derive(Debug)]
pub(super) struct Slow {
    pub(super) limits: SlowLimits,
    pub(super) applies: IntCounter,
    pub(super) lease_ttls: Histogram,
}

/// Who calls.
#[derive(Debug, Clone, Copy)]
pub(super) enum Remote {
    Tcp(SocketAddr),
    Unix,
    /// Nobody who has an address.
    Unknown,
}

impl std::fmt::Display for Remote {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Remote::Tcp(address) => address.fmt(out),
            Remote::Unix => out.write_str("@"),
            Remote::Unknown => out.write_str("No remote client info."),
        }
    }
}

/// A unary call under way.
#[derive(Debug)]
pub(super) struct Call {
    slow: Arc<Slow>,
    path: &'static str,
    remote: Remote,
    began: Instant,
    request: Arc<Mutex<Kept>>,
}

impl Call {
    /// A call of the method at `path` begins. What comes in of it is put in `request`.
    pub(super) fn begin(
        slow: Arc<Slow>,
        path: &'static str,
        remote: Remote,
        request: Arc<Mutex<Kept>>,
    ) -> Call {
        Call { slow, path, remote, began: Instant::now(), request }
    }

    /// The answer is known; its body may be watched from here on.
    pub(super) fn answered(self, response: Response<Body>) -> Response<Body> {
        let took = self.began.elapsed();
        let limits = self.slow.limits;
        let is_slow = took > limits.apply && is_applied(self.path) || took > limits.unary;
        if !is_slow && self.path != LEASE_GRANT && !tracing::enabled!(tracing::Level::DEBUG) {
            return response;
        }
        let error =
            Status::from_header_map(response.headers()).filter(|status| status.code() != tonic::Code::Ok);
        let error = error.map(|status| status.message().to_owned());
        let rows = (self.path == RANGE).then(Rows::new);
        let report = Report { call: self, took, error, answer: Kept::default(), rows };
        if response.body().is_end_stream() {
            // Nothing follows, and nobody will ask.
            drop(report);
            return response;
        }
        response.map(|body| Body::new(Watched::new(body, report)))
    }
}

const RANGE: &str = "/etcdserverpb.KV/Range";
const LEASE_GRANT: &str = "/etcdserverpb.Lease/LeaseGrant";

/// What is told of a call once its answer has passed.
struct Report {
    call: Call,
    took: Duration,
    error: Option<String>,
    answer: Kept,
    /// Of an answer to Range, which may be too long to be kept.
    rows: Option<Rows>,
}

impl Watcher for Report {
    fn pass(&mut self, data: &Bytes) {
        self.answer.push(data);
        if let Some(rows) = &mut self.rows {
            rows.pass(data);
        }
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        let answered = Answered {
            message: self.answer.message(),
            bytes: self.answer.len(),
            rows: self.rows.as_ref().and_then(Rows::counted),
        };
        if self.call.path == LEASE_GRANT
            && let Some(Ok(granted)) = answered.message.clone().map(LeaseGrantResponse::decode)
        {
            #[allow(clippy::cast_precision_loss, reason = "seconds of a lease are far below 2^52")]
            self.call.slow.lease_ttls.observe(granted.ttl as f64);
        }
        let limits = self.call.slow.limits;
        let is_slow_apply = self.took > limits.apply && is_applied(self.call.path);
        let is_slow_call = self.took > limits.unary;
        if is_slow_apply {
            self.call.slow.applies.inc();
        }
        let is_curious = tracing::enabled!(tracing::Level::DEBUG);
        if !is_slow_apply && !is_slow_call && !is_curious {
            return;
        }
        let request = self.call.request.lock();
        let asked = request.message().and_then(|message| Asked::read(self.call.path, message));
        if is_slow_apply {
            self.tell_of_apply(asked.as_ref(), &answered);
        }
        if !is_slow_call && !is_curious {
            return;
        }
        let stats = match &asked {
            Some(asked) => asked.stats(request.len().unwrap_or(0), &answered),
            None => Stats::NONE,
        };
        let content = asked.as_ref().map(Asked::content).unwrap_or_default();
        // As in etcd, whoever asked for everything is told of a slow one as of any other.
        if is_curious {
            self.tell_of_any(stats, &content);
        } else {
            self.tell_of_call(stats, &content);
        }
    }
}

impl Report {
    fn tell_of_apply(&self, asked: Option<&Asked>, answered: &Answered) {
        let request =
            asked.map_or_else(|| format!("{} (too large to be shown)", self.call.path), Asked::text);
        let response = match (asked, answered.bytes) {
            (Some(asked), _) => asked.answer(answered),
            (None, Some(bytes)) => format!("size:{bytes}"),
            (None, None) => String::new(),
        };
        tracing::warn!(
            took = %GoDuration::from(self.took),
            "expected-duration" = %GoDuration::from(self.call.slow.limits.apply),
            prefix = asked.map_or("", Asked::prefix),
            request,
            response,
            error = self.error,
            "apply request took too long"
        );
    }

    fn tell_of_call(&self, stats: Stats, content: &str) {
        tracing::warn!(
            "start time" = self.start(),
            "time spent" = %GoDuration::from(self.took),
            remote = %self.call.remote,
            "response type" = self.call.path,
            "request count" = stats.request_count,
            "request size" = stats.request_bytes,
            "response count" = stats.response_count,
            "response size" = stats.response_bytes,
            "request content" = content,
            "request stats"
        );
    }

    fn tell_of_any(&self, stats: Stats, content: &str) {
        tracing::debug!(
            "start time" = self.start(),
            "time spent" = %GoDuration::from(self.took),
            remote = %self.call.remote,
            "response type" = self.call.path,
            "request count" = stats.request_count,
            "request size" = stats.request_bytes,
            "response count" = stats.response_count,
            "response size" = stats.response_bytes,
            "request content" = content,
            "request stats"
        );
    }

    fn start(&self) -> String {
        time_text(clock::since_epoch().saturating_sub(self.call.began.elapsed()))
    }
}
