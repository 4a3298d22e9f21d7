//! The engine's face: log, index and manifest as one store.
//!
//! PROTOCOL for its owner
//! 1. [`Engine::open`] gives the boundary that the tables hold exactly. Every log entry after it is applied
//!    again, each once: weights are not idempotent.
//! 2. One applier calls [`Engine::apply`] and, between batches, [`Engine::freeze`] when
//!    [`Engine::wants_flush`]. Reads come from any thread.
//! 3. One thread calls [`Engine::maintain_step`] again and again: it flushes, merges, hands segments back and
//!    prepares new ones, each step bounded.
//!
//! WHAT IT DOES NOT KNOW: what is in the log's entries; it is told what they change.
//!
//! INVARIANTS
//! * A revision is published after the writes that it stands for can be read.
//! * The compaction revision is published before anything that it hides is dropped, and a reader looks at it
//!   after taking its view: a read never misses a version silently.
//! * The manifest is changed by the maintaining thread alone, and a view is replaced only after the edit
//!   that it shows is durable.

mod maintenance;
mod open;
mod scrub;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};

use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::log::{GroupId, Log, LogOptions};
use crate::mvcc::view::View;
use crate::mvcc::{Direction, KeyMeta, KeyRange, Write};
use crate::table::Applied;
use crate::table::memtable::Memtable;
use crate::table::reader::BlockCache;
use crate::types::{Space, Value};
use maintenance::{Frozen, Maintenance};
use scrub::Scrub;
pub use scrub::ScrubStep;

/// Sizes of an engine.
#[derive(Debug, Clone)]
pub struct Options {
    /// Those of the log.
    pub log: LogOptions,
    /// Bytes of the memtable at which a flush is asked for.
    pub memtable_bytes_max: u64,
    /// Bytes appended to the log since the last flush at which one is asked for: bounds the work of a start.
    pub log_bytes_max_since_flush: u64,
    /// Bytes of table blocks kept in memory.
    pub block_cache_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            log: LogOptions::default(),
            memtable_bytes_max: 64 << 20,
            log_bytes_max_since_flush: 256 << 20,
            block_cache_bytes: 64 << 20,
        }
    }
}

/// An engine as it was found or made.
#[derive(Debug)]
pub struct Opened {
    /// The engine.
    pub engine: Engine,
    /// The caller's state as of the last flush; `None` if there never was one.
    pub state: Option<Bytes>,
    /// What the tables hold exactly: applying goes on behind it.
    pub applied: Applied,
}

/// What a step of maintenance did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// Nothing is to be done now.
    Idle,
    /// Something was done, and there may be more.
    More,
    /// A flush ended: a start would now begin behind this boundary. There may be more to do.
    Flushed(Applied),
}

/// What an engine holds, for metrics and quotas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Bytes of kept log records and tables; files that wait for reuse do not count.
    pub db_size_bytes: u64,
    /// Of these, bytes of the index and of the values that it points to.
    pub db_size_in_use_bytes: u64,
    /// Bytes of the memtables.
    pub memtable_bytes: u64,
    /// Number of tables.
    pub tables: u64,
    /// Bytes of the tables.
    pub table_bytes: u64,
    /// Versions in the tables, with those that are hidden and not merged away yet.
    pub table_versions: u64,
    /// Live segments of the log that are sealed.
    pub sealed_segments: u64,
    /// Flushes since the start.
    pub flushes: u64,
    /// Merges since the start.
    pub merges: u64,
    /// Segments handed back since the start.
    pub segments_released: u64,
}

