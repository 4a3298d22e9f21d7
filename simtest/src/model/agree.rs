//! Whether an answer is the model's: equal, but where etcd leaves something open.
//!
//! Open is the order of pairs that an order asked for does not tell apart, and with it which of them a limit
//! cuts off; the order of a lease's keys, and of leases; and how much of a TTL is left.

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::op::{Answer, OpAnswer, RangeAnswer, TxnAnswer};

/// Whether `seen` is a right answer where the model answers `expected`.
#[must_use]
pub fn answers(expected: &Answer, seen: &Answer) -> bool {
    match (expected, seen) {
        (Answer::Range(expected), Answer::Range(seen)) => ranges(expected, seen),
        (Answer::Txn(expected), Answer::Txn(seen)) => transactions(expected, seen),
        (
            Answer::TimeToLive { ttl, granted_ttl, keys, .. },
            Answer::TimeToLive { ttl: seen_ttl, granted_ttl: seen_granted, keys: seen_keys, .. },
        ) => {
            // A lease whose time is over, and which is not revoked yet, has less than nothing left.
            let left = if *ttl < 0 { seen_ttl == ttl } else { seen_ttl <= ttl };
            left && granted_ttl == seen_granted && same_set(keys, seen_keys)
        }
        (Answer::Leases { ids, .. }, Answer::Leases { ids: seen, .. }) => same_set(ids, seen),
        (Answer::KeepAlive { ttl, .. }, Answer::KeepAlive { ttl: seen, .. }) => ttl == seen,
        (Answer::Grant { id, ttl, .. }, Answer::Grant { id: seen_id, ttl: seen_ttl, .. }) => {
            // With 0 the server chooses.
            ttl == seen_ttl && (id == seen_id || (*id == 0 && *seen_id > 0))
        }
        _ => expected == seen,
    }
}

fn same_set<T: Ord>(expected: &[T], seen: &[T]) -> bool {
    expected.len() == seen.len() && expected.iter().collect::<BTreeSet<_>>() == seen.iter().collect()
}

fn transactions(expected: &TxnAnswer, seen: &TxnAnswer) -> bool {
    expected.revision == seen.revision
        && expected.succeeded == seen.succeeded
        && expected.responses.len() == seen.responses.len()
        && expected.responses.iter().zip(&seen.responses).all(|pair| match pair {
            (OpAnswer::Range(expected), OpAnswer::Range(seen)) => ranges(expected, seen),
            (OpAnswer::Txn(expected), OpAnswer::Txn(seen)) => transactions(expected, seen),
            (expected, seen) => expected == seen,
        })
}

fn ranges(expected: &RangeAnswer, seen: &RangeAnswer) -> bool {
    if (expected.revision, expected.more, expected.count) != (seen.revision, seen.more, seen.count) {
        return false;
    }
    if expected.ties.is_empty() || expected.kvs == seen.kvs {
        return expected.kvs == seen.kvs;
    }
    // The n-th pair must be one of the class that the n-th pair of the right order is in, and none may come twice.
    let mut used: BTreeSet<&Bytes> = BTreeSet::new();
    expected.kvs.len() == seen.kvs.len()
        && expected.ties.iter().zip(&seen.kvs).all(|(place, pair)| {
            used.insert(&pair.key)
                && expected.ties.iter().any(|tie| tie.rank == place.rank && tie.pair == *pair)
        })
}
