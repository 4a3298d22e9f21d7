//! The metrics: whatever etcd's dashboards and alerts ask for is there, and nothing is called what it is not.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use common::clients::etcdserverpb::cluster_client::ClusterClient;
use common::clients::etcdserverpb::kv_client::KvClient;
use common::clients::etcdserverpb::lease_client::LeaseClient;
use common::clients::etcdserverpb::maintenance_client::MaintenanceClient;
use common::clients::etcdserverpb::watch_client::WatchClient;
use common::{Connection, Running, page, served_with, settings, soon};
use server::config::MetricsDetail;
use server::pb::etcdserverpb::{self as pb, watch_request};
use tokio_stream::StreamExt as _;

/// One line of the page.
#[derive(Debug)]
struct Series {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

/// What the page says.
struct Scrape {
    series: Vec<Series>,
    /// Type by family.
    types: BTreeMap<String, String>,
}

impl Scrape {
    fn new(text: &str) -> Scrape {
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
        let series = text.lines().filter(|line| !line.starts_with('#')).map(|line| {
            let (name, value) = line.rsplit_once(' ').expect("a value");
            let (name, labels) = name.split_once('{').unwrap_or((name, ""));
            Series {
                name: name.to_owned(),
                labels: pairs(labels.trim_end_matches('}')),
                value: value.parse().expect("a number"),
            }
        });
        Scrape {
            series: series.collect(),
            types: types.map(|(name, kind)| (name.to_owned(), kind.to_owned())).collect(),
        }
    }

    /// The series of a selector like `name{a="b",c=~"d|e"}`.
    fn select(&self, selector: &str) -> Vec<&Series> {
        let (name, matchers) = selector.split_once('{').unwrap_or((selector, ""));
        let matchers: Vec<&str> =
            matchers.trim_end_matches('}').split(',').filter(|matcher| !matcher.is_empty()).collect();
        let of_name = self.series.iter().filter(|series| series.name == name);
        of_name.filter(|series| matchers.iter().all(|matcher| series.matches(matcher))).collect()
    }

    fn value(&self, selector: &str) -> f64 {
        self.select(selector).iter().map(|series| series.value).sum()
    }
}

impl Series {
    fn matches(&self, matcher: &str) -> bool {
        let at = matcher.find(['=', '!']).expect("an operator");
        let (label, rest) = matcher.split_at(at);
        let (operator, value) = rest.split_at(rest.find('"').expect("a value"));
        let value = value.trim_matches('"');
        let own = self.labels.get(label.trim()).map_or("", String::as_str);
        match operator.trim() {
            "=" => own == value,
            "!=" => own != value,
            // The only patterns that are used are lists of words.
            "=~" => value.split('|').any(|word| own == word),
            other => panic!("no such operator: {other}"),
        }
    }

    /// The family it belongs to, whose type is `types`.
    fn family<'a>(&'a self, types: &BTreeMap<String, String>) -> &'a str {
        let is_histogram = |family: &&str| types.get(*family).is_some_and(|kind| kind == "histogram");
        let suffixes = ["_bucket", "_sum", "_count"];
        let bare = suffixes.iter().find_map(|suffix| self.name.strip_suffix(suffix));
        bare.filter(is_histogram).unwrap_or(&self.name)
    }
}

fn pairs(labels: &str) -> BTreeMap<String, String> {
    let mut pairs = BTreeMap::new();
    let mut rest = labels;
    while let Some((label, value)) = rest.split_once("=\"") {
        let (value, after) = value.split_once('"').expect("a closing mark");
        pairs.insert(label.trim_start_matches(',').to_owned(), value.to_owned());
        rest = after;
    }
    pairs
}

/// Runs `test` on what a member shows after a bit of everything.
fn scraped(test: impl FnOnce(&Scrape)) {
    let dir = tempfile::tempdir().expect("a directory");
    let mut settings = settings(dir.path());
    settings.observation.metrics = MetricsDetail::Extensive;
    settings.observation.slow.apply = std::time::Duration::ZERO;
    served_with(settings, dir, async |running| {
        traffic(running).await;
        let page = page(running.metrics, "GET", "/metrics").await;
        test(&Scrape::new(&page.text));
    });
}

