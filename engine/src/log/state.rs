//! All of the log that lives in memory, behind one lock that is held for moments and never over I/O.
//!
//! The records appended and not yet written form a queue of frames: any number of closed ones, then the
//! open one. A record's place is final when it is appended, so frames are written in this order, each once.
//!
//! INVARIANTS
//! * `durable` tells only of frames whose sync returned; a checkpoint is made of it, never of what is
//!   merely appended.
//! * The reserve for the footer in the segment being filled covers what its summary holds.
//! * A frame, and so a record, lies in one segment.

use super::checkpoint::{CheckpointGroup, CheckpointSegment, Cut, LogCheckpoint};
use super::footer::{self, FooterGroup};
use super::format::{FRAME_HEADER, HEADER_PAGE, RECORD_HEAD, align_frame, record_len};
use super::frame::Frame;
use super::index::{Index, Place, Summary};
use super::pool::Pool;
use super::segment::{Sealed, Segment, SegmentInfo, Segments, missing};
use super::tail::Tail;
use super::witness::{KnownFile, Newest};
use super::{Entry, GroupId, Kind, LogOptions, Record};
use crate::error::Result;
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The log in memory.
#[derive(Debug)]
pub(super) struct State {
    pub(super) index: Index,
    pub(super) tail: Tail,
    pub(super) durable: Durable,
    /// Live segments; the last may be the one being filled.
    pub(super) segments: Arc<Segments>,
    /// Released segments that somebody may still hold.
    retired: BTreeMap<u32, Weak<Segment>>,
    /// Where records go; none before the first.
    filling: Option<Filling>,
    /// Frames that wait to be written, oldest first.
    closed: VecDeque<Frame>,
    /// The frame that takes records; never empty; younger than all in `closed`.
    open: Option<Frame>,
    /// Footers to be written once their segment's successor is durable.
    pending_footers: VecDeque<PendingFooter>,
    next_uid: u32,
    next_seq: u64,
    ticket: u64,
    appended_bytes: u64,
    options: LogOptions,
    pool: Arc<Pool>,
}

/// The segment that takes records.
#[derive(Debug)]
pub(super) struct Filling {
    pub(super) segment: Arc<Segment>,
    /// Where the next frame starts.
    pub(super) end: u64,
    pub(super) summary: Summary,
    /// Bytes up to which it is filled, footer included.
    pub(super) capacity: u64,
    /// Whether its first frame was opened, or found.
    pub(super) started: bool,
}

/// What is certainly on the disk.
#[derive(Debug, Default)]
pub(super) struct Durable {
    /// Highest frame.
    pub(super) seq: u64,
    pub(super) ticket: u64,
    /// Segment of that frame.
    pub(super) uid: u32,
    /// Bytes that its file certainly has.
    pub(super) file_len: u64,
    pub(super) votes: BTreeMap<GroupId, Bytes>,
    /// Truncations by segment and group: entries in older segments are dead from that index on.
    pub(super) cuts: BTreeMap<(u32, GroupId), u64>,
}

/// A footer to be written.
#[derive(Debug)]
pub(super) struct PendingFooter {
    pub(super) segment: Arc<Segment>,
    /// Where it goes.
    pub(super) offset: u64,
    pub(super) last_seq: u64,
    pub(super) bytes: Vec<u8>,
}

impl State {
    /// The state of a log without segments; recovery fills it in.
    pub(super) fn new(options: LogOptions, pool: Arc<Pool>) -> Self {
        State {
            index: Index::default(),
            tail: Tail::default(),
            durable: Durable::default(),
            segments: Arc::default(),
            retired: BTreeMap::new(),
            filling: None,
            closed: VecDeque::new(),
            open: None,
            pending_footers: VecDeque::new(),
            next_uid: 1,
            next_seq: 1,
            ticket: 0,
            appended_bytes: 0,
            options,
            pool,
        }
    }

    /// Sets where appending goes on after recovery.
    pub(super) fn resume(&mut self, segments: Segments, next_uid: u32, filling: Option<Filling>) {
        self.pool.set_live_segments(segments.len());
        self.segments = Arc::new(segments);
        self.next_uid = next_uid;
        self.next_seq = self.durable.seq + 1;
        self.filling = filling;
    }

    /// Lays a record out at its final place; returns its ticket.
    pub(super) fn append(&mut self, record: Record) -> u64 {
        self.make_room(&record);
        self.ticket += 1;
        let filling = self.filling.as_mut().expect("make_room left a segment to fill");
        let frame = self.open.as_mut().expect("make_room left an open frame");
        let offset = frame.push(&record);
        frame.ticket = self.ticket;
        self.appended_bytes += record_len(record.body.len());
        let segment = filling.segment.uid();
        let place = Place { segment, seq: frame.seq, offset };
        let Record { group, kind, term, index, body } = record;
        let cut = self.index.record(&mut filling.summary, place, (kind, group, term, index), &body);
        if let Some(cut) = cut {
            frame.cuts.push((group, cut));
            self.tail.cut(group, cut);
        }
        if kind.is_entry() {
            let entry = Entry::new((kind, group, term, index), body, segment, offset + RECORD_HEAD as u64);
            self.tail.push(entry, self.ticket);
        }
        self.ticket
    }

