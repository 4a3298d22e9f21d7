//! The log: every group's entries, votes and truncations in one row of checksummed frames, which is raft
//! log, write-ahead log, value store and watch history at once. It knows no raft: groups, terms and indexes
//! are numbers to it, bodies are bytes.
//!
//! READING ORDER
//! 1. `format`, `footer`, `checkpoint`: the bytes; docs/file-format.md in prose.
//! 2. `frame`, `segment`, `pool`: a group commit, a file in use, files waiting for use.
//! 3. `index`, `tail`, `state`: what is where, and what is still in memory.
//! 4. `commit`, `prepare`: writing; `read`, `window`: reading; `survey`, `scan`, `recover`: opening.
//! 5. `witness`: how far the log is known to reach, told by a file of its own. `verify`: reading all of it.
//!
//! HOW A RECORD TRAVELS. [`Log::append`] lays it out at its final place, in memory; it can be read at once.
//! [`Log::commit_step`] writes and syncs the oldest frame while the next one fills; no lock that appending or
//! reading needs is held meanwhile. When its segment is full, the next one starts, in a file from the pool
//! whose bytes were all written before, so that a sync changes no metadata. Once nobody needs a segment the
//! owner gives it back with [`Log::release`], and its file is used again under a new uid and incarnation.
//!
//! INVARIANTS
//! * A frame is written only after the one before it was synced: a power cut tears the last one at most.
//! * Frame headers of one incarnation were only ever written at or before the durable end, so a valid one
//!   further on proves that what is missing before it was durable.
//! * Torn or rot: a bad frame is a torn tail if nothing valid of this incarnation, and no later segment, mark
//!   or checkpoint tells that it was synced; recovery cuts there, and overwrites its header so that no later
//!   tear can revive it. Otherwise it is [`Error::Corrupt`] and nothing is changed.
//! * What the file `LOG-END` says was durable must be found: a missing or shortened file is no torn tail.
//! * After a failed write or sync nothing more is accepted. What recovery found and cannot know to be synced
//!   it writes again before it counts on it: a page that only the cache holds is no durable page.
//!
//! LOCKS, in the order in which they nest: `preparation`, `committing`, `witness`, `state`, the pool's. Only
//! the first three are held over I/O; append and reads take only `state`.

mod checkpoint;
mod commit;
mod footer;
mod format;
mod frame;
mod index;
mod pool;
mod prepare;
mod read;
mod recover;
mod scan;
mod segment;
mod state;
mod survey;
mod tail;
#[cfg(test)]
mod tests;
pub(crate) mod verify;
mod window;
mod witness;

use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::types::Pointer;
use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

pub use checkpoint::LogCheckpoint;
pub use segment::{SegmentInfo, SegmentPin};
pub use verify::{LogContent, SegmentContent};
pub use witness::LOG_END;

/// Number of a raft group on this node.
pub type GroupId = u32;

/// Longest body that a record may have, bytes: places in a segment are 32 bits wide.
pub const BODY_BYTES_MAX: usize = 1 << 30;

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum Kind {
    /// A whole entry of a group's log.
    Entry = 1,
    /// An entry whose effects are void without those that follow it.
    Part = 2,
    /// A group's vote; the latest counts. The body is the caller's affair, index is 0.
    Vote = 3,
    /// Entries of the group with an index of at least `index` are dead. No body.
    Truncate = 4,
}

impl Kind {
    /// Whether it has a place in its group's log.
    #[must_use]
    pub fn is_entry(self) -> bool {
        matches!(self, Kind::Entry | Kind::Part)
    }

    fn decode(byte: u8) -> Option<Self> {
        [Kind::Entry, Kind::Part, Kind::Vote, Kind::Truncate].into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// What is appended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Whose it is.
    pub group: GroupId,
    /// What it is.
    pub kind: Kind,
    /// Term of an entry; of the others for the caller's information.
    pub term: u64,
    /// Index of an entry. One that is taken already is replaced, and what follows it dies.
    pub index: u64,
    /// At most [`BODY_BYTES_MAX`] bytes.
    pub body: Bytes,
}

/// An entry and where it lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Whose it is.
    pub group: GroupId,
    /// [`Kind::Entry`] or [`Kind::Part`].
    pub kind: Kind,
    /// Its term.
    pub term: u64,
    /// Its index.
    pub index: u64,
    /// Its bytes.
    pub body: Bytes,
    /// Uid of the segment that it lies in, or will once it is written.
    pub segment: u32,
    /// Offset of the body's first byte in that segment.
    pub body_offset: u32,
}