async fn traffic(running: &Running) {
    let connection = Connection::new(running.client).await;
    let mut kv = KvClient::new(connection.clone());
    let key = Bytes::from("k");
    let put = pb::PutRequest { key: key.clone(), value: Bytes::from("v"), ..Default::default() };
    for _ in 0..3 {
        kv.put(put.clone()).await.expect("written");
    }
    let range = pb::RangeRequest { key: key.clone(), ..Default::default() };
    kv.range(range.clone()).await.expect("read");
    kv.range(pb::RangeRequest { revision: 99, ..range.clone() }).await.expect_err("a future revision");
    kv.range_stream(range).await.expect("begun").into_inner().message().await.expect("a chunk");
    kv.txn(pb::TxnRequest::default()).await.expect("done");
    kv.delete_range(pb::DeleteRangeRequest { key: key.clone(), ..Default::default() }).await.expect("done");
    kv.compact(pb::CompactionRequest { revision: 3, physical: true }).await.expect("compacted");

    let mut lease = LeaseClient::new(connection.clone());
    let granted = lease.lease_grant(pb::LeaseGrantRequest { ttl: 60, id: 0 }).await.expect("granted");
    let id = granted.into_inner().id;
    let renewals = tokio_stream::iter([pb::LeaseKeepAliveRequest { id }]).chain(tokio_stream::pending());
    let mut renewed = lease.lease_keep_alive(renewals).await.expect("begun").into_inner();
    soon(renewed.message()).await.expect("renewed");
    lease.lease_revoke(pb::LeaseRevokeRequest { id }).await.expect("revoked");

    let create = pb::WatchCreateRequest { key, start_revision: 5, ..Default::default() };
    let create = pb::WatchRequest { request_union: Some(watch_request::RequestUnion::CreateRequest(create)) };
    let requests = tokio_stream::iter([create]).chain(tokio_stream::pending());
    let mut watched = WatchClient::new(connection.clone()).watch(requests).await.expect("begun").into_inner();
    for what in ["created", "an event"] {
        soon(watched.message()).await.expect(what);
    }

    let mut maintenance = MaintenanceClient::new(connection.clone());
    maintenance.defragment(pb::DefragmentRequest {}).await.expect("done");
    ClusterClient::new(connection).member_list(pb::MemberListRequest::default()).await.expect("listed");
    for path in ["/health", "/livez", "/readyz", "/metrics"] {
        assert_eq!(page(running.metrics, "GET", path).await.status, 200, "{path}");
    }
}

