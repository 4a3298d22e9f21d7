//! Calls by method and code, as grpc-go's middleware counts them: a call begins once its request is decoded
//! and ends with a code. What a client gives up ends as `Canceled`.
//!
//! How long calls took is here too, under the names that etcd has for it: of each method with `--metrics=extensive`, and of
//! what is applied, hashed or defragmented always. All children of a family are found beforehand.

use std::sync::Arc;

use prometheus::{
    DEFAULT_BUCKETS, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts,
    Registry,
};
use tokio::time::Instant;
use tonic::Code;

use super::{gauge, histogram, register};
use crate::clock;
use crate::config::MetricsDetail;

/// Codes by number, as the label `grpc_code` spells them.
const CODES: [&str; 17] = [
    "OK",
    "Canceled",
    "Unknown",
    "InvalidArgument",
    "DeadlineExceeded",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "OutOfRange",
    "Unimplemented",
    "Internal",
    "Unavailable",
    "DataLoss",
    "Unauthenticated",
];

macro_rules! methods {
    ($($method:ident = $service:literal, $name:literal, $kind:literal;)*) => {
        /// Every method that is served.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[allow(missing_docs, reason = "service and name")]
        pub enum Method { $($method),* }

        /// Service, name and type of each, in the order of [`Method`].
        const METHODS: &[(&str, &str, &str)] = &[$(($service, $name, $kind)),*];

        /// Each with its path.
        const PATHS: &[(&str, Method)] = &[$((concat!("/", $service, "/", $name), Method::$method)),*];
    };
}

methods! {
    KvRange = "etcdserverpb.KV", "Range", "unary";
    KvRangeStream = "etcdserverpb.KV", "RangeStream", "server_stream";
    KvPut = "etcdserverpb.KV", "Put", "unary";
    KvDeleteRange = "etcdserverpb.KV", "DeleteRange", "unary";
    KvTxn = "etcdserverpb.KV", "Txn", "unary";
    KvCompact = "etcdserverpb.KV", "Compact", "unary";
    WatchWatch = "etcdserverpb.Watch", "Watch", "bidi_stream";
    LeaseGrant = "etcdserverpb.Lease", "LeaseGrant", "unary";
    LeaseRevoke = "etcdserverpb.Lease", "LeaseRevoke", "unary";
    LeaseKeepAlive = "etcdserverpb.Lease", "LeaseKeepAlive", "bidi_stream";
    LeaseTimeToLive = "etcdserverpb.Lease", "LeaseTimeToLive", "unary";
    LeaseLeases = "etcdserverpb.Lease", "LeaseLeases", "unary";
    ClusterMemberList = "etcdserverpb.Cluster", "MemberList", "unary";
    MaintenanceAlarm = "etcdserverpb.Maintenance", "Alarm", "unary";
    MaintenanceStatus = "etcdserverpb.Maintenance", "Status", "unary";
    MaintenanceDefragment = "etcdserverpb.Maintenance", "Defragment", "unary";
}

impl Method {
    /// The method that is called at `path`.
    #[must_use]
    pub fn at(path: &str) -> Option<Method> {
        PATHS.iter().find(|(known, _)| *known == path).map(|(_, method)| *method)
    }

    /// Where it is called.
    #[must_use]
    pub fn path(self) -> &'static str {
        PATHS[self as usize].0
    }

    /// Whether it is a plain request and answer.
    #[must_use]
    pub fn is_unary(self) -> bool {
        METHODS[self as usize].2 == "unary"
    }

    /// Whether it has one request; so many of the others come that each is counted when it does.
    #[must_use]
    pub fn has_one_request(self) -> bool {
        METHODS[self as usize].2 != "bidi_stream"
    }

    /// What etcd calls a request whose time it tells apart.
    fn request_type(self) -> Option<&'static str> {
        Some(match self {
            Method::KvRange => "Range",
            Method::KvPut => "Put",
            Method::KvDeleteRange => "DeleteRange",
            Method::KvTxn => "Txn",
            Method::KvCompact => "Compaction",
            Method::LeaseGrant => "LeaseGrant",
            Method::LeaseRevoke => "LeaseRevoke",
            Method::MaintenanceAlarm => "Alarm",
            _ => return None,
        })
    }
}

