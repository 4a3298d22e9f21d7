//! Files that wait to become segments.
//!
//! A sync of bytes written into a file that has been written before changes no metadata, and costs a half
//! or less of one that makes the file grow. So files of released segments are used again, and while there
//! are none, the next file is written with zeros ahead of time (`Log::prepare_step`).
//!
//! The lock here is a leaf: nothing else is locked and no I/O is done under it, for a segment may be
//! dropped anywhere.

use super::witness::KnownFile;
use crate::disk::{Disk, File};
use crate::error::{Error, Result};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// Files that stay in the pool in any case; beyond this, a tenth of the live segments.
const POOL_MIN: usize = 8;
/// Files that are kept written ahead, and named for the next segments.
pub(super) const READY: usize = 2;

/// A file with its number; named after it for good.
#[derive(Debug, Clone)]
pub(super) struct PoolFile {
    pub(super) slot: u32,
    pub(super) name: String,
    pub(super) file: Arc<dyn File>,
    /// Bytes of it that were ever written.
    pub(super) len: u64,
    /// Bytes of it that certainly survive a power cut.
    pub(super) synced_len: u64,
    /// Whether its name survives a power cut.
    pub(super) name_durable: bool,
}

impl PoolFile {
    /// What a power cut leaves of it at least.
    pub(super) fn known(&self) -> KnownFile {
        KnownFile { slot: self.slot, len: self.synced_len }
    }
}

#[derive(Debug, Default)]
struct State {
    free: Vec<PoolFile>,
    /// Files for the next segments, in this order; a durable record names them.
    planned: VecDeque<PoolFile>,
    /// The file of the segment that was begun last; in that record too.
    begun: Option<KnownFile>,
    /// Files of the wrong size or too many, to be removed.
    condemned: Vec<PoolFile>,
    next_slot: u32,
    live_segments: usize,
}

/// The files that are no segment now.
#[derive(Debug)]
pub(super) struct Pool {
    segment_bytes: u64,
    state: Mutex<State>,
}

/// The name of a segment's file.
pub(super) fn file_name(slot: u32) -> String {
    format!("{slot:08}.seg")
}

/// The slot in a name that [`file_name`] made.
pub(super) fn slot_of(name: &str) -> Option<u32> {
    let digits = name.strip_suffix(".seg")?;
    let slot = digits.parse().ok()?;
    (file_name(slot) == name).then_some(slot)
}

impl Pool {
    pub(super) fn new(segment_bytes: u64, next_slot: u32) -> Self {
        Pool { segment_bytes, state: Mutex::new(State { next_slot, ..State::default() }) }
    }

    /// Takes a file that no segment uses any more.
    pub(super) fn put(&self, mut place: PoolFile) {
        let len = place.file.len();
        let mut state = self.state.lock();
        let room = POOL_MIN.max(state.live_segments / 10);
        match len {
            Ok(len) if len <= self.segment_bytes && state.free.len() < room => {
                place.len = len;
                state.free.push(place);
            }
            // Too long, one too many, or not even its length can be read.
            Ok(_) | Err(_) => state.condemned.push(place),
        }
    }

    /// How many segments are live: sets how many free files are kept.
    pub(super) fn set_live_segments(&self, count: usize) {
        self.state.lock().live_segments = count;
    }

    /// The free file of which most was written before.
    pub(super) fn take_longest(&self) -> Option<PoolFile> {
        let mut state = self.state.lock();
        let (at, _) = state.free.iter().enumerate().max_by_key(|(_, file)| file.len)?;
        Some(state.free.swap_remove(at))
    }

    /// A free file of which some was never written, if fewer than [`READY`] files are ready.
    pub(super) fn take_unready(&self) -> Option<PoolFile> {
        let mut state = self.state.lock();
        if state.ready(self.segment_bytes) >= READY {
            return None;
        }
        let at = state.free.iter().position(|file| file.len < self.segment_bytes)?;
        let mut file = state.free.swap_remove(at);
        // What is not known to be there is written again.
        file.len = file.synced_len.min(file.len);
        Some(file)
    }

    /// How many files wait that were written in full.
    pub(super) fn ready(&self) -> usize {
        self.state.lock().ready(self.segment_bytes)
    }

    /// Takes out files, written in full, that are to be named for the next segments.
    pub(super) fn ready_to_plan(&self) -> Vec<PoolFile> {
        let mut state = self.state.lock();
        let missing = READY.saturating_sub(state.planned.len());
        let mut files = Vec::new();
        while files.len() < missing
            && let Some(at) =
                state.free.iter().position(|file| file.name_durable && file.len >= self.segment_bytes)
        {
            files.push(state.free.swap_remove(at));
        }
        files
    }

    /// A durable record names the file: it may become a segment.
    pub(super) fn plan(&self, file: PoolFile) {
        self.state.lock().planned.push_back(file);
    }

    /// The next file that was planned; it counts as begun from now on.
    pub(super) fn take_planned(&self) -> Option<PoolFile> {
        let mut state = self.state.lock();
        let file = state.planned.pop_front()?;
        state.begun = Some(file.known());
        Some(file)
    }

    /// A segment is to be begun in a file that was not planned, and that a durable record names.
    pub(super) fn begin(&self, file: &PoolFile) {
        self.state.lock().begun = Some(file.known());
    }

    /// Files in which segments were begun that may not be durable, or will be begun.
    pub(super) fn coming(&self) -> Vec<KnownFile> {
        let state = self.state.lock();
        state.begun.into_iter().chain(state.planned.iter().map(PoolFile::known)).collect()
    }

    /// A file to be removed, if there is one that may be.
    pub(super) fn take_condemned(&self, may_go: impl Fn(u32) -> bool) -> Option<PoolFile> {
        let mut state = self.state.lock();
        let at = state.condemned.iter().position(|file| may_go(file.slot))?;
        Some(state.condemned.swap_remove(at))
    }

    /// Whether files wait to be removed.
    pub(super) fn has_condemned(&self) -> bool {
        !self.state.lock().condemned.is_empty()
    }

    /// A new, empty file; its name is not durable yet.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::Full`] if it cannot be created.
    pub(super) fn create(&self, disk: &dyn Disk) -> Result<PoolFile> {
        let slot = {
            let mut state = self.state.lock();
            state.next_slot += 1;
            state.next_slot - 1
        };
        let name = file_name(slot);
        let file = disk.create(&name).map_err(|error| Error::io(&name, &error))?;
        Ok(PoolFile { slot, name, file, len: 0, synced_len: 0, name_durable: false })
    }
}

impl State {
    fn ready(&self, segment_bytes: u64) -> usize {
        self.planned.len() + self.free.iter().filter(|file| file.len >= segment_bytes).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_segments_are_taken_for_such() {
        for (name, want, why) in [
            ("00000001.seg", Some(1), "as written"),
            ("100000000.seg", Some(100_000_000), "nine digits when eight are used up"),
            ("1.seg", None, "not padded"),
            ("00000001.tab", None, "a table"),
            ("+0000001.seg", None, "a sign is no digit here"),
            ("CURRENT", None, "another file"),
        ] {
            assert_eq!(slot_of(name), want, "{name}: {why}");
        }
    }
}