/// The queries of etcd's mixin (alerts, the dashboard and its Grafana 7 edition), and of what builds on it: where, and the
/// query without the labels that Prometheus adds.
const QUERIES: &[(&str, &str)] = &[
    ("alert etcdNoLeader", "etcd_server_has_leader == 0"),
    (
        "alert etcdHighNumberOfLeaderChanges",
        "increase((max without (instance) (etcd_server_leader_changes_seen_total) or \
         0*absent(etcd_server_leader_changes_seen_total))[15m:1m]) >= 4",
    ),
    (
        "alert etcdHighNumberOfFailedGRPCRequests",
        "100 * sum(rate(grpc_server_handled_total{grpc_code=~\"Unknown|FailedPrecondition|ResourceExhausted|Internal|\
         Unavailable|DataLoss|DeadlineExceeded\"}[5m])) without (grpc_type, grpc_code) / \
         sum(rate(grpc_server_handled_total[5m])) without (grpc_type, grpc_code) > 1",
    ),
    (
        "alert etcdGRPCRequestsSlow",
        "histogram_quantile(0.99, sum(rate(grpc_server_handling_seconds_bucket{grpc_method!=\"Defragment\",\
         grpc_type=\"unary\"}[5m])) without(grpc_type)) > 0.15",
    ),
    ("alert etcdHighNumberOfFailedProposals", "rate(etcd_server_proposals_failed_total[15m]) > 5"),
    (
        "alert etcdHighFsyncDurations",
        "histogram_quantile(0.99, rate(etcd_disk_wal_fsync_duration_seconds_bucket[5m])) > 0.5",
    ),
    (
        "alert etcdHighCommitDurations",
        "histogram_quantile(0.99, rate(etcd_disk_backend_commit_duration_seconds_bucket[5m])) > 0.25",
    ),
    (
        "alert etcdDatabaseQuotaLowSpace",
        "(last_over_time(etcd_mvcc_db_total_size_in_bytes[5m]) / \
         last_over_time(etcd_server_quota_backend_bytes[5m]))*100 > 95",
    ),
    (
        "alert etcdExcessiveDatabaseGrowth",
        "predict_linear(etcd_mvcc_db_total_size_in_bytes[4h], 4*60*60) > etcd_server_quota_backend_bytes",
    ),
    (
        "alert etcdDatabaseHighFragmentationRatio",
        "(last_over_time(etcd_mvcc_db_total_size_in_use_in_bytes[5m]) / \
         last_over_time(etcd_mvcc_db_total_size_in_bytes[5m])) < 0.5 and etcd_mvcc_db_total_size_in_use_in_bytes > \
         104857600",
    ),
    ("dashboard Up", "sum(etcd_server_has_leader)"),
    ("dashboard RPC rate", "sum(rate(grpc_server_started_total{grpc_type=\"unary\"}[5m]))"),
    (
        "dashboard RPC failed rate",
        "sum(rate(grpc_server_handled_total{grpc_type=\"unary\",grpc_code=~\"Unknown|FailedPrecondition|\
         ResourceExhausted|Internal|Unavailable|DataLoss|DeadlineExceeded\"}[5m]))",
    ),
    (
        "dashboard Watch streams",
        "sum(grpc_server_started_total{grpc_service=\"etcdserverpb.Watch\",grpc_type=\"bidi_stream\"}) - \
         sum(grpc_server_handled_total{grpc_service=\"etcdserverpb.Watch\",grpc_type=\"bidi_stream\"})",
    ),
    (
        "dashboard Lease streams",
        "sum(grpc_server_started_total{grpc_service=\"etcdserverpb.Lease\",grpc_type=\"bidi_stream\"}) - \
         sum(grpc_server_handled_total{grpc_service=\"etcdserverpb.Lease\",grpc_type=\"bidi_stream\"})",
    ),
    ("dashboard DB size", "etcd_mvcc_db_total_size_in_bytes"),
    (
        "dashboard WAL fsync",
        "histogram_quantile(0.99, sum(rate(etcd_disk_wal_fsync_duration_seconds_bucket[5m])) by (instance, le))",
    ),
    (
        "dashboard DB fsync",
        "histogram_quantile(0.99, sum(rate(etcd_disk_backend_commit_duration_seconds_bucket[5m])) by (instance, le))",
    ),
    ("dashboard Memory", "process_resident_memory_bytes"),
    ("dashboard Client traffic in", "rate(etcd_network_client_grpc_received_bytes_total[5m])"),
    ("dashboard Client traffic out", "rate(etcd_network_client_grpc_sent_bytes_total[5m])"),
    ("dashboard Leader elections per day", "changes(etcd_server_leader_changes_seen_total[1d])"),
    ("Grafana 7 dashboard, proposals failed", "sum(rate(etcd_server_proposals_failed_total[5m]))"),
    ("Grafana 7 dashboard, proposals pending", "sum(etcd_server_proposals_pending)"),
    ("Grafana 7 dashboard, proposals committed", "sum(rate(etcd_server_proposals_committed_total[5m]))"),
    ("Grafana 7 dashboard, proposals applied", "sum(rate(etcd_server_proposals_applied_total[5m]))"),
    ("grafana.com 3070 and others, keys", "sum(etcd_debugging_mvcc_keys_total)"),
    ("the same, watchers", "etcd_debugging_mvcc_watcher_total - etcd_debugging_mvcc_slow_watcher_total"),
    ("the same, events", "rate(etcd_debugging_mvcc_events_total[5m])"),
    ("the same, puts", "rate(etcd_mvcc_put_total[5m]) + rate(etcd_mvcc_delete_total[5m])"),
    ("the same, transactions", "rate(etcd_mvcc_txn_total[5m]) + rate(etcd_mvcc_range_total[5m])"),
    ("the same, files", "process_open_fds / process_max_fds"),
    ("the same, start", "process_start_time_seconds"),
    ("the same, CPU", "rate(process_cpu_seconds_total[5m])"),
    ("OpenShift, slow applies", "rate(etcd_server_slow_apply_total[5m])"),
    ("OpenShift, leader", "etcd_server_is_leader == 1"),
    ("OpenShift, versions", "count by (server_version) (etcd_server_version)"),
    ("OpenShift, cluster version", "count by (cluster_version) (etcd_cluster_version)"),
    ("OpenShift, defragmentation", "etcd_disk_backend_defrag_duration_seconds_sum"),
    (
        "Kubernetes on compaction",
        "etcd_debugging_mvcc_current_revision - etcd_debugging_mvcc_compact_revision",
    ),
    (
        "etcd 3.7 on requests",
        "histogram_quantile(0.99, sum(rate(etcd_server_request_duration_seconds_bucket{type=\"Put\",success=\"true\"}\
         [5m])) by (le))",
    ),
    (
        "etcd on health",
        "increase(etcd_server_health_failures[5m]) / increase(etcd_server_health_success[5m])",
    ),
    ("etcd on leases", "etcd_debugging_lease_granted_total - etcd_debugging_lease_revoked_total"),
];

