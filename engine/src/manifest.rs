//! What the store consists of: which tables, which segments, applied up to where. The root of everything.
//!
//! A manifest is a file `MANIFEST-NNNNNNNN`, an append-only list of edits; `CURRENT` names the one that
//! counts and is replaced by rename. Beyond 4 MiB, after a failed append, or after a start that found an
//! unfinished end, the state is written whole as the first edit of a new file.
//!
//! LAYOUT (little-endian; every crc is CRC-32 IEEE; numbers in a body LEB128, signed ones zig-zag)
//! ```text
//! | magic "KMAN" | format u16 | 0 u16 | number u64 | crc u32 |                          header
//! | magic "EDIT" | len u32 | seq u64 | body_crc u32 | crc u32 of the 20 bytes before |  an edit,
//! | body |
//! | magic "SEAL" | seq u64 | crc u32 |                                                  sealed once synced
//! body: | flags u8 | next_uid | compacted | n_removed | uid ... | n_added | uid, len, crc u32 ...
//!       | flag 1: log len, bytes | flag 2: applied, state len, bytes |
//! CURRENT: "keelson MANIFEST-NNNNNNNN XXXXXXXX\n", XXXXXXXX the crc of what stands before the second blank, hex
//! ```
//!
//! INVARIANTS
//! * An edit is written, synced, sealed, synced; only then does its caller act on it. So a bad edit without
//!   a seal is the torn end of a write that nobody relied on, and is dropped; a bad edit with its seal, or
//!   anything bad with something good after it, is [`Error::Corrupt`].
//! * Nothing is appended behind a torn end or a failed write: a new file is begun.
//! * While an edit's fate is unknown ([`Manifest::is_settled`] is false) no file that it, or the state
//!   before it, names may be removed.

mod codec;

use std::io::IoSlice;
use std::sync::Arc;

use bytes::Bytes;

use crate::disk::{Disk, File};
use crate::error::{Error, Result};
use crate::table::Applied;
use crate::table::writer::TableRecord;
pub(crate) use codec::is_file_name;
use codec::{current_text, edit_record, file_name, header, parse_current, read, seal};

/// Name of the file that names the manifest.
pub(crate) const CURRENT: &str = "CURRENT";
/// Name under which a new [`CURRENT`] is written.
pub(crate) const CURRENT_NEW: &str = "CURRENT.new";
/// Length beyond which the manifest is written anew, bytes.
const BYTES_MAX: u64 = 4 << 20;

/// What the manifest says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct State {
    /// Newest first.
    pub(crate) tables: Vec<TableRecord>,
    /// No table with this uid or a higher one was ever named.
    pub(crate) next_uid: u64,
    /// Compaction revision; tables may lack what it hides.
    pub(crate) compacted: i64,
    /// The log's checkpoint, opaque here; `None` before the first one.
    pub(crate) log: Option<Bytes>,
    /// What the tables hold exactly.
    pub(crate) applied: Applied,
    /// The caller's state at `applied`; `None` before the first flush.
    pub(crate) state: Option<Bytes>,
}

/// One change of the state.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Edit {
    /// Uids of tables that go.
    pub(crate) removed: Vec<u64>,
    /// Tables that come, newest first: in the place of the first removed one, or before all.
    pub(crate) added: Vec<TableRecord>,
    /// Raises [`State::next_uid`].
    pub(crate) next_uid: u64,
    /// Raises [`State::compacted`].
    pub(crate) compacted: i64,
    /// Replaces [`State::log`].
    pub(crate) log: Option<Bytes>,
    /// Replaces [`State::applied`] and [`State::state`].
    pub(crate) boundary: Option<(Applied, Bytes)>,
}

impl State {
    /// Takes in an edit.
    fn apply(&mut self, edit: &Edit) {
        let place = self.tables.iter().position(|table| edit.removed.contains(&table.uid)).unwrap_or(0);
        self.tables.retain(|table| !edit.removed.contains(&table.uid));
        self.tables.splice(place..place, edit.added.iter().copied());
        self.next_uid = self.next_uid.max(edit.next_uid);
        self.compacted = self.compacted.max(edit.compacted);
        if let Some(log) = &edit.log {
            self.log = Some(log.clone());
        }
        if let Some((applied, state)) = &edit.boundary {
            self.applied = applied.clone();
            self.state = Some(state.clone());
        }
    }

