//! What the store is told when it opens. It reads no flag, file or variable itself.

use crate::request::Member;

/// Settings of one member's store.
#[derive(Debug, Clone)]
pub struct StoreConfig {
    /// etcd's cluster id.
    pub cluster_id: u64,
    /// This member, as it publishes itself.
    pub member: Member,
    /// Interval of the leader's heartbeats, milliseconds.
    pub heartbeat_ms: u64,
    /// etcd's election timeout, milliseconds.
    pub election_ms: u64,
    /// Most operations in a list of a transaction.
    pub max_txn_ops: usize,
    /// Largest request, bytes of keys and values.
    pub max_request_bytes: usize,
    /// Space that keys may use before the NOSPACE alarm, bytes; 0 and below: no quota.
    pub quota_bytes: i64,
    /// Interval of the progress notes that a watch asked for at its creation, milliseconds.
    pub progress_interval_ms: u64,
    /// Seed of every choice by chance: election timeouts, lease ids, jitter.
    pub seed: u64,
}

impl StoreConfig {
    /// The shortest time to live that a lease gets, seconds: one and a half election timeouts, as in etcd.
    #[must_use]
    pub fn min_lease_ttl_seconds(&self) -> i64 {
        let ms = self.election_ms.saturating_mul(3) / 2;
        i64::try_from(ms.div_ceil(1000)).unwrap_or(i64::MAX)
    }
}
