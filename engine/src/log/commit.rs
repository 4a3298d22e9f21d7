//! Group commit: one frame is written and synced while the next one fills.
//!
//! The committer's own lock is held over the I/O; the log's lock only to take the frame and to publish that
//! it is durable. A segment's header is written with its first frame, in one write, into a file that `LOG-END`
//! names (`witness`) and whose own name is durable.
//!
//! A file that was not written before grows in steps: the frame that reaches its end carries zeros behind it, in
//! the same write and under the same sync. So even then few syncs change metadata.

use super::Log;
use super::Ticket;
use super::format::HEADER_PAGE;
use super::frame::Frame;
use super::prepare::ZEROS;
use crate::error::{Error, Result};
use std::io::IoSlice;
use std::sync::atomic::Ordering;

/// How far the file of the newest segment was written, bytes.
#[derive(Debug, Default)]
pub(super) struct Written {
    uid: u32,
    len: u64,
}

/// Step in which a new file grows, bytes.
const GROWTH: u64 = 1 << 20;

impl Log {
    /// Writes and syncs one frame with everything appended so far, up to `frame_bytes_max`; one write and
    /// one sync, and for the first frame in a new file the directory's. `None` if nothing waits.
    ///
    /// Returns the highest ticket that is durable now. Called by one thread; others would only queue.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::Full`] if writing or syncing failed, now or ever before: the log takes
    /// nothing more, and what was not reported durable may or may not be there when it is opened again.
    pub fn commit_step(&self) -> Result<Option<Ticket>> {
        let mut written = self.committing.lock();
        self.check_poison()?;
        let (taken, synced_seq) = {
            let mut state = self.state.lock();
            (state.take_frame(), state.durable.seq)
        };
        let Some(mut frame) = taken else { return Ok(None) };
        frame.seal(synced_seq);
        let (bytes, written_to) =
            self.write_frame(&frame, &mut written).map_err(|error| self.poison_with(error))?;
        self.counters.bytes_written.fetch_add(bytes, Ordering::Relaxed);
        self.counters.frames.fetch_add(1, Ordering::Relaxed);
        let ticket = frame.ticket;
        let dropped = self.state.lock().committed(&frame, written_to);
        self.durable.store(ticket, Ordering::Release);
        drop(dropped);
        Ok(Some(Ticket(ticket)))
    }

    /// Writes and syncs a sealed frame; returns its bytes, and up to where its file was written with it.
    fn write_frame(&self, frame: &Frame, written: &mut Written) -> Result<(u64, u64)> {
        let header = frame.segment_header();
        let mut slices = Vec::new();
        if let Some(page) = &header {
            slices.push(IoSlice::new(page));
            frame.segment.bind(self.file_for_segment()?);
        }
        frame.slices(&mut slices);
        let place = frame.segment.place().expect("bound with the first frame");
        let offset = if header.is_some() { frame.offset - HEADER_PAGE } else { frame.offset };
        let failed = |error| Error::io(&place.name, &error);
        let bytes: u64 = slices.iter().map(|slice| slice.len() as u64).sum();
        if written.uid != frame.segment.uid() {
            *written = Written { uid: frame.segment.uid(), len: place.file.len().map_err(failed)? };
        }
        let end = offset + bytes;
        let mut target = end;
        if end > written.len {
            target = end.next_multiple_of(GROWTH).min(u64::from(self.options.segment_bytes)).max(end);
            let mut zeros = target - end;
            while zeros > 0 {
                let len = zeros.min(ZEROS.len() as u64);
                slices.push(IoSlice::new(&ZEROS[..len as usize]));
                zeros -= len;
            }
            written.len = target;
        }
        place.file.write_at(offset, &slices).map_err(failed)?;
        place.file.sync().map_err(failed)?;
        self.counters.syncs.fetch_add(1, Ordering::Relaxed);
        Ok((bytes, target))
    }

    pub(super) fn sync_dir(&self) -> Result<()> {
        self.disk.sync_dir().map_err(|error| Error::io("data directory", &error))
    }

    /// Refuses if a write or sync failed before.
    pub(super) fn check_poison(&self) -> Result<()> {
        self.poisoned().map_or(Ok(()), Err)
    }

    /// Poisons the log; the first error stays.
    pub(super) fn poison_with(&self, error: Error) -> Error {
        self.poison.get_or_init(|| error).clone()
    }
}
