//! Metrics under etcd's names, in the Prometheus text format 0.0.4.
//!
//! * [`grpc`]: calls by method and code, counted where a call begins and ends.
//! * [`clients`]: requests by the version of the client.
//! * [`disk`]: how long syncs and flushes take, observed by the threads that do them.
//! * [`store`]: what the store knows of itself, read when somebody asks.
//! * [`process`]: the process as the kernel sees it, read when somebody asks.
//!
//! Only quantities that exist here are shown. What is counted on the way of a request is an atomic that was
//! found beforehand: no name is looked up, no lock taken.

pub mod clients;
pub mod disk;
pub mod family;
pub mod grpc;
pub mod process;
pub mod store;

use std::sync::{Arc, OnceLock};

use prometheus::core::Collector;
use prometheus::{
    Encoder as _, Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder, exponential_buckets,
};

use crate::config::MetricsDetail;
use crate::http::version;
use clients::ClientMetrics;
use disk::DiskMetrics;
use grpc::GrpcMetrics;
use process::ProcessCollector;
use store::{Facts, StoreCollector};

/// Everything that this member counts itself.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// Calls.
    pub grpc: GrpcMetrics,
    /// Clients.
    pub clients: ClientMetrics,
    /// Syncs and flushes.
    pub disk: Arc<DiskMetrics>,
    /// Answers of `/health`.
    pub health_success: IntCounter,
    /// See `health_success`.
    pub health_failures: IntCounter,
    /// Results of the checks behind `/livez` and `/readyz`, as numbers of times: type, name, status.
    pub health_checks: IntCounterVec,
    /// The same as 1 or 0: type, name.
    pub health_check: IntGaugeVec,
    /// Requests that took too long to apply.
    pub slow_applies: IntCounter,
    /// Seconds that leases are granted for.
    pub lease_ttls: Histogram,
    /// Answers of `/metrics`.
    scrapes: IntCounter,
}

/// Bytes of messages to and from clients of all servers of this process.
#[derive(Debug)]
pub struct WireBytes {
    /// To clients.
    pub sent: IntCounter,
    /// From clients.
    pub received: IntCounter,
}

/// The process's [`WireBytes`]. They are global because tonic makes codecs out of nothing.
pub fn wire_bytes() -> &'static WireBytes {
    static BYTES: OnceLock<WireBytes> = OnceLock::new();
    BYTES.get_or_init(|| WireBytes {
        sent: counter(
            "etcd_network_client_grpc_sent_bytes_total",
            "The total number of bytes sent to grpc clients.",
        ),
        received: counter(
            "etcd_network_client_grpc_received_bytes_total",
            "The total number of bytes received from grpc clients.",
        ),
    })
}

impl Metrics {
    /// Metrics of a member whose store is not yet open.
    #[must_use]
    pub fn new() -> Arc<Metrics> {
        Metrics::with(MetricsDetail::Basic)
    }

