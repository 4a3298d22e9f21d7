//! Files that wait to become segments.
//!
//! A sync of bytes written into a file that has been written before changes no metadata, and costs a half
//! or less of one that makes the file grow. So files of released segments are used again, and while there
//! are none, the next file is written with zeros ahead of time (`Log::prepare_step`).
//!
//! The lock here is a leaf: nothing else is locked and no I/O is done under it, for a segment may be
//! dropped anywhere.

use crate::disk::{Disk, File};
use crate::error::{Error, Result};
use parking_lot::Mutex;
use std::sync::Arc;

/// Files that stay in the pool in any case; beyond this, a tenth of the live segments.
const POOL_MIN: usize = 8;

/// A file with its number; named after it for good.
#[derive(Debug, Clone)]
pub(super) struct PoolFile {
    pub(super) slot: u32,
    pub(super) name: String,
    pub(super) file: Arc<dyn File>,
    /// Bytes of it that were ever written.
    pub(super) len: u64,
    /// Whether its name survives a power cut.
    pub(super) name_durable: bool,
}

#[derive(Debug, Default)]
struct State {
    free: Vec<PoolFile>,
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

    /// A free file of which some was never written, if fewer than `ready` files are ready.
    pub(super) fn take_unready(&self, ready: usize) -> Option<PoolFile> {
        let mut state = self.state.lock();
        if state.free.iter().filter(|file| file.len >= self.segment_bytes).count() >= ready {
            return None;
        }
        let at = state.free.iter().position(|file| file.len < self.segment_bytes)?;
        Some(state.free.swap_remove(at))
    }

    /// How many files wait that were written in full.
    pub(super) fn ready(&self) -> usize {
        self.state.lock().free.iter().filter(|file| file.len >= self.segment_bytes).count()
    }

    /// A file to be removed.
    pub(super) fn take_condemned(&self) -> Option<PoolFile> {
        self.state.lock().condemned.pop()
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
        Ok(PoolFile { slot, name, file, len: 0, name_durable: false })
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
