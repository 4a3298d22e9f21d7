//! Weights, key by key: at every revision that can be read, the weights of a key's versions up to there sum to
//! 1 if the key exists then and to 0 if not. Counts rest on it.

use std::sync::Arc;

use super::Damage;
use crate::error::Result;
use crate::table::KeyRange;
use crate::table::reader::Table;
use crate::table::versions::{MergedVersions, Versions};
use crate::table::walker::Walker;
use crate::table::writer::file_name;
use crate::types::{Pointer, Revision, Space, Value};

/// Every revision.
const EVERYTHING: (i64, i64) = (i64::MIN, i64::MAX);

/// A walk over all versions of some tables, step by step.
#[derive(Debug)]
pub(crate) struct SumsWalk {
    tables: Vec<Arc<Table>>,
    /// The oldest revision that can be read.
    compacted: i64,
    space: Space,
    versions: MergedVersions,
    key: Vec<u8>,
    /// Versions of `key`, newest first: revision, weight, whether it is a put.
    of_key: Vec<(Revision, i64, bool)>,
    /// Bytes of keys and versions gone through.
    pub(crate) done: u64,
    /// Keys that exist, of users.
    pub(crate) keys: u64,
    /// Versions of both spaces.
    pub(crate) versions_seen: u64,
}

impl SumsWalk {
    /// A walk over `tables`, all of a store, newest first.
    ///
    /// # Errors
    /// From reading the first blocks.
    pub(crate) fn new(tables: Vec<Arc<Table>>, compacted: i64) -> Result<Self> {
        SumsWalk::from(tables, compacted, (Space::Kv, Vec::new()))
    }

    /// As [`SumsWalk::new`], from the key at `start` on.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn from(tables: Vec<Arc<Table>>, compacted: i64, start: (Space, Vec<u8>)) -> Result<Self> {
        let versions = merged(&tables, start.0, start.1)?;
        Ok(SumsWalk {
            tables,
            compacted,
            space: start.0,
            versions,
            key: Vec::new(),
            of_key: Vec::new(),
            done: 0,
            keys: 0,
            versions_seen: 0,
        })
    }

    /// Goes through about `budget` bytes, and to the end of the key it is in; `true` at the end. Wrong sums go to `found`, pointers to `pointers`.
    ///
    /// # Errors
    /// From reading the tables; the walk is over then.
    pub(crate) fn step(
        &mut self,
        budget: u64,
        found: &mut Vec<Damage>,
        mut pointers: impl FnMut(Pointer),
    ) -> Result<bool> {
        let end = self.done.saturating_add(budget.max(1));
        loop {
            let Some((key, version)) = self.versions.peek() else {
                self.end_key(found);
                if self.space == Space::Lease {
                    return Ok(true);
                }
                self.space = Space::Lease;
                self.key.clear();
                self.versions = merged(&self.tables, Space::Lease, Vec::new())?;
                continue;
            };
            let size = (key.len() + size_of_val(version)) as u64;
            let entry = (version.revision, i64::from(version.weight), version.value.is_some());
            let pointer = match &version.value {
                Some(Value::Pointer(pointer)) => Some(*pointer),
                Some(Value::Inline(_)) | None => None,
            };
            if self.of_key.is_empty() || self.key != key {
                let key = key.to_vec();
                self.end_key(found);
                self.key = key;
                if self.done >= end {
                    return Ok(false);
                }
            }
            self.done += size;
            self.versions_seen += 1;
            self.of_key.push(entry);
            pointer.into_iter().for_each(&mut pointers);
            self.versions.advance()?;
        }
    }

    /// The key that comes next, after a step that did not end the walk.
    pub(crate) fn position(&self) -> (Space, Vec<u8>) {
        (self.space, self.key.clone())
    }

    fn end_key(&mut self, found: &mut Vec<Damage>) {
        if let Some((revision, sum)) = wrong_sum(&self.of_key, self.compacted) {
            found.push(Damage {
                // Which of them is wrong cannot be told; the oldest holds most.
                file: self.tables.last().map(|table| file_name(table.record().uid)).unwrap_or_default(),
                offset: 0,
                reason: format!(
                    "the weights of key {:?} sum to {sum} at revision {revision}",
                    String::from_utf8_lossy(&self.key)
                ),
            });
        }
        if self.space == Space::Kv && self.of_key.first().is_some_and(|(_, _, is_put)| *is_put) {
            self.keys += 1;
        }
        self.of_key.clear();
    }
}

/// A revision at or after `compacted` at which the weights do not sum to whether the key exists, and their
/// sum. Also if the versions are not in order, or one is there twice.
fn wrong_sum(newest_first: &[(Revision, i64, bool)], compacted: i64) -> Option<(i64, i64)> {
    let mut sum = 0i64;
    for (at, (revision, weight, is_put)) in newest_first.iter().enumerate().rev() {
        sum += weight;
        let newer = at.checked_sub(1).map(|at| newest_first[at].0);
        if newer.is_some_and(|newer| newer <= *revision) {
            return Some((revision.main, sum));
        }
        // No read can stop between the changes of one revision, or before what compaction hides.
        let seen = newer.is_none_or(|newer| newer.main != revision.main && newer.main > compacted);
        if seen && sum != i64::from(*is_put) {
            return Some((revision.main, sum));
        }
    }
    None
}

fn merged(tables: &[Arc<Table>], space: Space, start: Vec<u8>) -> Result<MergedVersions> {
    let range = KeyRange { start: start.into(), end: None };
    let sources = tables.iter().map(|table| {
        Versions::of_table(Walker::uncached(Arc::clone(table), space), range.clone(), EVERYTHING)
    });
    Ok(MergedVersions::new(sources.collect::<Result<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_existence_where_they_can_be_read() {
        let versions = |list: &[(i64, u32, i64, bool)]| -> Vec<_> {
            list.iter().map(|&(main, sub, weight, put)| (Revision { main, sub }, weight, put)).collect()
        };
        for (newest_first, compacted, want, why) in [
            (vec![(5, 0, 0, true), (3, 0, 1, true)], 0, None, "created and overwritten"),
            (vec![(5, 0, -1, false), (3, 0, 1, true)], 0, None, "created and deleted"),
            (vec![(5, 0, 1, true), (3, 0, 1, true)], 0, Some((5, 2)), "created twice"),
            (vec![(5, 0, 0, true)], 0, Some((5, 0)), "its creation is lost"),
            (
                vec![(5, 1, 1, true), (5, 0, -1, false), (3, 0, 1, true)],
                0,
                None,
                "deleted and created in one",
            ),
            (vec![(5, 0, 1, true), (3, 0, 0, true)], 5, None, "what is hidden is not looked at"),
            (vec![(5, 0, 1, true), (3, 0, 0, true)], 4, Some((3, 0)), "but what a read at 4 sees is"),
            (vec![(5, 0, 0, true), (5, 0, 1, true)], 0, Some((5, 1)), "one version twice"),
            (vec![(4, 0, 0, true), (5, 0, 1, true)], 0, Some((5, 1)), "not in order"),
            (vec![(4, 0, -1, false)], 9, Some((4, -1)), "a deletion of nothing"),
        ] {
            assert_eq!(wrong_sum(&versions(&newest_first), compacted), want, "{why}");
        }
    }
}
