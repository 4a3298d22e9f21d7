//! Calls by method and code, as grpc-go's middleware counts them: a call begins once its request is decoded
//! and ends with a code. What a client gives up ends as `Canceled`.

use std::sync::Arc;

use prometheus::{IntCounter, IntCounterVec, Opts, Registry};
use tonic::Code;

use super::register;

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
    /// Whether it is a plain request and answer.
    #[must_use]
    pub fn is_unary(self) -> bool {
        METHODS[self as usize].2 == "unary"
    }
}

#[derive(Debug)]
struct MethodCounters {
    started: IntCounter,
    /// By code.
    handled: [IntCounter; CODES.len()],
}

/// Counters of every method.
#[derive(Debug)]
pub struct GrpcMetrics {
    methods: Vec<Arc<MethodCounters>>,
}

impl GrpcMetrics {
    pub(super) fn new(registry: &Registry) -> Self {
        let counters = |name, help, labels: &[&str]| {
            let counters =
                IntCounterVec::new(Opts::new(name, help), labels).expect("a valid name and labels");
            register(registry, &counters);
            counters
        };
        let started = counters(
            "grpc_server_started_total",
            "Total number of RPCs started on the server.",
            &["grpc_type", "grpc_service", "grpc_method"],
        );
        let handled = counters(
            "grpc_server_handled_total",
            "Total number of RPCs completed on the server, regardless of success or failure.",
            &["grpc_type", "grpc_service", "grpc_method", "grpc_code"],
        );
        let resolve = |&(service, name, kind): &(&str, &str, &str)| {
            Arc::new(MethodCounters {
                started: started.with_label_values(&[kind, service, name]),
                handled: CODES.map(|code| handled.with_label_values(&[kind, service, name, code])),
            })
        };
        GrpcMetrics { methods: METHODS.iter().map(resolve).collect() }
    }

    /// A call of `method` begins.
    #[must_use]
    pub fn begin(&self, method: Method) -> Handling {
        let counters = Arc::clone(&self.methods[method as usize]);
        counters.started.inc();
        Handling { counters, code: Code::Cancelled }
    }
}

/// A call under way; counted as handled when dropped.
#[derive(Debug)]
pub struct Handling {
    counters: Arc<MethodCounters>,
    /// What is counted if it is dropped now. `Canceled` until told otherwise, since tonic drops what clients
    /// give up.
    code: Code,
}

impl Handling {
    /// The call ends with `code`.
    pub fn end(mut self, code: Code) {
        self.code = code;
    }
}

impl Drop for Handling {
    fn drop(&mut self) {
        self.counters.handled[self.code as usize].inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_code_and_the_abandoned_as_canceled() {
        let grpc = GrpcMetrics::new(&Registry::new());
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
