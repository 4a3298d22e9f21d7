//! The end of a table: what it holds as a whole, and where its parts are.
//!
//! LAYOUT of the footer (numbers LEB128, signed ones zig-zag)
//! ```text
//! | uid | filter: offset, len, crc u32 | index: offset, len, crc u32 | compacted | base_versions | base_weight | keys
//! | versions | weight | value_bytes | min_rev | max_rev | newest_weight | first: space u8, len, key | last: space u8, len, key
//! | n_segments | uid, bytes ... | applied revision | n_groups | group, index ... |
//! ```
//! and of the fixed trailer behind it: `| offset u64 | len u32 | crc u32 | magic u32 |`, the last bytes of the
//! file. The manifest holds the table's length and the CRC of its trailer, the trailer that of the footer,
//! the footer those of filter and index, the index those of the blocks: so every byte is covered.

use std::collections::BTreeMap;

use bytes::{BufMut, Bytes};

use super::Applied;
use super::fields::{Fields, Reason};
use super::index::{Revisions, Sums, decode_space};
use crate::batch::{put_varint, zigzag};
use crate::types::Space;

/// Length of the header of a table: magic u32, format u16, zero u16, uid u64, crc u32.
pub(crate) const HEADER_LEN: usize = 20;
/// Length of the trailer.
pub(crate) const TRAILER_LEN: usize = 20;
/// The format that this program writes and reads.
pub(crate) const FORMAT: u16 = 1;
const HEADER_MAGIC: u32 = u32::from_le_bytes(*b"KTAB");
const TRAILER_MAGIC: u32 = u32::from_le_bytes(*b"KEND");

/// A part of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) offset: u64,
    pub(crate) len: u32,
    pub(crate) crc: u32,
}

/// What a table says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Footer {
    /// Number of the table; its file is named after it.
    pub(crate) uid: u64,
    pub(crate) filter: Section,
    pub(crate) index: Section,
    /// Compaction revision by whose rule the table was written.
    pub(crate) compacted: i64,
    /// Versions at or below `compacted`, without tombstones exactly at it: of these, those that are not
    /// visible at `compacted` are superfluous.
    pub(crate) base_versions: u64,
    /// Sum of the weights of the versions at or below `compacted`.
    pub(crate) base_weight: i64,
    /// Distinct keys.
    pub(crate) keys: u64,
    pub(crate) sums: Sums,
    pub(crate) revisions: Revisions,
    pub(crate) first: (Space, Bytes),
    pub(crate) last: (Space, Bytes),
    /// Bytes of values that versions of this table point to, by segment of the log.
    pub(crate) segments: BTreeMap<u32, u64>,
    /// The table, with all older ones, holds exactly what was applied up to here.
    pub(crate) applied: Applied,
}

/// The fixed header's bytes.
pub(crate) fn encode_header(uid: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_LEN);
    bytes.put_u32_le(HEADER_MAGIC);
    bytes.put_u16_le(FORMAT);
    bytes.put_u16_le(0);
    bytes.put_u64_le(uid);
    let crc = crc32fast::hash(&bytes);
    bytes.put_u32_le(crc);
    bytes
}

/// What the header of a table holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) format: u16,
    pub(crate) uid: u64,
}

/// Reads the header; the caller judges the format.
pub(crate) fn decode_header(bytes: &[u8]) -> Result<Header, Reason> {
    let mut fields = Fields::new(bytes, 0);
    let covered = fields.take(HEADER_LEN - 4)?;
    if fields.u32()? != crc32fast::hash(covered) {
        return Err("header fails its checksum");
    }
    let mut fields = Fields::new(covered, 0);
    if fields.u32()? != HEADER_MAGIC {
        return Err("not a table");
    }
    let format = fields.u16()?;
    if fields.u16()? != 0 {
        return Err("unknown flags of a table");
    }
    Ok(Header { format, uid: fields.u64()? })
}

/// The fixed trailer's bytes.
pub(crate) fn encode_trailer(footer: Section) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(TRAILER_LEN);
    bytes.put_u64_le(footer.offset);
    bytes.put_u32_le(footer.len);
    bytes.put_u32_le(footer.crc);
    bytes.put_u32_le(TRAILER_MAGIC);
    bytes
}

/// Reads the trailer; its checksum is the caller's, who has it from the manifest.
pub(crate) fn decode_trailer(bytes: &[u8]) -> Result<Section, Reason> {
    let mut fields = Fields::new(bytes, 0);
    let section = decode_section_fixed(&mut fields)?;
    if fields.u32()? != TRAILER_MAGIC {
        return Err("table without its end");
    }
    fields.end()?;
    Ok(section)
}

fn decode_section_fixed(fields: &mut Fields<'_>) -> Result<Section, Reason> {
    Ok(Section { offset: fields.u64()?, len: fields.u32()?, crc: fields.u32()? })
}

impl Section {
    fn encode(self, bytes: &mut Vec<u8>) {
        put_varint(bytes, self.offset);
        put_varint(bytes, u64::from(self.len));
        bytes.put_u32_le(self.crc);
    }

