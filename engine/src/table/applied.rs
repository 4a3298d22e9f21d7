//! How far the history of each group has been taken in.

use std::collections::BTreeMap;

use crate::log::GroupId;

/// A boundary in the history: everything up to it is held, nothing after it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Applied {
    /// Revision after the last applied change; 0 for an empty store.
    pub revision: i64,
    /// Per group, the raft index of the last applied entry.
    pub groups: BTreeMap<GroupId, u64>,
}