/// Queries about other members: one member has nobody to ask, and a single etcd shows none of these either.
const QUERIES_OF_SEVERAL: &[(&str, &str)] = &[
    (
        "alert etcdMembersDown",
        "sum without (instance) (rate(etcd_network_peer_sent_failures_total[2m])) > 0.01",
    ),
    (
        "alert etcdMemberCommunicationSlow",
        "histogram_quantile(0.99, rate(etcd_network_peer_round_trip_time_seconds_bucket[5m])) > 0.15",
    ),
    ("dashboard Peer traffic in", "sum(rate(etcd_network_peer_received_bytes_total[5m])) by (instance)"),
    ("dashboard Peer traffic out", "sum(rate(etcd_network_peer_sent_bytes_total[5m])) by (instance)"),
];

/// The selectors of a query: names of metrics, each with its braces.
fn selectors(query: &str) -> Vec<&str> {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let mut selectors = Vec::new();
    let mut rest = query;
    while let Some(start) = ["etcd_", "grpc_", "process_"].iter().filter_map(|family| rest.find(family)).min()
    {
        let found = &rest[start..];
        let mut len = found.find(|letter| !is_name(letter)).unwrap_or(found.len());
        if found[len..].starts_with('{') {
            len += found[len..].find('}').expect("a closing brace") + 1;
        }
        // Names of labels look alike.
        if !matches!(&found[..len], "grpc_type" | "grpc_code") {
            selectors.push(&found[..len]);
        }
        rest = &found[len..];
    }
    selectors
}

#[test]
fn every_query_finds_its_series() {
    assert_eq!(selectors("a(etcd_x{b=\"c\"}[5m]) / etcd_y by (grpc_type)"), ["etcd_x{b=\"c\"}", "etcd_y"]);
    scraped(|scrape| {
        for (place, query) in QUERIES {
            let selectors = selectors(query);
            assert!(!selectors.is_empty(), "{place}: {query}");
            for selector in selectors {
                assert!(!scrape.select(selector).is_empty(), "{place}: no series of {selector}");
            }
        }
        for (place, query) in QUERIES_OF_SEVERAL {
            for selector in selectors(query) {
                assert!(scrape.select(selector).is_empty(), "{place}: {selector} of one member");
            }
        }
    });
}