/// A store of one node.
#[derive(Debug)]
pub struct Engine {
    disk: Arc<dyn Disk>,
    options: Options,
    log: Arc<Log>,
    cache: Arc<BlockCache>,
    /// What a read that starts now looks into.
    view: RwLock<Arc<View>>,
    /// Revision after the last applied batch.
    revision: AtomicI64,
    /// Compaction revision; 0 if there was none.
    compacted: AtomicI64,
    /// Held over a batch and over a freeze: a memtable gets no write once it is frozen.
    applying: Mutex<()>,
    /// The frozen memtable's boundary, until its flush has ended.
    frozen: Mutex<Option<Frozen>>,
    /// Log bytes appended when the memtable was last frozen.
    appended_at_freeze: AtomicU64,
    /// Compaction revision when the memtable was last frozen.
    compacted_at_freeze: AtomicI64,
    /// Per group, the index below which entries are not needed for the history.
    history_floors: Mutex<BTreeMap<GroupId, u64>>,
    maintenance: Mutex<Maintenance>,
    /// Where the scrub is.
    scrub: Mutex<Scrub>,
    /// Whether a scrub found weights that do not add up: counts go through the keys then.
    sums_wrong: AtomicBool,
    counters: Counters,
}

/// What was done since the start.
#[derive(Debug, Default)]
struct Counters {
    flushes: AtomicU64,
    merges: AtomicU64,
    segments_released: AtomicU64,
}

impl Engine {
    /// Opens the store in `disk`, or makes a new one if there is none. Reads the manifest, the tables' footers,
    /// indexes and filters, and the log behind its checkpoint; removes files that an interrupted flush or
    /// merge left.
    ///
    /// # Errors
    /// [`Error::Refused`] if the directory holds etcd's data or another format, [`Error::Corrupt`] naming file
    /// and offset of what is not as it was written; in both cases nothing was changed. [`Error::Full`] and
    /// [`Error::Io`] from the disk.
    pub fn open(disk: Arc<dyn Disk>, options: Options) -> Result<Opened> {
        open::open(disk, options)
    }

    /// The log. Who reads pointers and then values holds [`Log::pin`] over both.
    #[must_use]
    pub fn log(&self) -> &Arc<Log> {
        &self.log
    }

    /// Takes in one batch of applied changes; afterwards `revision` is the latest.
    ///
    /// # Panics
    /// If `revision` goes back, or a key's write comes after a newer one of the same key.
    pub fn apply(&self, writes: &[Write], revision: i64) {
        let _applying = self.applying.lock();
        let before = self.revision.load(Ordering::Acquire);
        assert!(revision >= before, "revision went back from {before} to {revision}");
        if !writes.is_empty() {
            let active = Arc::clone(&self.view.read().active);
            active.apply(writes);
        }
        self.revision.store(revision, Ordering::Release);
    }

    /// The revision after the last applied batch; 0 for an empty store.
    #[must_use]
    pub fn revision(&self) -> i64 {
        self.revision.load(Ordering::Acquire)
    }

    /// Raises the compaction revision: reads below it fail from now on, and what it hides goes with later
    /// merges. It is durable with the next flush or merge; until then the caller applies it again.
    pub fn compact(&self, revision: i64) {
        self.compacted.fetch_max(revision, Ordering::AcqRel);
    }

    /// The compaction revision; 0 if there was none.
    #[must_use]
    pub fn compacted(&self) -> i64 {
        self.compacted.load(Ordering::Acquire)
    }

    /// Says that the history needs no entries of `group` below `index`; until it is said, all are kept.
    pub fn set_history_floor(&self, group: GroupId, index: u64) {
        self.history_floors.lock().insert(group, index);
    }

    /// Whether memtable, log or a compaction ask for a flush, and none is under way. After a compaction the
    /// deletions before it must reach the tables, for until then what they hide keeps its space.
    #[must_use]
    pub fn wants_flush(&self) -> bool {
        let view = self.view();
        let appended = self.log.appended_bytes() - self.appended_at_freeze.load(Ordering::Acquire);
        view.frozen.is_none()
            && self.frozen.lock().is_none()
            && (view.active.bytes() >= self.options.memtable_bytes_max
                || appended >= self.options.log_bytes_max_since_flush
                || self.compacted() > self.compacted_at_freeze.load(Ordering::Acquire))
    }

