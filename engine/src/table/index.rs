//! The block index of a table: where each block lies, where it begins, and what it adds up to.
//!
//! It is held in memory while the table is open. The sums make counts cheap: a count over a range is a
//! difference of two running totals and a look into the blocks at its ends.
//!
//! LAYOUT: `| n_blocks u32 | block ... |` (numbers LEB128, signed ones zig-zag)
//! ```text
//! block: | space u8 | first_key len, bytes | first main | first sub | offset | len | crc u32
//!        | weight | versions | value_bytes | min_rev | max_rev | newest_weight |
//! ```
//! `weight`, `versions`, `value_bytes` are running totals up to and with this block.

use std::cmp::Ordering;
use std::ops::Range;

use bytes::{BufMut, Bytes};

use super::block::order;
use super::fields::{Fields, Reason};
use super::{KeyRange, Version};
use crate::batch::{put_varint, zigzag};
use crate::types::{Revision, Space};

/// What versions add up to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Sums {
    /// Sum of their weights.
    pub(crate) weight: i64,
    /// Their number.
    pub(crate) versions: u64,
    /// Length of their values, inline or in the log.
    pub(crate) value_bytes: u64,
}

/// Which revisions a block or a table holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Revisions {
    /// Lowest main revision.
    pub(crate) min: i64,
    /// Highest main revision.
    pub(crate) max: i64,
    /// Highest main revision of a version whose weight is not 0; 0 if there is none.
    pub(crate) newest_weight: i64,
}

/// One block.
#[derive(Debug, Clone)]
pub(crate) struct BlockEntry {
    pub(crate) space: Space,
    /// Key of the first entry.
    pub(crate) first_key: Bytes,
    /// Revision of the first entry.
    pub(crate) first_revision: Revision,
    /// Where the block begins in the file.
    pub(crate) offset: u64,
    /// Length of the block, bytes.
    pub(crate) len: u32,
    /// CRC-32 of the block.
    pub(crate) crc: u32,
    /// Running totals up to and with this block.
    pub(crate) totals: Sums,
    pub(crate) revisions: Revisions,
}

/// All blocks of a table, in order.
#[derive(Debug, Default)]
pub(crate) struct BlockIndex {
    pub(crate) blocks: Vec<BlockEntry>,
}

impl Sums {
    pub(crate) fn add(&mut self, version: &Version) {
        self.weight += i64::from(version.weight);
        self.versions += 1;
        self.value_bytes += version.value.as_ref().map_or(0, |value| value.len() as u64);
    }
}

impl Revisions {
    /// Of nothing.
    pub(crate) const NONE: Revisions = Revisions { min: i64::MAX, max: i64::MIN, newest_weight: 0 };

    pub(crate) fn add(&mut self, version: &Version) {
        let main = version.revision.main;
        self.min = self.min.min(main);
        self.max = self.max.max(main);
        if version.weight != 0 {
            self.newest_weight = self.newest_weight.max(main);
        }
    }

    /// Whether a revision within `window` (both ends belong to it) may be among them.
    pub(crate) fn meet(&self, window: (i64, i64)) -> bool {
        self.min <= window.1 && self.max >= window.0
    }
}

impl BlockEntry {
    /// Appends the entry's bytes.
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.put_u8(self.space as u8);
        put_varint(bytes, self.first_key.len() as u64);
        bytes.put_slice(&self.first_key);
        put_varint(bytes, zigzag(self.first_revision.main));
        put_varint(bytes, u64::from(self.first_revision.sub));
        put_varint(bytes, self.offset);
        put_varint(bytes, u64::from(self.len));
        bytes.put_u32_le(self.crc);
        put_varint(bytes, zigzag(self.totals.weight));
        put_varint(bytes, self.totals.versions);
        put_varint(bytes, self.totals.value_bytes);
        put_varint(bytes, zigzag(self.revisions.min));
        put_varint(bytes, zigzag(self.revisions.max));
        put_varint(bytes, zigzag(self.revisions.newest_weight));
    }

    fn decode(fields: &mut Fields<'_>, whole: &Bytes) -> Result<Self, Reason> {
        Ok(BlockEntry {
            space: decode_space(fields)?,
            first_key: fields.shared_string(whole)?,
            first_revision: Revision { main: fields.zigzag()?, sub: fields.varint32()? },
            offset: fields.varint()?,
            len: fields.varint32()?,
            crc: fields.u32()?,
            totals: Sums {
                weight: fields.zigzag()?,
                versions: fields.varint()?,
                value_bytes: fields.varint()?,
            },
            revisions: Revisions {
                min: fields.zigzag()?,
                max: fields.zigzag()?,
                newest_weight: fields.zigzag()?,
            },
        })
    }

    fn cmp(&self, space: Space, key: &[u8], revision: Revision) -> Ordering {
        let same = order((&self.first_key, self.first_revision), (key, revision));
        self.space.cmp(&space).then(same)
    }
}

