//! The home group's replicated state, and what one entry of its log does to it.
//!
//! [`HomeState::apply`] is a pure function of the state and an entry: no clock, no chance, no read of the
//! index. It gives the changes for the engine and the events for watches, both with their revisions. Every
//! replica that applies the same log has the same state.
//!
//! WHICH ENTRIES COUNT. Proposals may be refused one by one while later ones, evaluated on top of them, land.
//! So every batch carries a fence and a sequence number ([`Order`]): what does not follow directly is void on
//! every replica, changes nothing and takes no revision.
//!
//! INVARIANTS
//! * `revision` grows by exactly one for each transaction of a valid batch, and by nothing else.
//! * `lease_time_ms` never goes back.
//! * `history` is sorted by index and by revision; its first point is at or before the first revision that
//!   can still be watched.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::{BufMut, Bytes, BytesMut};
use engine::batch::{Change, Decoder, Header, Item, Malformed, Op};
use engine::{Pointer, Revision, Space, Value, Write};
use serde::{Deserialize, Serialize};

use crate::lease::Leases;
use crate::note::Note;
use crate::request::{Alarm, Member};
use crate::watch::Change as WatchChange;

/// Bytes of log between two points of the sparse index from revisions to the log.
const HISTORY_STEP_BYTES: u64 = 256 * 1024;

/// Which batch may follow: the fence it must name and the number before its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Order {
    /// Raft term of the last valid fence.
    pub(crate) term: u64,
    /// Its generation within the term.
    pub(crate) generation: u32,
    /// Number of the last valid batch after it.
    pub(crate) seq: u64,
}

impl Order {
    /// Whether a batch that lies in the log with `log_term` counts; if so it becomes the last one.
    pub(crate) fn admit(&mut self, header: &Header, log_term: u64) -> bool {
        if header.fence_term != log_term {
            return false;
        }
        let fence = (header.fence_term, header.fence_gen);
        if header.seq == 0 {
            let newer = fence > (self.term, self.generation);
            if newer {
                *self = Order { term: fence.0, generation: fence.1, seq: 0 };
            }
            return newer;
        }
        let follows = fence == (self.term, self.generation) && header.seq == self.seq + 1;
        if follows {
            self.seq = header.seq;
        }
        follows
    }
}

/// A place in the log from which revisions can be counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HistoryPoint {
    /// Revision before the entry.
    pub(crate) revision: i64,
    /// Raft index of the entry.
    pub(crate) index: u64,
    /// Order before the entry.
    pub(crate) order: Order,
}

/// Where the body of an entry lies in the log of this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BodyAt {
    /// Uid of the segment.
    pub(crate) segment: u32,
    /// Offset of the body's first byte.
    pub(crate) offset: u32,
}

/// What a valid batch gave.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// Changes for the engine, in order.
    pub(crate) writes: Vec<Write>,
    /// Changes for watches, in order; filled only if wanted.
    pub(crate) events: Vec<WatchChange>,
    /// The compaction revision, if it changed.
    pub(crate) compacted: Option<i64>,
}

/// See the module's text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HomeState {
    /// Raft index of the last entry applied.
    pub(crate) index: u64,
    /// Its term.
    pub(crate) term: u64,
    /// Revision after it; 1 on an empty store, as in etcd.
    pub(crate) revision: i64,
    /// Newest compaction revision, −1 if there was none, as in etcd.
    pub(crate) compacted: i64,
    /// Which batch may follow.
    pub(crate) order: Order,
    /// Lease time of the last valid batch.
    pub(crate) lease_time_ms: u64,
    /// Leases.
    pub(crate) leases: Leases,
    /// Alarms that are on.
    pub(crate) alarms: BTreeSet<Alarm>,
    /// Members, by id.
    pub(crate) members: BTreeMap<u64, Member>,
    /// Sparse index from revisions to the log.
    pub(crate) history: VecDeque<HistoryPoint>,
    /// Bytes of entries since the last point of `history`.
    history_bytes: u64,
}

impl Default for HomeState {
    fn default() -> Self {
        HomeState {
            index: 0,
            term: 0,
            revision: 1,
            compacted: -1,
            order: Order::default(),
            lease_time_ms: 0,
            leases: Leases::default(),
            alarms: BTreeSet::new(),
            members: BTreeMap::new(),
            history: VecDeque::new(),
            history_bytes: 0,
        }
    }
}

impl HomeState {
    /// Applies the batch at `index`. `Some(header)` if it counted. `effects` is added to, never cleared.
    ///
    /// # Errors
    /// [`Malformed`] if the bytes are no batch; the state is then unusable.
    pub(crate) fn apply(
        &mut self,
        (term, index): (u64, u64),
        body: Bytes,
        at: BodyAt,
        want_events: bool,
        effects: &mut Effects,
    ) -> Result<Option<Header>, Malformed> {
        assert!(index > self.index, "entry {index} applied after {}", self.index);
        self.index = index;
        self.term = term;
        let bytes = body.len() as u64;
        let mut decoder = Decoder::new(body)?;
        let header = decoder.header();
        let before = HistoryPoint { revision: self.revision, index, order: self.order };
        if !self.order.admit(&header, term) {
            return Ok(None);
        }
        if self.history.is_empty() || self.history_bytes >= HISTORY_STEP_BYTES {
            self.history.push_back(before);
            self.history_bytes = 0;
        }
        self.history_bytes += bytes;
        self.lease_time_ms = self.lease_time_ms.max(header.lease_time_ms);
        let mut ops = Vec::new();
        while let Some(item) = decoder.next_item(&mut ops)? {
            match item {
                Item::Txn => {
                    self.revision += 1;
                    for (sub, op) in ops.iter().enumerate() {
                        let sub = u32::try_from(sub).map_err(|_| Malformed("4 Gi ops in a transaction"))?;
                        self.write(Revision { main: self.revision, sub }, op, at, want_events, effects);
                    }
                }
                Item::Note(bytes) => self.note(Note::decode(&bytes)?, effects),
            }
        }
        Ok(Some(header))
    }