    fn decode(fields: &mut Fields<'_>) -> Result<Self, Reason> {
        Ok(Section { offset: fields.varint()?, len: fields.varint32()?, crc: fields.u32()? })
    }
}

impl Applied {
    /// Appends the boundary's bytes.
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        put_varint(bytes, zigzag(self.revision));
        put_varint(bytes, self.groups.len() as u64);
        for (group, index) in &self.groups {
            put_varint(bytes, u64::from(*group));
            put_varint(bytes, *index);
        }
    }

    /// Reads a boundary.
    pub(crate) fn decode(fields: &mut Fields<'_>) -> Result<Self, Reason> {
        let mut applied = Applied { revision: fields.zigzag()?, ..Applied::default() };
        for _ in 0..fields.length()? {
            applied.groups.insert(fields.varint32()?, fields.varint()?);
        }
        Ok(applied)
    }
}

impl Footer {
    /// The footer's bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, self.uid);
        self.filter.encode(&mut bytes);
        self.index.encode(&mut bytes);
        put_varint(&mut bytes, zigzag(self.compacted));
        put_varint(&mut bytes, self.base_versions);
        put_varint(&mut bytes, zigzag(self.base_weight));
        put_varint(&mut bytes, self.keys);
        put_varint(&mut bytes, self.sums.versions);
        put_varint(&mut bytes, zigzag(self.sums.weight));
        put_varint(&mut bytes, self.sums.value_bytes);
        put_varint(&mut bytes, zigzag(self.revisions.min));
        put_varint(&mut bytes, zigzag(self.revisions.max));
        put_varint(&mut bytes, zigzag(self.revisions.newest_weight));
        for (space, key) in [&self.first, &self.last] {
            bytes.put_u8(*space as u8);
            put_varint(&mut bytes, key.len() as u64);
            bytes.put_slice(key);
        }
        put_varint(&mut bytes, self.segments.len() as u64);
        for (segment, live) in &self.segments {
            put_varint(&mut bytes, u64::from(*segment));
            put_varint(&mut bytes, *live);
        }
        self.applied.encode(&mut bytes);
        bytes
    }

    /// Reads a footer.
    pub(crate) fn decode(whole: &Bytes) -> Result<Self, Reason> {
        let mut fields = Fields::new(whole, 0);
        let fields = &mut fields;
        let uid = fields.varint()?;
        let filter = Section::decode(fields)?;
        let index = Section::decode(fields)?;
        let compacted = fields.zigzag()?;
        let base_versions = fields.varint()?;
        let base_weight = fields.zigzag()?;
        let keys = fields.varint()?;
        let versions = fields.varint()?;
        let sums = Sums { versions, weight: fields.zigzag()?, value_bytes: fields.varint()? };
        let revisions =
            Revisions { min: fields.zigzag()?, max: fields.zigzag()?, newest_weight: fields.zigzag()? };
        let first = (decode_space(fields)?, fields.shared_string(whole)?);
        let last = (decode_space(fields)?, fields.shared_string(whole)?);
        let mut segments = BTreeMap::new();
        for _ in 0..fields.length()? {
            segments.insert(fields.varint32()?, fields.varint()?);
        }
        let applied = Applied::decode(fields)?;
        fields.end()?;
        Ok(Footer {
            uid,
            filter,
            index,
            compacted,
            base_versions,
            base_weight,
            keys,
            sums,
            revisions,
            first,
            last,
            segments,
            applied,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn footer() -> Footer {
        Footer {
            uid: 7,
            filter: Section { offset: 100, len: 32, crc: 1 },
            index: Section { offset: 132, len: 99, crc: 2 },
            compacted: 5,
            base_versions: 4,
            base_weight: 3,
            keys: 3,
            sums: Sums { weight: 2, versions: 9, value_bytes: 1000 },
            revisions: Revisions { min: 4, max: 20, newest_weight: 18 },
            first: (Space::Kv, Bytes::from_static(b"a")),
            last: (Space::Lease, Bytes::from_static(b"z")),
            segments: BTreeMap::from([(1, 500), (9, 500)]),
            applied: Applied { revision: 20, groups: BTreeMap::from([(0, 44), (3, 7)]) },
        }
    }

    #[test]
    fn a_footer_comes_back() {
        assert_eq!(Footer::decode(&footer().encode().into()), Ok(footer()));
        let section = Section { offset: 1 << 40, len: 77, crc: 0xdead_beef };
        assert_eq!(decode_trailer(&encode_trailer(section)), Ok(section));
        assert_eq!(decode_header(&encode_header(12)), Ok(Header { format: FORMAT, uid: 12 }));
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Footer::decode(&bytes.clone().into());
            let _ = decode_trailer(&bytes);
            let _ = super::super::index::BlockIndex::decode(&bytes.clone().into(), 0, 100);
            prop_assert!(decode_header(&bytes).is_err());
        }

        #[test]
        fn a_damaged_footer_is_refused_or_read_without_panic(at in any::<proptest::sample::Index>(), byte in any::<u8>()) {
            let mut bytes = footer().encode();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let _ = Footer::decode(&bytes.into());
        }
    }
}
