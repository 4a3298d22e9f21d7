//! The newest entries of the log, in memory: what is not durable yet in any case, and beyond that as much as
//! `tail_bytes` allows. Fresh values, watchers that keep up and applying are served from here.
//!
//! INVARIANT An entry that is not durable is here, so nobody reads from disk what was not synced.

use super::{Entry, GroupId, Kind};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};

/// Bytes that an entry is counted for beside its body.
const OVERHEAD: u64 = 96;

/// The newest entries.
#[derive(Debug, Default)]
pub(super) struct Tail {
    /// In the order of the log, so ascending by (segment, body offset). Dead ones too.
    records: VecDeque<TailRecord>,
    /// Number of the first of `records`, counted from the start.
    base: u64,
    /// What `records` hold.
    bytes: u64,
    /// Per group (index, number of the record) of its live entries here; both ascend.
    groups: BTreeMap<GroupId, VecDeque<(u64, u64)>>,
}

#[derive(Debug)]
struct TailRecord {
    entry: Entry,
    /// Durable once the log's durable ticket is this.
    ticket: u64,
}

impl Tail {
    /// Adds an entry above all of its group's.
    pub(super) fn push(&mut self, entry: Entry, ticket: u64) {
        let number = self.base + self.records.len() as u64;
        self.groups.entry(entry.group).or_default().push_back((entry.index, number));
        self.bytes += entry.body.len() as u64 + OVERHEAD;
        self.records.push_back(TailRecord { entry, ticket });
    }

    /// Entries of `group` from `index` on are dead.
    pub(super) fn cut(&mut self, group: GroupId, index: u64) {
        if let Some(entries) = self.groups.get_mut(&group) {
            while entries.back().is_some_and(|(last, _)| *last >= index) {
                entries.pop_back();
            }
        }
    }

    /// Drops durable entries, oldest first, while there are more than `bytes_max`; hands them out so that
    /// they are freed without the lock.
    pub(super) fn evict(&mut self, bytes_max: u64, durable: u64, dropped: &mut Vec<Entry>) {
        while self.bytes > bytes_max && self.records.front().is_some_and(|record| record.ticket <= durable) {
            let Some(TailRecord { entry, .. }) = self.records.pop_front() else { break };
            self.bytes -= entry.body.len() as u64 + OVERHEAD;
            if let Some(entries) = self.groups.get_mut(&entry.group)
                && entries.front().is_some_and(|(_, number)| *number == self.base)
            {
                entries.pop_front();
            }
            self.base += 1;
            dropped.push(entry);
        }
    }

    /// The first entry of `group` here with an index of at least `from`, and those that follow it directly.
    pub(super) fn entries(&self, group: GroupId, from: u64) -> Option<(u64, impl Iterator<Item = &Entry>)> {
        let entries = self.groups.get(&group)?;
        let at = entries.partition_point(|(index, _)| *index < from);
        let first = entries.get(at)?.0;
        let row = entries.range(at..).zip(first..).take_while(|((index, _), want)| index == want);
        Some((first, row.map(|((_, number), _)| &self.records[(number - self.base) as usize].entry)))
    }

    /// `len` bytes at `offset` of a segment, if they lie within the body of an entry here.
    pub(super) fn bytes_at(&self, segment: u32, offset: u32, len: u32) -> Option<Bytes> {
        let place = |record: &TailRecord| (record.entry.segment, record.entry.body_offset);
        let after = self.records.partition_point(|record| place(record) <= (segment, offset));
        let entry = &self.records.get(after.checked_sub(1)?)?.entry;
        if entry.segment != segment {
            return None;
        }
        let from = (offset - entry.body_offset) as usize;
        let to = from + len as usize;
        (to <= entry.body.len()).then(|| entry.body.slice(from..to))
    }
}

impl Entry {
    /// An entry at a place.
    pub(super) fn new(
        (kind, group, term, index): (Kind, GroupId, u64, u64),
        body: Bytes,
        segment: u32,
        body_offset: u64,
    ) -> Self {
        let body_offset = u32::try_from(body_offset).expect("segments are below 4 GiB");
        Entry { group, kind, term, index, body, segment, body_offset }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_stay_until_durable_and_values_are_found_by_place() {
        let mut tail = Tail::default();
        for index in 1..=4u64 {
            let body = Bytes::from(vec![index as u8; 100]);
            tail.push(Entry::new((Kind::Entry, 1, 1, index), body, 2, index * 1000), index);
        }
        for (segment, offset, len, want, why) in [
            (2, 2000, 100, true, "a whole body"),
            (2, 2099, 1, true, "its last byte"),
            (2, 2050, 51, false, "beyond its end"),
            (2, 999, 1, false, "before the first"),
            (1, 2000, 1, false, "another segment"),
            (3, 2000, 1, false, "a later segment"),
        ] {
            assert_eq!(tail.bytes_at(segment, offset, len).is_some(), want, "{why}");
        }
        let mut dropped = Vec::new();
        tail.evict(0, 2, &mut dropped);
        assert_eq!(dropped.iter().map(|entry| entry.index).collect::<Vec<_>>(), [1, 2], "3 is not durable");
        tail.cut(1, 4);
        let (first, row) = tail.entries(1, 1).unwrap();
        assert_eq!((first, row.map(|entry| entry.index).collect::<Vec<_>>()), (3, vec![3]), "4 is dead");
        tail.evict(0, 9, &mut dropped);
        assert!(tail.entries(1, 1).is_none());
        assert_eq!(tail.bytes, 0);
    }
}