    /// The entry at `index` is raft's own and changes nothing here.
    pub(crate) fn skip(&mut self, (term, index): (u64, u64)) {
        assert!(index > self.index, "entry {index} applied after {}", self.index);
        self.index = index;
        self.term = term;
    }

    fn write(&mut self, revision: Revision, op: &Op, at: BodyAt, want_events: bool, effects: &mut Effects) {
        let mut write = Write {
            space: Space::Kv,
            key: op.key.clone(),
            revision,
            create: 0,
            version: 0,
            lease: 0,
            weight: op.change.weight(),
            value: None,
        };
        if let Change::Put { create, version, lease, value, value_crc, value_at } = &op.change {
            write.create = create.unwrap_or(revision.main);
            write.version = *version;
            write.lease = *lease;
            write.value = Some(if value.len() <= Value::INLINE_MAX {
                Value::Inline(Bytes::copy_from_slice(value))
            } else {
                Value::Pointer(Pointer {
                    segment: at.segment,
                    offset: at.offset + value_at,
                    len: u32::try_from(value.len()).expect("a value lies in one batch"),
                    crc: *value_crc,
                })
            });
        }
        if op.old_lease != write.lease {
            if op.old_lease != 0 {
                effects.writes.push(attachment(op.old_lease, &op.key, revision, -1));
            }
            if write.lease != 0 {
                effects.writes.push(attachment(write.lease, &op.key, revision, 1));
            }
        }
        if want_events {
            effects.events.push(WatchChange::of(revision.main, op));
        }
        effects.writes.push(write);
    }

    fn note(&mut self, note: Note, effects: &mut Effects) {
        match note {
            Note::Fence => {}
            Note::Compact(revision) => {
                assert!(revision > self.compacted && revision <= self.revision, "compaction at {revision}");
                self.compacted = revision;
                effects.compacted = Some(revision);
                // A watch from `revision` on needs the point before it.
                while self.history.get(1).is_some_and(|second| second.revision < revision) {
                    self.history.pop_front();
                }
            }
            Note::LeaseGrant { id, ttl_seconds } => self.leases.start(id, ttl_seconds, self.lease_time_ms),
            Note::LeaseRenew { id } => self.leases.renew(id, self.lease_time_ms),
            Note::LeaseRevoke { id } => {
                self.leases.end(id);
            }
            Note::AlarmRaise(alarm) => {
                self.alarms.insert(alarm);
            }
            Note::AlarmClear(alarm) => {
                self.alarms.remove(&alarm);
            }
            Note::MemberUpdate(member) => {
                self.members.insert(member.id, member);
            }
        }
    }

    /// First raft index that the watch history still needs.
    pub(crate) fn history_floor(&self) -> u64 {
        self.history.front().map_or(0, |point| point.index)
    }
}

/// The key of an attachment in [`Space::Lease`].
pub(crate) fn attachment_key(lease: i64, key: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(8 + key.len());
    bytes.put_i64(lease);
    bytes.put_slice(key);
    bytes.freeze()
}

fn attachment(lease: i64, key: &[u8], revision: Revision, weight: i8) -> Write {
    let attached = weight > 0;
    Write {
        space: Space::Lease,
        key: attachment_key(lease, key),
        revision,
        create: if attached { revision.main } else { 0 },
        version: i64::from(attached),
        lease: 0,
        weight,
        value: attached.then(|| Value::Inline(Bytes::new())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(term: u64, generation: u32, seq: u64) -> Header {
        Header { fence_term: term, fence_gen: generation, seq, s0_seen: 0, lease_time_ms: 0 }
    }

    #[test]
    fn only_what_follows_the_fence_counts() {
        let mut order = Order::default();
        for (batch, log_term, want, why) in [
            (header(1, 0, 1), 1, false, "no fence yet"),
            (header(1, 0, 0), 2, false, "a fence of another term"),
            (header(1, 1, 0), 1, true, "a fence of its own term"),
            (header(1, 1, 2), 1, false, "the batch before it is missing"),
            (header(1, 1, 1), 1, true, "the first after the fence"),
            (header(1, 1, 1), 1, false, "a repeat"),
            (header(1, 1, 2), 2, false, "a proposal of an older term that landed in a newer one"),
            (header(1, 2, 0), 1, true, "a new fence of the same term"),
            (header(1, 1, 2), 1, false, "what was evaluated before the new fence"),
            (header(1, 1, 0), 1, false, "an old fence that comes late"),
            (header(1, 2, 1), 1, true, "the first after the new fence"),
        ] {
            assert_eq!(order.admit(&batch, log_term), want, "{why}");
        }
    }
}