    /// Ends the memtable and starts a new one; the maintaining thread flushes the old one.
    ///
    /// `applied` is the exact boundary of what was applied, `state` what the caller wants back with it.
    /// `false`, and nothing done, while another frozen memtable waits, or if the log is poisoned. Also good for a memtable without
    /// writes: it moves the boundary.
    ///
    /// # Panics
    /// If `applied` has another revision than [`Engine::revision`].
    pub fn freeze(&self, applied: Applied, state: Bytes) -> bool {
        let _applying = self.applying.lock();
        let revision = self.revision();
        assert!(applied.revision == revision, "boundary at {} frozen at {revision}", applied.revision);
        let mut frozen = self.frozen.lock();
        if frozen.is_some() {
            return false;
        }
        // Drawn from an empty row of records: the last ticket given so far.
        let Ok(ticket) = self.log.append([]) else { return false };
        let mut view = self.view.write();
        let memtable = Arc::clone(&view.active);
        *view = Arc::new(View {
            active: Arc::new(Memtable::default()),
            frozen: Some(Arc::clone(&memtable)),
            tables: view.tables.clone(),
        });
        self.appended_at_freeze.store(self.log.appended_bytes(), Ordering::Release);
        self.compacted_at_freeze.store(self.compacted(), Ordering::Release);
        *frozen = Some(Frozen { memtable, applied, state, ticket });
        true
    }

    /// Does one bounded step of background work: about `budget_bytes` of reading and writing, one sync at
    /// most for each file that it ends.
    ///
    /// # Errors
    /// [`Error::Full`] if a table could not be written: that work is given up, nothing is lost, and a later
    /// step tries again. [`Error::Corrupt`] if a table or the log is. [`Error::Io`]: end the process.
    pub fn maintain_step(&self, budget_bytes: u64) -> Result<Work> {
        maintenance::step(self, budget_bytes)
    }

