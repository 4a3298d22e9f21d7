//! Reading a table from end to end, block by block, for checks offline and for the scrub.

use std::sync::Arc;

use super::block::Interval;
use super::index::{Revisions, Sums};
use super::reader::Table;
use crate::error::{Error, Result};

/// The verification of one table, which its opening has checked already but for the blocks.
#[derive(Debug)]
pub(crate) struct Verification {
    table: Arc<Table>,
    /// The block that is due.
    at: usize,
    /// What the blocks so far add up to.
    sums: Sums,
    /// Whether a block was bad: then the sums after it are not compared.
    damaged: bool,
}

impl Verification {
    pub(crate) fn new(table: Arc<Table>) -> Self {
        Verification { table, at: 0, sums: Sums::default(), damaged: false }
    }

    /// Offset in the file of the block that is due.
    pub(crate) fn position(&self) -> u64 {
        self.table.index().blocks.get(self.at).map_or(self.table.record().len, |block| block.offset)
    }

    /// Reads blocks of about `budget` bytes; `true` at the end. Damaged blocks go to `found`.
    ///
    /// # Errors
    /// [`Error::Io`] if a block cannot be read; the next step goes on behind it.
    pub(crate) fn step(&mut self, budget: u64, found: &mut Vec<Error>) -> Result<bool> {
        let mut left = budget;
        while self.at < self.table.index().blocks.len() {
            if left == 0 {
                return Ok(false);
            }
            let at = self.at;
            self.at += 1;
            left = left.saturating_sub(u64::from(self.table.index().blocks[at].len));
            match self.block(at) {
                Ok(()) => {}
                Err(error @ Error::Corrupt { .. }) => {
                    self.damaged = true;
                    found.push(error);
                }
                Err(error) => {
                    self.damaged = true;
                    return Err(error);
                }
            }
        }
        if !self.damaged && self.sums != self.table.footer().sums {
            found.push(self.table.corrupt(self.at.saturating_sub(1), "versions are not those of the footer"));
        }
        Ok(true)
    }

    fn block(&mut self, at: usize) -> Result<()> {
        let block = self.table.read_block(at)?;
        let mut interval = Interval::default();
        let mut revisions = Revisions::NONE;
        for interval_at in 0..block.n_intervals() {
            block.interval(interval_at, &mut interval).map_err(|reason| self.table.corrupt(at, reason))?;
            for position in 0..interval.len() {
                let (_, version) = interval.entry(position);
                self.sums.add(version);
                revisions.add(version);
            }
        }
        let entry = &self.table.index().blocks[at];
        if !self.damaged && (self.sums, revisions) != (entry.totals, entry.revisions) {
            return Err(self.table.corrupt(at, "sums of a block are not the index's"));
        }
        Ok(())
    }
}
