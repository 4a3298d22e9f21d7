//! Looking at every frame of every segment, for checks offline and for the scrub; nothing is changed.
//!
//! Opening reads as little as it can: footers of sealed segments, frames of the newest. Here every frame is
//! read, and behind a bad one the next good one is looked for, so that all damage is told and not only the
//! first. Whether a start would succeed is told by the same judgement that a start makes.

use super::checkpoint::LogCheckpoint;
use super::footer;
use super::format::{HEADER_PAGE, SegmentHeader};
use super::index::{Index, Place, Run, Summary};
use super::pool::PoolFile;
use super::recover::{judge, read_footer};
use super::scan;
use super::survey::{self, FoundSegment, corrupt};
use super::{Bounds, GroupId, Log, LogOptions};
use crate::disk::{Disk, File};
use crate::error::{Error, Result};
use crate::types::Pointer;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is in one segment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SegmentContent {
    /// Number of this use of the file.
    pub uid: u32,
    /// Name of the file.
    pub file: String,
    /// Length of the file, bytes.
    pub file_bytes: u64,
    /// Bytes of header and frames.
    pub used_bytes: u64,
    /// Seq of its first frame.
    pub first_seq: u64,
    /// Frames that were read; 0 if only the footer was.
    pub frames: u64,
    /// Records in them.
    pub records: u64,
    /// Per group with entries in it: the group, its first and its last index there.
    pub groups: Vec<(GroupId, u64, u64)>,
}

/// What is in the log.
#[derive(Debug, Clone, Default)]
pub struct LogContent {
    /// Oldest first.
    pub segments: Vec<SegmentContent>,
    /// Files that wait for use, with their lengths.
    pub free: Vec<(String, u64)>,
    /// How far each group's log reaches; none if a start would not succeed.
    pub groups: Vec<(GroupId, Bounds)>,
    /// The frame up to which `LOG-END` knows the log to be durable.
    pub noted_seq: u64,
}

/// What a start would find, as it would find it.
///
/// # Errors
/// Those of [`Log::open`].
pub(crate) fn content(disk: &dyn Disk, checkpoint: Option<&LogCheckpoint>) -> Result<LogContent> {
    let judged = judge(disk, &LogOptions::default(), checkpoint)?;
    let (segments, index) = judged.segments();
    let mut content = LogContent { noted_seq: judged.noted_seq(), ..LogContent::default() };
    for (uid, segment) in segments {
        let place = segment.place().expect("a segment that was found has a file");
        content.segments.push(SegmentContent {
            uid: *uid,
            file: place.name.clone(),
            file_bytes: place.len,
            used_bytes: segment.durable_end(),
            groups: segment.sealed().map(|sealed| sealed.groups.clone()).unwrap_or_default(),
            ..SegmentContent::default()
        });
    }
    content.free = judged.free.iter().map(|place| (place.name.clone(), place.len)).collect();
    content.groups = index.purged().filter_map(|(group, _)| Some((group, index.bounds(group)?))).collect();
    Ok(content)
}

/// Reads every frame. What is wrong goes to `found`; `progress` is told bytes done and in all, and the file.
///
/// # Errors
/// [`Error::Io`] if not even the directory can be read, [`Error::Refused`] for another format.
pub(crate) fn verify(
    disk: &dyn Disk,
    checkpoint: Option<&LogCheckpoint>,
    progress: &mut dyn FnMut(u64, u64, &str),
    found: &mut Vec<Error>,
) -> Result<(LogContent, SegmentFiles)> {
    let (live, others) = survey::segments(disk, checkpoint)?;
    let total = live.iter().map(|segment| segment.place.len).sum();
    let mut content = match content(disk, checkpoint) {
        Ok(content) => LogContent { segments: Vec::new(), ..content },
        Err(refused @ Error::Refused(_)) => return Err(refused),
        Err(error) => {
            found.push(error);
            let free = others.into_iter().map(|place| (place.name, place.len)).collect();
            LogContent { free, ..LogContent::default() }
        }
    };
    let mut files = SegmentFiles::default();
    let mut done = 0;
    for (at, segment) in live.iter().enumerate() {
        progress(done, total, &segment.place.name);
        let uid = segment.header.uid;
        let known = match live.get(at + 1).map(|next| next.header) {
            Some(next) if next.uid == uid + 1 => next.first_seq - 1,
            // Those between were reclaimed: it was full before.
            Some(_) => checkpoint.map_or(0, |checkpoint| checkpoint.last_seq(uid)),
            None => content.noted_seq,
        };
        let mut scan = SegmentScan::new(segment, known);
        loop {
            match scan.step(4 << 20, found) {
                Ok(true) => break,
                Ok(false) => progress(done + scan.position(), total, &segment.place.name),
                Err(error) => {
                    found.push(error);
                    break;
                }
            }
        }
        done += segment.place.len;
        let end = scan.content.used_bytes;
        files.0.insert(uid, (segment.place.file.clone(), segment.place.name.clone(), end));
        content.segments.push(scan.content);
    }
    // The judgement names the first bad frame of a segment too.
    dedup(found);
    Ok((content, files))
}

