//! Leases as replicated state: ids, times to live and deadlines, in lease time.
//!
//! LEASE TIME is carried by the entries of the home group. It is what the leader's clock added to it while
//! there was a leader, so it stands still while there is none: a lease never ends early for want of somebody
//! who could have renewed it, and a change of leader keeps every deadline (etcd starts them anew).
//!
//! WHAT IS NOT HERE: which keys a lease holds; that is a keyspace of the engine ([`engine::Space::Lease`]).
//!
//! INVARIANT: `by_deadline` holds exactly the pairs (deadline, id) of `leases`.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// etcd's largest time to live, seconds.
pub(crate) const TTL_SECONDS_MAX: i64 = 9_000_000_000;

/// One lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lease {
    /// Seconds granted.
    pub(crate) ttl_seconds: i64,
    /// When it ends unless renewed: lease time, milliseconds.
    pub(crate) deadline_ms: u64,
}

/// All leases, by id and by deadline.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "BTreeMap<i64, Lease>", into = "BTreeMap<i64, Lease>")]
pub(crate) struct Leases {
    leases: BTreeMap<i64, Lease>,
    by_deadline: BTreeSet<(u64, i64)>,
}

impl Leases {
    pub(crate) fn get(&self, id: i64) -> Option<&Lease> {
        self.leases.get(&id)
    }

    /// Begins or renews a lease at `now_ms` of lease time.
    pub(crate) fn start(&mut self, id: i64, ttl_seconds: i64, now_ms: u64) {
        self.end(id);
        let ttl_ms = u64::try_from(ttl_seconds).unwrap_or(0).saturating_mul(1000);
        let deadline_ms = now_ms.saturating_add(ttl_ms);
        self.leases.insert(id, Lease { ttl_seconds, deadline_ms });
        self.by_deadline.insert((deadline_ms, id));
    }

    /// Renews a lease at `now_ms`; nothing happens to one that is not there.
    pub(crate) fn renew(&mut self, id: i64, now_ms: u64) {
        if let Some(&Lease { ttl_seconds, .. }) = self.leases.get(&id) {
            self.start(id, ttl_seconds, now_ms);
        }
    }

    /// Ends a lease; whether it was there.
    pub(crate) fn end(&mut self, id: i64) -> bool {
        let Some(lease) = self.leases.remove(&id) else { return false };
        assert!(self.by_deadline.remove(&(lease.deadline_ms, id)), "lease {id} without its deadline");
        true
    }

    /// The lease that ends first, with its deadline.
    pub(crate) fn next_deadline(&self) -> Option<(u64, i64)> {
        self.by_deadline.first().copied()
    }

    /// Ids, soonest deadline first.
    pub(crate) fn ids_by_deadline(&self) -> Vec<i64> {
        self.by_deadline.iter().map(|(_, id)| *id).collect()
    }
}

impl From<BTreeMap<i64, Lease>> for Leases {
    fn from(leases: BTreeMap<i64, Lease>) -> Self {
        let by_deadline = leases.iter().map(|(id, lease)| (lease.deadline_ms, *id)).collect();
        Leases { leases, by_deadline }
    }
}

impl From<Leases> for BTreeMap<i64, Lease> {
    fn from(leases: Leases) -> Self {
        leases.leases
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_follow_grants_renewals_and_ends() {
        let mut leases = Leases::default();
        leases.start(1, 10, 0);
        leases.start(2, 5, 0);
        assert_eq!(leases.next_deadline(), Some((5_000, 2)), "the shorter one ends first");
        leases.renew(2, 9_000);
        assert_eq!(leases.next_deadline(), Some((10_000, 1)), "a renewed lease ends later");
        leases.renew(3, 0);
        assert_eq!(leases.ids_by_deadline().len(), 2, "renewing what is not there grants nothing");
        assert!(leases.end(1));
        assert!(!leases.end(1), "a lease ends once");
        assert_eq!(leases.ids_by_deadline(), [2]);
        let text = serde_json::to_string(&leases).unwrap();
        assert_eq!(serde_json::from_str::<Leases>(&text).unwrap(), leases, "deadlines survive a flush");
    }

    #[test]
    fn the_longest_lease_does_not_overflow() {
        let mut leases = Leases::default();
        leases.start(1, i64::MAX, u64::MAX - 1);
        assert_eq!(leases.next_deadline(), Some((u64::MAX, 1)));
    }
}
