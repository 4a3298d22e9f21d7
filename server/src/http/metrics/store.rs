//! What the store knows of itself.

use prometheus::core::{Collector, Desc};
use prometheus::proto::{MetricFamily, MetricType};
use raft::request::Status;
use raft::{Metrics, Store};

use super::family::{Table, descriptions, families, ones};
use crate::config::FeatureGates;

const G: MetricType = MetricType::GAUGE;
const C: MetricType = MetricType::COUNTER;

/// etcd's types: what it counts up in a gauge is a gauge here.
const TABLE: &Table = &[
    ("etcd_server_has_leader", G, "Whether or not a leader exists. 1 is existence, 0 is not."),
    ("etcd_server_is_leader", G, "Whether or not this member is a leader. 1 if is, 0 otherwise."),
    ("etcd_server_is_learner", G, "Whether or not this member is a learner. 1 if is, 0 otherwise."),
    ("etcd_server_leader_changes_seen_total", C, "The number of leader changes seen."),
    ("etcd_server_proposals_committed_total", G, "The total number of consensus proposals committed."),
    ("etcd_server_proposals_applied_total", G, "The total number of consensus proposals applied."),
    ("etcd_server_proposals_pending", G, "The current number of pending proposals to commit."),
    ("etcd_server_proposals_failed_total", C, "The total number of failed proposals seen."),
    ("etcd_server_quota_backend_bytes", G, "Current backend storage quota size in bytes."),
    (
        "etcd_mvcc_db_total_size_in_bytes",
        G,
        "Total size of the underlying database physically allocated in bytes.",
    ),
    (
        "etcd_mvcc_db_total_size_in_use_in_bytes",
        G,
        "Total size of the underlying database logically in use in bytes.",
    ),
    ("etcd_mvcc_put_total", C, "Total number of puts seen by this member."),
    ("etcd_mvcc_range_total", C, "Total number of ranges seen by this member."),
    ("etcd_mvcc_delete_total", C, "Total number of deletes seen by this member."),
    ("etcd_mvcc_txn_total", C, "Total number of txns seen by this member."),
    ("etcd_debugging_mvcc_keys_total", G, "Total number of keys."),
    ("etcd_debugging_mvcc_watch_stream_total", G, "Total number of watch streams."),
    ("etcd_debugging_mvcc_watcher_total", G, "Total number of watchers."),
    ("etcd_debugging_mvcc_slow_watcher_total", G, "Total number of unsynced slow watchers."),
    ("etcd_debugging_mvcc_events_total", C, "Total number of events sent by this member."),
    ("etcd_debugging_mvcc_current_revision", G, "The current revision of store."),
    ("etcd_debugging_mvcc_compact_revision", G, "The revision of the last compaction in store."),
    ("etcd_debugging_lease_granted_total", C, "The total number of granted leases."),
    ("etcd_debugging_lease_revoked_total", C, "The total number of revoked leases."),
    ("etcd_debugging_lease_renewed_total", C, "The number of renewed leases seen by the leader."),
    ("etcd_debugging_server_lease_expired_total", C, "The total number of expired leases."),
];

/// The one with labels.
const PEERS: (&str, MetricType, &str) = ("etcd_network_known_peers", G, "The current number of known peers.");

/// What the server was told and the store does not say.
#[derive(Debug, Clone, Copy)]
pub struct Facts {
    /// Bytes that keys may use; 0 and below: no quota.
    pub quota_bytes: i64,
    /// What is turned on and off.
    pub feature_gates: FeatureGates,
}

/// Reads the store on every scrape.
pub(super) struct StoreCollector {
    store: Store,
    facts: Facts,
    descriptions: Vec<Desc>,
}

impl Clone for StoreCollector {
    fn clone(&self) -> Self {
        StoreCollector::new(self.store.clone(), self.facts)
    }
}

impl StoreCollector {
    pub(super) fn new(store: Store, facts: Facts) -> Self {
        let mut described = descriptions(TABLE);
        described.extend(descriptions(&[PEERS]));
        StoreCollector { store, facts, descriptions: described }
    }
}

impl Collector for StoreCollector {
    fn desc(&self) -> Vec<&Desc> {
        self.descriptions.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let status = self.store.status();
        let metrics = self.store.metrics();
        let member = self.store.member_id();
        let mut all = families(TABLE, |name| value(name, &status, &metrics, member, self.facts));
        // As in etcd, a member knows itself.
        let known = self.store.members().into_iter();
        let known = known.map(|remote| [format!("{member:x}"), format!("{:x}", remote.id)]);
        all.push(ones(PEERS.0, PEERS.2, ["Local", "Remote"], known));
        all
    }
}

#[allow(
    clippy::cast_precision_loss,
    reason = "metrics are floats; counts beyond 2^53 are not exact in any of them"
)]
fn value(name: &str, status: &Status, metrics: &Metrics, member: u64, facts: Facts) -> Option<f64> {
    let count = |n: u64| Some(n as f64);
    let signed = |n: i64| Some(n as f64);
    let truth = |yes: bool| Some(f64::from(u8::from(yes)));
    match name {
        "etcd_server_has_leader" => truth(status.leader != 0),
        "etcd_server_is_leader" => truth(status.leader == member),
        "etcd_server_is_learner" => truth(status.is_learner),
        "etcd_server_leader_changes_seen_total" => count(metrics.leader_changes),
        "etcd_server_proposals_committed_total" => count(status.raft_index),
        "etcd_server_proposals_applied_total" => count(metrics.proposals_applied),
        "etcd_server_proposals_pending" => count(metrics.proposals_pending),
        "etcd_server_proposals_failed_total" => count(metrics.proposals_failed),
        "etcd_server_quota_backend_bytes" => signed(facts.quota_bytes),
        "etcd_mvcc_db_total_size_in_bytes" => signed(status.db_size),
        "etcd_mvcc_db_total_size_in_use_in_bytes" => signed(status.db_size_in_use),
        "etcd_mvcc_put_total" => count(metrics.puts),
        "etcd_mvcc_range_total" => count(metrics.ranges),
        "etcd_mvcc_delete_total" => count(metrics.deletes),
        "etcd_mvcc_txn_total" => count(metrics.txns),
        "etcd_debugging_mvcc_keys_total" => count(metrics.keys),
        "etcd_debugging_mvcc_watch_stream_total" => count(metrics.watch_streams),
        "etcd_debugging_mvcc_watcher_total" => count(metrics.watchers),
        "etcd_debugging_mvcc_slow_watcher_total" => count(metrics.slow_watchers),
        "etcd_debugging_mvcc_events_total" => count(metrics.events),
        "etcd_debugging_mvcc_current_revision" => signed(status.revision),
        "etcd_debugging_mvcc_compact_revision" => signed(status.compacted),
        "etcd_debugging_lease_granted_total" => count(metrics.leases_granted),
        "etcd_debugging_lease_revoked_total" => count(metrics.leases_revoked),
        "etcd_debugging_lease_renewed_total" => count(metrics.leases_renewed),
        "etcd_debugging_server_lease_expired_total" => count(metrics.leases_expired),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_has_a_value() {
        for (name, _, _) in TABLE {
            let facts = Facts { quota_bytes: 0, feature_gates: FeatureGates::default() };
            let got = value(name, &Status::default(), &Metrics::default(), 1, facts);
            assert!(got.is_some(), "{name} is in the table and has no value");
        }
    }
}