/// Removes reports of the same place.
fn dedup(found: &mut Vec<Error>) {
    let mut seen = std::collections::BTreeSet::new();
    found.retain(|error| match error {
        Error::Corrupt { file, offset, .. } => seen.insert((file.clone(), *offset)),
        _ => true,
    });
}

/// Files of segments by uid: handle, name, and where the frames end.
#[derive(Debug, Default)]
pub(crate) struct SegmentFiles(BTreeMap<u32, (Arc<dyn File>, String, u64)>);

impl SegmentFiles {
    /// Reads the values and checks them. What is wrong goes to `found`.
    pub(crate) fn verify_values(&self, pointers: &mut Vec<Pointer>, found: &mut Vec<Error>) {
        pointers.sort_by_key(|pointer| (pointer.segment, pointer.offset));
        for pointer in pointers.drain(..) {
            if let Err(error) = self.verify_value(pointer) {
                found.push(error);
            }
        }
    }

    fn verify_value(&self, pointer: Pointer) -> Result<()> {
        let offset = u64::from(pointer.offset);
        let Some((file, name, end)) = self.0.get(&pointer.segment) else {
            return Err(super::segment::missing(pointer.segment, offset));
        };
        let bad = |reason| Error::Corrupt { file: name.clone(), offset, reason };
        if offset + u64::from(pointer.len) > *end {
            return Err(bad("a value beyond the end of the frames"));
        }
        let mut bytes = vec![0; pointer.len as usize];
        file.read_at(offset, &mut bytes).map_err(|error| Error::io(name, &error))?;
        if crc32fast::hash(&bytes) == pointer.crc { Ok(()) } else { Err(bad("value")) }
    }
}

/// Reading one segment's frames, step by step.
#[derive(Debug)]
pub(super) struct SegmentScan {
    place: PoolFile,
    header: SegmentHeader,
    /// The first page.
    page: Vec<u8>,
    /// The frame that the segment reaches to at least.
    known: u64,
    /// Where the next frame should be, and its seq.
    next: (u64, u64),
    /// Made from the records alone, to be compared with the footer.
    index: Index,
    summary: Summary,
    /// Whether frames are missing: then it is not compared.
    damaged: bool,
    pub(super) content: SegmentContent,
}

impl SegmentScan {
    pub(super) fn new(FoundSegment { place, page, header }: &FoundSegment, known: u64) -> Self {
        SegmentScan {
            place: place.clone(),
            header: *header,
            page: page.clone(),
            known,
            next: (HEADER_PAGE, header.first_seq),
            index: Index::default(),
            summary: Summary::default(),
            damaged: false,
            content: SegmentContent {
                uid: header.uid,
                file: place.name.clone(),
                file_bytes: place.len,
                used_bytes: HEADER_PAGE,
                first_seq: header.first_seq,
                ..SegmentContent::default()
            },
        }
    }

    pub(super) fn position(&self) -> u64 {
        self.next.0
    }

