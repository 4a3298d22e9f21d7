//! The newest versions: sorted, counted, in memory, metadata and pointers only.
//!
//! Per space two levels: a vector of leaves, each a sorted vector of keys with their versions ascending and
//! the sum of their weights. A lookup is two binary searches; a count adds up leaf sums and looks into the
//! two leaves at its ends, and, at an older revision, into leaves that hold newer weights.
//!
//! One lock, taken once for each batch of writes, and by readers for one key or for a chunk of at most
//! [`CHUNK`] keys. A frozen memtable is the same value that gets no more writes.
//!
//! It does not hold the buffers it is given: keys and inline values are copied.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::RwLock;
use smallvec::SmallVec;

use super::{Direction, Found, KeyRange, Version, Write};
use crate::types::{Revision, Space, Value};

/// Keys that a reader looks at in one hold of the lock.
pub(crate) const CHUNK: usize = 256;
/// Keys of a leaf; a fuller one is split.
const LEAF_KEYS_MAX: usize = 128;

/// A sorted set of versions.
#[derive(Debug, Default)]
pub(crate) struct Memtable {
    content: RwLock<Content>,
    /// Bytes held, approximately.
    bytes: AtomicU64,
}

#[derive(Debug, Default)]
struct Content {
    kv: Leaves,
    lease: Leaves,
    /// Segments that values here lie in.
    segments: BTreeSet<u32>,
    last_segment: Option<u32>,
    /// Bytes of the values here that lie in the log.
    log_bytes: u64,
    keys: u64,
}

#[derive(Debug, Default)]
struct Leaves {
    /// Ascending; none is empty.
    leaves: Vec<Leaf>,
}

#[derive(Debug)]
struct Leaf {
    /// Key of the first slot.
    first: Bytes,
    /// Sum of the slots' weights.
    weight: i64,
    /// Highest revision of a version with a weight in it; 0 if there is none.
    newest_weight: i64,
    slots: Vec<Slot>,
}

/// A key with its versions.
#[derive(Debug)]
struct Slot {
    key: Bytes,
    /// Ascending by revision; never empty.
    versions: SmallVec<[Version; 1]>,
    /// Sum of the versions' weights.
    weight: i32,
    /// As in [`Leaf`].
    newest_weight: i64,
}

/// Where a walk over all versions goes on.
#[derive(Debug, Clone)]
pub(crate) struct Resume {
    /// The key to go on with.
    key: Bytes,
    /// Of that key, only versions below this one are still to come.
    below: Revision,
}

impl Memtable {
    /// Takes in `writes` under one lock.
    ///
    /// # Panics
    /// If a write's revision is below that of the key's newest version.
    pub(crate) fn apply(&self, writes: &[Write]) {
        let mut content = self.content.write();
        let mut added = 0;
        for write in writes {
            added += content.insert(write);
        }
        self.bytes.fetch_add(added as u64, Ordering::Relaxed);
    }

    /// Bytes held, approximately.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Keys held, in all spaces.
    pub(crate) fn keys(&self) -> u64 {
        self.content.read().keys
    }

    /// Bytes of values in the log that versions here point to.
    pub(crate) fn log_bytes(&self) -> u64 {
        self.content.read().log_bytes
    }

    /// Adds the segments that values here lie in.
    pub(crate) fn add_segments(&self, into: &mut BTreeSet<u32>) {
        into.extend(&self.content.read().segments);
    }

    /// The newest version of `key` at or below revision `main`.
    pub(crate) fn get(&self, space: Space, key: &[u8], main: i64) -> Option<Found> {
        let content = self.content.read();
        let slot = content.leaves(space).slot(key)?;
        let version = slot.at(main)?.clone();
        Some(Found { key: slot.key.clone(), version })
    }

    /// Sum of the weights of the versions at or below revision `main` in `range`.
    pub(crate) fn weight(&self, space: Space, range: &KeyRange, main: i64) -> i64 {
        if range.is_empty() {
            return 0;
        }
        let content = self.content.read();
        let leaves = &content.leaves(space).leaves;
        let first = leaves.partition_point(|leaf| leaf.first <= range.start).saturating_sub(1);
        let mut sum = 0;
        for (at, leaf) in leaves.iter().enumerate().skip(first) {
            if range.is_past(&leaf.first) {
                break;
            }
            let next = leaves.get(at + 1);
            let whole = leaf.first >= range.start
                && match (&range.end, next) {
                    (None, _) => true,
                    (Some(end), Some(next)) => next.first <= *end,
                    (Some(_), None) => false,
                };
            if whole && leaf.newest_weight <= main {
                sum += leaf.weight;
            } else {
                sum += leaf.slots_in(range).iter().map(|slot| slot.weight_at(main)).sum::<i64>();
            }
        }
        sum
    }

