//! Opening: what is in the segments, and whether anything durable is missing.
//!
//! After the survey (`survey`) two steps; nothing is written before the second:
//! 1. *Replay*, oldest first: footers, or frames where there is none. Each segment must reach as far as what
//!    follows says it did: the next segment's header, the checkpoint, a mark.
//! 2. *Repair.* A segment whose first write was torn is none: its beginning is zeroed. The last frame is
//!    written again, since only the cache may have it, and behind it a mark, over whatever a torn frame left
//!    there: so what was found torn once is never found whole later. `LOG-END` gets a new record.

use super::checkpoint::{Cut, LogCheckpoint};
use super::footer::{self, FooterGroup};
use super::format::{FRAME_HEADER, HEADER_PAGE, SEAL_AT, Seal, SegmentHeader};
use super::index::{Index, Place, Summary};
use super::pool::{Pool, PoolFile};
use super::prepare::{Preparation, write_mark};
use super::scan::{self, Scanned};
use super::segment::{Sealed, Segment, Segments};
use super::state::{Filling, State, ranges};
use super::survey::{FoundSegment, Survey, corrupt};
use super::witness::{self, Facts, LOG_END, Witness};
use super::{GroupId, Kind, Log, LogOptions};
use crate::disk::Disk;
use crate::error::{Error, Result};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io::IoSlice;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

/// What a start finds.
pub(super) struct Judged {
    found: witness::Found,
    /// Segments whose first write was torn.
    torn: Vec<PoolFile>,
    pub(super) free: Vec<PoolFile>,
    pub(super) next_uid: u32,
    pool: Arc<Pool>,
    replay: Replay,
}

impl Judged {
    /// The frame up to which `LOG-END` knows all to be durable.
    pub(super) fn noted_seq(&self) -> u64 {
        self.found.facts.durable_seq
    }

    /// The live segments and the index of what is in them.
    pub(super) fn segments(&self) -> (&Segments, &Index) {
        (&self.replay.segments, &self.replay.state.index)
    }
}

/// Reads everything and judges it; changes nothing.
pub(super) fn judge(
    disk: &dyn Disk,
    options: &LogOptions,
    checkpoint: Option<&LogCheckpoint>,
) -> Result<Judged> {
    let Some(found) = witness::read(disk)? else {
        let reason = "is not there, or holds no whole record";
        return Err(Error::Corrupt { file: LOG_END.to_owned(), offset: 0, reason });
    };
    let Survey { live, torn, free, torn_first_seq, next_uid, next_slot } =
        Survey::new(disk, checkpoint, &found.facts)?;
    let pool = Arc::new(Pool::new(u64::from(options.segment_bytes), next_slot));
    let state = State::new(options.clone(), pool.clone());
    let mut replay = Replay::new(state, checkpoint, found.facts.clone());
    replay.segments(live, torn.first().zip(torn_first_seq))?;
    Ok(Judged { found, torn, free, next_uid, pool, replay })
}

pub(super) fn open(
    disk: Arc<dyn Disk>,
    options: LogOptions,
    checkpoint: Option<&LogCheckpoint>,
) -> Result<Log> {
    let judged = judge(disk.as_ref(), &options, checkpoint)?;
    let Judged { found, torn, free, next_uid, pool, replay } = judged;
    if let Some(end) = &replay.end {
        end.make_durable(replay.known_durable.max(found.facts.durable_seq))?;
    }
    for place in &torn {
        erase(place)?;
    }
    disk.sync_dir().map_err(|error| Error::io("data directory", &error))?;
    let state = replay.finish(next_uid);
    for mut place in torn.into_iter().chain(free) {
        place.name_durable = true;
        pool.put(place);
    }
    let (durable_seq, newest) = state.newest();
    let witness = Witness::resume(found, Facts { durable_seq, newest, ..Facts::default() })?;
    Ok(Log {
        disk,
        options,
        pool,
        preparation: Mutex::new(Preparation::new(state.durable.seq)),
        state: Mutex::new(state),
        committing: Mutex::default(),
        witness: Mutex::new(witness),
        durable: AtomicU64::new(0),
        poison: OnceLock::new(),
        counters: super::Counters::default(),
    })
}

/// The index as it grows from segment to segment.
struct Replay {
    state: State,
    checkpoint: Option<LogCheckpoint>,
    /// Highest frame that the checkpoint knows.
    known_durable: u64,
    /// What `LOG-END` knows.
    facts: Facts,
    /// Truncations of the checkpoint that no segment has been reached for, oldest first.
    cuts: Vec<Cut>,
    votes: BTreeMap<GroupId, Bytes>,
    segments: Segments,
    end: Option<LogEnd>,
}

/// The newest segment, where appending goes on.
struct LogEnd {
    segment: Arc<Segment>,
    header: SegmentHeader,
    scanned: Scanned,
    summary: Summary,
}