    /// The edit that makes this state of nothing.
    fn whole(&self) -> Edit {
        Edit {
            removed: Vec::new(),
            added: self.tables.clone(),
            next_uid: self.next_uid,
            compacted: self.compacted,
            log: self.log.clone(),
            boundary: self.state.as_ref().map(|state| (self.applied.clone(), state.clone())),
        }
    }
}

/// The open manifest.
#[derive(Debug)]
pub(crate) struct Manifest {
    disk: Arc<dyn Disk>,
    /// Number of the file that counts.
    number: u64,
    /// Number for the next file.
    next_number: u64,
    file: Arc<dyn File>,
    /// Where the next edit goes.
    end: u64,
    /// Length of the file's header and first edit.
    whole_len: u64,
    /// Sequence number of the next edit.
    seq: u64,
    state: State,
    /// Whether disk and `state` agree and the file can be appended to.
    settled: bool,
}

impl Manifest {
    /// Makes the manifest of a new store. `names`: what is in the directory.
    ///
    /// # Errors
    /// [`Error::Full`] and [`Error::Io`] from the disk.
    pub(crate) fn create(disk: Arc<dyn Disk>, names: &[String]) -> Result<Self> {
        let state = State { next_uid: 1, ..State::default() };
        let next_number = after_all(names);
        let (number, file, end) = write_whole(&*disk, next_number, &state)?;
        Ok(Manifest {
            disk,
            number,
            next_number: number + 1,
            file,
            end,
            whole_len: end,
            seq: 2,
            state,
            settled: true,
        })
    }

    /// Reads the manifest of a store and changes nothing; `None` if the directory holds no store.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for what is not as it was written, [`Error::Refused`] for another format,
    /// [`Error::Io`] from the disk.
    pub(crate) fn open(disk: Arc<dyn Disk>, names: &[String]) -> Result<Option<Self>> {
        if !names.iter().any(|name| name == CURRENT) {
            return Ok(None);
        }
        let (_, current) = read_file(&*disk, CURRENT)?;
        let number = parse_current(&current).map_err(|reason| corrupt(CURRENT, 0, reason))?;
        let name = file_name(number);
        if !names.contains(&name) {
            return Err(corrupt(&name, 0, "CURRENT names it and it is not there"));
        }
        let (file, bytes) = read_file(&*disk, &name)?;
        let content = read(&name, number, &bytes)?;
        let mut state = State::default();
        for edit in &content.edits {
            state.apply(edit);
        }
        let seq = content.edits.len() as u64 + 1;
        let settled = content.complete;
        Ok(Some(Manifest {
            disk,
            number,
            next_number: after_all(names),
            file,
            end: content.end,
            whole_len: content.whole_len,
            seq,
            state,
            settled,
        }))
    }

    /// What the manifest says.
    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// Name of the file that counts.
    pub(crate) fn name(&self) -> String {
        file_name(self.number)
    }

    /// Whether what is on the disk is known to be [`Manifest::state`].
    pub(crate) fn is_settled(&self) -> bool {
        self.settled
    }

    /// Writes a new file if what is on the disk is in doubt.
    ///
    /// # Errors
    /// [`Error::Full`] and [`Error::Io`] from the disk.
    pub(crate) fn settle(&mut self) -> Result<()> {
        if self.settled { Ok(()) } else { self.replace(self.state.clone()) }
    }