/// Reads a space's number.
pub(crate) fn decode_space(fields: &mut Fields<'_>) -> Result<Space, Reason> {
    match fields.u8()? {
        1 => Ok(Space::Kv),
        2 => Ok(Space::Lease),
        _ => Err("unknown space"),
    }
}

impl BlockIndex {
    /// Reads an index; the blocks must follow each other without a gap from `start` to `end`.
    pub(crate) fn decode(whole: &Bytes, start: u64, end: u64) -> Result<Self, Reason> {
        let mut fields = Fields::new(whole, 0);
        let n_blocks = fields.u32()? as usize;
        // An entry has more than 16 bytes, so a lie about their number cannot make this allocate much.
        let mut blocks: Vec<BlockEntry> = Vec::with_capacity(n_blocks.min(whole.len() / 16));
        let mut next = start;
        for _ in 0..n_blocks {
            let entry = BlockEntry::decode(&mut fields, whole)?;
            if entry.offset != next {
                return Err("blocks do not follow each other");
            }
            next = next.checked_add(u64::from(entry.len)).ok_or("block beyond its table")?;
            if let Some(before) = blocks.last() {
                if before.cmp(entry.space, &entry.first_key, entry.first_revision) != Ordering::Less {
                    return Err("blocks out of order");
                }
                if before.totals.versions >= entry.totals.versions {
                    return Err("a block without versions");
                }
            }
            blocks.push(entry);
        }
        fields.end()?;
        if next != end {
            return Err("blocks do not end where the filter begins");
        }
        Ok(BlockIndex { blocks })
    }

    /// The blocks of a space.
    pub(crate) fn of(&self, space: Space) -> Range<usize> {
        self.blocks.partition_point(|block| block.space < space)
            ..self.blocks.partition_point(|block| block.space <= space)
    }

    /// The last block of the space that begins at or before `(key, revision)`; the space's first if none does.
    pub(crate) fn seek(&self, space: Space, key: &[u8], revision: Revision) -> usize {
        let of = self.of(space);
        let after = self.blocks.partition_point(|block| block.cmp(space, key, revision) != Ordering::Greater);
        after.saturating_sub(1).max(of.start)
    }

    /// The blocks that may hold keys of `range`.
    pub(crate) fn meeting(&self, space: Space, range: &KeyRange) -> Range<usize> {
        let of = self.of(space);
        let blocks = &self.blocks[of.clone()];
        let to = blocks.partition_point(|block| !range.is_past(&block.first_key));
        // Strictly below: the versions of one key may go over from one block to the next.
        let from = blocks.partition_point(|block| block.first_key < range.start).saturating_sub(1);
        of.start + from.min(to)..of.start + to
    }

    /// What the block at `at` adds up to alone.
    pub(crate) fn own(&self, at: usize) -> Sums {
        let (totals, before) = (self.blocks[at].totals, self.totals_before(at));
        Sums {
            weight: totals.weight.wrapping_sub(before.weight),
            versions: totals.versions.wrapping_sub(before.versions),
            value_bytes: totals.value_bytes.wrapping_sub(before.value_bytes),
        }
    }

    /// The running totals before the block at `at`.
    pub(crate) fn totals_before(&self, at: usize) -> Sums {
        at.checked_sub(1).map_or(Sums::default(), |before| self.blocks[before].totals)
    }

    /// About how many versions have a revision at or below `main`, and what their weights sum to: within a
    /// block, versions and weights count as evenly spread over its revisions.
    pub(crate) fn about_upto(&self, main: i64) -> (u64, i64) {
        let mut about = (0, 0);
        for at in 0..self.blocks.len() {
            let (own, revisions) = (self.own(at), self.blocks[at].revisions);
            let all = i128::from(revisions.max) - i128::from(revisions.min) + 1;
            let below = (i128::from(main) - i128::from(revisions.min) + 1).clamp(0, all.max(0));
            let share = |of: i128| if all > 0 { of * below / all } else { 0 };
            about.0 += u64::try_from(share(own.versions.into())).unwrap_or(0);
            about.1 += i64::try_from(share(own.weight.into())).unwrap_or(0);
        }
        about
    }
}
