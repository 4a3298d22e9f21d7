//! The first step of opening: which files are segments. Nothing is written here.
//!
//! Segments are those that the checkpoint lists, and all with a uid that it had not given out yet, without
//! a gap. All other files are free.
//!
//! TORN FIRST WRITE. Header and first frame of a segment are written and synced together. If one of them is
//! bad, the other, and what is behind, tell whether it ever was whole: like any frame, the pair is torn if
//! nothing proves it durable. Either way the segment before must be complete, as the next one is begun only
//! after its last sync.

use super::checkpoint::LogCheckpoint;
use super::format::{Decoded, FORMAT, FRAME_HEADER, FrameHeader, HEADER_PAGE, SegmentHeader};
use super::pool::{PoolFile, file_name, slot_of};
use super::scan;
use super::witness::{self, Facts};
use crate::disk::Disk;
use crate::error::{Error, Result};

/// A file of the right name.
#[derive(Debug)]
struct Candidate {
    place: PoolFile,
    page: Vec<u8>,
    header: Option<SegmentHeader>,
    /// The header of a frame that stands where the first one of a segment does.
    first_frame: Option<FrameHeader>,
}

/// A file that is a segment.
#[derive(Debug)]
pub(super) struct FoundSegment {
    pub(super) place: PoolFile,
    /// The first page as read.
    pub(super) page: Vec<u8>,
    pub(super) header: SegmentHeader,
}

/// The files, sorted by what they are.
#[derive(Debug)]
pub(super) struct Survey {
    /// Segments, oldest first.
    pub(super) live: Vec<FoundSegment>,
    /// Segments whose first write was torn.
    pub(super) torn: Vec<PoolFile>,
    pub(super) free: Vec<PoolFile>,
    /// First seq of a torn segment: the last live one was complete.
    pub(super) torn_first_seq: Option<u64>,
    pub(super) next_uid: u32,
    pub(super) next_slot: u32,
}

/// An error that names the file.
pub(super) fn corrupt(place: &PoolFile, offset: u64, reason: &'static str) -> Error {
    Error::Corrupt { file: place.name.clone(), offset, reason }
}

impl Survey {
    /// Reads the first page of every file. What `known` says must be there.
    pub(super) fn new(disk: &dyn Disk, checkpoint: Option<&LogCheckpoint>, known: &Facts) -> Result<Self> {
        let mut files = candidates(disk)?;
        witness::check_files(known, |slot| {
            files.iter().find(|file| file.place.slot == slot).map(|file| file.place.len)
        })?;
        let next_slot = files.last().map_or(1, |file| file.place.slot + 1);
        let live = listed(&mut files, checkpoint)?;
        let next_uid = checkpoint.map_or(1, |checkpoint| checkpoint.next_uid);
        let mut survey =
            Survey { live, torn: Vec::new(), free: Vec::new(), torn_first_seq: None, next_uid, next_slot };
        let first_new = next_uid;
        let rest = survey.take_new(files)?;
        survey.check_newest(first_new)?;
        survey.sort_rest(rest, first_new)?;
        if let Some(newest) = known.newest.filter(|newest| survey.next_uid <= newest.uid) {
            let reason = "the newest segment's header or first frame";
            return Err(Error::Corrupt { file: file_name(newest.file.slot), offset: 0, reason });
        }
        Ok(survey)
    }

    /// Takes the segments that are younger than the checkpoint; returns the other files.
    fn take_new(&mut self, files: Vec<Candidate>) -> Result<Vec<Candidate>> {
        let first_new = self.next_uid;
        let is_new = |file: &Candidate| file.header.is_some_and(|header| header.uid >= first_new);
        let (mut new, rest): (Vec<_>, Vec<_>) = files.into_iter().partition(is_new);
        new.sort_by_key(|file| file.header.map(|header| header.uid));
        for file in new {
            let Candidate { place, page, header: Some(header), .. } = file else { continue };
            if let Some(twin) = self.live.pop_if(|newest| newest.header.uid == header.uid) {
                // One was erased in a cache alone, after a torn first write; then a sync of it failed.
                let (torn, whole) = match (is_torn(&twin)?, FoundSegment { place, page, header }) {
                    (true, other) => (twin, other),
                    (false, other) if is_torn(&other)? => (other, twin),
                    (false, other) => return Err(corrupt(&other.place, 0, "two files are the same segment")),
                };
                self.torn.push(torn.place);
                self.live.push(whole);
                continue;
            }
            if header.uid != self.next_uid {
                return Err(gap(&place, self.next_uid, &rest));
            }
            self.next_uid += 1;
            self.live.push(FoundSegment { place, page, header });
        }
        Ok(rest)
    }

    /// Takes the newest segment out again if its first frame was torn.
    fn check_newest(&mut self, first_new: u32) -> Result<()> {
        let Some(newest) = self.live.last().filter(|newest| newest.header.uid >= first_new) else {
            return Ok(());
        };
        if is_torn(newest)? {
            self.torn_first_seq = Some(newest.header.first_seq);
            self.next_uid -= 1;
            self.torn.extend(self.live.pop().map(|newest| newest.place));
        }
        Ok(())
    }

