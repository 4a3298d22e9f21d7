//! The bytes of a segment: header, seal, frame header and record head. docs/file-format.md says the same
//! in prose. This file encodes and decodes; it knows no files and no meaning.
//!
//! LAYOUT (little-endian; every crc is CRC-32 IEEE)
//! ```text
//! segment: | header page 4096 | frame | gap to 64 | frame | ... | footer frame |
//! header   | "KLSG" | format u32 | uid u32 | 0 u32 | incarnation u64 | first_seq u64 | crc u32 |       at 0
//! seal     | "KSEL" | uid u32 | incarnation u64 | footer_at u64 | crc u32 |                            at 512
//! frame    | "KFRM" | flags u16 | 0 u16 | uid u32 | offset u32 | incarnation u64 | seq u64 | synced_seq u64
//!          | len u32 | records u32 | records_crc u32 | 0 u32 | 0 u32 | crc u32 | len bytes of records |
//! record   | kind u8 | flags u8 | 0 u16 | group u32 | term u64 | index u64 | body_len u32 | body_crc u32
//!          | head_crc u32 | 0 u32 | body | gap to 8 |
//! ```
//! * `records_crc` covers the record heads, and each head the crc of its body: so one pass over the bodies
//!   checks a frame, and a record can be read and checked without the rest of its frame.
//! * `head_crc` starts from the incarnation, so a head of the file's former life does not pass.
//! * The first record flagged [`LAST`] ends the frame; whoever reads from the middle sees where the next starts.

use super::{GroupId, Kind};
use bytes::{Buf, BufMut};
use crc32fast::Hasher;

/// Version of all the structures here.
pub(super) const FORMAT: u32 = 1;
/// Bytes before the first frame; the header at 0 and the seal at [`SEAL_AT`] lie in different sectors.
pub(super) const HEADER_PAGE: u64 = 4096;
/// Offset of the seal.
pub(super) const SEAL_AT: u64 = 512;
/// Frames start at multiples of this, so that a frame header never straddles two sectors.
pub(super) const FRAME_ALIGN: u64 = 64;
/// Length of a frame header.
pub(super) const FRAME_HEADER: usize = 64;
/// Length of a record head.
pub(super) const RECORD_HEAD: usize = 40;
/// Where in a record head its own crc lies, and so the length of what that covers.
const HEAD_CRC_AT: usize = 32;
/// Records start at multiples of this.
pub(super) const RECORD_ALIGN: usize = 8;

/// Flag of a frame: it is the footer of a sealed segment, its bytes are no records.
pub(super) const FOOTER: u16 = 1;
/// Flag of a frame: no bytes follow; it says only that `synced_seq` was synced. The next frame replaces it.
pub(super) const MARK: u16 = 2;
/// Flag of a record: the last one of its frame.
pub(super) const LAST: u8 = 1;

const SEGMENT_MAGIC: u32 = u32::from_le_bytes(*b"KLSG");
const SEAL_MAGIC: u32 = u32::from_le_bytes(*b"KSEL");
pub(super) const FRAME_MAGIC: u32 = u32::from_le_bytes(*b"KFRM");
const SEGMENT_HEADER_LEN: usize = 36;
const SEAL_LEN: usize = 28;

/// The next frame may start at `offset` or soon after.
pub(super) fn align_frame(offset: u64) -> u64 {
    offset.next_multiple_of(FRAME_ALIGN)
}

/// Bytes that a record with a body of `body_len` takes in its frame.
pub(super) fn record_len(body_len: usize) -> u64 {
    (RECORD_HEAD + body_len.next_multiple_of(RECORD_ALIGN)) as u64
}

/// What the first page of a segment says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    /// Number of this use of the file, unique on this node, rising from 1.
    pub(super) uid: u32,
    /// Drawn at random for each use of the file: frames of another use cannot be taken for this one's.
    pub(super) incarnation: u64,
    /// Seq of the segment's first frame, from 1; all lower ones were durable when this was written.
    pub(super) first_seq: u64,
}

/// What [`SegmentHeader::decode`] found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decoded {
    Header(SegmentHeader),
    /// A segment of another format version.
    Foreign(u32),
    /// Zeros, garbage, or damage.
    Nothing,
}

impl SegmentHeader {
    /// The whole first page; without a seal.
    pub(super) fn encode(&self) -> [u8; HEADER_PAGE as usize] {
        let mut page = [0; HEADER_PAGE as usize];
        let mut at = &mut page[..];
        at.put_u32_le(SEGMENT_MAGIC);
        at.put_u32_le(FORMAT);
        at.put_u32_le(self.uid);
        at.put_u32_le(0);
        at.put_u64_le(self.incarnation);
        at.put_u64_le(self.first_seq);
        put_crc(&mut page[..SEGMENT_HEADER_LEN]);
        page
    }