impl Replay {
    fn new(mut state: State, checkpoint: Option<&LogCheckpoint>, facts: Facts) -> Self {
        let mut votes = BTreeMap::new();
        let mut cuts = Vec::new();
        if let Some(checkpoint) = checkpoint {
            for group in &checkpoint.groups {
                state.index.purge(group.group, group.purged.0, group.purged.1);
                votes.extend(group.vote.clone().map(|vote| (group.group, vote)));
            }
            cuts.clone_from(&checkpoint.cuts);
            cuts.sort_by_key(|cut| cut.uid);
        }
        let known_durable = checkpoint.map_or(0, |checkpoint| checkpoint.durable_seq);
        state.durable.seq = known_durable;
        let (checkpoint, segments) = (checkpoint.cloned(), Segments::new());
        Replay { state, checkpoint, known_durable, facts, cuts, votes, segments, end: None }
    }

    /// Replays all segments, oldest first. `torn` is one behind them whose first write was torn, and the
    /// frame that it would have begun with.
    fn segments(&mut self, live: Vec<FoundSegment>, torn: Option<(&PoolFile, u64)>) -> Result<()> {
        let headers: Vec<SegmentHeader> = live.iter().map(|found| found.header).collect();
        for (number, found) in live.into_iter().enumerate() {
            let FoundSegment { place, page, header } = found;
            let newest = number + 1 == headers.len();
            let next = headers.get(number + 1).filter(|next| next.uid == header.uid + 1);
            let begun_seq = if newest { torn.map(|torn| torn.1) } else { next.map(|next| next.first_seq) };
            self.cut_before(header.uid);

            let segment = Arc::new(Segment::new(header.uid, header.incarnation, self.state.pool().clone()));
            segment.bind(place.clone());
            self.segments.insert(header.uid, segment.clone());
            let mut known =
                self.known_last_seq(header.uid).max(begun_seq.map_or(0, |seq| seq.saturating_sub(1)));
            if newest {
                known = known.max(self.facts.durable_seq);
            }
            let (last_seq, sealed) = match read_footer(&place, &page, &header)? {
                Some(footer) => (self.footer(&segment, footer), true),
                None => self.frames(&segment, &place, &header, known, newest)?,
            };
            if sealed && newest {
                // A footer is written only when the next segment has a durable frame.
                return Err(match torn {
                    Some((damaged, _)) => corrupt(damaged, HEADER_PAGE, "frame"),
                    None => corrupt(&place, 0, "the segment after this one is missing"),
                });
            }
            // A torn one may be long out of date, if it was erased in the cache alone and a sync failed.
            if last_seq < known || next.is_some_and(|next| next.first_seq != last_seq + 1) {
                return Err(corrupt(&place, segment.durable_end(), "the next segment follows another frame"));
            }
            self.state.durable.seq = last_seq.max(self.state.durable.seq);
            self.state.durable.uid = header.uid;
            let told = self.facts.files().find(|file| file.slot == place.slot);
            self.state.durable.file_len = segment.durable_end().max(told.map_or(0, |file| file.len));
        }
        Ok(())
    }

    /// Applies the truncations that the checkpoint knows of segments up to `uid`, which may be gone.
    fn cut_before(&mut self, uid: u32) {
        let due = self.cuts.partition_point(|cut| cut.uid <= uid);
        for Cut { uid, group, index } in self.cuts.drain(..due) {
            self.state.index.cut(group, index);
            self.state.durable.cut(uid, group, index);
        }
    }

    /// The last frame that the checkpoint says was in the segment `uid`; 0 if it does not know.
    fn known_last_seq(&self, uid: u32) -> u64 {
        let Some(checkpoint) = &self.checkpoint else { return 0 };
        if uid + 1 == checkpoint.next_uid {
            return checkpoint.durable_seq;
        }
        checkpoint.last_seq(uid)
    }

    /// Takes in a footer; returns the segment's last seq.
    fn footer(&mut self, segment: &Segment, (offset, last_seq, groups): Footer) -> u64 {
        segment.set_durable_end(offset);
        segment.seal(Sealed { last_seq, groups: ranges(&groups) });
        for FooterGroup { group, cut, vote, runs } in groups {
            if let Some(cut) = cut {
                self.state.durable.cut(segment.uid(), group, cut);
            }
            if let Some((seq, vote)) = vote
                && seq > self.known_durable
            {
                self.votes.insert(group, vote);
            }
            self.state.index.restore(group, cut, runs);
        }
        last_seq
    }