    /// Makes an edit durable and takes it in.
    ///
    /// # Errors
    /// [`Error::Full`] and [`Error::Io`] from the disk; then the state is as before here, and in doubt on
    /// the disk until a later edit or [`Manifest::settle`] succeeds.
    pub(crate) fn commit(&mut self, edit: &Edit) -> Result<()> {
        let mut state = self.state.clone();
        state.apply(edit);
        if !self.settled || self.end > BYTES_MAX.max(4 * self.whole_len) {
            return self.replace(state);
        }
        self.settled = false;
        let record = edit_record(self.seq, edit);
        self.write_synced(self.end, &record)?;
        let seal = seal(self.seq);
        self.write_synced(self.end + record.len() as u64, &seal)?;
        self.settled = true;
        self.end += (record.len() + seal.len()) as u64;
        self.seq += 1;
        self.state = state;
        Ok(())
    }

    fn write_synced(&self, at: u64, bytes: &[u8]) -> Result<()> {
        let written = self.file.write_at(at, &[IoSlice::new(bytes)]).and_then(|()| self.file.sync());
        written.map_err(|source| Error::io(&self.name(), &source))
    }

    /// Writes `state` as a new file and makes that the one that counts.
    fn replace(&mut self, state: State) -> Result<()> {
        self.settled = false;
        let next = self.next_number;
        self.next_number += 1;
        let (number, file, end) = write_whole(&*self.disk, next, &state)?;
        let old = self.name();
        (self.number, self.file, self.end, self.whole_len, self.seq) = (number, file, end, end, 2);
        self.state = state;
        self.settled = true;
        // Whatever cannot be removed now is removed at the next start.
        let _ = self.disk.remove(&old);
        Ok(())
    }
}

fn corrupt(file: &str, offset: u64, reason: &'static str) -> Error {
    Error::Corrupt { file: file.to_owned(), offset, reason }
}

/// A number above those of all manifests in the directory.
fn after_all(names: &[String]) -> u64 {
    names.iter().filter_map(|name| codec::number_of(name)).max().map_or(1, |number| number.saturating_add(1))
}

fn read_file(disk: &dyn Disk, name: &str) -> Result<(Arc<dyn File>, Bytes)> {
    let read = || {
        let file = disk.open(name)?;
        let len = usize::try_from(file.len()?).map_err(|_| std::io::ErrorKind::FileTooLarge)?;
        let mut bytes = vec![0; len];
        file.read_at(0, &mut bytes)?;
        Ok((file, bytes.into()))
    };
    read().map_err(|source| Error::io(name, &source))
}

/// Writes the state as manifest `number` and lets `CURRENT` name it; returns its number, file and length.
fn write_whole(disk: &dyn Disk, number: u64, state: &State) -> Result<(u64, Arc<dyn File>, u64)> {
    let name = file_name(number);
    let mut bytes = header(number);
    bytes.extend_from_slice(&edit_record(1, &state.whole()));
    bytes.extend_from_slice(&seal(1));
    let file = write_new(disk, &name, &bytes)?;
    if disk.list().map_err(|source| Error::io(CURRENT_NEW, &source))?.iter().any(|name| name == CURRENT_NEW) {
        disk.remove(CURRENT_NEW).map_err(|source| Error::io(CURRENT_NEW, &source))?;
    }
    write_new(disk, CURRENT_NEW, current_text(number).as_bytes())?;
    // The new manifest's name must be as durable as the name that leads to it.
    disk.sync_dir().map_err(|source| Error::io(&name, &source))?;
    disk.rename(CURRENT_NEW, CURRENT).map_err(|source| Error::io(CURRENT, &source))?;
    disk.sync_dir().map_err(|source| Error::io(CURRENT, &source))?;
    Ok((number, file, bytes.len() as u64))
}

/// Writes and syncs a new file; removes it again if that fails.
fn write_new(disk: &dyn Disk, name: &str, bytes: &[u8]) -> Result<Arc<dyn File>> {
    let file = disk.create(name).map_err(|source| Error::io(name, &source))?;
    match file.write_at(0, &[IoSlice::new(bytes)]).and_then(|()| file.sync()) {
        Ok(()) => Ok(file),
        Err(source) => {
            let _ = disk.remove(name);
            Err(Error::io(name, &source))
        }
    }
}

#[cfg(test)]
mod tests;