/// How far a group's log reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bounds {
    /// Term and index of the last purged entry; (0, 0) if none was.
    pub purged: (u64, u64),
    /// Term and index of the last entry, or of the purge mark if that is higher; (0, 0) if there is none.
    pub last: (u64, u64),
}

/// Order of records: each one's ticket is higher than those before it. Counted anew with each opening.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ticket(pub u64);

/// Settings of the log.
#[derive(Debug, Clone)]
pub struct LogOptions {
    /// Size of a segment's file, bytes; a longer record gets a file of its own.
    pub segment_bytes: u32,
    /// Bytes of recent entries kept in memory once they are durable.
    pub tail_bytes: u64,
    /// Bytes of records in one frame; a longer record makes a frame of its own.
    pub frame_bytes_max: u64,
    /// Live bytes from which on the next files are written ahead: a small store stays small.
    pub prepare_after_bytes: u64,
    /// Where incarnations are drawn from; random at each opening, but in a simulation.
    pub seed: u64,
}

impl Default for LogOptions {
    fn default() -> Self {
        LogOptions {
            segment_bytes: 64 << 20,
            tail_bytes: 64 << 20,
            frame_bytes_max: 16 << 20,
            prepare_after_bytes: 32 << 20,
            seed: 0,
        }
    }
}

/// What the log did since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogMetrics {
    /// Syncs by the committer.
    pub syncs: u64,
    /// Bytes written by the committer.
    pub bytes_written: u64,
    /// Frames made durable.
    pub frames: u64,
}

#[derive(Debug, Default)]
struct Counters {
    syncs: AtomicU64,
    bytes_written: AtomicU64,
    frames: AtomicU64,
}

/// The log of one node. Appended to by one or more threads, committed by one, read by any.
#[derive(Debug)]
pub struct Log {
    disk: Arc<dyn Disk>,
    options: LogOptions,
    pool: Arc<pool::Pool>,
    state: Mutex<state::State>,
    /// Held by whoever writes at the log's end.
    committing: Mutex<commit::Written>,
    /// The file that tells how far the log reaches.
    witness: Mutex<witness::Witness>,
    preparation: Mutex<prepare::Preparation>,
    /// Ticket of the last durable record.
    durable: AtomicU64,
    /// The first failure of a write or sync.
    poison: OnceLock<Error>,
    counters: Counters,
}

impl Log {
    /// Makes what [`Log::open`] needs in a directory without a log; durable on return.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if there was a log whose segments are gone; [`Error::Io`] and [`Error::Full`].
    pub fn create(disk: &dyn Disk) -> Result<()> {
        witness::create(disk)
    }

    /// Opens the log in `disk`. `checkpoint` is what the manifest last recorded of it, `None` if it never did.
    ///
    /// Reads the footers of sealed segments and the frames of what has none. Writes only after all checks
    /// have passed, and at most the last frame again, and a mark behind it.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if durable bytes are damaged or gone; [`Error::Refused`] for a segment of another
    /// format version; [`Error::Io`] and [`Error::Full`].
    pub fn open(disk: Arc<dyn Disk>, options: LogOptions, checkpoint: Option<&LogCheckpoint>) -> Result<Log> {
        recover::open(disk, options, checkpoint)
    }

    /// Takes records, in this order, into the frame being filled. Memory only; entries can be read at once.
    /// Bodies are not copied. Returns the ticket of the last one; see [`Log::durable`].
    ///
    /// The log's lock is held while the records are drawn from the iterator: it must not use the log.
    ///
    /// # Errors
    /// What poisoned the log, if it is.
    ///
    /// # Panics
    /// If a body is longer than [`BODY_BYTES_MAX`].
    pub fn append(&self, records: impl IntoIterator<Item = Record>) -> Result<Ticket> {
        self.check_poison()?;
        let mut state = self.state.lock();
        let mut ticket = state.ticket();
        for record in records {
            let len = record.body.len();
            assert!(len <= BODY_BYTES_MAX, "record of {len} bytes, at most {BODY_BYTES_MAX} are allowed");
            ticket = state.append(record);
        }
        Ok(Ticket(ticket))
    }

    /// Ticket up to which all records are durable.
    #[must_use]
    pub fn durable(&self) -> Ticket {
        Ticket(self.durable.load(Ordering::Acquire))
    }