    /// Takes in the frames of a segment, which must reach to `known` at least; returns its last seq and
    /// whether a footer follows.
    fn frames(
        &mut self,
        segment: &Arc<Segment>,
        place: &PoolFile,
        header: &SegmentHeader,
        known: u64,
        newest: bool,
    ) -> Result<(u64, bool)> {
        let mut summary = Summary::default();
        let scanned = scan::frames(place, header, |seq, record| {
            let at = Place { segment: header.uid, seq, offset: record.offset };
            let head = record.head;
            let what = (head.kind, head.group, head.term, head.index);
            if let Some(cut) = self.state.index.record(&mut summary, at, what, record.body) {
                self.state.durable.cut(header.uid, head.group, cut);
            }
            if head.kind == Kind::Vote && seq > self.known_durable {
                self.votes.insert(head.group, Bytes::copy_from_slice(record.body));
            }
        })?;
        let last_seq = scanned.next_seq - 1;
        let identity = (header.uid, header.incarnation);
        if last_seq < known || newest && scan::proves_durable(place, identity, scanned.end, scanned.next_seq)?
        {
            return Err(corrupt(place, scanned.end, "frame"));
        }
        let sealed = scanned.footer;
        segment.set_durable_end(scanned.last.map_or(HEADER_PAGE, |(_, end)| end));
        if newest {
            self.end = Some(LogEnd { segment: segment.clone(), header: *header, scanned, summary });
        } else {
            self.state.seal(segment, scanned.end, last_seq, &summary);
        }
        Ok((last_seq, sealed))
    }

    /// The state that appending goes on from.
    fn finish(self, next_uid: u32) -> State {
        let mut state = self.state;
        for (group, vote) in self.votes {
            state.index.set_vote(group, vote.clone());
            state.durable.votes.insert(group, vote);
        }
        let filling = self.end.map(|end| Filling {
            segment: end.segment,
            end: end.scanned.end,
            summary: end.summary,
            capacity: u64::from(state.options().segment_bytes),
            started: true,
        });
        state.resume(self.segments, next_uid, filling);
        state
    }
}

impl LogEnd {
    /// Makes sure that the end of the log is on the disk, not only in a cache, and that nothing behind it can
    /// ever be taken for a frame.
    fn make_durable(&self, known_durable: u64) -> Result<()> {
        let LogEnd { segment, header, scanned, .. } = self;
        let (file, name) = segment.readable()?;
        let failed = |error| Error::io(name, &error);
        if scanned.marked {
            return Ok(());
        }
        if let Some((start, end)) = scanned.last
            && scanned.next_seq - 1 > known_durable
        {
            let mut frame = vec![0; (end - start) as usize];
            file.read_at(start, &mut frame).map_err(failed)?;
            if start == HEADER_PAGE {
                file.write_at(0, &[IoSlice::new(&header.encode()), IoSlice::new(&frame)]).map_err(failed)?;
            } else {
                file.write_at(start, &[IoSlice::new(&frame)]).map_err(failed)?;
            }
            // On disk before the mark says so.
            file.sync().map_err(failed)?;
        }
        match write_mark(segment, scanned.end, scanned.next_seq - 1) {
            Err(Error::Full(_)) => {
                // No room for the whole mark, so there is no whole header of a torn frame either; what there
                // is of one goes.
                let len = file.len().map_err(failed)?.saturating_sub(scanned.end).min(FRAME_HEADER as u64);
                if len > 0 {
                    let zeros = [0; FRAME_HEADER];
                    file.write_at(scanned.end, &[IoSlice::new(&zeros[..len as usize])]).map_err(failed)?;
                }
            }
            other => other?,
        }
        file.sync().map_err(failed)
    }
}

/// Offset, last seq and content of a footer.
type Footer = (u64, u64, Vec<FooterGroup>);

/// The footer, if the segment's first page leads to a whole one.
pub(super) fn read_footer(place: &PoolFile, page: &[u8], header: &SegmentHeader) -> Result<Option<Footer>> {
    let seal = page.get(SEAL_AT as usize..).and_then(Seal::decode);
    let Some(seal) = seal.filter(|it| (it.uid, it.incarnation) == (header.uid, header.incarnation)) else {
        return Ok(None);
    };
    let Some((frame, bytes)) = scan::footer(place, header, seal.footer_at)? else { return Ok(None) };
    let groups = footer::decode(header.uid, &bytes);
    Ok(groups.map(|groups| (seal.footer_at, frame.seq, groups)))
}

/// Zeroes what a torn first write left of a segment, so that it can never be found whole.
fn erase(place: &PoolFile) -> Result<()> {
    let failed = |error| Error::io(&place.name, &error);
    let zeros = [0; HEADER_PAGE as usize + FRAME_HEADER];
    let len = place.len.min(zeros.len() as u64) as usize;
    place.file.write_at(0, &[IoSlice::new(&zeros[..len])]).map_err(failed)?;
    place.file.sync().map_err(failed)
}