    /// Sees to it that there is an open frame with room for the record.
    fn make_room(&mut self, record: &Record) {
        let len = record_len(record.body.len());
        let in_footer = Summary::STEP
            + footer::GROUP_LEN
            + if record.kind == Kind::Vote { record.body.len() as u64 } else { 0 };
        if self.open.as_ref().is_some_and(|open| open.len() + len > self.options.frame_bytes_max) {
            self.close_frame();
        }
        let fits = self.filling.as_ref().is_some_and(|filling| {
            let start = self.open.as_ref().map_or(filling.end + FRAME_HEADER as u64, Frame::end);
            align_frame(start + len) + footer_len(&filling.summary) + in_footer <= filling.capacity
        });
        if !fits {
            self.close_frame();
            self.next_segment(len, in_footer);
        }
        if self.open.is_none() {
            let filling = self.filling.as_mut().expect("just started if there was none");
            let activates = !std::mem::replace(&mut filling.started, true);
            self.open = Some(Frame::new(filling.segment.clone(), filling.end, self.next_seq, activates));
            self.next_seq += 1;
        }
    }

    fn close_frame(&mut self) {
        if let Some(frame) = self.open.take() {
            let filling = self.filling.as_mut().expect("an open frame lies in the segment being filled");
            filling.end = align_frame(frame.end());
            self.closed.push_back(frame);
        }
    }

    /// Seals the segment being filled and starts one with room for a record of `len` bytes at least.
    fn next_segment(&mut self, len: u64, in_footer: u64) {
        if let Some(Filling { segment, end, summary, .. }) = self.filling.take() {
            self.seal(&segment, end, self.next_seq - 1, &summary);
        }
        let uid = self.next_uid;
        self.next_uid += 1;
        let mut drawn_from = [0; 12];
        drawn_from[..8].copy_from_slice(&self.next_seq.to_le_bytes());
        drawn_from[8..].copy_from_slice(&uid.to_le_bytes());
        let incarnation = xxh3_64_with_seed(&drawn_from, self.options.seed);
        let segment = Arc::new(Segment::new(uid, incarnation, self.pool.clone()));
        let summary = Summary::default();
        let needed = align_frame(HEADER_PAGE + FRAME_HEADER as u64 + len) + footer_len(&summary) + in_footer;
        let capacity = needed.max(u64::from(self.options.segment_bytes));
        Arc::make_mut(&mut self.segments).insert(uid, segment.clone());
        self.pool.set_live_segments(self.segments.len());
        self.filling = Some(Filling { segment, end: HEADER_PAGE, summary, capacity, started: false });
    }

    /// Ends a segment: from now on it may be reclaimed, and its footer written.
    pub(super) fn seal(&mut self, segment: &Arc<Segment>, end: u64, last_seq: u64, summary: &Summary) {
        let groups = footer::gather(segment.uid(), &self.index, summary);
        segment.seal(Sealed { last_seq, groups: ranges(&groups) });
        let bytes = footer::encode(&groups);
        self.pending_footers.push_back(PendingFooter {
            segment: segment.clone(),
            offset: end,
            last_seq,
            bytes,
        });
    }

    /// The next frame to be written.
    pub(super) fn take_frame(&mut self) -> Option<Frame> {
        if self.closed.is_empty() {
            self.close_frame();
        }
        self.closed.pop_front()
    }

    /// The frame's sync returned, which covered its file up to `written_to`. What the tail no longer holds is
    /// handed out, to be freed without the lock.
    pub(super) fn committed(&mut self, frame: &Frame, written_to: u64) -> Vec<Entry> {
        let durable = &mut self.durable;
        assert!(durable.seq + 1 == frame.seq, "frame {} synced after frame {}", frame.seq, durable.seq);
        durable.seq = frame.seq;
        durable.ticket = frame.ticket;
        if durable.uid != frame.segment.uid() {
            durable.uid = frame.segment.uid();
            durable.file_len = frame.segment.place().map_or(0, |place| place.synced_len);
        }
        durable.file_len = durable.file_len.max(written_to);
        for (group, vote) in &frame.votes {
            durable.votes.insert(*group, vote.clone());
        }
        for (group, index) in &frame.cuts {
            durable.cut(frame.segment.uid(), *group, *index);
        }
        frame.segment.set_durable_end(frame.end());
        let mut dropped = Vec::new();
        self.tail.evict(self.options.tail_bytes, self.durable.ticket, &mut dropped);
        dropped
    }

