//! A frame being filled, then written: the records of one group commit, laid out at their final place.
//!
//! Where a record will lie is known when it is appended, so pointers into it can be made before it is
//! written. Large bodies are not copied: the frame is a list of slices for one `pwritev`, in which `glue`
//! (headers, heads, padding, small bodies) alternates with bodies.
//!
//! INVARIANT A frame is filled under the log's lock and sealed and written without it; crcs are computed
//! only while sealing, by the committer.

use super::format::{
    FRAME_HEADER, FrameHeader, RECORD_ALIGN, RECORD_HEAD, RecordHead, SegmentHeader, record_len,
};
use super::segment::Segment;
use super::{GroupId, Kind, Record};
use bytes::Bytes;
use crc32fast::Hasher;
use std::io::IoSlice;
use std::sync::Arc;

/// Bodies up to this length are copied into the glue: a copy costs less than two more slices.
const COPIED_BODY_MAX: usize = 512;

/// The records of one group commit.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) segment: Arc<Segment>,
    /// Where the frame starts in its segment.
    pub(super) offset: u64,
    pub(super) seq: u64,
    /// Whether the segment's header is written with this frame, its first.
    pub(super) activates: bool,
    /// Ticket of the last record.
    pub(super) ticket: u64,
    /// Votes in the frame, oldest first.
    pub(super) votes: Vec<(GroupId, Bytes)>,
    /// Per truncation in the frame: entries of the group in older segments are dead from that index on.
    pub(super) cuts: Vec<(GroupId, u64)>,
    /// All that is written but the large bodies, in order; starts with room for the frame header.
    glue: Vec<u8>,
    records: Vec<Framed>,
    /// Bytes of records so far, padding included.
    len: u64,
}

#[derive(Debug)]
struct Framed {
    /// Where in the glue the head lies.
    head_at: usize,
    head: RecordHead,
    /// The body, if it is not in the glue behind the head.
    body: Option<Bytes>,
}

impl Frame {
    pub(super) fn new(segment: Arc<Segment>, offset: u64, seq: u64, activates: bool) -> Self {
        Frame {
            segment,
            offset,
            seq,
            activates,
            ticket: 0,
            votes: Vec::new(),
            cuts: Vec::new(),
            glue: vec![0; FRAME_HEADER],
            records: Vec::new(),
            len: 0,
        }
    }

    /// Offset in the segment after the last record.
    pub(super) fn end(&self) -> u64 {
        self.offset + FRAME_HEADER as u64 + self.len
    }

    /// Bytes of records so far.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Adds a record; returns the offset of its head in the segment.
    pub(super) fn push(&mut self, record: &Record) -> u64 {
        let at = self.end();
        let body_len = record.body.len();
        let head_at = self.glue.len();
        self.glue.resize(head_at + RECORD_HEAD, 0);
        let body = if body_len <= COPIED_BODY_MAX {
            self.glue.extend_from_slice(&record.body);
            None
        } else {
            Some(record.body.clone())
        };
        self.glue.resize(self.glue.len() + body_len.next_multiple_of(RECORD_ALIGN) - body_len, 0);
        let head = RecordHead {
            kind: record.kind,
            last: false,
            group: record.group,
            term: record.term,
            index: record.index,
            body_len: u32::try_from(body_len).expect("append refuses larger bodies"),
            body_crc: 0,
        };
        self.records.push(Framed { head_at, head, body });
        self.len += record_len(body_len);
        if record.kind == Kind::Vote {
            self.votes.push((record.group, record.body.clone()));
        }
        at
    }

    /// Computes all checksums and headers: one pass over the bodies.
    pub(super) fn seal(&mut self, synced_seq: u64) {
        assert!(synced_seq + 1 == self.seq, "frame {} would follow durable frame {synced_seq}", self.seq);
        let incarnation = self.segment.incarnation();
        let mut heads = Hasher::new();
        if let Some(last) = self.records.last_mut() {
            last.head.last = true;
        }
        for Framed { head_at, head, body } in &mut self.records {
            let after = *head_at + RECORD_HEAD;
            head.body_crc = match body {
                Some(body) => crc32fast::hash(body),
                None => crc32fast::hash(&self.glue[after..after + head.body_len as usize]),
            };
            let bytes = head.encode(incarnation);
            heads.update(&bytes);
            self.glue[*head_at..after].copy_from_slice(&bytes);
        }
        let header = FrameHeader {
            flags: 0,
            uid: self.segment.uid(),
            offset: u32::try_from(self.offset).expect("segments are below 4 GiB"),
            incarnation,
            seq: self.seq,
            synced_seq,
            len: u32::try_from(self.len).expect("frames are below 4 GiB"),
            records: u32::try_from(self.records.len()).expect("frames are below 4 GiB"),
            records_crc: heads.finalize(),
        };
        self.glue[..FRAME_HEADER].copy_from_slice(&header.encode());
    }

    /// The page to write before the frame, if it is its segment's first.
    pub(super) fn segment_header(&self) -> Option<Box<[u8]>> {
        self.activates.then(|| {
            let (uid, incarnation) = (self.segment.uid(), self.segment.incarnation());
            let page = SegmentHeader { uid, incarnation, first_seq: self.seq }.encode();
            page.to_vec().into_boxed_slice()
        })
    }

    /// Appends the frame's bytes, once sealed, as slices in file order.
    pub(super) fn slices<'a>(&'a self, slices: &mut Vec<IoSlice<'a>>) {
        let mut from = 0;
        for Framed { head_at, body, .. } in &self.records {
            if let Some(body) = body {
                let after = head_at + RECORD_HEAD;
                slices.push(IoSlice::new(&self.glue[from..after]));
                slices.push(IoSlice::new(body));
                from = after;
            }
        }
        if from < self.glue.len() {
            slices.push(IoSlice::new(&self.glue[from..]));
        }
    }
}
