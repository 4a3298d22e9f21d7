//! A table as readers see it: opened by its footer, read by block.
//!
//! Open reads trailer, footer, index and filter and keeps the last two in memory. A block is read when it is
//! needed, checked against the index's checksum, and kept in the cache that all tables share.

use std::sync::Arc;

use bytes::Bytes;
use quick_cache::Weighter;

use super::block::{Block, Interval};
use super::filter::{Filter, hash};
use super::footer::{FORMAT, Footer, HEADER_LEN, Section, TRAILER_LEN, decode_header, decode_trailer};
use super::index::BlockIndex;
use super::verify::Verification;
use super::writer::{TableRecord, file_name};
use super::{KeyRange, Version};
use crate::disk::{Disk, File};
use crate::error::{Error, Result};
use crate::types::{Revision, Space};

/// Blocks of all tables, by table and position, weighed by their bytes.
pub(crate) type BlockCache = quick_cache::sync::Cache<(u64, usize), Block, ByBytes>;

/// Weighs a block by its bytes.
#[derive(Debug, Clone)]
pub(crate) struct ByBytes;

impl Weighter<(u64, usize), Block> for ByBytes {
    fn weight(&self, _: &(u64, usize), block: &Block) -> u64 {
        block.len() as u64
    }
}

/// A cache for `bytes` of blocks.
pub(crate) fn new_cache(bytes: u64) -> Arc<BlockCache> {
    let blocks = usize::try_from(bytes >> 14).unwrap_or(usize::MAX).max(16);
    Arc::new(BlockCache::with_weighter(blocks, bytes, ByBytes))
}

/// An open table.
pub(crate) struct Table {
    record: TableRecord,
    name: String,
    file: Arc<dyn File>,
    cache: Arc<BlockCache>,
    footer: Footer,
    index: BlockIndex,
    filter: Filter,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table")
            .field("record", &self.record)
            .field("footer", &self.footer)
            .finish_non_exhaustive()
    }
}

impl Table {
    /// Opens the table that the manifest knows as `record`.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if its length, header, trailer, footer, index or filter is not what was written,
    /// [`Error::Refused`] if it has another format, [`Error::Io`] if it cannot be read.
    pub(crate) fn open(disk: &dyn Disk, record: TableRecord, cache: Arc<BlockCache>) -> Result<Self> {
        let name = file_name(record.uid);
        let corrupt = |offset, reason| Error::Corrupt { file: name.clone(), offset, reason };
        let file = match disk.open(&name) {
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => {
                return Err(corrupt(0, "the manifest names it and it is not there"));
            }
            opened => opened.map_err(|source| Error::io(&name, &source))?,
        };
        Table::of(file, record, cache)
    }