#[derive(Debug)]
struct MethodCounters {
    started: IntCounter,
    /// By code.
    handled: [IntCounter; CODES.len()],
    received: IntCounter,
    sent: IntCounter,
    is_unary: bool,
    has_one_request: bool,
    /// Whatever its end.
    times: Vec<Histogram>,
    /// Of what failed, and of what ended well.
    outcomes: Vec<[Histogram; 2]>,
    /// 1 while one is under way.
    under_way: Option<IntGauge>,
    /// When one last ended well, in seconds since 1970.
    ended: Option<IntGauge>,
}

/// Counters of every method.
#[derive(Debug)]
pub struct GrpcMetrics {
    methods: Vec<Arc<MethodCounters>>,
    /// When the last compaction was, in seconds since 1970.
    pub compaction_last: IntGauge,
}

impl GrpcMetrics {
    pub(super) fn new(registry: &Registry, detail: MetricsDetail) -> Self {
        let compaction_last = gauge(
            "etcd_debugging_mvcc_db_compaction_last",
            "The unix time of the last db compaction. Resets to 0 on start.",
        );
        register(registry, &compaction_last);
        let families = Families::new(registry, detail);
        let resolve = |(_, method): &(&str, Method)| {
            let mut counters = families.counters(*method);
            if *method == Method::KvCompact {
                counters.ended = Some(compaction_last.clone());
            }
            Arc::new(counters)
        };
        GrpcMetrics { methods: PATHS.iter().map(resolve).collect(), compaction_last }
    }

    /// A call of `method` begins.
    #[must_use]
    pub fn begin(&self, method: Method) -> Handling {
        let counters = Arc::clone(&self.methods[method as usize]);
        counters.started.inc();
        if counters.has_one_request {
            counters.received.inc();
        }
        if let Some(under_way) = &counters.under_way {
            under_way.inc();
        }
        Handling { counters, code: Code::Cancelled, began: Instant::now() }
    }

    /// Counts messages of `method` that come in, for methods without [`Method::has_one_request`].
    #[must_use]
    pub fn received(&self, method: Method) -> IntCounter {
        self.methods[method as usize].received.clone()
    }

    /// Counts messages of `method` that go out, for methods without [`Method::is_unary`].
    #[must_use]
    pub fn sent(&self, method: Method) -> IntCounter {
        self.methods[method as usize].sent.clone()
    }
}

/// Families that methods have children of.
struct Families {
    started: IntCounterVec,
    handled: IntCounterVec,
    received: IntCounterVec,
    sent: IntCounterVec,
    /// `None` if nobody asked for it.
    handling: Option<HistogramVec>,
    requests: HistogramVec,
    ranges: HistogramVec,
    defrags: Histogram,
    defrags_under_way: IntGauge,
}