    /// The failure of a write or sync after which nothing more is accepted, if there was one.
    #[must_use]
    pub fn poisoned(&self) -> Option<Error> {
        self.poison.get().cloned()
    }

    /// How far the group's log reaches, durable or not; `None` for a group never heard of.
    #[must_use]
    pub fn bounds(&self, group: GroupId) -> Option<Bounds> {
        self.state.lock().index.bounds(group)
    }

    /// The group's latest vote, durable or not.
    #[must_use]
    pub fn vote(&self, group: GroupId) -> Option<Bytes> {
        self.state.lock().index.vote(group).cloned()
    }

    /// Live entries with `from <= index < to`, in order, from memory or disk; stops before the bodies become
    /// more than `bytes_max`, but gives one at least. A missing index (never written, or reclaimed) ends the
    /// list; the purge mark does not.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if an entry fails its checksum; [`Error::Io`].
    pub fn entries(&self, group: GroupId, from: u64, to: u64, bytes_max: usize) -> Result<Vec<Entry>> {
        let plan = read::Plan::new(&self.state.lock(), group, from, to, bytes_max)?;
        plan.read(bytes_max)
    }

    /// Entries up to `upto`, of that `term`, are no longer needed as raft log. In memory, and in the next
    /// checkpoint; they stay readable until their segments are released. The mark never goes back.
    pub fn purge(&self, group: GroupId, term: u64, upto: u64) {
        self.state.lock().index.purge(group, term, upto);
    }

    /// The bytes of a value; from memory or with one read.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if they do not hash to `pointer.crc`, or are gone; [`Error::Io`].
    pub fn value(&self, pointer: Pointer) -> Result<Bytes> {
        let mut out = Vec::with_capacity(1);
        self.values(&[pointer], &mut out)?;
        Ok(out.pop().expect("one pointer, one value"))
    }

    /// Appends the bytes of many values to `out`, in the order of `pointers`. Neighbours on disk are read
    /// together, up to 256 KiB at once.
    ///
    /// # Errors
    /// As [`Log::value`]; `out` is then as it was.
    pub fn values(&self, pointers: &[Pointer], out: &mut Vec<Bytes>) -> Result<()> {
        let mut found = vec![Bytes::new(); pointers.len()];
        let plan = read::ValuePlan::new(&self.state.lock(), pointers, &mut found)?;
        plan.read(&mut found)?;
        for (pointer, value) in pointers.iter().zip(&found) {
            if crc32fast::hash(value) != pointer.crc {
                let offset = u64::from(pointer.offset);
                return Err(Error::Corrupt { file: plan.file_name(*pointer), offset, reason: "value" });
            }
        }
        out.append(&mut found);
        Ok(())
    }

    /// State for the manifest, as of the durable end.
    #[must_use]
    pub fn checkpoint(&self) -> LogCheckpoint {
        self.state.lock().checkpoint()
    }

    /// Segments that are full and durable, oldest first: those that may be released.
    #[must_use]
    pub fn sealed(&self) -> Vec<SegmentInfo> {
        self.state.lock().sealed()
    }

    /// Gives segments up. First a checkpoint without them ([`LogCheckpoint::remove_segments`]) must have
    /// become durable. Their entries are gone at once; each file goes to the pool when its last pin is
    /// dropped. A uid that is not live is passed over.
    ///
    /// # Errors
    /// None today: files are removed later, by [`Log::prepare_step`].
    ///
    /// # Panics
    /// If a segment is not among [`Log::sealed`].
    pub fn release(&self, uids: &[u32]) -> Result<()> {
        let released = self.state.lock().release(uids);
        drop(released);
        Ok(())
    }

    /// Keeps the files of all live segments readable and un-recycled while held; costs one counter.
    #[must_use]
    pub fn pin(&self) -> SegmentPin {
        SegmentPin(self.state.lock().segments.clone())
    }

    /// Bytes of the live segments: kept records, no pool.
    #[must_use]
    pub fn live_bytes(&self) -> u64 {
        self.state.lock().live_bytes()
    }

    /// Bytes of all records appended since the log was opened.
    #[must_use]
    pub fn appended_bytes(&self) -> u64 {
        self.state.lock().appended_bytes()
    }

    /// What the committer did so far.
    #[must_use]
    pub fn metrics(&self) -> LogMetrics {
        LogMetrics {
            syncs: self.counters.syncs.load(Ordering::Relaxed),
            bytes_written: self.counters.bytes_written.load(Ordering::Relaxed),
            frames: self.counters.frames.load(Ordering::Relaxed),
        }
    }
}