    /// As [`Table::open`], from the file that it is in.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn of(file: Arc<dyn File>, record: TableRecord, cache: Arc<BlockCache>) -> Result<Self> {
        let name = file_name(record.uid);
        let corrupt = |offset, reason| Error::Corrupt { file: name.clone(), offset, reason };
        let len = file.len().map_err(|source| Error::io(&name, &source))?;
        if len != record.len || len < (HEADER_LEN + TRAILER_LEN) as u64 {
            return Err(corrupt(len.min(record.len), "not as long as the manifest says"));
        }
        let header = read(&*file, &name, 0, HEADER_LEN)?;
        let header = decode_header(&header).map_err(|reason| corrupt(0, reason))?;
        if header.format != FORMAT {
            return Err(Error::Refused(format!(
                "{name} has table format {}, this program reads format {FORMAT}",
                header.format
            )));
        }
        let trailer_at = len - TRAILER_LEN as u64;
        let trailer = read(&*file, &name, trailer_at, TRAILER_LEN)?;
        if crc32fast::hash(&trailer) != record.crc {
            return Err(corrupt(trailer_at, "trailer fails its checksum"));
        }
        let section = decode_trailer(&trailer).map_err(|reason| corrupt(trailer_at, reason))?;
        let footer = read_section(&*file, &name, section, trailer_at)?;
        let footer = Footer::decode(&footer).map_err(|reason| corrupt(section.offset, reason))?;
        if footer.uid != record.uid || header.uid != record.uid {
            return Err(corrupt(section.offset, "the file of another table"));
        }
        let filter = read_section(&*file, &name, footer.filter, trailer_at)?;
        let filter = Filter::decode(&filter).map_err(|reason| corrupt(footer.filter.offset, reason))?;
        let index = read_section(&*file, &name, footer.index, trailer_at)?;
        let index = BlockIndex::decode(&index, HEADER_LEN as u64, footer.filter.offset)
            .map_err(|reason| corrupt(footer.index.offset, reason))?;
        if index.totals_before(index.blocks.len()) != footer.sums {
            return Err(corrupt(footer.index.offset, "sums of the index are not the footer's"));
        }
        Ok(Table { record, name, file, cache, footer, index, filter })
    }

    pub(crate) fn record(&self) -> TableRecord {
        self.record
    }

    pub(crate) fn footer(&self) -> &Footer {
        &self.footer
    }

    pub(crate) fn index(&self) -> &BlockIndex {
        &self.index
    }

    /// The block at `at`, from the cache or the file.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it fails its checksum, [`Error::Io`] if it cannot be read.
    pub(crate) fn block(&self, at: usize) -> Result<Block> {
        if let Some(block) = self.cache.get(&(self.record.uid, at)) {
            return Ok(block);
        }
        let block = self.read_block(at)?;
        self.cache.insert((self.record.uid, at), block.clone());
        Ok(block)
    }

    /// As [`Table::block`], always from the file, for those who read all of it once.
    pub(crate) fn read_block(&self, at: usize) -> Result<Block> {
        let entry = &self.index.blocks[at];
        let section = Section { offset: entry.offset, len: entry.len, crc: entry.crc };
        let bytes = read_section(&*self.file, &self.name, section, self.record.len)?;
        Block::new(bytes).map_err(|reason| self.corrupt(at, reason))
    }

    /// The error of a block that does not decode.
    pub(crate) fn corrupt(&self, block: usize, reason: &'static str) -> Error {
        Error::Corrupt { file: self.name.clone(), offset: self.index.blocks[block].offset, reason }
    }

    /// The newest version of `key` at or below `main`. No read if the filter knows that there is none.
    ///
    /// # Errors
    /// As [`Table::block`].
    pub(crate) fn get(&self, space: Space, key: &[u8], main: i64) -> Result<Option<Version>> {
        if self.footer.revisions.min > main || !self.filter.may_contain(hash(space, key)) {
            return Ok(None);
        }
        self.find(space, key, main)
    }

    /// As [`Table::get`] for a key that is known to be here.
    pub(crate) fn find(&self, space: Space, key: &[u8], main: i64) -> Result<Option<Version>> {
        let newest = Revision { main, sub: u32::MAX };
        let of = self.index.of(space);
        if of.is_empty() {
            return Ok(None);
        }
        let mut at = self.index.seek(space, key, newest);
        let mut block = self.block(at)?;
        let mut interval_at = block.seek((key, newest)).map_err(|reason| self.corrupt(at, reason))?;
        let mut interval = Interval::default();
        // What is sought is in the interval found or begins the next one.
        for _ in 0..2 {
            block.interval(interval_at, &mut interval).map_err(|reason| self.corrupt(at, reason))?;
            for position in interval.below(key)..interval.len() {
                let (found, version) = interval.entry(position);
                if found != key {
                    return Ok(None);
                }
                if version.revision.main <= main {
                    return Ok(Some(detached(version)));
                }
            }
            interval_at += 1;
            if interval_at == block.n_intervals() {
                at += 1;
                if at == of.end || self.index.blocks[at].first_key != key {
                    return Ok(None);
                }
                (block, interval_at) = (self.block(at)?, 0);
            }
        }
        Ok(None)
    }

    /// Sum of the weights of the versions at or below `main` in `range`.
    ///
    /// # Errors
    /// As [`Table::block`], for at most two blocks if no weight here is newer than `main`.
    pub(crate) fn weight(&self, space: Space, range: &KeyRange, main: i64) -> Result<i64> {
        if range.is_empty() || self.footer.revisions.min > main {
            return Ok(0);
        }
        let of = self.index.of(space);
        let meeting = self.index.meeting(space, range);
        let mut sum = 0i64;
        for at in meeting {
            let entry = &self.index.blocks[at];
            let next = if at + 1 < of.end { Some(&self.index.blocks[at + 1].first_key) } else { None };
            let whole = entry.first_key >= range.start
                && match (&range.end, next) {
                    (None, _) => true,
                    // The next block may begin with further versions of this one's last key.
                    (Some(end), Some(next)) => next < end,
                    (Some(end), None) => self.is_below_end(space, end),
                };
            if entry.revisions.min > main {
                continue;
            }
            if whole && entry.revisions.newest_weight <= main {
                sum += self.index.own(at).weight;
            } else {
                sum += self.weight_in_block(at, range, main)?;
            }
        }
        Ok(sum)
    }

    fn is_below_end(&self, space: Space, end: &[u8]) -> bool {
        self.footer.last.0 == space && self.footer.last.1 < end
    }

    fn weight_in_block(&self, at: usize, range: &KeyRange, main: i64) -> Result<i64> {
        let block = self.block(at)?;
        let corrupt = |reason| self.corrupt(at, reason);
        let top = Revision { main: i64::MAX, sub: u32::MAX };
        let mut interval = Interval::default();
        let mut sum = 0;
        for interval_at in block.seek((&range.start, top)).map_err(corrupt)?..block.n_intervals() {
            block.interval(interval_at, &mut interval).map_err(corrupt)?;
            for position in interval.below(&range.start)..interval.len() {
                let (key, version) = interval.entry(position);
                if range.is_past(key) {
                    return Ok(sum);
                }
                if version.revision.main <= main {
                    sum += i64::from(version.weight);
                }
            }
        }
        Ok(sum)
    }

    /// About how many versions here are at or below `compacted`, without tombstones that a merge would keep,
    /// and what their weights sum to; exact if the table was written at that revision. No read.
    pub(crate) fn base(&self, compacted: i64) -> (u64, i64) {
        if compacted == self.footer.compacted {
            (self.footer.base_versions, self.footer.base_weight)
        } else {
            self.index.about_upto(compacted)
        }
    }

    /// Reads every block and checks that they hold what index and footer say.
    ///
    /// # Errors
    /// [`Error::Corrupt`] at the first block that does not, [`Error::Io`] if one cannot be read.
    pub(crate) fn verify(self: &Arc<Self>) -> Result<()> {
        let mut verification = Verification::new(Arc::clone(self));
        let mut found = Vec::new();
        while !verification.step(u64::MAX, &mut found)? {}
        found.into_iter().next().map_or(Ok(()), Err)
    }
}

/// A version that does not hold its block's memory.
pub(crate) fn detached(version: &Version) -> Version {
    let mut version = version.clone();
    if let Some(crate::types::Value::Inline(bytes)) = &mut version.value {
        *bytes = Bytes::copy_from_slice(bytes);
    }
    version
}

fn read(file: &dyn File, name: &str, offset: u64, len: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    file.read_at(offset, &mut bytes).map_err(|source| Error::io(name, &source))?;
    Ok(bytes)
}

fn read_section(file: &dyn File, name: &str, section: Section, end: u64) -> Result<Bytes> {
    let corrupt = |reason| Error::Corrupt { file: name.to_owned(), offset: section.offset, reason };
    let within = section.offset.checked_add(u64::from(section.len)).is_some_and(|to| to <= end);
    if !within {
        return Err(corrupt("part of a table beyond its end"));
    }
    let bytes = read(file, name, section.offset, section.len as usize)?;
    if crc32fast::hash(&bytes) != section.crc {
        return Err(corrupt("fails its checksum"));
    }
    Ok(bytes.into())
}