    /// To be called at a clean stop, once everything appended is committed: a later start then tells a damaged
    /// end of the log from the torn one that a power cut leaves.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn note_end(&self) -> Result<()> {
        self.log.note_end()
    }

    /// Does one bounded step of reading everything again, about `budget_bytes`: sealed segments and tables past
    /// the system's cache, then the weights of all versions. For whoever keeps the pace, in no hurry; the
    /// work of [`Engine::maintain_step`] goes on meanwhile. Damage is reported, never mended.
    ///
    /// # Errors
    /// None today that is not damage: [`Error::Refused`] for a table of another format.
    pub fn scrub_step(&self, budget_bytes: u64) -> Result<ScrubStep> {
        scrub::step(self, budget_bytes)
    }

    /// The key as of `revision`; `None` if it did not exist then. A read of one block at most for each table
    /// whose filter admits the key, none if the memtable has it.
    ///
    /// # Errors
    /// [`Error::Compacted`] if `revision` is below the compaction revision; [`Error::Corrupt`] and
    /// [`Error::Io`] from a table.
    ///
    /// # Panics
    /// If `revision` is above [`Engine::revision`]; as all reads here.
    pub fn get(&self, space: Space, key: &[u8], revision: i64) -> Result<Option<KeyMeta>> {
        self.view_at(revision)?.get(space, key, revision)
    }

    /// The bytes of a value. The caller has held [`Log::pin`] since before it read the value's pointer.
    ///
    /// # Errors
    /// [`Error::Corrupt`] and [`Error::Io`] from the log.
    pub fn value(&self, value: &Value) -> Result<Bytes> {
        match value {
            Value::Inline(bytes) => Ok(bytes.clone()),
            Value::Pointer(pointer) => self.log.value(*pointer),
        }
    }

    /// How many keys of `range` exist as of `revision`. Sums of blocks and leaves; what is looked into is the
    /// ends of the range, and parts with newer creations and deletions.
    ///
    /// # Errors
    /// As [`Engine::get`].
    pub fn count(&self, space: Space, range: &KeyRange, revision: i64) -> Result<u64> {
        if self.sums_wrong.load(Ordering::Acquire) {
            return self.count_one_by_one(space, range, revision);
        }
        let count = self.view_at(revision)?.count(space, range, revision)?;
        assert!(count >= 0, "{count} keys of {space:?} in {range:?} at revision {revision}");
        Ok(count.cast_unsigned())
    }

    /// The count where sums cannot be trusted.
    fn count_one_by_one(&self, space: Space, range: &KeyRange, revision: i64) -> Result<u64> {
        let (mut rest, mut count, mut keys) = (range.clone(), 0, Vec::new());
        loop {
            keys.clear();
            self.scan(space, &rest, revision, Direction::Forward, 1000, &mut keys)?;
            let Some(last) = keys.last() else { return Ok(count) };
            count += keys.len() as u64;
            rest = rest.after(&last.key, Direction::Forward);
        }
    }

    /// Appends to `out` the first `limit` keys of `range`, in `direction`, that exist as of `revision`. To go
    /// on, ask for [`KeyRange::after`] the last.
    ///
    /// # Errors
    /// As [`Engine::get`].
    pub fn scan(
        &self,
        space: Space,
        range: &KeyRange,
        revision: i64,
        direction: Direction,
        limit: usize,
        out: &mut Vec<KeyMeta>,
    ) -> Result<()> {
        self.view_at(revision)?.scan(space, range, revision, direction, limit, out)
    }

    /// All versions in `range` with `from <= main revision <= to`, tombstones too, sorted by revision. Those
    /// that the compaction revision gives up are left out, merged away or not.
    ///
    /// # Errors
    /// [`Error::Corrupt`] and [`Error::Io`] from a table.
    pub fn history(&self, space: Space, range: &KeyRange, from: i64, to: i64) -> Result<Vec<KeyMeta>> {
        let view = self.view();
        // Taken after the view: no merge in it has applied a later one.
        let compacted = self.compacted();
        view.history(space, range, (from, to), compacted)
    }

    /// Reads every block of every table and checks it.
    ///
    /// # Errors
    /// [`Error::Corrupt`] at the first that is not as it was written, [`Error::Io`] if one cannot be read.
    pub fn verify_tables(&self) -> Result<()> {
        self.view().tables.iter().try_for_each(|table| table.verify())
    }

    /// What the engine holds now.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let view = self.view();
        let footers = || view.tables.iter().map(|table| table.footer());
        let table_bytes = view.table_bytes();
        let db_size_bytes = self.log.live_bytes() + table_bytes;
        let memtable_bytes: u64 = view.memtables().map(|memtable| memtable.bytes()).sum();
        let pointed_to = footers().flat_map(|footer| footer.segments.values()).sum::<u64>()
            + view.memtables().map(|memtable| memtable.log_bytes()).sum::<u64>();
        Stats {
            db_size_bytes,
            db_size_in_use_bytes: db_size_bytes.min(table_bytes + memtable_bytes + pointed_to),
            memtable_bytes,
            tables: view.tables.len() as u64,
            table_bytes,
            table_versions: footers().map(|footer| footer.sums.versions).sum(),
            sealed_segments: self.log.sealed().len() as u64,
            flushes: self.counters.flushes.load(Ordering::Relaxed),
            merges: self.counters.merges.load(Ordering::Relaxed),
            segments_released: self.counters.segments_released.load(Ordering::Relaxed),
        }
    }

    /// [`Stats::db_size_bytes`] alone, for whoever asks often.
    #[must_use]
    pub fn db_size_bytes(&self) -> u64 {
        self.log.live_bytes() + self.view().table_bytes()
    }

    fn view(&self) -> Arc<View> {
        Arc::clone(&self.view.read())
    }

    /// A view that holds everything up to `revision`.
    fn view_at(&self, revision: i64) -> Result<Arc<View>> {
        // Before the view is taken: what was published by then is in it.
        let latest = self.revision();
        assert!(revision <= latest, "read at revision {revision}, the latest is {latest}");
        let view = self.view();
        // After it: a merge in it may have dropped what this hides.
        let oldest = self.compacted();
        if revision < oldest {
            return Err(Error::Compacted { oldest });
        }
        Ok(view)
    }
}

#[cfg(test)]
pub(crate) mod tests;
