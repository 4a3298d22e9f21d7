//! Going through a space of one table, interval by interval, in both directions.

use std::ops::Range;
use std::sync::Arc;

use super::block::{Block, Interval};
use super::reader::Table;
use crate::error::Result;
use crate::types::{Revision, Space};

/// A position in a table: one interval, decoded. Before the first move it holds none.
#[derive(Debug)]
pub(crate) struct Walker {
    table: Arc<Table>,
    space: Space,
    /// The blocks of the space.
    blocks: Range<usize>,
    block_at: usize,
    block: Option<Block>,
    interval_at: usize,
    interval: Interval,
    cached: bool,
}

impl Walker {
    /// A walker that uses the block cache.
    pub(crate) fn new(table: Arc<Table>, space: Space) -> Self {
        let blocks = table.index().of(space);
        let block_at = blocks.start;
        Walker {
            table,
            space,
            blocks,
            block_at,
            block: None,
            interval_at: 0,
            interval: Interval::default(),
            cached: true,
        }
    }

    /// A walker that leaves the block cache to others, for those who read everything once.
    pub(crate) fn uncached(table: Arc<Table>, space: Space) -> Self {
        Walker { cached: false, ..Walker::new(table, space) }
    }

    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    pub(crate) fn blocks(&self) -> Range<usize> {
        self.blocks.clone()
    }

    /// Position of the block that the interval is in.
    pub(crate) fn block_at(&self) -> usize {
        self.block_at
    }

    pub(crate) fn interval(&self) -> &Interval {
        &self.interval
    }

    /// Goes to the last interval; `false` if the space is empty.
    pub(crate) fn last(&mut self) -> Result<bool> {
        let Some(at) = self.blocks.end.checked_sub(1).filter(|at| *at >= self.blocks.start) else {
            return Ok(false);
        };
        self.go_to_end_of_block(at)
    }

    /// Goes to the last interval that begins at or before `(key, revision)`, or to the first; `false` if the
    /// space is empty.
    pub(crate) fn seek(&mut self, key: &[u8], revision: Revision) -> Result<bool> {
        if self.blocks.is_empty() {
            return Ok(false);
        }
        let at = self.table.index().seek(self.space, key, revision);
        let block = self.load(at)?;
        let interval_at = block.seek((key, revision)).map_err(|reason| self.table.corrupt(at, reason))?;
        self.decode(interval_at)?;
        Ok(true)
    }

    /// Goes to the next interval; `false` after the last.
    pub(crate) fn next(&mut self) -> Result<bool> {
        if self.is_last_of_block() {
            return self.go_to_block(self.block_at + 1);
        }
        self.decode(self.interval_at + 1)?;
        Ok(true)
    }

    /// Whether the next interval is in another block.
    pub(crate) fn is_last_of_block(&self) -> bool {
        self.block.as_ref().is_none_or(|block| self.interval_at + 1 >= block.n_intervals())
    }

    /// Goes to the interval before within the block; `false` at the block's first.
    pub(crate) fn previous_in_block(&mut self) -> Result<bool> {
        if self.interval_at == 0 {
            return Ok(false);
        }
        self.decode(self.interval_at - 1)?;
        Ok(true)
    }

    /// Goes to the first interval of the block at `at`; `false` if there is none in the space.
    pub(crate) fn go_to_block(&mut self, at: usize) -> Result<bool> {
        if !self.blocks.contains(&at) {
            return Ok(false);
        }
        self.load(at)?;
        self.decode(0)?;
        Ok(true)
    }

    /// Goes to the last interval of the block at `at`; `false` if there is none in the space.
    pub(crate) fn go_to_end_of_block(&mut self, at: usize) -> Result<bool> {
        if !self.blocks.contains(&at) {
            return Ok(false);
        }
        let last = self.load(at)?.n_intervals() - 1;
        self.decode(last)?;
        Ok(true)
    }

    fn load(&mut self, at: usize) -> Result<Block> {
        if let Some(block) = self.block.as_ref().filter(|_| self.block_at == at) {
            return Ok(block.clone());
        }
        let block = if self.cached { self.table.block(at)? } else { self.table.read_block(at)? };
        self.block = Some(block.clone());
        self.block_at = at;
        Ok(block)
    }

    fn decode(&mut self, interval_at: usize) -> Result<()> {
        let block = self.block.as_ref().expect("a block was loaded");
        self.interval_at = interval_at;
        let decoded = block.interval(interval_at, &mut self.interval);
        decoded.map_err(|reason| self.table.corrupt(self.block_at, reason))
    }
}
