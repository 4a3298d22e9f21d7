//! Making one table of several sources, in bounded steps.
//!
//! A flush is a merge whose one source is a frozen memtable. Nothing is visible of a merge until the caller
//! has put its table into the manifest; the sources are only read. What the compaction rule gives up is
//! left out on the way.

use std::sync::Arc;

use super::memtable::Memtable;
use super::reader::Table;
use super::versions::{MergedVersions, Versions};
use super::walker::Walker;
use super::writer::{BLOCK_BYTES, TableRecord, Writer, file_name};
use super::{Applied, KeyRange};
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::mvcc::rule::Rule;
use crate::types::Space;

/// Every revision.
const EVERYTHING: (i64, i64) = (i64::MIN, i64::MAX);

/// What a merge reads.
#[derive(Debug, Clone)]
pub(crate) enum Input {
    Memtable(Arc<Memtable>),
    Table(Arc<Table>),
}

/// A merge under way.
#[derive(Debug)]
pub(crate) struct Merge {
    inputs: Vec<Input>,
    /// Compaction revision whose rule is applied.
    compacted: i64,
    rule: Rule,
    writer: Writer,
    /// The space that is being merged, and those after it.
    space: Space,
    versions: MergedVersions,
    /// The key that the rule is looking at.
    key: Vec<u8>,
}

impl Merge {
    /// Starts merging `inputs` into table `uid`.
    ///
    /// `with_oldest`: no older source holds anything, so tombstones have nothing left to hide.
    ///
    /// # Errors
    /// From creating the file and from reading the first blocks.
    pub(crate) fn start(
        disk: &dyn Disk,
        uid: u64,
        inputs: Vec<Input>,
        compacted: i64,
        with_oldest: bool,
    ) -> Result<Self> {
        let versions = versions_of(&inputs, Space::Kv)?;
        let keys_max = inputs.iter().map(Input::keys).sum();
        let writer = Writer::create(disk, uid, keys_max, compacted, BLOCK_BYTES)?;
        let rule = Rule::new(compacted, with_oldest);
        Ok(Merge { inputs, compacted, rule, writer, space: Space::Kv, versions, key: Vec::new() })
    }

    /// Number of the table that is being written.
    pub(crate) fn uid(&self) -> u64 {
        self.writer.uid()
    }

    /// Compaction revision whose rule is applied.
    pub(crate) fn compacted(&self) -> i64 {
        self.compacted
    }

    /// Takes in about `budget` bytes; `true` once everything is merged.
    ///
    /// # Errors
    /// From reading the sources and writing the table; the merge is good for [`Merge::abort`] only then.
    pub(crate) fn step(&mut self, budget: u64) -> Result<bool> {
        let mut left = budget;
        while left > 0 {
            let Some((key, version)) = self.versions.peek() else {
                self.end_key()?;
                if self.space == Space::Lease {
                    return Ok(true);
                }
                self.space = Space::Lease;
                self.versions = versions_of(&self.inputs, Space::Lease)?;
                continue;
            };
            let cost = (key.len() + size_of_val(version)) as u64;
            left = left.saturating_sub(cost);
            let version = version.clone();
            if self.key != key {
                let next = key.to_vec();
                self.end_key()?;
                self.key = next;
            }
            if let Some(kept) = self.rule.push(version) {
                self.writer.add(self.space, &self.key, &kept)?;
            }
            self.versions.advance()?;
        }
        Ok(false)
    }

    /// Ends the table; `None` if nothing was kept: then there is no table and no file.
    ///
    /// # Errors
    /// From writing; the merge is good for [`Merge::abort`] only then.
    pub(crate) fn finish(&mut self, disk: &dyn Disk, applied: Applied) -> Result<Option<TableRecord>> {
        if self.writer.is_empty() {
            let name = file_name(self.uid());
            disk.remove(&name).map_err(|source| Error::io(&name, &source))?;
            return Ok(None);
        }
        self.writer.finish(applied).map(Some)
    }

    /// Gives the merge up and removes its file.
    pub(crate) fn abort(self, disk: &dyn Disk) {
        self.writer.abort(disk);
    }

    fn end_key(&mut self) -> Result<()> {
        if let Some(kept) = self.rule.end_key() {
            self.writer.add(self.space, &self.key, &kept)?;
        }
        Ok(())
    }
}

impl Input {
    fn keys(&self) -> u64 {
        match self {
            Input::Memtable(memtable) => memtable.keys(),
            Input::Table(table) => table.footer().keys,
        }
    }
}

fn versions_of(inputs: &[Input], space: Space) -> Result<MergedVersions> {
    let sources = inputs.iter().map(|input| match input {
        Input::Memtable(memtable) => {
            Ok(Versions::of_memtable(Arc::clone(memtable), space, KeyRange::all(), EVERYTHING))
        }
        Input::Table(table) => {
            Versions::of_table(Walker::uncached(Arc::clone(table), space), KeyRange::all(), EVERYTHING)
        }
    });
    Ok(MergedVersions::new(sources.collect::<Result<_>>()?))
}
