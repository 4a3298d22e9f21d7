//! Changes that are not applied yet, and a view with them on top.
//!
//! The evaluator's overlay holds what is in flight; each transaction has one more for its own writes, so
//! that its reads see them.
//!
//! INVARIANT: the versions of a key ascend by revision, and all are newer than anything the view below has.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;
use engine::KeyRange;
use smallvec::SmallVec;

use super::view::{Row, RowValue, View};
use crate::error::Result;

/// A change of one key: the row, or `None` for a deletion.
type Version = (i64, Option<Row>);

/// Changes of keys, newest last.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    keys: BTreeMap<Bytes, SmallVec<[Version; 2]>>,
}

impl Overlay {
    /// Records that `key` becomes `row` at `revision`.
    pub(crate) fn put(&mut self, key: &Bytes, revision: i64, row: Option<Row>) {
        let versions = self.keys.entry(key.clone()).or_default();
        match versions.last_mut() {
            Some(last) if last.0 == revision => last.1 = row,
            _ => versions.push((revision, row)),
        }
    }

    /// Forgets the changes of `key` at or below `revision`: they are applied.
    pub(crate) fn settle(&mut self, key: &[u8], revision: i64) {
        if let Some(versions) = self.keys.get_mut(key) {
            versions.retain(|(at, _)| *at > revision);
            if versions.is_empty() {
                self.keys.remove(key);
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        self.keys.clear();
    }

    /// The change of `key` that counts at `revision`, if there is one.
    fn at(&self, key: &[u8], revision: i64) -> Option<&Option<Row>> {
        newest(self.keys.get(key)?, revision)
    }

    /// The changes in a range that count at `revision`, in key order.
    fn changes(&self, range: &KeyRange, revision: i64) -> impl Iterator<Item = (&Bytes, &Option<Row>)> {
        let empty = range.end.as_ref().is_some_and(|end| *end <= range.start);
        let upper = match &range.end {
            _ if empty => Bound::Excluded(&range.start[..]),
            Some(end) => Bound::Excluded(&end[..]),
            None => Bound::Unbounded,
        };
        self.keys
            .range::<[u8], _>((Bound::Included(&range.start[..]), upper))
            .filter_map(move |(key, versions)| Some((key, newest(versions, revision)?)))
    }
}

fn newest(versions: &[Version], revision: i64) -> Option<&Option<Row>> {
    versions.iter().rev().find(|(at, _)| *at <= revision).map(|(_, row)| row)
}

/// An overlay on a view.
#[derive(Debug)]
pub(crate) struct Layered<'a, V> {
    below: &'a V,
    overlay: &'a Overlay,
    revision: i64,
}

impl<'a, V: View> Layered<'a, V> {
    /// `revision` is the newest one that the overlay has, or the one below if it is empty.
    pub(crate) fn new(below: &'a V, overlay: &'a Overlay, revision: i64) -> Self {
        assert!(revision >= below.revision(), "an overlay at {revision} on {}", below.revision());
        Layered { below, overlay, revision }
    }

    fn revision_below(&self, revision: i64) -> i64 {
        revision.min(self.below.revision())
    }
}

impl<V: View> View for Layered<'_, V> {
    fn revision(&self) -> i64 {
        self.revision
    }

    fn get(&self, key: &[u8], revision: i64) -> Result<Option<Row>> {
        match self.overlay.at(key, revision) {
            Some(row) => Ok(row.clone()),
            None => self.below.get(key, self.revision_below(revision)),
        }
    }

    fn rows(&self, range: &KeyRange, revision: i64, limit: usize, out: &mut Vec<Row>) -> Result<()> {
        let below = self.revision_below(revision);
        let mut changes = self.overlay.changes(range, revision).peekable();
        if changes.peek().is_none() {
            return self.below.rows(range, below, limit, out);
        }
        // Each change hides at most one row below, so this many are enough.
        let hidden = self.overlay.changes(range, revision).count();
        let mut rows = Vec::new();
        self.below.rows(range, below, limit.saturating_add(hidden), &mut rows)?;
        let end = out.len().saturating_add(limit);
        let mut rows = rows.into_iter().peekable();
        while out.len() < end {
            let change_first = match (changes.peek(), rows.peek()) {
                (None, None) => break,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (Some((key, _)), Some(row)) => **key <= row.key,
            };
            if change_first {
                let (key, changed) = changes.next().expect("peeked");
                if rows.peek().is_some_and(|row| row.key == *key) {
                    rows.next();
                }
                out.extend(changed.clone());
            } else {
                out.extend(rows.next());
            }
        }
        Ok(())
    }

