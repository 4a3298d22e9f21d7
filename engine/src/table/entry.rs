//! What the index stores: versions of keys; what it is given: writes; what it gives back: key metadata.

use bytes::Bytes;

use crate::types::{Revision, Space, Value};

/// One change of one key, as the applier hands it over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// The keyspace.
    pub space: Space,
    /// The key; copied if it is kept, so it may be a slice of a large buffer.
    pub key: Bytes,
    /// When the change happened. Ascending for each key; a second write of a key at the same revision
    /// replaces the first and their weights add up.
    pub revision: Revision,
    /// Revision that created the key; 0 for a tombstone.
    pub create: i64,
    /// etcd's version: 1 at creation, +1 with each put; 0 for a tombstone.
    pub version: i64,
    /// Lease that holds the key, 0 for none.
    pub lease: i64,
    /// What the change adds to the number of keys: +1 create, 0 update, -1 delete.
    pub weight: i8,
    /// The value; `None` is a tombstone.
    pub value: Option<Value>,
}

/// A version of a key, without its value's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyMeta {
    /// The key.
    pub key: Bytes,
    /// Revision that created it.
    pub create: i64,
    /// Revision of this version.
    pub modified: Revision,
    /// etcd's version: 1 at creation, +1 with each put.
    pub version: i64,
    /// Lease that holds the key, 0 for none.
    pub lease: i64,
    /// Where the value is; `None` is a tombstone, which only a history shows.
    pub value: Option<Value>,
}

/// A version as memtable and tables keep it; its key stands beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Version {
    /// When the change happened.
    pub(crate) revision: Revision,
    /// Revision that created the key.
    pub(crate) create: i64,
    /// etcd's version.
    pub(crate) version: i64,
    /// Lease that holds the key, 0 for none.
    pub(crate) lease: i64,
    /// What this version, and the dropped ones whose weight it took over, add to the number of keys.
    pub(crate) weight: i32,
    /// The value; `None` is a tombstone.
    pub(crate) value: Option<Value>,
}

impl Version {
    /// The version that `write` makes. An inline value is copied, so that it holds no log buffer.
    pub(crate) fn of(write: &Write) -> Self {
        let value = match &write.value {
            Some(Value::Inline(bytes)) => Some(Value::Inline(Bytes::copy_from_slice(bytes))),
            other => other.clone(),
        };
        Version {
            revision: write.revision,
            create: write.create,
            version: write.version,
            lease: write.lease,
            weight: i32::from(write.weight),
            value,
        }
    }

    /// Whether the version says that the key ended.
    pub(crate) fn is_tombstone(&self) -> bool {
        self.value.is_none()
    }

    /// The segment that the value lies in, and its length there, if it lies in the log.
    pub(crate) fn log_bytes(&self) -> Option<(u32, u64)> {
        match &self.value {
            Some(Value::Pointer(pointer)) => Some((pointer.segment, u64::from(pointer.len))),
            _ => None,
        }
    }
}

/// A version together with its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) key: Bytes,
    pub(crate) version: Version,
}

impl Found {
    /// The face of it that readers get.
    pub(crate) fn into_meta(self) -> KeyMeta {
        let Found { key, version } = self;
        KeyMeta {
            key,
            create: version.create,
            modified: version.revision,
            version: version.version,
            lease: version.lease,
            value: version.value,
        }
    }
}