    /// Reads about `budget` bytes; `true` at the end. Damage goes to `found`.
    pub(super) fn step(&mut self, budget: u64, found: &mut Vec<Error>) -> Result<bool> {
        let limit = self.next.0 + budget.max(1);
        let (content, index, summary) = (&mut self.content, &mut self.index, &mut self.summary);
        let scanned = scan::frames_from(&self.place, &self.header, self.next, limit, |seq, record| {
            let place = Place { segment: content.uid, seq, offset: record.offset };
            let head = record.head;
            index.record(summary, place, (head.kind, head.group, head.term, head.index), record.body);
            content.records += 1;
        })?;
        content.frames += scanned.next_seq - self.next.1;
        content.used_bytes = scanned.last.map_or(content.used_bytes, |(_, end)| end);
        self.next = (scanned.end, scanned.next_seq);
        if scanned.end >= limit {
            return Ok(false);
        }
        let last = scanned.next_seq - 1;
        let identity = (self.header.uid, self.header.incarnation);
        let later = if scanned.footer || scanned.marked {
            None
        } else {
            scan::find(&self.place, identity, scanned.end, |frame| frame.synced_seq > last)?
        };
        if last >= self.known && later.is_none() {
            self.end(scanned.footer, found)?;
            return Ok(true);
        }
        self.damaged = true;
        found.push(corrupt(&self.place, scanned.end, "frame"));
        match later.filter(|frame| frame.flags == 0) {
            Some(frame) => {
                self.next = (u64::from(frame.offset), frame.seq);
                Ok(false)
            }
            None => Ok(true),
        }
    }

    /// All frames were read: the footer must tell the same.
    fn end(&mut self, has_footer: bool, found: &mut Vec<Error>) -> Result<()> {
        let groups = footer::gather(self.header.uid, &self.index, &self.summary);
        self.content.groups = super::state::ranges(&groups);
        if self.damaged || !has_footer {
            return Ok(());
        }
        let Some((offset, last_seq, told)) = read_footer(&self.place, &self.page, &self.header)? else {
            // The frames are read instead.
            return Ok(());
        };
        let shape = |runs: &[Run]| -> Vec<_> {
            runs.iter().map(|run| (run.first, run.last, run.term, run.points.clone())).collect()
        };
        let told: BTreeMap<_, _> =
            told.iter().filter(|it| !it.runs.is_empty()).map(|it| (it.group, shape(&it.runs))).collect();
        let read: BTreeMap<_, _> =
            groups.iter().filter(|it| !it.runs.is_empty()).map(|it| (it.group, shape(&it.runs))).collect();
        if told != read || offset != self.next.0 || last_seq + 1 != self.next.1 {
            found.push(corrupt(&self.place, offset, "footer tells of other records than the frames"));
        }
        Ok(())
    }
}

impl Log {
    /// The scan of the oldest sealed segment younger than `after`, off the cache where the disk can.
    ///
    /// # Errors
    /// [`Error::Corrupt`] and [`Error::Io`] with the segment's uid, if its file is no segment any more.
    pub(crate) fn scan_sealed(&self, after: u32) -> std::result::Result<Option<SealedScan>, (u32, Error)> {
        let Some((segment, last_seq)) = self.state.lock().sealed_after(after) else { return Ok(None) };
        let place = segment.place().expect("a sealed segment has a file").clone();
        let opened = self.disk.open_uncached(&place.name).and_then(|file| Ok((file.len()?, file)));
        let scan = opened.map_err(|error| Error::io(&place.name, &error)).and_then(|(len, file)| {
            let found = survey::found(PoolFile { file, len, ..place })?;
            Ok(SegmentScan::new(&found, last_seq))
        });
        let scan = scan.map_err(|error| (segment.uid(), error))?;
        Ok(Some(SealedScan { scan, segment }))
    }
}

/// The scan of a sealed segment that is in use.
#[derive(Debug)]
pub(crate) struct SealedScan {
    scan: SegmentScan,
    /// Held so that its file is not used again meanwhile.
    segment: Arc<super::segment::Segment>,
}

impl SealedScan {
    /// As the scan's.
    pub(crate) fn step(&mut self, budget: u64, found: &mut Vec<Error>) -> Result<bool> {
        self.scan.step(budget, found)
    }

    pub(crate) fn uid(&self) -> u32 {
        self.segment.uid()
    }

    pub(crate) fn position(&self) -> u64 {
        self.scan.position()
    }
}