    fn count(&self, range: &KeyRange, revision: i64) -> Result<i64> {
        let below = self.revision_below(revision);
        let mut count = self.below.count(range, below)?;
        for (key, changed) in self.overlay.changes(range, revision) {
            count += i64::from(changed.is_some()) - i64::from(self.below.get(key, below)?.is_some());
        }
        Ok(count)
    }

    fn load(&self, value: &RowValue) -> Result<Bytes> {
        self.below.load(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A plain map at one revision.
    struct Plain(BTreeMap<Bytes, Row>);

    impl View for Plain {
        fn revision(&self) -> i64 {
            10
        }
        fn get(&self, key: &[u8], _: i64) -> Result<Option<Row>> {
            Ok(self.0.get(key).cloned())
        }
        fn rows(&self, range: &KeyRange, _: i64, limit: usize, out: &mut Vec<Row>) -> Result<()> {
            let inside = |key: &Bytes| *key >= range.start && range.end.as_ref().is_none_or(|end| key < end);
            out.extend(self.0.values().filter(|row| inside(&row.key)).take(limit).cloned());
            Ok(())
        }
        fn count(&self, range: &KeyRange, revision: i64) -> Result<i64> {
            let mut rows = Vec::new();
            self.rows(range, revision, usize::MAX, &mut rows)?;
            Ok(rows.len() as i64)
        }
        fn load(&self, _: &RowValue) -> Result<Bytes> {
            Ok(Bytes::new())
        }
    }

    fn row(key: u8, modified: i64) -> Row {
        let key = Bytes::copy_from_slice(&[key]);
        Row { key, create: 1, modified, version: 1, lease: 0, value: RowValue::Memory(Bytes::new()) }
    }

    proptest! {
        #[test]
        fn a_layered_view_reads_as_the_map_with_the_changes_made(
            below in proptest::collection::btree_set(0u8..12, 0..12),
            changes in proptest::collection::vec((0u8..12, any::<bool>()), 0..10),
            (start, end) in (0u8..12, 0u8..12),
            limit in 0usize..8,
        ) {
            let mut map: BTreeMap<Bytes, Row> =
                below.iter().map(|key| (row(*key, 5).key, row(*key, 5))).collect();
            let plain = Plain(map.clone());
            let mut overlay = Overlay::default();
            for (place, (key, deleted)) in changes.iter().enumerate() {
                let revision = 11 + place as i64;
                let changed = (!deleted).then(|| row(*key, revision));
                let key = row(*key, 0).key;
                overlay.put(&key, revision, changed.clone());
                match changed {
                    Some(changed) => map.insert(key, changed),
                    None => map.remove(&key),
                };
            }
            let newest = 10 + changes.len() as i64;
            let view = Layered::new(&plain, &overlay, newest);
            let want = Plain(map);
            let range = KeyRange { start: row(start, 0).key, end: Some(row(end, 0).key) };
            let (mut got, mut expected) = (Vec::new(), Vec::new());
            view.rows(&range, newest, limit, &mut got).unwrap();
            want.rows(&range, newest, limit, &mut expected).unwrap();
            prop_assert_eq!(got, expected);
            prop_assert_eq!(view.count(&range, newest).unwrap(), want.count(&range, newest).unwrap());
            prop_assert_eq!(view.get(&[start], newest).unwrap(), want.get(&[start], newest).unwrap());
            prop_assert_eq!(view.get(&[start], 10).unwrap(), plain.get(&[start], 10).unwrap());
        }
    }
}