#[test]
fn what_happened_is_counted() {
    scraped(|scrape| {
        for (selector, want, why) in [
            (r#"grpc_server_handled_total{grpc_method="Put",grpc_code="OK"}"#, 3.0, "three puts"),
            (
                r#"grpc_server_handled_total{grpc_method="Range",grpc_code="OutOfRange"}"#,
                1.0,
                "a future revision",
            ),
            (r#"grpc_server_msg_received_total{grpc_method="Put"}"#, 3.0, "a message each"),
            (r#"grpc_server_msg_sent_total{grpc_method="Range"}"#, 1.0, "only what ended well is answered"),
            (r#"grpc_server_msg_received_total{grpc_method="Watch"}"#, 1.0, "one watcher was asked for"),
            (r#"grpc_server_msg_sent_total{grpc_method="Watch"}"#, 2.0, "it was created, and saw an event"),
            (r#"grpc_server_msg_received_total{grpc_method="LeaseKeepAlive"}"#, 1.0, "one renewal"),
            (r#"grpc_server_msg_sent_total{grpc_method="LeaseKeepAlive"}"#, 1.0, "and its answer"),
            (r#"grpc_server_msg_sent_total{grpc_method="RangeStream"}"#, 1.0, "one chunk"),
            (r#"grpc_server_handling_seconds_count{grpc_method="Put"}"#, 3.0, "each took time"),
            (r#"etcd_server_request_duration_seconds_count{type="Put",success="true"}"#, 3.0, "three puts"),
            (
                r#"etcd_server_request_duration_seconds_count{type="Range",success="false"}"#,
                1.0,
                "one failed",
            ),
            (r#"etcd_server_range_duration_seconds_count{success="true"}"#, 1.0, "one did not"),
            (r#"etcd_debugging_lease_ttl_total_bucket{le="64"}"#, 1.0, "a lease of a minute"),
            (r#"etcd_debugging_lease_ttl_total_bucket{le="32"}"#, 0.0, "no shorter one"),
            ("etcd_disk_backend_defrag_duration_seconds_count", 1.0, "one defragmentation"),
            ("etcd_disk_defrag_inflight", 0.0, "it is over"),
            ("etcd_server_slow_apply_total", 10.0, "all that is applied is too slow for no time at all"),
            (r#"etcd_server_feature_enabled{name="FastLeaseKeepAlive",stage="BETA"}"#, 1.0, "on by itself"),
            ("etcd_server_feature_enabled", 2.0, "two are"),
            (r#"etcd_network_known_peers{Local="d2",Remote="d2"}"#, 1.0, "itself"),
            (r#"promhttp_metric_handler_requests_total{code="200"}"#, 1.0, "one scrape before"),
        ] {
            assert!(!scrape.select(selector).is_empty(), "no series of {selector}");
            let got = scrape.value(selector);
            assert!((got - want).abs() < f64::EPSILON, "{selector} is {got}, not {want}: {why}");
        }
        let last = scrape.value("etcd_debugging_mvcc_db_compaction_last");
        assert!(last > 1_700_000_000.0, "seconds since 1970: {last}");
    });
}

/// Families of etcd that are not here, and why. A quantity that does not exist is not shown, not even as 0.
const ABSENT: &[(&str, &str)] = &[
    ("etcd_debugging_auth_revision", "there are no users yet"),
    ("etcd_debugging_disk_backend_commit_rebalance_duration_seconds", "a step of bbolt"),
    ("etcd_debugging_disk_backend_commit_spill_duration_seconds", "a step of bbolt"),
    ("etcd_debugging_disk_backend_commit_write_duration_seconds", "a step of bbolt"),
    ("etcd_debugging_mvcc_db_compaction_keys_total", "old versions go in merges, which count bytes"),
    ("etcd_debugging_mvcc_db_compaction_pause_duration_milliseconds", "compaction pauses nobody"),
    ("etcd_debugging_mvcc_db_compaction_total_duration_milliseconds", "it is part of merging"),
    ("etcd_debugging_mvcc_index_compaction_pause_duration_milliseconds", "there is no index in memory"),
    ("etcd_debugging_mvcc_pending_events_total", "no event waits in a queue: a slow watcher has a cursor"),
    ("etcd_debugging_mvcc_total_put_size_in_bytes", "not counted yet"),
    ("etcd_debugging_server_watch_send_loop_control_stream_duration_seconds", "there is no such loop"),
    ("etcd_debugging_server_watch_send_loop_progress_duration_seconds", "there is no such loop"),
    (
        "etcd_debugging_server_watch_send_loop_watch_stream_duration_per_event_seconds",
        "there is no such loop",
    ),
    ("etcd_debugging_server_watch_send_loop_watch_stream_duration_seconds", "there is no such loop"),
    ("etcd_debugging_snap_save_marshalling_duration_seconds", "etcd's raft snapshots"),
    ("etcd_debugging_snap_save_total_duration_seconds", "etcd's raft snapshots"),
    ("etcd_debugging_store_expires_total", "the store of etcd 2"),
    ("etcd_debugging_store_watch_requests_total", "the store of etcd 2"),
    ("etcd_debugging_store_watchers", "the store of etcd 2"),
    ("etcd_disk_backend_snapshot_duration_seconds", "Snapshot is not there yet"),
    ("etcd_disk_wal_write_bytes_total", "not counted yet"),
    ("etcd_disk_wal_write_duration_seconds", "writing is not told apart from syncing"),
    ("etcd_grpc_proxy_cache_hits_total", "the proxy's"),
    ("etcd_grpc_proxy_cache_keys_total", "the proxy's"),
    ("etcd_grpc_proxy_cache_misses_total", "the proxy's"),
    ("etcd_grpc_proxy_events_coalescing_total", "the proxy's"),
    ("etcd_grpc_proxy_watchers_coalescing_total", "the proxy's"),
    ("etcd_mvcc_db_open_read_transactions", "bbolt's"),
    ("etcd_mvcc_hash_duration_seconds", "Hash is not timed yet"),
    ("etcd_mvcc_hash_rev_duration_seconds", "HashKV is not timed yet"),
    ("etcd_server_apply_duration_seconds", "applying is not timed apart from the request"),
    ("etcd_server_go_version", "there is no Go"),
    ("etcd_server_heartbeat_send_failures_total", "one member sends none"),
    ("etcd_server_learner_promote_successes", "one member promotes nobody"),
    ("etcd_server_read_indexes_failed_total", "one member asks nobody for an index"),
    ("etcd_server_slow_read_indexes_total", "one member asks nobody for an index"),
    ("etcd_server_snapshot_apply_in_progress_total", "one member is sent no snapshot"),
    ("etcd_snap_db_fsync_duration_seconds", "etcd's raft snapshots"),
    ("etcd_snap_db_save_total_duration_seconds", "etcd's raft snapshots"),
    ("etcd_snap_fsync_duration_seconds", "etcd's raft snapshots"),
];

/// Every family that is shown is one of etcd's, of etcd's type, labels and buckets; the others have a reason.
#[test]
fn families_are_etcds() {
    const ETCDS: &str = include_str!("etcd-metrics.txt");
    scraped(|scrape| {
        let mut labels: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let mut buckets: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for series in &scrape.series {
            let family = series.family(&scrape.types);
            let (bounds, others) = series.labels.iter().partition::<Vec<_>, _>(|(label, _)| *label == "le");
            labels.entry(family).or_default().extend(others.iter().map(|(label, _)| label.as_str()));
            for (_, bound) in bounds {
                let bound: f64 = bound.parse().expect("a number");
                let known = buckets.entry(family).or_default();
                if bound.is_finite() && !known.contains(&bound) {
                    known.push(bound);
                }
            }
        }
        let mut known = BTreeSet::new();
        for line in ETCDS.lines().filter(|line| !line.starts_with('#')) {
            let (name, rest) = line.split_once(' ').expect("a type");
            known.insert(name);
            let absent = ABSENT.iter().any(|(absent, _)| *absent == name);
            let Some(kind) = scrape.types.get(name) else {
                assert!(absent, "{name} is etcd's, and not here without a reason");
                continue;
            };
            assert!(!absent, "{name} is here after all");
            assert_eq!(rest.split(' ').next(), Some(kind.as_str()), "{name}");
            let between = |open, close| {
                let (_, rest) = line.split_once(open)?;
                Some(rest.split_once(close).expect("closed").0)
            };
            let etcds: BTreeSet<&str> =
                between('{', '}').map(|list| list.split(',').collect()).unwrap_or_default();
            assert_eq!(labels.get(name).cloned().unwrap_or_default(), etcds, "labels of {name}");
            let etcds: Vec<f64> = between('[', ']')
                .map(|list| list.split(' ').map(|bound| bound.parse().expect("a number")).collect())
                .unwrap_or_default();
            assert_eq!(buckets.get(name).cloned().unwrap_or_default(), etcds, "buckets of {name}");
        }
        for family in scrape.types.keys() {
            assert!(known.contains(family.as_str()), "etcd has no {family}");
        }
    });
}