    /// Appends to `out`, for each key of `range` in order, the newest version at or below `main`, tombstones
    /// too; looks at no more than [`CHUNK`] keys. Returns what remains of the range; `None` at its end.
    pub(crate) fn visible(
        &self,
        space: Space,
        range: &KeyRange,
        main: i64,
        direction: Direction,
        limit: usize,
        out: &mut VecDeque<Found>,
    ) -> Option<KeyRange> {
        if range.is_empty() {
            return None;
        }
        let content = self.content.read();
        let leaves = content.leaves(space);
        let mut looked_at = 0;
        let mut last = None;
        let mut emit = |slot: &Slot| {
            if looked_at == CHUNK || out.len() >= limit {
                return false;
            }
            looked_at += 1;
            if let Some(version) = slot.at(main) {
                out.push_back(Found { key: slot.key.clone(), version: version.clone() });
            }
            last = Some(slot.key.clone());
            true
        };
        let completed = match direction {
            Direction::Forward => {
                leaves.slots_from(&range.start).take_while(|slot| !range.is_past(&slot.key)).all(&mut emit)
            }
            Direction::Backward => leaves
                .slots_before(range.end.as_deref())
                .take_while(|slot| slot.key >= range.start)
                .all(&mut emit),
        };
        if completed { None } else { last.map(|key| range.after(&key, direction)) }
    }

    /// Appends to `out` all versions in `range` with a revision in `window` (both ends belong to it), keys
    /// ascending and revisions descending, at most [`CHUNK`]. Returns where to go on; `None` at the end.
    pub(crate) fn versions(
        &self,
        space: Space,
        range: &KeyRange,
        window: (i64, i64),
        resume: Option<&Resume>,
        out: &mut VecDeque<Found>,
    ) -> Option<Resume> {
        let content = self.content.read();
        let start = resume.map_or(&range.start, |resume| &resume.key);
        for (looked_at, slot) in content.leaves(space).slots_from(start).enumerate() {
            if range.is_past(&slot.key) {
                return None;
            }
            if looked_at >= CHUNK {
                return Some(Resume { key: slot.key.clone(), below: TOP });
            }
            let below = resume.filter(|resume| resume.key == slot.key).map_or(TOP, |resume| resume.below);
            let upto = slot.versions.partition_point(|v| v.revision < below && v.revision.main <= window.1);
            for version in slot.versions[..upto].iter().rev() {
                if version.revision.main < window.0 {
                    break;
                }
                if out.len() >= CHUNK {
                    let below =
                        Revision { main: version.revision.main, sub: version.revision.sub.saturating_add(1) };
                    return Some(Resume { key: slot.key.clone(), below });
                }
                out.push_back(Found { key: slot.key.clone(), version: version.clone() });
            }
        }
        None
    }
}

/// Above every revision.
const TOP: Revision = Revision { main: i64::MAX, sub: u32::MAX };

impl Content {
    fn leaves(&self, space: Space) -> &Leaves {
        match space {
            Space::Kv => &self.kv,
            Space::Lease => &self.lease,
        }
    }

    /// Returns the bytes added, approximately.
    fn insert(&mut self, write: &Write) -> usize {
        let version = Version::of(write);
        if let Some((segment, len)) = version.log_bytes() {
            self.log_bytes += len;
            if self.last_segment != Some(segment) {
                self.segments.insert(segment);
                self.last_segment = Some(segment);
            }
        }
        let inline = match &version.value {
            Some(Value::Inline(bytes)) => bytes.len(),
            _ => 0,
        };
        let leaves = match write.space {
            Space::Kv => &mut self.kv,
            Space::Lease => &mut self.lease,
        };
        if leaves.insert(&write.key, version) {
            self.keys += 1;
            size_of::<Slot>() + write.key.len() + inline
        } else {
            size_of::<Version>() + inline
        }
    }
}

impl Leaves {
    /// Whether the key is new here.
    fn insert(&mut self, key: &[u8], version: Version) -> bool {
        let at = self.leaves.partition_point(|leaf| leaf.first <= key);
        if self.leaves.is_empty() {
            self.leaves.push(Leaf::new(vec![Slot::new(key, version)]));
            return true;
        }
        let at = at.saturating_sub(1);
        let last = at + 1 == self.leaves.len();
        let leaf = &mut self.leaves[at];
        let position = match leaf.slots.binary_search_by(|slot| slot.key[..].cmp(key)) {
            Ok(position) => {
                leaf.count(&version);
                leaf.slots[position].push(version);
                return false;
            }
            Err(position) => position,
        };
        if leaf.slots.len() < LEAF_KEYS_MAX {
            leaf.insert(position, Slot::new(key, version));
        } else if last && position == leaf.slots.len() {
            // Ascending keys are common; they fill leaves instead of leaving halves behind.
            self.leaves.push(Leaf::new(vec![Slot::new(key, version)]));
        } else {
            leaf.slots.insert(position, Slot::new(key, version));
            let upper = leaf.slots.split_off(LEAF_KEYS_MAX / 2);
            let lower = std::mem::take(&mut leaf.slots);
            *leaf = Leaf::new(lower);
            self.leaves.insert(at + 1, Leaf::new(upper));
        }
        true
    }

