//! What is known of the log's end, kept beside it: the file `LOG-END`.
//!
//! Frames cannot tell that what followed them is gone: a log whose newest file was taken away, or cut short,
//! reads like one that never was longer. So a small file says how far the log certainly reached, and in which
//! files. It holds facts that stay true: a start that reads an older record learns less, never anything wrong.
//!
//! WHEN IT IS WRITTEN
//! * *Promise*, synced: a file is named before it becomes a segment. Files that were written ahead are named
//!   ahead, in the background; only when none is ready, as for the first segment of a store, the committer
//!   waits for it.
//! * *Note*, not synced: how far the log came, at each step of the background work. It outlives the process;
//!   a power cut may take it.
//! * *End*, synced: at a clean stop and at each opening.
//!
//! LAYOUT (little-endian): two places, at 0 and 4096, for one record each
//! ```text
//! | "KEOL" | format u32 | generation u64 | durable_seq u64 | uid u32 | slot u32 | len u64 | count u32 |
//! | slot u32, 0 u32, len u64: count times | crc u32 |
//! ```
//! The whole record with the highest generation counts.
//!
//! INVARIANTS
//! * The record that was synced last is not overwritten by the next one: one of the two is always whole.
//! * A length is told only if this process, or one whose record it read, has written and synced so much.
//! * A file is not removed while a record that may be read again names it.

use super::Log;
use super::format::FORMAT;
use super::pool::{PoolFile, file_name};
use crate::disk::{Disk, File};
use crate::error::{Error, Result};
use bytes::{Buf, BufMut};
use std::io::IoSlice;
use std::sync::Arc;

/// Name of the file.
pub const LOG_END: &str = "LOG-END";
/// Where the two records lie.
const PLACES: [u64; 2] = [0, 4096];
/// Space for a record.
const RECORD_BYTES: usize = 512;
const MAGIC: u32 = u32::from_le_bytes(*b"KEOL");
/// Files that a record names beside the newest segment's: the one being begun and those planned.
const COMING_MAX: usize = 8;

/// A file of a segment that must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KnownFile {
    pub(super) slot: u32,
    /// Its length at least, bytes.
    pub(super) len: u64,
}

/// The newest segment with a durable frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Newest {
    pub(super) uid: u32,
    pub(super) file: KnownFile,
}

/// What a record says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Facts {
    /// Number of the record: the highest counts.
    pub(super) generation: u64,
    /// Frames up to here were synced.
    pub(super) durable_seq: u64,
    /// Where the last of them lies; `None` before the first.
    pub(super) newest: Option<Newest>,
    /// Files in which later segments may have been begun.
    pub(super) coming: Vec<KnownFile>,
}

impl Facts {
    /// All files that must be there.
    pub(super) fn files(&self) -> impl Iterator<Item = KnownFile> {
        self.newest.iter().map(|newest| newest.file).chain(self.coming.iter().copied())
    }

    fn names(&self, slot: u32) -> bool {
        self.files().any(|file| file.slot == slot)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        assert!(self.coming.len() <= COMING_MAX, "{} files are named as coming", self.coming.len());
        let mut out = Vec::with_capacity(RECORD_BYTES);
        out.put_u32_le(MAGIC);
        out.put_u32_le(FORMAT);
        out.put_u64_le(self.generation);
        out.put_u64_le(self.durable_seq);
        out.put_u32_le(self.newest.map_or(0, |newest| newest.uid));
        out.put_u32_le(self.newest.map_or(0, |newest| newest.file.slot));
        out.put_u64_le(self.newest.map_or(0, |newest| newest.file.len));
        out.put_u32_le(self.coming.len() as u32);
        for file in &self.coming {
            out.put_u32_le(file.slot);
            out.put_u32_le(0);
            out.put_u64_le(file.len);
        }
        out.put_u32_le(crc32fast::hash(&out));
        out.resize(RECORD_BYTES, 0);
        out
    }

