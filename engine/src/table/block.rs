//! A block: the unit in which a table is read, checked and cached.
//!
//! Entries of one space, keys ascending and revisions descending, in intervals: the first entry of an
//! interval stands for itself, the others share a prefix with the key before and state their revision as a
//! difference. The offsets of the intervals end the block, so that a search can begin in the middle.
//!
//! LAYOUT (`varint` is LEB128, `zigzag` a varint of the zig-zag form)
//! ```text
//! | entry ... | interval offset u32 ... | n_intervals u32 |
//! entry: | shared varint | rest_len varint | rest of the key | flags u8 | main zigzag | sub varint, if flagged |
//!        | main - create zigzag | version varint | lease zigzag, if flagged | weight zigzag, if flagged |
//!        | inline value: len varint, bytes; or pointer: segment, offset, len varint, crc u32 |
//! flags: bit 0 tombstone, 1 inline value, 2 sub, 3 lease, 4-5 weight: 0, +1, -1, or 3: stated
//! ```
//! `main` is the difference to the entry before, or itself in the first entry of an interval.
//! The decoder takes any bytes without panicking.

use std::cmp::Ordering;

use bytes::{BufMut, Bytes};

use super::Version;
use super::fields::{Fields, Reason};
use crate::batch::{put_varint, zigzag};
use crate::types::{Pointer, Revision, Value};

/// Entries of an interval.
const INTERVAL_ENTRIES: usize = 16;

const TOMBSTONE: u8 = 1;
const INLINE: u8 = 1 << 1;
const SUB: u8 = 1 << 2;
const LEASE: u8 = 1 << 3;
const WEIGHT_SHIFT: u8 = 4;
const FLAGS_MAX: u8 = (1 << 6) - 1;

/// The order of entries: key ascending, then revision descending.
pub(crate) fn order(a: (&[u8], Revision), b: (&[u8], Revision)) -> Ordering {
    a.0.cmp(b.0).then_with(|| b.1.cmp(&a.1))
}

/// Collects entries into a block's bytes.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    bytes: Vec<u8>,
    intervals: Vec<u32>,
    last_key: Vec<u8>,
    last_main: i64,
    entries: usize,
}

impl Builder {
    /// Appends an entry; the caller keeps the order.
    pub(crate) fn add(&mut self, key: &[u8], version: &Version) {
        let bytes = &mut self.bytes;
        if self.entries.is_multiple_of(INTERVAL_ENTRIES) {
            self.intervals.push(u32::try_from(bytes.len()).expect("a block is far below 4 GiB"));
            self.last_key.clear();
            self.last_main = 0;
        }
        self.entries += 1;
        let shared = self.last_key.iter().zip(key).take_while(|(a, b)| a == b).count();
        put_varint(bytes, shared as u64);
        put_varint(bytes, (key.len() - shared) as u64);
        bytes.put_slice(&key[shared..]);
        put_version(bytes, version, self.last_main);
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(&key[shared..]);
        self.last_main = version.revision.main;
    }

    /// Bytes that the block would have now.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len() + 4 * self.intervals.len() + 4
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// The block's bytes; the builder is empty afterwards.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.bytes);
        for interval in &self.intervals {
            bytes.put_u32_le(*interval);
        }
        bytes.put_u32_le(u32::try_from(self.intervals.len()).expect("fewer than bytes"));
        *self = Builder::default();
        bytes
    }
}

fn put_version(bytes: &mut Vec<u8>, version: &Version, last_main: i64) {
    let weight_code = match version.weight {
        0 => 0,
        1 => 1,
        -1 => 2,
        _ => 3,
    };
    let kind = match &version.value {
        None => TOMBSTONE,
        Some(Value::Inline(_)) => INLINE,
        Some(Value::Pointer(_)) => 0,
    };
    let sub = if version.revision.sub == 0 { 0 } else { SUB };
    let lease = if version.lease == 0 { 0 } else { LEASE };
    bytes.put_u8(kind | sub | lease | weight_code << WEIGHT_SHIFT);
    put_varint(bytes, zigzag(version.revision.main.wrapping_sub(last_main)));
    if sub != 0 {
        put_varint(bytes, u64::from(version.revision.sub));
    }
    put_varint(bytes, zigzag(version.revision.main.wrapping_sub(version.create)));
    put_varint(bytes, version.version.cast_unsigned());
    if lease != 0 {
        put_varint(bytes, zigzag(version.lease));
    }
    if weight_code == 3 {
        put_varint(bytes, zigzag(i64::from(version.weight)));
    }
    match &version.value {
        None => {}
        Some(Value::Inline(value)) => {
            put_varint(bytes, value.len() as u64);
            bytes.put_slice(value);
        }
        Some(Value::Pointer(pointer)) => {
            put_varint(bytes, u64::from(pointer.segment));
            put_varint(bytes, u64::from(pointer.offset));
            put_varint(bytes, u64::from(pointer.len));
            bytes.put_u32_le(pointer.crc);
        }
    }
}