    /// The same in as much detail as `detail`.
    #[must_use]
    pub fn with(detail: MetricsDetail) -> Arc<Metrics> {
        let registry = Registry::new();
        let scrapes = counters(
            "promhttp_metric_handler_requests_total",
            "Total number of scrapes by HTTP status code.",
            &["code"],
        );
        register(&registry, &scrapes);
        // The scrape that reads it is the one that is under way.
        let scraping =
            gauge("promhttp_metric_handler_requests_in_flight", "Current number of scrapes being served.");
        scraping.set(1);
        register(&registry, &scraping);
        let metrics = Metrics {
            grpc: GrpcMetrics::new(&registry, detail),
            slow_applies: counter(
                "etcd_server_slow_apply_total",
                "The total number of slow apply requests (likely overloaded from slow disk).",
            ),
            lease_ttls: histogram(
                "etcd_debugging_lease_ttl_total",
                "Bucketed histogram of lease TTLs.",
                exponential_buckets(1.0, 2.0, 24).expect("a positive start and a factor above one"),
            ),
            scrapes: scrapes.with_label_values(&["200"]),
            disk: Arc::new(DiskMetrics::new(&registry)),
            health_success: counter(
                "etcd_server_health_success",
                "The total number of successful health checks",
            ),
            health_failures: counter(
                "etcd_server_health_failures",
                "The total number of failed health checks",
            ),
            health_checks: counters(
                "etcd_server_healthchecks_total",
                "The total number of each kind of healthcheck.",
                &["type", "name", "status"],
            ),
            health_check: gauges(
                "etcd_server_healthcheck",
                "The result of each kind of healthcheck.",
                &["type", "name"],
            ),
            clients: ClientMetrics::new(&registry),
            registry,
        };
        register(&metrics.registry, &metrics.health_success);
        register(&metrics.registry, &metrics.health_failures);
        register(&metrics.registry, &metrics.health_checks);
        register(&metrics.registry, &metrics.health_check);
        register(&metrics.registry, &metrics.slow_applies);
        register(&metrics.registry, &metrics.lease_ttls);
        register(&metrics.registry, &wire_bytes().sent);
        register(&metrics.registry, &wire_bytes().received);
        let running = gauges(
            "etcd_server_version",
            "Which version is running. 1 for 'server_version' label with current version.",
            &["server_version"],
        );
        running.with_label_values(&[version::ETCD]).set(1);
        register(&metrics.registry, &running);
        let cluster = gauges(
            "etcd_cluster_version",
            "Which version is running. 1 for 'cluster_version' label with current cluster version",
            &["cluster_version"],
        );
        cluster.with_label_values(&[version::CLUSTER_SHORT]).set(1);
        register(&metrics.registry, &cluster);
        register(&metrics.registry, &ProcessCollector::new());
        Arc::new(metrics)
    }

    /// Shows what `store` knows from now on.
    pub fn add_store(&self, store: raft::Store, facts: Facts) {
        let id = gauges(
            "etcd_server_id",
            "Server or member ID in hexadecimal format. 1 for 'server_id' label with current ID.",
            &["server_id"],
        );
        id.with_label_values(&[format!("{:x}", store.member_id())]).set(1);
        register(&self.registry, &id);
        let features = gauges(
            "etcd_server_feature_enabled",
            "Whether or not a feature is enabled. 1 is enabled, 0 is not.",
            &["name", "stage"],
        );
        for (name, stage, on) in facts.feature_gates.named() {
            features.with_label_values(&[name, stage]).set(i64::from(on));
        }
        register(&self.registry, &features);
        register(&self.registry, &StoreCollector::new(store, facts));
    }

    /// All of it as text.
    #[must_use]
    pub fn text(&self) -> Vec<u8> {
        let mut text = Vec::with_capacity(128 * 1024);
        let encoded = TextEncoder::new().encode(&self.registry.gather(), &mut text);
        encoded.expect("families are made here and well-formed; memory takes what is written");
        self.scrapes.inc();
        text
    }
}

/// A counter under a name that is known to be valid.
pub(crate) fn counter(name: &str, help: &str) -> IntCounter {
    IntCounter::new(name, help).expect("a valid name")
}

/// A gauge under a name that is known to be valid.
pub(crate) fn gauge(name: &str, help: &str) -> IntGauge {
    IntGauge::new(name, help).expect("a valid name")
}

/// A histogram under a name that is known to be valid.
pub(crate) fn histogram(name: &str, help: &str, buckets: Vec<f64>) -> Histogram {
    Histogram::with_opts(HistogramOpts::new(name, help).buckets(buckets)).expect("a valid name")
}

fn counters(name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
    IntCounterVec::new(Opts::new(name, help), labels).expect("a valid name and labels")
}

fn gauges(name: &str, help: &str, labels: &[&str]) -> IntGaugeVec {
    IntGaugeVec::new(Opts::new(name, help), labels).expect("a valid name and labels")
}

pub(crate) fn register<C: Collector + Clone + 'static>(registry: &Registry, collector: &C) {
    registry.register(Box::new(collector.clone())).expect("names are unique within a registry");
}
