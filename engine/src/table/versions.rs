//! Every version of a range in one source, in order: what merging and histories are made of.
//!
//! A window of revisions (both ends belong to it) leaves out versions, and whole blocks unread.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

use super::block::order;
use super::memtable::{Memtable, Resume};
use super::walker::Walker;
use super::{Found, KeyRange, Version};
use crate::error::Result;
use crate::types::{Revision, Space};

/// All versions of one source.
#[derive(Debug)]
pub(crate) enum Versions {
    Memory(MemoryVersions),
    Table(TableVersions),
}

/// All versions of a memtable, copied out in chunks.
#[derive(Debug)]
pub(crate) struct MemoryVersions {
    memtable: Arc<Memtable>,
    space: Space,
    range: KeyRange,
    window: (i64, i64),
    chunk: VecDeque<Found>,
    resume: Option<Resume>,
}

/// All versions of a table.
#[derive(Debug)]
pub(crate) struct TableVersions {
    walker: Walker,
    range: KeyRange,
    window: (i64, i64),
    /// Position in the walker's interval; `None` at the end.
    position: Option<usize>,
}

impl Versions {
    /// The versions of a memtable.
    pub(crate) fn of_memtable(
        memtable: Arc<Memtable>,
        space: Space,
        range: KeyRange,
        window: (i64, i64),
    ) -> Self {
        let mut chunk = VecDeque::new();
        let resume = memtable.versions(space, &range, window, None, &mut chunk);
        let mut source = MemoryVersions { memtable, space, range, window, chunk, resume };
        source.refill();
        Versions::Memory(source)
    }

    /// The versions of the table that `walker` is for.
    ///
    /// # Errors
    /// As [`crate::table::reader::Table::block`].
    pub(crate) fn of_table(mut walker: Walker, range: KeyRange, window: (i64, i64)) -> Result<Self> {
        let top = Revision { main: i64::MAX, sub: u32::MAX };
        let found = !range.is_empty() && walker.seek(&range.start, top)?;
        let position = found.then(|| walker.interval().below(&range.start));
        let mut source = TableVersions { walker, range, window, position };
        source.settle()?;
        Ok(Versions::Table(source))
    }

    /// The version that is due; `None` at the end.
    pub(crate) fn peek(&self) -> Option<(&[u8], &Version)> {
        match self {
            Versions::Memory(source) => source.chunk.front().map(|found| (&found.key[..], &found.version)),
            Versions::Table(source) => source.position.map(|at| source.walker.interval().entry(at)),
        }
    }

    /// Goes on to the next version.
    ///
    /// # Errors
    /// As [`crate::table::reader::Table::block`].
    pub(crate) fn advance(&mut self) -> Result<()> {
        match self {
            Versions::Memory(source) => {
                source.chunk.pop_front();
                source.refill();
                Ok(())
            }
            Versions::Table(source) => {
                source.position = source.position.map(|at| at + 1);
                source.settle()
            }
        }
    }
}

impl MemoryVersions {
    fn refill(&mut self) {
        while self.chunk.is_empty() {
            let Some(resume) = self.resume.take() else { return };
            let next =
                self.memtable.versions(self.space, &self.range, self.window, Some(&resume), &mut self.chunk);
            self.resume = next;
        }
    }
}

impl TableVersions {
    /// Goes on from `position` to the first version of range and window.
    fn settle(&mut self) -> Result<()> {
        while let Some(mut at) = self.position {
            while at < self.walker.interval().len() {
                let (key, version) = self.walker.interval().entry(at);
                if self.range.is_past(key) {
                    self.position = None;
                    return Ok(());
                }
                let main = version.revision.main;
                if self.window.0 <= main && main <= self.window.1 {
                    self.position = Some(at);
                    return Ok(());
                }
                at += 1;
            }
            self.position = self.next_interval()?.then_some(0);
        }
        Ok(())
    }

    fn next_interval(&mut self) -> Result<bool> {
        if !self.walker.is_last_of_block() {
            return self.walker.next();
        }
        let mut at = self.walker.block_at() + 1;
        let blocks = &self.walker.table().index().blocks;
        while at < self.walker.blocks().end && !blocks[at].revisions.meet(self.window) {
            at += 1;
        }
        self.walker.go_to_block(at)
    }
}

/// The versions of several sources in one order.
#[derive(Debug)]
pub(crate) struct MergedVersions {
    sources: Vec<Versions>,
    /// The source that is due.
    due: Option<usize>,
}

impl MergedVersions {
    /// Merges `sources`; no version may be in two of them.
    pub(crate) fn new(sources: Vec<Versions>) -> Self {
        let mut merged = MergedVersions { sources, due: None };
        merged.choose();
        merged
    }

    /// The version that is due; `None` at the end.
    pub(crate) fn peek(&self) -> Option<(&[u8], &Version)> {
        self.sources[self.due?].peek()
    }

    /// Goes on to the next version.
    ///
    /// # Errors
    /// As [`crate::table::reader::Table::block`].
    pub(crate) fn advance(&mut self) -> Result<()> {
        if let Some(due) = self.due {
            self.sources[due].advance()?;
            self.choose();
        }
        Ok(())
    }

    fn choose(&mut self) {
        let mut due: Option<(usize, (&[u8], Revision))> = None;
        for (at, source) in self.sources.iter().enumerate() {
            let Some((key, version)) = source.peek() else { continue };
            let candidate = (key, version.revision);
            if due.is_none_or(|(_, best)| order(candidate, best) == Ordering::Less) {
                due = Some((at, candidate));
            }
        }
        self.due = due.map(|(at, _)| at);
    }
}