/// A block whose checksum was verified.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    bytes: Bytes,
    /// Offset of the interval offsets.
    entries_end: usize,
    n_intervals: usize,
}

/// The decoded entries of one interval.
#[derive(Debug, Default)]
pub(crate) struct Interval {
    /// The keys' bytes, one after the other.
    keys: Vec<u8>,
    entries: Vec<((usize, usize), Version)>,
}

impl Interval {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Key and version at `at`; an inline value is a slice of the block.
    pub(crate) fn entry(&self, at: usize) -> (&[u8], &Version) {
        let ((from, to), version) = &self.entries[at];
        (&self.keys[*from..*to], version)
    }

    /// Entries with a key below `key`.
    pub(crate) fn below(&self, key: &[u8]) -> usize {
        self.entries.partition_point(|((from, to), _)| &self.keys[*from..*to] < key)
    }

    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.entries.clear();
    }
}

impl Block {
    /// Looks at the block's frame; entries are decoded when they are needed.
    pub(crate) fn new(bytes: Bytes) -> Result<Self, Reason> {
        let n_at = bytes.len().checked_sub(4).ok_or("block without intervals")?;
        let n_intervals = Fields::new(&bytes, n_at).u32()? as usize;
        let table = n_intervals.checked_mul(4).ok_or("too many intervals in a block")?;
        let entries_end = n_at.checked_sub(table).ok_or("too many intervals in a block")?;
        let block = Block { bytes, entries_end, n_intervals };
        let ascending = (1..n_intervals).all(|at| block.offset(at - 1) < block.offset(at));
        if n_intervals == 0 || block.offset(0) != 0 || !ascending {
            return Err("intervals of a block out of order");
        }
        if block.offset(n_intervals - 1) >= entries_end {
            return Err("interval beyond the entries of its block");
        }
        Ok(block)
    }

    pub(crate) fn n_intervals(&self) -> usize {
        self.n_intervals
    }

    /// Bytes of the block.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Decodes interval `at` into `out`.
    pub(crate) fn interval(&self, at: usize, out: &mut Interval) -> Result<(), Reason> {
        out.clear();
        let end = if at + 1 < self.n_intervals { self.offset(at + 1) } else { self.entries_end };
        let mut fields = Fields::new(&self.bytes[..end], self.offset(at));
        let mut last_main = 0i64;
        let mut last_key = (0, 0);
        while fields.left() > 0 {
            last_key = key(&mut fields, last_key, &mut out.keys)?;
            let version = self.version(&mut fields, last_main)?;
            last_main = version.revision.main;
            out.entries.push((last_key, version));
        }
        Ok(())
    }

    /// The last interval that begins at or before `target`; 0 if none does.
    pub(crate) fn seek(&self, target: (&[u8], Revision)) -> Result<usize, Reason> {
        let (mut low, mut high) = (0, self.n_intervals);
        while high - low > 1 {
            let middle = low.midpoint(high);
            if order(self.first(middle)?, target) == Ordering::Greater {
                high = middle;
            } else {
                low = middle;
            }
        }
        Ok(low)
    }

    /// Key and revision of the first entry of interval `at`.
    fn first(&self, at: usize) -> Result<(&[u8], Revision), Reason> {
        let mut fields = Fields::new(&self.bytes[..self.entries_end], self.offset(at));
        if fields.varint()? != 0 {
            return Err("an interval begins with a shared prefix");
        }
        let key = fields.string()?;
        let flags = fields.u8()?;
        let main = fields.zigzag()?;
        let sub = if flags & SUB != 0 { fields.varint32()? } else { 0 };
        Ok((key, Revision { main, sub }))
    }

    fn offset(&self, interval: usize) -> usize {
        let at = self.entries_end + 4 * interval;
        u32::from_le_bytes(self.bytes[at..at + 4].try_into().expect("4 bytes")) as usize
    }

    fn version(&self, fields: &mut Fields<'_>, last_main: i64) -> Result<Version, Reason> {
        let flags = fields.u8()?;
        if flags > FLAGS_MAX || flags & (TOMBSTONE | INLINE) == TOMBSTONE | INLINE {
            return Err("unknown flags of an entry");
        }
        let main = fields.zigzag()?.wrapping_add(last_main);
        let sub = if flags & SUB != 0 { fields.varint32()? } else { 0 };
        let create = main.wrapping_sub(fields.zigzag()?);
        let version = fields.varint()?.cast_signed();
        let lease = if flags & LEASE != 0 { fields.zigzag()? } else { 0 };
        let weight = match flags >> WEIGHT_SHIFT {
            0 => 0,
            1 => 1,
            2 => -1,
            _ => i32::try_from(fields.zigzag()?).map_err(|_| "weight out of range")?,
        };
        let value = if flags & TOMBSTONE != 0 {
            None
        } else if flags & INLINE != 0 {
            Some(Value::Inline(fields.shared_string(&self.bytes)?))
        } else {
            let (segment, offset, len) = (fields.varint32()?, fields.varint32()?, fields.varint32()?);
            Some(Value::Pointer(Pointer { segment, offset, len, crc: fields.u32()? }))
        };
        Ok(Version { revision: Revision { main, sub }, create, version, lease, weight, value })
    }
}