    pub(super) fn decode(page: &[u8]) -> Decoded {
        let Some(mut at) = checked(page, SEGMENT_HEADER_LEN, SEGMENT_MAGIC) else { return Decoded::Nothing };
        let format = at.get_u32_le();
        if format != FORMAT {
            return Decoded::Foreign(format);
        }
        let uid = at.get_u32_le();
        at.advance(4);
        let (incarnation, first_seq) = (at.get_u64_le(), at.get_u64_le());
        if uid == 0 || first_seq == 0 {
            return Decoded::Nothing;
        }
        Decoded::Header(SegmentHeader { uid, incarnation, first_seq })
    }
}

/// Where the footer of a sealed segment lies. A hint: without it the frames are read one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seal {
    pub(super) uid: u32,
    pub(super) incarnation: u64,
    pub(super) footer_at: u64,
}

impl Seal {
    pub(super) fn encode(&self) -> [u8; SEAL_LEN] {
        let mut bytes = [0; SEAL_LEN];
        let mut at = &mut bytes[..];
        at.put_u32_le(SEAL_MAGIC);
        at.put_u32_le(self.uid);
        at.put_u64_le(self.incarnation);
        at.put_u64_le(self.footer_at);
        put_crc(&mut bytes);
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut at = checked(bytes, SEAL_LEN, SEAL_MAGIC)?;
        Some(Seal { uid: at.get_u32_le(), incarnation: at.get_u64_le(), footer_at: at.get_u64_le() })
    }
}

/// What stands before the records of one group commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameHeader {
    /// [`FOOTER`], [`MARK`] or 0.
    pub(super) flags: u16,
    pub(super) uid: u32,
    /// Offset of the frame in its file: a frame written to the wrong place does not pass.
    pub(super) offset: u32,
    pub(super) incarnation: u64,
    /// Number of the frame: +1 each over all segments. Footers and marks repeat that of the frame before.
    pub(super) seq: u64,
    /// Highest frame that was durable when this one was written.
    pub(super) synced_seq: u64,
    /// Bytes that follow the header.
    pub(super) len: u32,
    pub(super) records: u32,
    /// Of the record heads one after the other; of a footer, of its bytes.
    pub(super) records_crc: u32,
}

impl FrameHeader {
    pub(super) fn encode(&self) -> [u8; FRAME_HEADER] {
        let mut bytes = [0; FRAME_HEADER];
        let mut at = &mut bytes[..];
        at.put_u32_le(FRAME_MAGIC);
        at.put_u16_le(self.flags);
        at.put_u16_le(0);
        at.put_u32_le(self.uid);
        at.put_u32_le(self.offset);
        at.put_u64_le(self.incarnation);
        at.put_u64_le(self.seq);
        at.put_u64_le(self.synced_seq);
        at.put_u32_le(self.len);
        at.put_u32_le(self.records);
        at.put_u32_le(self.records_crc);
        put_crc(&mut bytes);
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut at = checked(bytes, FRAME_HEADER, FRAME_MAGIC)?;
        let flags = at.get_u16_le();
        at.advance(2);
        Some(FrameHeader {
            flags,
            uid: at.get_u32_le(),
            offset: at.get_u32_le(),
            incarnation: at.get_u64_le(),
            seq: at.get_u64_le(),
            synced_seq: at.get_u64_le(),
            len: at.get_u32_le(),
            records: at.get_u32_le(),
            records_crc: at.get_u32_le(),
        })
    }

    /// Whether the frame stands where it says, in this use of this segment.
    pub(super) fn belongs(&self, uid: u32, incarnation: u64, offset: u64) -> bool {
        self.uid == uid && self.incarnation == incarnation && u64::from(self.offset) == offset
    }
}

/// What stands before the body of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordHead {
    pub(super) kind: Kind,
    pub(super) last: bool,
    pub(super) group: GroupId,
    pub(super) term: u64,
    pub(super) index: u64,
    pub(super) body_len: u32,
    pub(super) body_crc: u32,
}

impl RecordHead {
    pub(super) fn encode(&self, incarnation: u64) -> [u8; RECORD_HEAD] {
        let mut bytes = [0; RECORD_HEAD];
        let mut at = &mut bytes[..];
        at.put_u8(self.kind as u8);
        at.put_u8(if self.last { LAST } else { 0 });
        at.put_u16_le(0);
        at.put_u32_le(self.group);
        at.put_u64_le(self.term);
        at.put_u64_le(self.index);
        at.put_u32_le(self.body_len);
        at.put_u32_le(self.body_crc);
        let crc = head_crc(&bytes[..HEAD_CRC_AT], incarnation);
        bytes[HEAD_CRC_AT..HEAD_CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8], incarnation: u64) -> Option<Self> {
        let mut at = bytes.get(..RECORD_HEAD)?;
        let covered = &at[..HEAD_CRC_AT];
        let kind = Kind::decode(at.get_u8())?;
        let last = at.get_u8() & LAST != 0;
        at.advance(2);
        let head = RecordHead {
            kind,
            last,
            group: at.get_u32_le(),
            term: at.get_u64_le(),
            index: at.get_u64_le(),
            body_len: at.get_u32_le(),
            body_crc: at.get_u32_le(),
        };
        (at.get_u32_le() == head_crc(covered, incarnation)).then_some(head)
    }
}