    fn slot(&self, key: &[u8]) -> Option<&Slot> {
        let at = self.leaves.partition_point(|leaf| leaf.first <= key).checked_sub(1)?;
        let slots = &self.leaves[at].slots;
        slots.binary_search_by(|slot| slot.key[..].cmp(key)).ok().map(|position| &slots[position])
    }

    /// Slots with a key at or above `start`, ascending.
    fn slots_from(&self, start: &[u8]) -> impl Iterator<Item = &Slot> {
        let at = self.leaves.partition_point(|leaf| leaf.first <= start).saturating_sub(1);
        let skip = self.leaves.get(at).map_or(0, |leaf| leaf.slots.partition_point(|slot| slot.key < start));
        self.leaves[at.min(self.leaves.len())..].iter().flat_map(|leaf| &leaf.slots).skip(skip)
    }

    /// Slots with a key below `end`, descending.
    fn slots_before(&self, end: Option<&[u8]>) -> impl Iterator<Item = &Slot> {
        let leaves = match end {
            None => &self.leaves[..],
            Some(end) => &self.leaves[..self.leaves.partition_point(|leaf| leaf.first < end)],
        };
        let skip = match (end, leaves.last()) {
            (Some(end), Some(leaf)) => leaf.slots.len() - leaf.slots.partition_point(|slot| slot.key < end),
            _ => 0,
        };
        leaves.iter().rev().flat_map(|leaf| leaf.slots.iter().rev()).skip(skip)
    }
}

impl Leaf {
    fn new(slots: Vec<Slot>) -> Self {
        Leaf {
            first: slots[0].key.clone(),
            weight: slots.iter().map(|slot| i64::from(slot.weight)).sum(),
            newest_weight: slots.iter().map(|slot| slot.newest_weight).max().unwrap_or(0),
            slots,
        }
    }

    fn insert(&mut self, position: usize, slot: Slot) {
        self.weight += i64::from(slot.weight);
        self.newest_weight = self.newest_weight.max(slot.newest_weight);
        if position == 0 {
            self.first = slot.key.clone();
        }
        self.slots.insert(position, slot);
    }

    /// Takes the weight of a version that is added to one of the slots.
    fn count(&mut self, version: &Version) {
        self.weight += i64::from(version.weight);
        if version.weight != 0 {
            self.newest_weight = self.newest_weight.max(version.revision.main);
        }
    }

    fn slots_in(&self, range: &KeyRange) -> &[Slot] {
        let from = self.slots.partition_point(|slot| slot.key < range.start);
        let to = self.slots.partition_point(|slot| !range.is_past(&slot.key));
        &self.slots[from..to]
    }
}

impl Slot {
    fn new(key: &[u8], version: Version) -> Self {
        let newest_weight = if version.weight == 0 { 0 } else { version.revision.main };
        let weight = version.weight;
        let mut versions = SmallVec::new();
        versions.push(version);
        Slot { key: Bytes::copy_from_slice(key), versions, weight, newest_weight }
    }

    fn push(&mut self, version: Version) {
        self.weight += version.weight;
        if version.weight != 0 {
            self.newest_weight = version.revision.main;
        }
        let newest = self.versions.last_mut().expect("a slot has versions");
        assert!(
            newest.revision <= version.revision,
            "a write at {:?} after one at {:?} of the same key",
            version.revision,
            newest.revision
        );
        if newest.revision == version.revision {
            *newest = Version { weight: newest.weight + version.weight, ..version };
        } else {
            self.versions.push(version);
        }
    }

    /// The newest version at or below `main`.
    fn at(&self, main: i64) -> Option<&Version> {
        let newest = self.versions.last()?;
        if newest.revision.main <= main {
            return Some(newest);
        }
        let upto = self.versions.partition_point(|version| version.revision.main <= main);
        self.versions[..upto].last()
    }

    fn weight_at(&self, main: i64) -> i64 {
        if self.newest_weight <= main {
            return i64::from(self.weight);
        }
        let older = self.versions.iter().take_while(|version| version.revision.main <= main);
        older.map(|version| i64::from(version.weight)).sum()
    }
}

#[cfg(test)]
mod tests;
