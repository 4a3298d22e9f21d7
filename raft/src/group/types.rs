//! openraft's type parameters, and how entries and the caller's state look on disk.
//!
//! LAYOUT of the body of a log record of kind entry, by its first byte:
//! ```text
//! | 0 |                a new leader's blank entry
//! | 1 | JSON |         a membership
//! | 2 | ... |          a batch (engine::batch)
//! ```
//! The state that the engine keeps at each flush is JSON: `{"home": ..., "membership": ...}`.

use bytes::Bytes;
use engine::batch::KIND_BATCH;
use engine::log::{GroupId, Kind, Record};
use openraft::impls::Entry;
use openraft::type_config::alias::{CommittedLeaderIdOf, EntryOf, LogIdOf, StoredMembershipOf};
use openraft::{EmptyNode, EntryPayload};
use openraft_rt::deterministic_rng::DeterministicRng;
use openraft_rt_tokio::TokioRuntime;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::state::{BodyAt, HomeState};

/// The group whose log is the global order.
pub(crate) const HOME: GroupId = 0;

const KIND_BLANK: u8 = 0;
const KIND_MEMBERSHIP: u8 = 1;

pub(super) type CommittedLeaderId = CommittedLeaderIdOf<TypeConfig>;
pub(crate) type StoredMembership = StoredMembershipOf<TypeConfig>;

openraft::declare_raft_types!(
    /// Types of every group.
    pub(crate) TypeConfig:
        D = Command,
        R = (),
        NodeId = u64,
        Node = EmptyNode,
        LeaderId = openraft::impls::leader_id_std::LeaderId<u64, u64>,
        AsyncRuntime = DeterministicRng<TokioRuntime>,
);

/// A batch, as its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Command {
    pub(crate) body: Bytes,
    /// Where the body lies in the log of this node, once it was read from there.
    #[serde(skip)]
    pub(crate) at: Option<BodyAt>,
}

impl std::fmt::Display for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "batch of {} bytes", self.body.len())
    }
}

/// openraft's log id of the entry that lies at `index` in our log. openraft's first entry has index 0, ours
/// has 1, as etcd's has, so that 0 says "none".
pub(super) fn log_id(term: u64, index: u64) -> LogIdOf<TypeConfig> {
    assert!(index > 0, "no entry has index 0");
    LogIdOf::<TypeConfig>::new(CommittedLeaderId::new(term), index - 1)
}

/// Term and index in our log of the entry with openraft's `id`.
pub(super) fn position(id: &LogIdOf<TypeConfig>) -> (u64, u64) {
    (id.committed_leader_id().term, id.index() + 1)
}

/// The log record of an entry.
pub(super) fn record_of(entry: EntryOf<TypeConfig>) -> std::io::Result<Record> {
    let (term, index) = position(&entry.log_id);
    let body = match entry.payload {
        EntryPayload::Blank => Bytes::from_static(&[KIND_BLANK]),
        EntryPayload::Normal(command) => command.body,
        EntryPayload::Membership(membership) => {
            let mut body = vec![KIND_MEMBERSHIP];
            serde_json::to_writer(&mut body, &membership)?;
            Bytes::from(body)
        }
    };
    Ok(Record { group: HOME, kind: Kind::Entry, term, index, body })
}

/// The entry of a log record.
pub(super) fn entry_of(stored: engine::log::Entry) -> std::io::Result<EntryOf<TypeConfig>> {
    let invalid = |reason: String| std::io::Error::new(std::io::ErrorKind::InvalidData, reason);
    let payload = match stored.body.first() {
        Some(&KIND_BLANK) => EntryPayload::Blank,
        Some(&KIND_MEMBERSHIP) => EntryPayload::Membership(serde_json::from_slice(&stored.body[1..])?),
        Some(&KIND_BATCH) => EntryPayload::Normal(Command {
            body: stored.body,
            at: Some(BodyAt { segment: stored.segment, offset: stored.body_offset }),
        }),
        kind => return Err(invalid(format!("entry {} is of unknown kind {kind:?}", stored.index))),
    };
    Ok(Entry { log_id: log_id(stored.term, stored.index), payload })
}

/// What the engine keeps for us at each flush.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct StoredState {
    pub(crate) home: HomeState,
    pub(crate) membership: StoredMembership,
}

impl StoredState {
    /// Reads what [`StoredState::encode`] wrote; `None` is a new store.
    pub(crate) fn open(state: Option<&[u8]>) -> Result<StoredState> {
        let Some(bytes) = state else { return Ok(StoredState::default()) };
        serde_json::from_slice(bytes).map_err(|error| Error::Storage(format!("the stored state: {error}")))
    }

    pub(crate) fn encode(&self) -> Bytes {
        Bytes::from(serde_json::to_vec(self).expect("plain data"))
    }
}
