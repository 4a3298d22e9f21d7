//! Work that nobody waits for: files written ahead, footers of sealed segments, marks of the durable end.
//!
//! A mark is an empty frame where the next one will go, which says that all before it was synced. It costs
//! one small write when the log has fallen idle, needs no sync, and takes no space, since the next frame
//! replaces it in place. It is what tells rot in the very last frame from a write torn by a power cut.

use super::Log;
use super::format::{FOOTER, FRAME_HEADER, FrameHeader, MARK, SEAL_AT, Seal};
use super::pool::{PoolFile, READY};
use super::segment::Segment;
use super::state::PendingFooter;
use crate::error::{Error, Result};
use std::io::IoSlice;

/// Zeros written at once.
pub(super) static ZEROS: [u8; 256 << 10] = [0; 256 << 10];

/// What the background work remembers.
#[derive(Debug, Default)]
pub(super) struct Preparation {
    /// The file being written with zeros, up to its `len`.
    filling: Option<PoolFile>,
    /// Durable frame that was the last at the step before: if it still is, the log is idle.
    seen_seq: u64,
    /// Durable frame that the mark on disk tells of.
    marked_seq: u64,
}

impl Preparation {
    /// At opening, when recovery has left a mark for the frame `marked_seq`.
    pub(super) fn new(marked_seq: u64) -> Self {
        Preparation { marked_seq, ..Preparation::default() }
    }
}

impl Log {
    /// Background: does one piece of work (removes a file, writes a footer, marks the end, writes at most
    /// `budget` bytes of zeros into the next segments' files); true while there is more to do.
    ///
    /// # Errors
    /// [`Error::Full`] if there is no space to write ahead: the log itself goes on. [`Error::Io`] if a
    /// file failed; only if it is the segment being appended to, the log is poisoned.
    pub fn prepare_step(&self, budget: u64) -> Result<bool> {
        let mut preparation = self.preparation.lock();
        if self.poison.get().is_some() {
            return Ok(false);
        }
        self.note_step()?;
        if let Some(file) = self.take_condemned()? {
            self.disk.remove(&file.name).map_err(|error| Error::io(&file.name, &error))?;
            return Ok(true);
        }
        let footer = self.state.lock().take_footer();
        if let Some(footer) = footer {
            write_footer(&footer)?;
            return Ok(true);
        }
        self.mark_if_idle(&mut preparation)?;
        self.write_ahead(&mut preparation, budget)
    }

    fn mark_if_idle(&self, preparation: &mut Preparation) -> Result<()> {
        // A committer at work is not idle, and must not be waited for.
        let Some(_committing) = self.committing.try_lock() else { return Ok(()) };
        let (idle_end, seq) = {
            let state = self.state.lock();
            (state.idle_end(), state.durable.seq)
        };
        let idle = std::mem::replace(&mut preparation.seen_seq, seq) == seq;
        let Some((segment, offset)) = idle_end else { return Ok(()) };
        if !idle || preparation.marked_seq == seq || self.poison.get().is_some() {
            return Ok(());
        }
        match write_mark(&segment, offset, seq) {
            Err(error @ Error::Io { .. }) => return Err(self.poison_with(error)),
            // A full disk can do without.
            Err(_) | Ok(()) => preparation.marked_seq = seq,
        }
        Ok(())
    }

    fn write_ahead(&self, preparation: &mut Preparation, budget: u64) -> Result<bool> {
        if preparation.filling.is_none() {
            let (live, appended) = {
                let state = self.state.lock();
                (state.live_bytes(), state.appended_bytes())
            };
            if live.max(appended) < self.options.prepare_after_bytes {
                return Ok(false);
            }
            preparation.filling = match self.pool.take_unready() {
                Some(file) => Some(file),
                None if self.pool.ready() < READY => Some(self.pool.create(self.disk.as_ref())?),
                None => return Ok(false),
            };
        }
        let Some(file) = &mut preparation.filling else { return Ok(false) };
        let name = file.name.clone();
        let failed = |error| Error::io(&name, &error);
        let target = u64::from(self.options.segment_bytes);
        let mut left = budget.max(1);
        while file.len < target && left > 0 {
            let len = left.min(target - file.len).min(ZEROS.len() as u64);
            file.file.write_at(file.len, &[IoSlice::new(&ZEROS[..len as usize])]).map_err(failed)?;
            file.len += len;
            left -= len;
        }
        if file.len < target {
            return Ok(true);
        }
        if let Err(error) = file.file.sync() {
            // No later sync says anything about what was written so far.
            file.len = file.synced_len;
            return Err(failed(error));
        }
        file.synced_len = file.len;
        if !file.name_durable {
            self.sync_dir()?;
            file.name_durable = true;
        }
        if let Some(file) = preparation.filling.take() {
            self.pool.put(file);
            self.note_step()?;
        }
        Ok(self.pool.ready() < READY)
    }
}

/// Says at `offset`, where the next frame of the segment goes, that frame `seq` was synced.
pub(super) fn write_mark(segment: &Segment, offset: u64, seq: u64) -> Result<()> {
    let Some(place) = segment.place() else { return Ok(()) };
    let mark = frame_header(segment, MARK, offset, seq, &[]).encode();
    place.file.write_at(offset, &[IoSlice::new(&mark)]).map_err(|error| Error::io(&place.name, &error))
}

/// Writes a footer and then, where it can be found from the segment's start, its place.
fn write_footer(footer: &PendingFooter) -> Result<()> {
    let PendingFooter { segment, offset, last_seq, bytes } = footer;
    let place = segment.place().expect("a durable segment has a file");
    let failed = |error| Error::io(&place.name, &error);
    let header = frame_header(segment, FOOTER, *offset, *last_seq, bytes).encode();
    let seal = Seal { uid: segment.uid(), incarnation: segment.incarnation(), footer_at: *offset }.encode();
    place.file.write_at(*offset, &[IoSlice::new(&header), IoSlice::new(bytes)]).map_err(failed)?;
    place.file.write_at(SEAL_AT, &[IoSlice::new(&seal)]).map_err(failed)?;
    place.file.sync().map_err(failed)
}

fn frame_header(segment: &Segment, flags: u16, offset: u64, seq: u64, bytes: &[u8]) -> FrameHeader {
    let small = |number: u64| u32::try_from(number).expect("segments are below 4 GiB");
    debug_assert!(offset.is_multiple_of(FRAME_HEADER as u64));
    FrameHeader {
        flags,
        uid: segment.uid(),
        offset: small(offset),
        incarnation: segment.incarnation(),
        seq,
        synced_seq: seq,
        len: small(bytes.len() as u64),
        records: 0,
        records_crc: crc32fast::hash(bytes),
    }
}