/// Decodes a key behind the others in `keys`; `last` is where the key before lies.
fn key(fields: &mut Fields<'_>, last: (usize, usize), keys: &mut Vec<u8>) -> Result<(usize, usize), Reason> {
    let shared = usize::try_from(fields.varint()?).map_err(|_| "length out of range")?;
    if shared > last.1 - last.0 {
        return Err("a key shares more than the key before has");
    }
    let rest = fields.string()?;
    if rest.is_empty() && shared == last.1 - last.0 && shared > 0 {
        return Ok(last);
    }
    let from = keys.len();
    keys.extend_from_within(last.0..last.0 + shared);
    keys.extend_from_slice(rest);
    Ok((from, keys.len()))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn any_version() -> impl Strategy<Value = Version> {
        let value = prop_oneof![
            Just(None),
            proptest::collection::vec(any::<u8>(), 0..64).prop_map(|v| Some(Value::Inline(v.into()))),
            any::<(u32, u32, u32, u32)>().prop_map(|(segment, offset, len, crc)| Some(Value::Pointer(
                Pointer { segment, offset, len, crc }
            ))),
        ];
        (any::<(i64, i64, i64, i64)>(), prop_oneof![Just(0u32), any::<u32>()], -3i32..4, value).prop_map(
            |((main, create, version, lease), sub, weight, value)| Version {
                revision: Revision { main, sub },
                create,
                version,
                lease: lease % 3,
                weight,
                value,
            },
        )
    }

    fn any_entries() -> impl Strategy<Value = Vec<(Vec<u8>, Version)>> {
        let key = proptest::collection::vec(0u8..3, 0..6);
        proptest::collection::vec((key, any_version()), 1..100).prop_map(|mut entries| {
            entries.sort_by(|a, b| order((&a.0, a.1.revision), (&b.0, b.1.revision)));
            entries.dedup_by(|a, b| a.0 == b.0 && a.1.revision == b.1.revision);
            entries
        })
    }

    fn build(entries: &[(Vec<u8>, Version)]) -> Vec<u8> {
        let mut builder = Builder::default();
        for (key, version) in entries {
            builder.add(key, version);
        }
        let size = builder.size();
        let bytes = builder.finish();
        assert_eq!(bytes.len(), size);
        assert!(builder.is_empty());
        bytes
    }

    proptest! {
        #[test]
        fn entries_come_back_and_are_found(entries in any_entries()) {
            let block = Block::new(build(&entries).into()).unwrap();
            let mut interval = Interval::default();
            let mut got = Vec::new();
            for at in 0..block.n_intervals() {
                block.interval(at, &mut interval).unwrap();
                got.extend((0..interval.len()).map(|at| {
                    let (key, version) = interval.entry(at);
                    (key.to_vec(), version.clone())
                }));
            }
            prop_assert_eq!(&got, &entries);
            for (position, (key, version)) in entries.iter().enumerate() {
                prop_assert_eq!(block.seek((key, version.revision)).unwrap(), position / INTERVAL_ENTRIES);
            }
        }

        #[test]
        fn any_bytes_are_refused_or_read_without_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            n in 0u32..6,
        ) {
            let mut framed = bytes.clone();
            framed.put_u32_le(0);
            framed.put_u32_le(1);
            let mut counted = bytes.clone();
            counted.put_u32_le(n);
            for bytes in [bytes, framed, counted] {
                let Ok(block) = Block::new(bytes.into()) else { continue };
                let mut interval = Interval::default();
                let _ = block.seek((b"a", Revision::default()));
                for at in 0..block.n_intervals() {
                    let _ = block.interval(at, &mut interval);
                }
            }
        }

        #[test]
        fn a_flipped_bit_never_panics(entries in any_entries(), at in any::<proptest::sample::Index>(), bit in 0u8..8) {
            let mut bytes = build(&entries);
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            if let Ok(block) = Block::new(bytes.into()) {
                let mut interval = Interval::default();
                let _ = block.seek((b"a", Revision::default()));
                for at in 0..block.n_intervals() {
                    let _ = block.interval(at, &mut interval);
                }
            }
        }
    }
}
