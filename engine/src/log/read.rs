//! Reading entries by (group, index) and values by place: from the tail if they are there, else from disk.
//!
//! What to read is decided under the lock, the reading is done without it, on segments that are held
//! meanwhile. Everything from disk is checked: record heads and bodies by their own crcs, values by the
//! crc in their pointer.

use super::format::{FRAME_HEADER, FrameHeader, RECORD_HEAD, RecordHead, align_frame, record_len};
use super::index::Point;
use super::segment::Segment;
use super::state::State;
use super::window::Window;
use super::{Entry, GroupId};
use crate::error::{Error, Result};
use crate::types::Pointer;
use bytes::Bytes;
use std::sync::Arc;

/// First read for entries; as far apart as the index has points.
const STEP: usize = 64 << 10;
/// Longest read for a row of entries, and for neighbouring values.
const STEP_MAX: usize = 256 << 10;
/// Values that lie closer together are read in one go.
const GAP_MAX: u64 = 16 << 10;

/// A row of entries: `from..=last`, in one place.
enum Piece {
    Memory(Vec<Entry>),
    Disk { segment: Arc<Segment>, end: u64, point: Point, term: u64, from: u64, last: u64 },
}

/// Entries of one group, as far as they go without a gap.
pub(super) struct Plan {
    group: GroupId,
    pieces: Vec<Piece>,
}

impl Plan {
    /// Decides where to read the entries `from..to`; of those in memory at most `bytes_max`.
    pub(super) fn new(state: &State, group: GroupId, from: u64, to: u64, bytes_max: usize) -> Result<Self> {
        let mut pieces = Vec::new();
        let mut next = from;
        while next < to {
            let tail = state.tail.entries(group, next);
            let tail_first = tail.as_ref().map_or(u64::MAX, |(first, _)| *first);
            if let Some((_, row)) = tail
                && tail_first == next
            {
                let mut left = Some(bytes_max);
                let mut entries = Vec::new();
                for entry in row.take_while(|entry| entry.index < to) {
                    if left.is_none() {
                        break;
                    }
                    left = left.and_then(|left| left.checked_sub(entry.body.len()));
                    entries.push(entry.clone());
                }
                next += entries.len() as u64;
                pieces.push(Piece::Memory(entries));
                if left.is_none() {
                    break;
                }
            } else if let Some(run) = state.index.run(group, next) {
                let segment = state.segment(run.segment, 0)?;
                let end = segment.durable_end();
                let last = run.last.min(to - 1).min(tail_first - 1);
                let (point, term) = (run.point(next), run.term);
                pieces.push(Piece::Disk { segment, end, point, term, from: next, last });
                next = last + 1;
            } else {
                break;
            }
        }
        Ok(Plan { group, pieces })
    }

    /// Reads what was planned, until the next entry would make it more than `bytes_max` of bodies.
    pub(super) fn read(self, bytes_max: usize) -> Result<Vec<Entry>> {
        let mut out = Row { entries: Vec::new(), bytes: 0, bytes_max };
        for piece in self.pieces {
            let more = match piece {
                Piece::Memory(entries) => entries.into_iter().all(|entry| out.push(entry)),
                Piece::Disk { segment, end, point, term, from, last } => {
                    read_run(&segment, end, point, (self.group, term), (from, last), &mut out)?
                }
            };
            if !more {
                break;
            }
        }
        Ok(out.entries)
    }
}

/// Entries read so far.
struct Row {
    entries: Vec<Entry>,
    bytes: usize,
    bytes_max: usize,
}

impl Row {
    /// Whether an entry with such a body still goes in: the first always does.
    fn has_room(&self, body_len: usize) -> bool {
        self.entries.is_empty() || self.bytes + body_len <= self.bytes_max
    }

    fn push(&mut self, entry: Entry) -> bool {
        let room = self.has_room(entry.body.len());
        if room {
            self.bytes += entry.body.len();
            self.entries.push(entry);
        }
        room
    }
}