fn head_crc(covered: &[u8], incarnation: u64) -> u32 {
    let mut hasher = Hasher::new_with_initial((incarnation ^ (incarnation >> 32)) as u32);
    hasher.update(covered);
    hasher.finalize()
}

/// A record in the bytes of a frame.
#[derive(Debug)]
pub(super) struct FramedRecord<'a> {
    pub(super) head: RecordHead,
    /// Offset of the head in the file.
    pub(super) offset: u64,
    pub(super) body: &'a [u8],
}

/// The records of a frame whose header passed; `None` if one byte of them is wrong.
pub(super) fn frame_records<'a>(header: &FrameHeader, bytes: &'a [u8]) -> Option<Vec<FramedRecord<'a>>> {
    let mut records = Vec::new();
    let mut heads = Hasher::new();
    let mut at = 0;
    for number in 1..=header.records {
        let head_bytes = bytes.get(at..at + RECORD_HEAD)?;
        let head = RecordHead::decode(head_bytes, header.incarnation)?;
        heads.update(head_bytes);
        let body = bytes.get(at + RECORD_HEAD..)?.get(..head.body_len as usize)?;
        if crc32fast::hash(body) != head.body_crc || head.last != (number == header.records) {
            return None;
        }
        let offset = u64::from(header.offset) + (FRAME_HEADER + at) as u64;
        records.push(FramedRecord { head, offset, body });
        at += record_len(body.len()) as usize;
    }
    (at == bytes.len() && heads.finalize() == header.records_crc).then_some(records)
}

/// Writes the crc of all but the last four bytes into those.
fn put_crc(bytes: &mut [u8]) {
    let (covered, crc) = bytes.split_at_mut(bytes.len() - 4);
    crc.copy_from_slice(&crc32fast::hash(covered).to_le_bytes());
}

/// The fields after the magic, if there are `len` bytes, the magic is right, and so are the last four, the crc.
fn checked(bytes: &[u8], len: usize, magic: u32) -> Option<&[u8]> {
    let bytes = bytes.get(..len)?;
    let (covered, mut crc) = bytes.split_at(len - 4);
    let (mut first, fields) = covered.split_at(4);
    (first.get_u32_le() == magic && crc.get_u32_le() == crc32fast::hash(covered)).then_some(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_decode_to_what_was_encoded_and_not_with_a_bit_flipped() {
        let header = SegmentHeader { uid: 7, incarnation: 0xfeed_beef_1234_5678, first_seq: 99 };
        let seal = Seal { uid: 7, incarnation: 3, footer_at: 1 << 20 };
        let frame = FrameHeader {
            flags: FOOTER,
            uid: 1,
            offset: 4096,
            incarnation: 2,
            seq: 3,
            synced_seq: 4,
            len: 5,
            records: 6,
            records_crc: 7,
        };
        let head = RecordHead {
            kind: Kind::Part,
            last: true,
            group: 1,
            term: 2,
            index: 3,
            body_len: 4,
            body_crc: 5,
        };
        assert_eq!(SegmentHeader::decode(&header.encode()), Decoded::Header(header));
        assert_eq!(Seal::decode(&seal.encode()), Some(seal));
        assert_eq!(FrameHeader::decode(&frame.encode()), Some(frame));
        assert_eq!(RecordHead::decode(&head.encode(9), 9), Some(head));
        assert_eq!(RecordHead::decode(&head.encode(9), 8), None, "a head of another incarnation");
        for bit in 0..SEGMENT_HEADER_LEN * 8 {
            let mut page = header.encode();
            page[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(SegmentHeader::decode(&page), Decoded::Nothing, "bit {bit}");
        }
        for bit in 0..FRAME_HEADER * 8 {
            let mut bytes = frame.encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(FrameHeader::decode(&bytes), None, "bit {bit}");
        }
        for bit in 0..(HEAD_CRC_AT + 4) * 8 {
            let mut bytes = head.encode(9);
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(RecordHead::decode(&bytes, 9), None, "bit {bit}");
        }
    }

    #[test]
    fn another_format_version_is_told_from_damage() {
        let mut page = SegmentHeader { uid: 1, incarnation: 1, first_seq: 1 }.encode();
        page[4] = 9;
        assert_eq!(SegmentHeader::decode(&page), Decoded::Nothing, "a flipped byte is damage");
        put_crc(&mut page[..SEGMENT_HEADER_LEN]);
        assert_eq!(SegmentHeader::decode(&page), Decoded::Foreign(9), "a whole header of version 9");
    }
}
