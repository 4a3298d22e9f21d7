//! The refusals of the store that the model gives, with etcd's codes and texts.

use crate::op::Refusal;

const INVALID_ARGUMENT: i32 = 3;
const NOT_FOUND: i32 = 5;
const FAILED_PRECONDITION: i32 = 9;
const OUT_OF_RANGE: i32 = 11;
const UNIMPLEMENTED: i32 = 12;

fn refusal(code: i32, text: &str) -> Refusal {
    Refusal { code, text: text.to_owned() }
}

/// A request without a key.
#[must_use]
pub fn empty_key() -> Refusal {
    refusal(INVALID_ARGUMENT, "etcdserver: key is not provided")
}

/// A put that keeps what is not there; and an operation of a transaction that is none.
#[must_use]
pub fn key_not_found() -> Refusal {
    refusal(INVALID_ARGUMENT, "etcdserver: key not found")
}

/// A put that keeps the value and brings one.
#[must_use]
pub fn value_provided() -> Refusal {
    refusal(INVALID_ARGUMENT, "etcdserver: value is provided")
}

/// A put that keeps the lease and brings one.
#[must_use]
pub fn lease_provided() -> Refusal {
    refusal(INVALID_ARGUMENT, "etcdserver: lease is provided")
}

/// More operations in a transaction than 128.
#[must_use]
pub fn too_many_operations() -> Refusal {
    refusal(INVALID_ARGUMENT, "etcdserver: too many operations in txn request")
}

/// A transaction that writes a key twice.
#[must_use]
pub fn duplicate_key() -> Refusal {
    refusal(INVALID_ARGUMENT, "etcdserver: duplicate key given in txn request")
}

/// A sort order or target that there is not.
#[must_use]
pub fn invalid_sort_option() -> Refusal {
    refusal(INVALID_ARGUMENT, "etcdserver: invalid sort option")
}

/// A revision that was compacted.
#[must_use]
pub fn compacted() -> Refusal {
    refusal(OUT_OF_RANGE, "etcdserver: mvcc: required revision has been compacted")
}

/// A revision that there is not yet.
#[must_use]
pub fn future_revision() -> Refusal {
    refusal(OUT_OF_RANGE, "etcdserver: mvcc: required revision is a future revision")
}

/// A lease longer than the longest.
#[must_use]
pub fn lease_ttl_too_large() -> Refusal {
    refusal(OUT_OF_RANGE, "etcdserver: too large lease TTL")
}

/// A lease that there is not.
#[must_use]
pub fn lease_not_found() -> Refusal {
    refusal(NOT_FOUND, "etcdserver: requested lease not found")
}

/// A lease that there is already.
#[must_use]
pub fn lease_exists() -> Refusal {
    refusal(FAILED_PRECONDITION, "etcdserver: lease already exists")
}

/// A streamed range in an order of its own.
#[must_use]
pub fn stream_sort_order() -> Refusal {
    refusal(UNIMPLEMENTED, "RangeStream does not support custom sort orders")
}

/// A streamed range with bounds of revisions.
#[must_use]
pub fn stream_revision_filters() -> Refusal {
    refusal(UNIMPLEMENTED, "RangeStream does not support revision filters")
}