    /// Reads a record; `None` if it is not whole, and the version if it is of another format.
    pub(super) fn decode(record: &[u8]) -> Option<std::result::Result<Self, u32>> {
        let mut at = record;
        if at.try_get_u32_le().ok()? != MAGIC {
            return None;
        }
        let format = at.try_get_u32_le().ok()?;
        let generation = at.try_get_u64_le().ok()?;
        let durable_seq = at.try_get_u64_le().ok()?;
        let uid = at.try_get_u32_le().ok()?;
        let file = KnownFile { slot: at.try_get_u32_le().ok()?, len: at.try_get_u64_le().ok()? };
        let count = at.try_get_u32_le().ok()? as usize;
        if count > COMING_MAX {
            return None;
        }
        let mut coming = Vec::with_capacity(count);
        for _ in 0..count {
            let slot = at.try_get_u32_le().ok()?;
            at.try_get_u32_le().ok()?;
            coming.push(KnownFile { slot, len: at.try_get_u64_le().ok()? });
        }
        let covered = record.len() - at.len();
        if at.try_get_u32_le().ok()? != crc32fast::hash(&record[..covered]) {
            return None;
        }
        if format != FORMAT {
            return Some(Err(format));
        }
        let newest = (uid > 0).then_some(Newest { uid, file });
        Some(Ok(Facts { generation, durable_seq, newest, coming }))
    }
}

/// The file as it was found.
#[derive(Debug)]
pub(super) struct Found {
    file: Arc<dyn File>,
    pub(super) facts: Facts,
    /// The place to write to: not that of the record which was synced for sure.
    next: usize,
}

/// Reads the file and changes nothing; `None` if it is not there, or holds no whole record.
///
/// # Errors
/// [`Error::Refused`] for another format, [`Error::Io`].
pub(super) fn read(disk: &dyn Disk) -> Result<Option<Found>> {
    let failed = |error| Error::io(LOG_END, &error);
    if !disk.list().map_err(failed)?.iter().any(|name| name == LOG_END) {
        return Ok(None);
    }
    let file = disk.open(LOG_END).map_err(failed)?;
    let len = file.len().map_err(failed)?;
    let mut records: [Option<Facts>; 2] = [None, None];
    for (place, record) in PLACES.into_iter().zip(&mut records) {
        let mut bytes = vec![0; len.saturating_sub(place).min(RECORD_BYTES as u64) as usize];
        if bytes.is_empty() {
            continue;
        }
        file.read_at(place, &mut bytes).map_err(failed)?;
        *record = match Facts::decode(&bytes) {
            None => None,
            Some(Ok(facts)) => Some(facts),
            Some(Err(version)) => {
                let text = format!("{LOG_END} has format {version}, this program reads and writes {FORMAT}");
                return Err(Error::Refused(text));
            }
        };
    }
    // Of two the older was synced, as the younger was not written over the last synced one.
    let (facts, next) = match records {
        [None, None] => return Ok(None),
        [Some(first), None] => (first, 1),
        [None, Some(second)] => (second, 0),
        [Some(first), Some(second)] if first.generation > second.generation => (first, 0),
        [Some(_), Some(second)] => (second, 1),
    };
    Ok(Some(Found { file, facts, next }))
}

/// Makes the file of a log without segments; durable with its name on return.
///
/// # Errors
/// [`Error::Corrupt`] if there is one that knows of segments: the caller found none; [`Error::Io`] and
/// [`Error::Full`].
pub(super) fn create(disk: &dyn Disk) -> Result<()> {
    let failed = |error| Error::io(LOG_END, &error);
    let file = match read(disk)? {
        Some(found) if found.facts.files().next().is_some() => {
            let reason = "tells of segments, and the rest of the store is not there";
            return Err(Error::Corrupt { file: LOG_END.to_owned(), offset: 0, reason });
        }
        Some(found) => found.file,
        None if disk.list().map_err(failed)?.iter().any(|name| name == LOG_END) => {
            disk.open(LOG_END).map_err(failed)?
        }
        None => disk.create(LOG_END).map_err(failed)?,
    };
    let mut bytes = Facts { generation: 1, ..Facts::default() }.encode();
    bytes.resize(PLACES[1] as usize + RECORD_BYTES, 0);
    file.write_at(0, &[IoSlice::new(&bytes)]).and_then(|()| file.sync()).map_err(failed)?;
    disk.sync_dir().map_err(failed)
}