/// Reads the entries `from..=last` of a run; `false` once `out` is full.
fn read_run(
    segment: &Segment,
    end: u64,
    point: Point,
    (group, term): (GroupId, u64),
    (from, last): (u64, u64),
    out: &mut Row,
) -> Result<bool> {
    let (file, name) = segment.readable()?;
    let corrupt = |offset, reason| Error::Corrupt { file: name.to_owned(), offset, reason };
    let io = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => corrupt(end, "the file is shorter than its durable part"),
        _ => Error::io(name, &error),
    };
    let incarnation = segment.incarnation();
    let mut window = Window::new(file, end, STEP, STEP_MAX);
    let mut at = u64::from(point.offset);
    let mut next = point.index;
    loop {
        let head = window.get(at, RECORD_HEAD).map_err(io)?;
        let head = head.and_then(|bytes| RecordHead::decode(bytes, incarnation));
        let head = head.ok_or_else(|| corrupt(at, "record head"))?;
        if head.group == group && head.kind.is_entry() {
            if (head.index, head.term) != (next, term) {
                return Err(corrupt(at, "another entry than the index says"));
            }
            if next >= from {
                if !out.has_room(head.body_len as usize) {
                    return Ok(false);
                }
                let body_at = at + RECORD_HEAD as u64;
                let body = window.get(body_at, head.body_len as usize).map_err(io)?;
                let body = body.filter(|body| crc32fast::hash(body) == head.body_crc);
                let body = Bytes::copy_from_slice(body.ok_or_else(|| corrupt(at, "record body"))?);
                out.push(Entry::new((head.kind, group, term, next), body, segment.uid(), body_at));
            }
            if next == last {
                return Ok(true);
            }
            next += 1;
        }
        at += record_len(head.body_len as usize);
        if head.last {
            at = align_frame(at);
            let header = window.get(at, FRAME_HEADER).map_err(io)?.and_then(FrameHeader::decode);
            let ok = header.is_some_and(|it| it.flags == 0 && it.belongs(segment.uid(), incarnation, at));
            if !ok {
                return Err(corrupt(at, "frame header"));
            }
            at += FRAME_HEADER as u64;
        }
    }
}

/// Values to be read from disk: which place in the caller's list each fills.
pub(super) struct ValuePlan {
    /// Sorted by (segment, offset).
    wanted: Vec<(Pointer, usize, Arc<Segment>)>,
}

impl ValuePlan {
    /// Fills what the tail has into `out`, whose length is that of `pointers`, and plans for the rest.
    pub(super) fn new(state: &State, pointers: &[Pointer], out: &mut [Bytes]) -> Result<Self> {
        let mut wanted = Vec::new();
        for (at, pointer) in pointers.iter().enumerate() {
            match state.tail.bytes_at(pointer.segment, pointer.offset, pointer.len) {
                Some(bytes) => out[at] = bytes,
                None => wanted.push((*pointer, at, state.segment(pointer.segment, pointer.offset)?)),
            }
        }
        wanted.sort_by_key(|(pointer, _, _)| (pointer.segment, pointer.offset));
        Ok(ValuePlan { wanted })
    }

    /// Reads the rest: neighbours with one read. Nothing is checked here.
    pub(super) fn read(&self, out: &mut [Bytes]) -> Result<()> {
        let mut from = 0;
        while from < self.wanted.len() {
            let (first, _, segment) = &self.wanted[from];
            let start = u64::from(first.offset);
            let mut end = start + u64::from(first.len);
            let mut to = from + 1;
            while let Some((next, _, _)) = self.wanted.get(to) {
                let next_end = end.max(u64::from(next.offset) + u64::from(next.len));
                let near = u64::from(next.offset) <= end + GAP_MAX && next_end - start <= STEP_MAX as u64;
                if next.segment != first.segment || !near {
                    break;
                }
                end = next_end;
                to += 1;
            }
            let bytes = read_part(segment, start, (end - start) as usize)?;
            for (pointer, place, _) in &self.wanted[from..to] {
                let at = (u64::from(pointer.offset) - start) as usize;
                out[*place] = bytes.slice(at..at + pointer.len as usize);
            }
            from = to;
        }
        Ok(())
    }

    /// The name of the file that `pointer` leads into, for an error.
    pub(super) fn file_name(&self, pointer: Pointer) -> String {
        let same = self.wanted.iter().find(|(wanted, _, _)| wanted.segment == pointer.segment);
        let place = same.and_then(|(_, _, segment)| segment.place());
        place.map_or_else(|| format!("segment {}", pointer.segment), |place| place.name.clone())
    }
}

fn read_part(segment: &Segment, offset: u64, len: usize) -> Result<Bytes> {
    let (file, name) = segment.readable()?;
    if offset + len as u64 > segment.durable_end() {
        let reason = "a value beyond the durable end";
        return Err(Error::Corrupt { file: name.to_owned(), offset, reason });
    }
    let mut bytes = vec![0; len];
    file.read_at(offset, &mut bytes).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => Error::Corrupt {
            file: name.to_owned(),
            offset,
            reason: "the file is shorter than its durable part",
        },
        _ => Error::io(name, &error),
    })?;
    Ok(Bytes::from(bytes))
}