    /// Finds among the files without a current header those with a new segment's first frame.
    fn sort_rest(&mut self, rest: Vec<Candidate>, first_new: u32) -> Result<()> {
        for Candidate { place, first_frame, .. } in rest {
            let Some(frame) = first_frame.filter(|frame| frame.uid >= first_new) else {
                self.free.push(place);
                continue;
            };
            let first_seq = frame.synced_seq.saturating_add(1);
            if frame.uid > self.next_uid
                || scan::proves_durable(&place, (frame.uid, frame.incarnation), HEADER_PAGE, first_seq)?
            {
                return Err(corrupt(&place, 0, "segment header"));
            }
            if frame.uid == self.next_uid {
                self.torn_first_seq = self.torn_first_seq.max(Some(first_seq));
            }
            self.torn.push(place);
        }
        Ok(())
    }
}

/// All files that may be segments, by slot, with what their beginnings say.
fn candidates(disk: &dyn Disk) -> Result<Vec<Candidate>> {
    let names = disk.list().map_err(|error| Error::io("data directory", &error))?;
    let mut files = Vec::new();
    for name in names {
        let Some(slot) = slot_of(&name) else { continue };
        let failed = |error| Error::io(&name, &error);
        let file = disk.open(&name).map_err(failed)?;
        let len = file.len().map_err(failed)?;
        let mut page = vec![0; len.min(HEADER_PAGE + FRAME_HEADER as u64) as usize];
        file.read_at(0, &mut page).map_err(failed)?;
        let header = match SegmentHeader::decode(&page) {
            Decoded::Header(header) => Some(header),
            Decoded::Nothing => None,
            Decoded::Foreign(version) => {
                let text = format!("{name} has log format {version}, this program reads and writes {FORMAT}");
                return Err(Error::Refused(text));
            }
        };
        let frame = page.get(HEADER_PAGE as usize..).and_then(FrameHeader::decode);
        let first_frame = frame.filter(|frame| u64::from(frame.offset) == HEADER_PAGE && frame.flags == 0);
        let place = PoolFile { slot, name, file, len, synced_len: 0, name_durable: false };
        files.push(Candidate { place, page, header, first_frame });
    }
    files.sort_by_key(|file| file.place.slot);
    Ok(files)
}

/// The segment in a file that is known to hold one.
pub(super) fn found(place: PoolFile) -> Result<FoundSegment> {
    let mut page = vec![0; place.len.min(HEADER_PAGE + FRAME_HEADER as u64) as usize];
    place.file.read_at(0, &mut page).map_err(|error| Error::io(&place.name, &error))?;
    match SegmentHeader::decode(&page) {
        Decoded::Header(header) => Ok(FoundSegment { place, page, header }),
        Decoded::Nothing | Decoded::Foreign(_) => Err(corrupt(&place, 0, "segment header")),
    }
}

/// All files that may be live segments and have a whole header, oldest first; for who looks at all of them,
/// whatever is wrong with some; and the other files.
pub(super) fn segments(
    disk: &dyn Disk,
    checkpoint: Option<&LogCheckpoint>,
) -> Result<(Vec<FoundSegment>, Vec<PoolFile>)> {
    let listed = |header: &SegmentHeader| match checkpoint {
        None => true,
        Some(checkpoint) => {
            let same = |(uid, incarnation)| (uid, incarnation) == (header.uid, header.incarnation);
            header.uid >= checkpoint.next_uid
                || checkpoint.segments.iter().any(|it| same((it.uid, it.incarnation)))
        }
    };
    let (mut live, mut others) = (Vec::new(), Vec::new());
    for Candidate { place, page, header, .. } in candidates(disk)? {
        match header.filter(listed) {
            Some(header) => live.push(FoundSegment { place, page, header }),
            None => others.push(place),
        }
    }
    live.sort_by_key(|found| found.header.uid);
    Ok((live, others))
}

/// Takes the segments out of `files` that the checkpoint lists.
fn listed(files: &mut Vec<Candidate>, checkpoint: Option<&LogCheckpoint>) -> Result<Vec<FoundSegment>> {
    let mut live = Vec::new();
    for segment in checkpoint.iter().flat_map(|checkpoint| &checkpoint.segments) {
        let Some(at) = files.iter().position(|file| file.place.slot == segment.slot) else {
            let reason = "the file of a segment is missing";
            return Err(Error::Corrupt { file: file_name(segment.slot), offset: 0, reason });
        };
        let Candidate { place, page, header, .. } = files.remove(at);
        let same =
            |header: &SegmentHeader| (header.uid, header.incarnation) == (segment.uid, segment.incarnation);
        match header.filter(same) {
            Some(header) => live.push(FoundSegment { place, page, header }),
            None => return Err(corrupt(&place, 0, "segment header")),
        }
    }
    Ok(live)
}

/// Whether a segment with a whole header was never durable: its first frame is bad, and nothing says that
/// it was synced.
fn is_torn(FoundSegment { place, header, .. }: &FoundSegment) -> Result<bool> {
    if scan::has_first_frame(place, header)? {
        return Ok(false);
    }
    if scan::proves_durable(place, (header.uid, header.incarnation), HEADER_PAGE, header.first_seq)? {
        return Err(corrupt(place, HEADER_PAGE, "frame"));
    }
    Ok(true)
}

/// What is wrong if another segment follows than `wanted`; names the file most likely damaged.
fn gap(place: &PoolFile, wanted: u32, rest: &[Candidate]) -> Error {
    let headless = rest.iter().find(|file| file.first_frame.is_some_and(|frame| frame.uid == wanted));
    match headless {
        Some(damaged) => corrupt(&damaged.place, 0, "segment header"),
        None => corrupt(place, 0, "the segment before this one is missing"),
    }
}