impl Families {
    fn new(registry: &Registry, detail: MetricsDetail) -> Families {
        const METHOD: [&str; 3] = ["grpc_type", "grpc_service", "grpc_method"];
        let counters = |name, help, labels: &[&str]| {
            let counters =
                IntCounterVec::new(Opts::new(name, help), labels).expect("a valid name and labels");
            register(registry, &counters);
            counters
        };
        let histograms = |name, help, buckets: Vec<f64>, labels: &[&str]| {
            let options = HistogramOpts::new(name, help).buckets(buckets);
            let histograms = HistogramVec::new(options, labels).expect("a valid name and labels");
            register(registry, &histograms);
            histograms
        };
        let doubling = |start: f64, count| -> Vec<f64> {
            std::iter::successors(Some(start), |bucket| Some(bucket * 2.0)).take(count).collect()
        };
        let defrags = histogram(
            "etcd_disk_backend_defrag_duration_seconds",
            "The latency distribution of backend defragmentation.",
            doubling(0.1, 13),
        );
        register(registry, &defrags);
        let defrags_under_way = gauge(
            "etcd_disk_defrag_inflight",
            "Whether or not defrag is active on the member. 1 means active, 0 means not.",
        );
        register(registry, &defrags_under_way);
        Families {
            started: counters(
                "grpc_server_started_total",
                "Total number of RPCs started on the server.",
                &METHOD,
            ),
            handled: counters(
                "grpc_server_handled_total",
                "Total number of RPCs completed on the server, regardless of success or failure.",
                &["grpc_type", "grpc_service", "grpc_method", "grpc_code"],
            ),
            received: counters(
                "grpc_server_msg_received_total",
                "Total number of RPC stream messages received on the server.",
                &METHOD,
            ),
            sent: counters(
                "grpc_server_msg_sent_total",
                "Total number of gRPC stream messages sent by the server.",
                &METHOD,
            ),
            handling: (detail == MetricsDetail::Extensive).then(|| {
                histograms(
                    "grpc_server_handling_seconds",
                    "Histogram of response latency (seconds) of gRPC that had been application-level handled by the \
                     server.",
                    DEFAULT_BUCKETS.to_vec(),
                    &METHOD,
                )
            }),
            requests: histograms(
                "etcd_server_request_duration_seconds",
                "Response latency distribution in seconds for each type.",
                doubling(0.001, 14),
                &["type", "success"],
            ),
            ranges: histograms(
                "etcd_server_range_duration_seconds",
                "The latency distributions of txn.Range",
                doubling(0.0001, 20),
                &["success"],
            ),
            defrags,
            defrags_under_way,
        }
    }

    fn counters(&self, method: Method) -> MethodCounters {
        let (service, name, kind) = METHODS[method as usize];
        let labels = [kind, service, name];
        let mut times: Vec<Histogram> =
            self.handling.iter().map(|handling| handling.with_label_values(&labels)).collect();
        let mut outcomes = Vec::new();
        if let Some(request) = method.request_type() {
            outcomes
                .push(["false", "true"].map(|success| self.requests.with_label_values(&[request, success])));
        }
        if method == Method::KvRange {
            outcomes.push(["false", "true"].map(|success| self.ranges.with_label_values(&[success])));
        }
        let is_defrag = method == Method::MaintenanceDefragment;
        if is_defrag {
            times.push(self.defrags.clone());
        }
        MethodCounters {
            started: self.started.with_label_values(&labels),
            handled: CODES.map(|code| self.handled.with_label_values(&[kind, service, name, code])),
            received: self.received.with_label_values(&labels),
            sent: self.sent.with_label_values(&labels),
            is_unary: method.is_unary(),
            has_one_request: method.has_one_request(),
            times,
            outcomes,
            under_way: is_defrag.then(|| self.defrags_under_way.clone()),
            ended: None,
        }
    }
}

/// A call under way; counted as handled when dropped.
#[derive(Debug)]
pub struct Handling {
    counters: Arc<MethodCounters>,
    /// What is counted if it is dropped now. `Canceled` until told otherwise, since tonic drops what clients
    /// give up.
    code: Code,
    began: Instant,
}

impl Handling {
    /// The call ends with `code`.
    pub fn end(mut self, code: Code) {
        self.code = code;
    }
}

