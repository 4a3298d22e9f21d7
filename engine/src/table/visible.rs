//! One version per key, the newest at or below a revision, of a range in either direction: what a scan is
//! made of.
//!
//! A source gives tombstones too: they hide what an older source has. [`MergedVisible`] takes, for each key,
//! the version of the newest source that has one, since sources are cut by time.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;

use super::memtable::{CHUNK, Memtable};
use super::reader::{Table, detached};
use super::walker::Walker;
use super::{Direction, Found, KeyRange};
use crate::error::Result;
use crate::types::{Revision, Space};

/// Above every revision.
const TOP: Revision = Revision { main: i64::MAX, sub: u32::MAX };
/// Below every revision.
const BOTTOM: Revision = Revision { main: i64::MIN, sub: 0 };

/// What is asked of each source.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub(crate) space: Space,
    pub(crate) range: KeyRange,
    /// Only versions at or below this main revision exist.
    pub(crate) main: i64,
    pub(crate) direction: Direction,
    /// How many keys the asker will take at most: a hint for how much to prepare.
    pub(crate) limit: usize,
}

/// The visible versions of one source.
#[derive(Debug)]
pub(crate) enum Visible {
    Memory(MemoryVisible),
    Forward(ForwardVisible),
    Backward(BackwardVisible),
}

/// Those of a memtable, copied out in chunks.
#[derive(Debug)]
pub(crate) struct MemoryVisible {
    memtable: Arc<Memtable>,
    question: Question,
    /// What is not copied out yet.
    rest: Option<KeyRange>,
    chunk: VecDeque<Found>,
}

/// Those of a table, keys ascending.
#[derive(Debug)]
pub(crate) struct ForwardVisible {
    walker: Walker,
    question: Question,
    /// Position in the walker's interval; `None` at the end.
    position: Option<usize>,
    /// The key given last.
    given: Option<Bytes>,
}

/// Those of a table, keys descending.
#[derive(Debug)]
pub(crate) struct BackwardVisible {
    walker: Walker,
    question: Question,
    /// Entries of the walker's interval before this position are still to come; `None` at the end. The
    /// entry at the position, if any, has another key than the one before it.
    position: Option<usize>,
}

impl Visible {
    /// Those of a memtable.
    pub(crate) fn of_memtable(memtable: Arc<Memtable>, question: Question) -> Self {
        let rest = Some(question.range.clone());
        Visible::Memory(MemoryVisible { memtable, question, rest, chunk: VecDeque::new() })
    }

    /// Those of a table.
    ///
    /// # Errors
    /// As [`Table::block`].
    pub(crate) fn of_table(table: Arc<Table>, question: Question) -> Result<Self> {
        let mut walker = Walker::new(table, question.space);
        let range = &question.range;
        let empty = range.is_empty() || walker.table().index().meeting(question.space, range).is_empty();
        match question.direction {
            Direction::Forward => {
                let found = !empty && walker.seek(&range.start, TOP)?;
                let position = found.then(|| walker.interval().below(&range.start));
                Ok(Visible::Forward(ForwardVisible { walker, question, position, given: None }))
            }
            Direction::Backward => {
                let found = !empty
                    && match &range.end {
                        Some(end) => walker.seek(end, TOP)?,
                        None => walker.last()?,
                    };
                let position = found.then(|| match &range.end {
                    Some(end) => walker.interval().below(end),
                    None => walker.interval().len(),
                });
                Ok(Visible::Backward(BackwardVisible { walker, question, position }))
            }
        }
    }

    fn next(&mut self) -> Result<Option<Found>> {
        match self {
            Visible::Memory(source) => Ok(source.next()),
            Visible::Forward(source) => source.next(),
            Visible::Backward(source) => source.next(),
        }
    }
}

impl MemoryVisible {
    fn next(&mut self) -> Option<Found> {
        while self.chunk.is_empty() {
            let rest = self.rest.take()?;
            let Question { space, main, direction, limit, .. } = self.question;
            let limit = limit.clamp(1, CHUNK);
            self.rest = self.memtable.visible(space, &rest, main, direction, limit, &mut self.chunk);
        }
        self.chunk.pop_front()
    }
}

impl ForwardVisible {
    fn next(&mut self) -> Result<Option<Found>> {
        while let Some(at) = self.position {
            if at == self.walker.interval().len() {
                self.position = self.next_interval()?.then_some(0);
                continue;
            }
            let (key, version) = self.walker.interval().entry(at);
            if self.question.range.is_past(key) {
                self.position = None;
                break;
            }
            self.position = Some(at + 1);
            if version.revision.main <= self.question.main
                && self.given.as_ref().is_none_or(|given| given != key)
            {
                let key = Bytes::copy_from_slice(key);
                self.given = Some(key.clone());
                return Ok(Some(Found { key, version: detached(version) }));
            }
        }
        Ok(None)
    }

