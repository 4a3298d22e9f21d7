//! The sources of one moment, and the reads over them.
//!
//! A view is immutable but for the writes that its active memtable goes on to get; those have higher
//! revisions than any that a reader of the view asks for. So a read needs no lock across its steps, and
//! whatever is flushed, merged or removed meanwhile stays readable through the view.

use std::sync::Arc;

use super::rule::Rule;
use crate::error::Result;
use crate::table::memtable::Memtable;
use crate::table::reader::Table;
use crate::table::versions::{MergedVersions, Versions};
use crate::table::visible::{MergedVisible, Question, Visible};
use crate::table::walker::Walker;
use crate::table::{Direction, KeyMeta, KeyRange};
use crate::types::Space;

/// What a read looks into, from the newest to the oldest.
#[derive(Debug, Clone)]
pub(crate) struct View {
    /// Gets the writes.
    pub(crate) active: Arc<Memtable>,
    /// Waits for its flush.
    pub(crate) frozen: Option<Arc<Memtable>>,
    /// Newest first.
    pub(crate) tables: Vec<Arc<Table>>,
}

impl View {
    /// The memtables, newest first.
    pub(crate) fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.active).chain(&self.frozen)
    }

    /// Bytes of the tables' files.
    pub(crate) fn table_bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.record().len).sum()
    }

    /// The key as of revision `main`; `None` if it did not exist then.
    pub(crate) fn get(&self, space: Space, key: &[u8], main: i64) -> Result<Option<KeyMeta>> {
        let alive = |meta: KeyMeta| meta.value.is_some().then_some(meta);
        for memtable in self.memtables() {
            if let Some(found) = memtable.get(space, key, main) {
                return Ok(alive(found.into_meta()));
            }
        }
        for table in &self.tables {
            if let Some(version) = table.get(space, key, main)? {
                let key = bytes::Bytes::copy_from_slice(key);
                return Ok(alive(crate::table::Found { key, version }.into_meta()));
            }
        }
        Ok(None)
    }

    /// How many keys of `range` exist as of revision `main`.
    pub(crate) fn count(&self, space: Space, range: &KeyRange, main: i64) -> Result<i64> {
        let mut sum = 0;
        for memtable in self.memtables() {
            sum += memtable.weight(space, range, main);
        }
        for table in &self.tables {
            sum += table.weight(space, range, main)?;
        }
        Ok(sum)
    }

    /// Appends to `out` the first `limit` keys of `range`, in `direction`, that exist as of revision `main`.
    pub(crate) fn scan(
        &self,
        space: Space,
        range: &KeyRange,
        main: i64,
        direction: Direction,
        limit: usize,
        out: &mut Vec<KeyMeta>,
    ) -> Result<()> {
        if limit == 0 || range.is_empty() {
            return Ok(());
        }
        let question = Question { space, range: range.clone(), main, direction, limit };
        let mut sources: Vec<_> = self
            .memtables()
            .map(|memtable| Visible::of_memtable(Arc::clone(memtable), question.clone()))
            .collect();
        for table in self.tables.iter().filter(|table| table.footer().revisions.min <= main) {
            sources.push(Visible::of_table(Arc::clone(table), question.clone())?);
        }
        let mut merged = MergedVisible::new(direction, sources)?;
        let mut found = 0;
        while let Some(next) = merged.next()? {
            if next.version.is_tombstone() {
                continue;
            }
            out.push(next.into_meta());
            found += 1;
            if found == limit {
                break;
            }
        }
        Ok(())
    }

    /// The versions in `range` with a main revision in `from..=to` that compaction at `compacted` leaves,
    /// whether or not a merge has removed the others yet; sorted by revision.
    pub(crate) fn history(
        &self,
        space: Space,
        range: &KeyRange,
        (from, to): (i64, i64),
        compacted: i64,
    ) -> Result<Vec<KeyMeta>> {
        // Whether a version at or below the compaction revision stays is decided by those between them.
        let window = if from > compacted { (from, to) } else { (i64::MIN, to.max(compacted)) };
        let mut sources: Vec<_> = self
            .memtables()
            .map(|memtable| Versions::of_memtable(Arc::clone(memtable), space, range.clone(), window))
            .collect();
        for table in self.tables.iter().filter(|table| table.footer().revisions.meet(window)) {
            sources.push(Versions::of_table(Walker::new(Arc::clone(table), space), range.clone(), window)?);
        }
        let mut merged = MergedVersions::new(sources);
        let mut rule = Rule::new(compacted, true);
        let mut key = bytes::Bytes::new();
        let mut out = Vec::new();
        let mut keep = |key: &bytes::Bytes, version: Option<crate::table::Version>| {
            if let Some(version) = version.filter(|version| (from..=to).contains(&version.revision.main)) {
                let version = crate::table::reader::detached(&version);
                out.push(crate::table::Found { key: key.clone(), version }.into_meta());
            }
        };
        while let Some((next, version)) = merged.peek() {
            if next != &key[..] {
                keep(&key, rule.end_key());
                key = bytes::Bytes::copy_from_slice(next);
            }
            keep(&key, rule.push(version.clone()));
            merged.advance()?;
        }
        keep(&key, rule.end_key());
        out.sort_by_key(|meta| meta.modified);
        Ok(out)
    }
}

#[cfg(test)]
mod tests;