impl Drop for Handling {
    fn drop(&mut self) {
        let counters = &self.counters;
        let is_ok = self.code == Code::Ok;
        counters.handled[self.code as usize].inc();
        if is_ok && counters.is_unary {
            counters.sent.inc();
        }
        if let Some(under_way) = &counters.under_way {
            under_way.dec();
        }
        if let Some(ended) = counters.ended.as_ref().filter(|_| is_ok) {
            ended.set(i64::try_from(clock::since_epoch().as_secs()).unwrap_or(i64::MAX));
        }
        if counters.times.is_empty() && counters.outcomes.is_empty() {
            return;
        }
        let took = self.began.elapsed().as_secs_f64();
        for time in &counters.times {
            time.observe(took);
        }
        for outcome in &counters.outcomes {
            outcome[usize::from(is_ok)].observe(took);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_code_and_the_abandoned_as_canceled() {
        let grpc = GrpcMetrics::new(&Registry::new(), MetricsDetail::Extensive);
        let put = &grpc.methods[Method::KvPut as usize];
        grpc.begin(Method::KvPut).end(Code::Ok);
        grpc.begin(Method::KvPut).end(Code::Unauthenticated);
        drop(grpc.begin(Method::KvPut));
        assert_eq!(put.started.get(), 3);
        for (code, want, why) in
            [(0, 1, "ended well"), (1, 1, "abandoned"), (16, 1, "the last code"), (2, 0, "never given")]
        {
            assert_eq!(put.handled[code].get(), want, "{}: {why}", CODES[code]);
        }
        assert_eq!((put.received.get(), put.sent.get()), (3, 1), "only what ends well is answered");
        assert_eq!(put.times[0].get_sample_count(), 3, "all take time");
        let [failed, well] = &put.outcomes[0];
        assert_eq!((failed.get_sample_count(), well.get_sample_count()), (2, 1));
    }

    #[test]
    fn streams_are_counted_by_message_elsewhere() {
        let grpc = GrpcMetrics::new(&Registry::new(), MetricsDetail::Basic);
        grpc.begin(Method::WatchWatch).end(Code::Ok);
        grpc.begin(Method::KvRangeStream).end(Code::Ok);
        let counts = |method| (grpc.received(method).get(), grpc.sent(method).get());
        assert_eq!(counts(Method::WatchWatch), (0, 0));
        assert_eq!(counts(Method::KvRangeStream), (1, 0), "its one request is counted here");
        assert!(grpc.methods[Method::WatchWatch as usize].times.is_empty(), "nobody asked for it");
    }

    #[test]
    fn the_last_compaction_is_noted_and_a_defragmentation_is_seen() {
        let grpc = GrpcMetrics::new(&Registry::new(), MetricsDetail::Basic);
        grpc.begin(Method::KvCompact).end(Code::OutOfRange);
        assert_eq!(grpc.compaction_last.get(), 0, "it compacted nothing");
        grpc.begin(Method::KvCompact).end(Code::Ok);
        assert!(grpc.compaction_last.get() > 1_700_000_000, "seconds since 1970");
        let defrag = &grpc.methods[Method::MaintenanceDefragment as usize];
        let under_way = defrag.under_way.as_ref().expect("it is shown");
        let handling = grpc.begin(Method::MaintenanceDefragment);
        assert_eq!(under_way.get(), 1);
        handling.end(Code::Ok);
        assert_eq!((under_way.get(), defrag.times[0].get_sample_count()), (0, 1));
    }

    #[test]
    fn paths_are_methods() {
        for (position, (path, method)) in PATHS.iter().enumerate() {
            assert_eq!((Method::at(path), method.path()), (Some(*method), *path));
            assert_eq!(*method as usize, position, "in the order of the methods");
        }
        assert_eq!(Method::at("/etcdserverpb.KV/Fetch"), None);
    }

    #[test]
    fn methods_are_named_as_in_the_protocol() {
        let facts = include_str!("../../../proto/etcd-fields.txt");
        for (service, name, kind) in METHODS {
            let line = facts.lines().find(|line| line.starts_with(&format!("method {service} {name} ")));
            let line = line.unwrap_or_else(|| panic!("etcd has no {service}/{name}"));
            let client = line.contains(&format!("{name} (stream "));
            let server = line.contains(") (stream ");
            let want = match (client, server) {
                (false, false) => "unary",
                (false, true) => "server_stream",
                (true, false) => "client_stream",
                (true, true) => "bidi_stream",
            };
            assert_eq!(*kind, want, "{service}/{name}");
        }
    }
}