    /// Goes to the next interval, past blocks that hold nothing but hidden versions.
    fn next_interval(&mut self) -> Result<bool> {
        if !self.walker.is_last_of_block() {
            return self.walker.next();
        }
        let Question { space, main, .. } = self.question;
        let index = self.walker.table().index();
        let mut at = self.walker.block_at() + 1;
        let len = self.walker.interval().len();
        if let Some((key, _)) = len.checked_sub(1).map(|last| self.walker.interval().entry(last)) {
            // A key with many versions: those before the wanted one, or after it, may fill blocks.
            let wanted = if self.given.as_ref().is_some_and(|given| given == key) {
                BOTTOM
            } else {
                Revision { main, sub: u32::MAX }
            };
            at = at.max(index.seek(space, key, wanted));
        }
        while at < self.walker.blocks().end && index.blocks[at].revisions.min > main {
            at += 1;
        }
        self.walker.go_to_block(at)
    }
}

impl BackwardVisible {
    fn next(&mut self) -> Result<Option<Found>> {
        while let Some(position) = self.position {
            let Some(last) = position.checked_sub(1) else {
                self.position = self.previous_interval()?.then(|| self.walker.interval().len());
                continue;
            };
            let interval = self.walker.interval();
            let (key, _) = interval.entry(last);
            if key < &self.question.range.start[..] {
                self.position = None;
                break;
            }
            let first = interval.below(key);
            let key = Bytes::copy_from_slice(key);
            let version = if first > 0 {
                // All versions of the key are in this interval.
                self.position = Some(first);
                let mut versions = (first..position).map(|at| interval.entry(at).1);
                versions.find(|version| version.revision.main <= self.question.main).map(detached)
            } else {
                let Question { space, main, .. } = self.question;
                let version = self.walker.table().find(space, &key, main)?;
                self.position = self.walker.seek(&key, TOP)?.then(|| self.walker.interval().below(&key));
                version
            };
            if let Some(version) = version {
                return Ok(Some(Found { key, version }));
            }
        }
        Ok(None)
    }

    /// Goes to the interval before, past blocks that hold nothing but hidden versions.
    fn previous_interval(&mut self) -> Result<bool> {
        if self.walker.previous_in_block()? {
            return Ok(true);
        }
        let blocks = &self.walker.table().index().blocks;
        let first = self.walker.blocks().start;
        let hidden = |at: &usize| blocks[*at].revisions.min > self.question.main;
        match (first..self.walker.block_at()).rev().find(|at| !hidden(at)) {
            Some(at) => self.walker.go_to_end_of_block(at),
            None => Ok(false),
        }
    }
}

/// The visible versions over all sources.
#[derive(Debug)]
pub(crate) struct MergedVisible {
    direction: Direction,
    /// Newest first, each with what it gives next.
    sources: Vec<(Visible, Option<Found>)>,
}

impl MergedVisible {
    /// Merges `sources`, which stand from the newest to the oldest.
    ///
    /// # Errors
    /// As [`Table::block`].
    pub(crate) fn new(direction: Direction, sources: Vec<Visible>) -> Result<Self> {
        let with_next = |mut source: Visible| source.next().map(|next| (source, next));
        let sources = sources.into_iter().map(with_next).collect::<Result<_>>()?;
        Ok(MergedVisible { direction, sources })
    }

    /// The next key with its version, which may be a tombstone.
    ///
    /// # Errors
    /// As [`Table::block`].
    pub(crate) fn next(&mut self) -> Result<Option<Found>> {
        let mut due: Option<(usize, &Bytes)> = None;
        let mut shared = false;
        for (at, (_, next)) in self.sources.iter().enumerate() {
            let Some(found) = next else { continue };
            let order = due.map_or(Ordering::Less, |(_, best)| match self.direction {
                Direction::Forward => found.key.cmp(best),
                Direction::Backward => best.cmp(&found.key),
            });
            match order {
                Ordering::Less => (due, shared) = (Some((at, &found.key)), false),
                Ordering::Equal => shared = true,
                Ordering::Greater => {}
            }
        }
        let Some((due, _)) = due else { return Ok(None) };
        let (source, next) = &mut self.sources[due];
        let found = std::mem::replace(next, source.next()?);
        if let Some(found) = found.as_ref().filter(|_| shared) {
            for (source, next) in &mut self.sources[due + 1..] {
                if next.as_ref().is_some_and(|next| next.key == found.key) {
                    *next = source.next()?;
                }
            }
        }
        Ok(found)
    }
}