/// Refuses if a file that the facts name is gone or shorter than it was.
///
/// # Errors
/// [`Error::Corrupt`] naming it.
pub(super) fn check_files<'a>(facts: &Facts, mut len_of: impl FnMut(u32) -> Option<u64> + 'a) -> Result<()> {
    for known in facts.files() {
        let corrupt = |offset, reason| Error::Corrupt { file: file_name(known.slot), offset, reason };
        match len_of(known.slot) {
            None => return Err(corrupt(0, "the file is missing, and the newest writes may be in it")),
            Some(len) if len < known.len => {
                return Err(corrupt(
                    len,
                    "the file is shorter than it was, and the newest writes may be gone",
                ));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// The open file.
#[derive(Debug)]
pub(super) struct Witness {
    file: Arc<dyn File>,
    /// The record that was written last.
    written: Facts,
    /// The record that was synced last.
    synced: Facts,
    /// Where the next one goes.
    next: usize,
}

impl Witness {
    /// Goes on with a file that was found, with a new synced record.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(super) fn resume(found: Found, facts: Facts) -> Result<Self> {
        let Found { file, facts: before, next } = found;
        let mut witness = Witness { file, synced: before.clone(), written: before, next };
        witness.write(facts, true)?;
        Ok(witness)
    }

    /// Writes a record; its generation is set here.
    fn write(&mut self, mut facts: Facts, sync: bool) -> Result<()> {
        let failed = |error| Error::io(LOG_END, &error);
        assert!(
            facts.durable_seq >= self.written.durable_seq,
            "the log went back from frame {} to {}",
            self.written.durable_seq,
            facts.durable_seq
        );
        facts.generation = self.written.generation + 1;
        self.file.write_at(PLACES[self.next], &[IoSlice::new(&facts.encode())]).map_err(failed)?;
        self.written = facts;
        if sync {
            self.file.sync().map_err(failed)?;
            self.synced = self.written.clone();
            self.next = 1 - self.next;
        }
        Ok(())
    }

    /// Whether a record that may be read again names the file.
    fn names(&self, slot: u32) -> bool {
        self.written.names(slot) || self.synced.names(slot)
    }
}

impl Log {
    /// What is true now.
    fn facts(&self) -> Facts {
        // Before the newest segment is asked for: what is begun after this is still planned here.
        let coming = self.pool.coming();
        let (durable_seq, newest) = self.state.lock().newest();
        let coming = coming.into_iter().filter(|file| newest.is_none_or(|it| it.file.slot != file.slot));
        Facts { generation: 0, durable_seq, coming: coming.collect(), newest }
    }

    /// Writes down how far the log is durable, and syncs that: at a clean stop, once nothing waits to be
    /// committed. Then also a damaged end of the log is told from a torn one.
    ///
    /// # Errors
    /// [`Error::Io`]; what poisoned the log, if it is.
    pub fn note_end(&self) -> Result<()> {
        self.check_poison()?;
        let mut witness = self.witness.lock();
        let facts = self.facts();
        witness.write(facts, true)
    }

    /// Background: writes down how far the log is durable, without a sync unless files are named that the
    /// next segments go to. Little work, and none if nothing happened since.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn note_step(&self) -> Result<()> {
        if self.poisoned().is_some() {
            return Ok(());
        }
        let mut witness = self.witness.lock();
        let ready = self.pool.ready_to_plan();
        if ready.is_empty() {
            let facts = self.facts();
            let known = &witness.written;
            if (facts.durable_seq, facts.newest) == (known.durable_seq, known.newest) {
                return Ok(());
            }
            return witness.write(facts, false);
        }
        let mut facts = self.facts();
        facts.coming.extend(ready.iter().map(PoolFile::known));
        let written = witness.write(facts, true);
        for file in ready {
            // Named or not, it may be used for a segment only if that is durable.
            if written.is_ok() { self.pool.plan(file) } else { self.pool.put(file) }
        }
        written
    }

    /// A file for a segment that is to be begun, named in a durable record.
    pub(super) fn file_for_segment(&self) -> Result<PoolFile> {
        if let Some(file) = self.pool.take_planned() {
            return Ok(file);
        }
        let mut witness = self.witness.lock();
        // It may have been planned while this waited.
        if let Some(file) = self.pool.take_planned() {
            return Ok(file);
        }
        let mut file = match self.pool.take_longest() {
            Some(file) => file,
            None => self.pool.create(self.disk.as_ref())?,
        };
        if !file.name_durable {
            self.sync_dir()?;
            file.name_durable = true;
        }
        let mut facts = self.facts();
        facts.coming.push(file.known());
        witness.write(facts, true)?;
        self.pool.begin(&file);
        Ok(file)
    }

    /// A file that is to be removed, and that no record names that may be read again.
    pub(super) fn take_condemned(&self) -> Result<Option<PoolFile>> {
        let mut witness = self.witness.lock();
        if let Some(file) = self.pool.take_condemned(|slot| !witness.names(slot)) {
            return Ok(Some(file));
        }
        if !self.pool.has_condemned() {
            return Ok(None);
        }
        let facts = self.facts();
        witness.write(facts, true)?;
        Ok(self.pool.take_condemned(|slot| !witness.names(slot)))
    }
}