    pub(super) fn checkpoint(&self) -> LogCheckpoint {
        let segments = self.segments.range(..=self.durable.uid).map(|(uid, segment)| CheckpointSegment {
            uid: *uid,
            slot: segment.place().expect("a durable segment has a file").slot,
            incarnation: segment.incarnation(),
            last_seq: segment
                .sealed()
                .filter(|_| *uid < self.durable.uid)
                .map_or(0, |sealed| sealed.last_seq),
        });
        let groups = self.index.purged().map(|(group, purged)| {
            let vote = self.durable.votes.get(&group).cloned();
            CheckpointGroup { group, vote, purged }
        });
        let cuts = self.durable.cuts.iter().map(|(&(uid, group), &index)| Cut { uid, group, index });
        LogCheckpoint {
            next_uid: self.durable.uid + 1,
            durable_seq: self.durable.seq,
            segments: segments.collect(),
            groups: groups.collect(),
            cuts: cuts.collect(),
        }
    }

    /// The highest durable frame, and the segment that it is in; `None` if there is no segment.
    pub(super) fn newest(&self) -> (u64, Option<Newest>) {
        let durable = &self.durable;
        let place = self.segments.get(&durable.uid).and_then(|segment| segment.place());
        let newest = place.map(|place| Newest {
            uid: durable.uid,
            file: KnownFile { slot: place.slot, len: durable.file_len },
        });
        (durable.seq, newest)
    }

    /// Segments that end before the durable one, oldest first.
    pub(super) fn sealed(&self) -> Vec<SegmentInfo> {
        let older = self.segments.range(..self.durable.uid);
        older
            .filter_map(|(uid, segment)| {
                let sealed = segment.sealed()?;
                Some(SegmentInfo { uid: *uid, bytes: segment.durable_end(), groups: sealed.groups.clone() })
            })
            .collect()
    }

    /// The oldest sealed and durable segment younger than `after`, and the seq of its last frame.
    pub(super) fn sealed_after(&self, after: u32) -> Option<(Arc<Segment>, u64)> {
        let mut younger = self.segments.range(after.saturating_add(1)..self.durable.uid.max(after + 1));
        younger.find_map(|(_, segment)| Some((segment.clone(), segment.sealed()?.last_seq)))
    }

    /// Takes segments out of the live ones. Hands them out, so that files go to the pool without the lock.
    pub(super) fn release(&mut self, uids: &[u32]) -> Vec<Arc<Segment>> {
        let live = Arc::make_mut(&mut self.segments);
        let mut released = Vec::new();
        for uid in uids {
            assert!(*uid < self.durable.uid, "segment {uid} is not sealed and durable");
            let Some(segment) = live.remove(uid) else { continue };
            segment.release();
            self.index.forget_segment(*uid);
            self.pending_footers.retain(|footer| footer.segment.uid() != *uid);
            self.retired.insert(*uid, Arc::downgrade(&segment));
            released.push(segment);
        }
        let oldest = live.keys().next().copied().unwrap_or(0);
        self.durable.cuts.retain(|(uid, _), _| *uid > oldest);
        self.retired.retain(|_, segment| segment.strong_count() > 0);
        self.pool.set_live_segments(live.len());
        released
    }

    /// A segment that is live, or still held by somebody.
    ///
    /// # Errors
    /// [`crate::Error::Corrupt`] if there is none: the location is wrong.
    pub(super) fn segment(&self, uid: u32, offset: u32) -> Result<Arc<Segment>> {
        let live = self.segments.get(&uid).cloned();
        live.or_else(|| self.retired.get(&uid)?.upgrade()).ok_or_else(|| missing(uid, u64::from(offset)))
    }

    /// The oldest footer that may be written now.
    pub(super) fn take_footer(&mut self) -> Option<PendingFooter> {
        let due = self.pending_footers.front()?.segment.uid() < self.durable.uid;
        if due { self.pending_footers.pop_front() } else { None }
    }

    /// Where the next frame will be written if none waits now: the segment and the offset.
    pub(super) fn idle_end(&self) -> Option<(Arc<Segment>, u64)> {
        if self.open.is_some() || !self.closed.is_empty() {
            return None;
        }
        let filling = self.filling.as_ref().filter(|filling| filling.started)?;
        Some((filling.segment.clone(), filling.end))
    }

    pub(super) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    pub(super) fn options(&self) -> &LogOptions {
        &self.options
    }

    /// Ticket of the last record.
    pub(super) fn ticket(&self) -> u64 {
        self.ticket
    }

    pub(super) fn appended_bytes(&self) -> u64 {
        self.appended_bytes
    }

    /// Bytes of all live segments up to their durable ends.
    pub(super) fn live_bytes(&self) -> u64 {
        self.segments.values().map(|segment| segment.durable_end()).sum()
    }
}

impl Durable {
    pub(super) fn cut(&mut self, uid: u32, group: GroupId, index: u64) {
        let cut = self.cuts.entry((uid, group)).or_insert(index);
        *cut = index.min(*cut);
    }
}

/// At least the bytes of the footer for a summary.
fn footer_len(summary: &Summary) -> u64 {
    FRAME_HEADER as u64 + 4 + summary.footer_bytes
}

/// First and last index of each group with entries in a footer.
pub(super) fn ranges(groups: &[FooterGroup]) -> Vec<(GroupId, u64, u64)> {
    let range = |group: &FooterGroup| Some((group.group, group.runs.first()?.first, group.runs.last()?.last));
    groups.iter().filter_map(range).collect()
}
