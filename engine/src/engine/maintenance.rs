//! Background work: flush, merge, reclaim, prepare; one bounded step at a time.
//!
//! A step does the first of these that is due:
//! 1. flush the frozen memtable: write its table, then one edit with table, boundary and log checkpoint;
//! 2. merge neighbouring tables, chosen by [`crate::table::choice`], and swap them by one edit;
//! 3. hand back segments of the log that nothing needs: an edit without them, then the files;
//! 4. prepare files for coming segments.
//!
//! A disk that is full makes a step of 1 or 2 fail: the table is given up and its file removed, and the next
//! step passes 1 and 2 over, so that 3 gets its turn before they are tried again.
//!
//! WHEN A SEGMENT IS NOT NEEDED: it is sealed; no value of a table or a memtable lies in it; of each group
//! in it every entry is at or below the flushed boundary (a start does not read it), the purge mark (nobody
//! lags behind it) and below the history floor (no watch begins there).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::{Engine, Work};
use crate::error::{Error, Result};
use crate::log::{SegmentInfo, Ticket};
use crate::manifest::{Edit, Manifest};
use crate::mvcc::view::View;
use crate::table::Applied;
use crate::table::choice::{Garbage, choose};
use crate::table::memtable::Memtable;
use crate::table::merging::{Input, Merge};
use crate::table::reader::Table;
use crate::table::writer::{TableRecord, file_name};

/// A memtable that waits for its flush.
#[derive(Debug, Clone)]
pub(super) struct Frozen {
    pub(super) memtable: Arc<Memtable>,
    /// What it and the tables hold together, exactly.
    pub(super) applied: Applied,
    /// The caller's state at `applied`.
    pub(super) state: Bytes,
    /// The log is to be durable up to here before a table may rely on it.
    pub(super) ticket: Ticket,
}

/// What the maintaining thread works on.
#[derive(Debug)]
pub(super) struct Maintenance {
    manifest: Manifest,
    /// No table has this uid or a higher one.
    next_uid: u64,
    flush: Option<Merge>,
    merge: Option<TableMerge>,
    /// Tables that no view shows any more; their files go once no reader holds them and the manifest is
    /// settled.
    retired: Vec<Arc<Table>>,
    /// Files of tables that an edit in doubt may name; they go once the manifest is settled.
    doubtful: Vec<String>,
    /// Whether the next step leaves tables alone, because the last one found the disk full.
    pass_over: bool,
    /// Tables and compaction revision for which nothing was found to merge.
    contented: Option<(Vec<u64>, i64)>,
}

/// A merge of tables under way.
#[derive(Debug)]
struct TableMerge {
    merge: Merge,
    /// Newest first; neighbours in the view.
    inputs: Vec<Arc<Table>>,
}

impl Maintenance {
    pub(super) fn new(manifest: Manifest) -> Self {
        let next_uid = manifest.state().next_uid;
        Maintenance {
            manifest,
            next_uid,
            flush: None,
            merge: None,
            retired: Vec::new(),
            doubtful: Vec::new(),
            pass_over: false,
            contented: None,
        }
    }

    fn take_uid(&mut self) -> u64 {
        self.next_uid += 1;
        self.next_uid - 1
    }
}

/// One step; see [`Engine::maintain_step`].
pub(super) fn step(engine: &Engine, budget: u64) -> Result<Work> {
    let mut guard = engine.maintenance.lock();
    let maintenance = &mut *guard;
    remove_files(engine, maintenance)?;
    engine.log.note_step()?;
    if !std::mem::take(&mut maintenance.pass_over) {
        let frozen = engine.frozen.lock().clone();
        let done = match frozen {
            Some(frozen) if engine.log.durable() >= frozen.ticket => {
                flush_step(engine, maintenance, &frozen, budget)
            }
            _ => merge_step(engine, maintenance, budget),
        };
        match done {
            Ok(None) => {}
            Ok(Some(work)) => return Ok(work),
            Err(error) => {
                maintenance.pass_over = matches!(error, Error::Full(_));
                return Err(error);
            }
        }
    }
    if reclaim(engine, maintenance)? || engine.log.prepare_step(budget)? {
        return Ok(Work::More);
    }
    Ok(Work::Idle)
}

fn flush_step(
    engine: &Engine,
    maintenance: &mut Maintenance,
    frozen: &Frozen,
    budget: u64,
) -> Result<Option<Work>> {
    let table = if frozen.memtable.keys() == 0 {
        None
    } else {
        let mut merge = match maintenance.flush.take() {
            Some(merge) => merge,
            None => {
                let inputs = vec![Input::Memtable(Arc::clone(&frozen.memtable))];
                let with_oldest = engine.view().tables.is_empty();
                Merge::start(&*engine.disk, maintenance.take_uid(), inputs, engine.compacted(), with_oldest)?
            }
        };
        match advance(engine, &mut merge, budget, &frozen.applied) {
            Ok(Progress::Unfinished) => {
                maintenance.flush = Some(merge);
                return Ok(Some(Work::More));
            }
            Ok(Progress::Finished(record)) => record,
            Err(error) => {
                merge.abort(&*engine.disk);
                return Err(error);
            }
        }
    };
    let edit = Edit {
        added: table.into_iter().collect(),
        next_uid: maintenance.next_uid,
        compacted: engine.compacted(),
        log: Some(engine.log.checkpoint().encode().into()),
        boundary: Some((frozen.applied.clone(), frozen.state.clone())),
        ..Edit::default()
    };
    let tables = swap_tables(engine, maintenance, &edit, table, true)?;
    debug_assert!(tables.is_empty(), "a flush removes no tables");
    *engine.frozen.lock() = None;
    engine.counters.flushes.fetch_add(1, Ordering::Relaxed);
    Ok(Some(Work::Flushed(frozen.applied.clone())))
}

fn merge_step(engine: &Engine, maintenance: &mut Maintenance, budget: u64) -> Result<Option<Work>> {
    let Some(TableMerge { mut merge, inputs }) =
        maintenance.merge.take().map_or_else(|| start_merge(engine, maintenance), |merge| Ok(Some(merge)))?
    else {
        return Ok(None);
    };
    let applied = inputs[0].footer().applied.clone();
    let table = match advance(engine, &mut merge, budget, &applied) {
        Ok(Progress::Unfinished) => {
            maintenance.merge = Some(TableMerge { merge, inputs });
            return Ok(Some(Work::More));
        }
        Ok(Progress::Finished(record)) => record,
        Err(error) => {
            merge.abort(&*engine.disk);
            return Err(error);
        }
    };
    let edit = Edit {
        removed: inputs.iter().map(|table| table.record().uid).collect(),
        added: table.into_iter().collect(),
        next_uid: maintenance.next_uid,
        compacted: merge.compacted(),
        ..Edit::default()
    };
    let removed = swap_tables(engine, maintenance, &edit, table, false)?;
    maintenance.retired.extend(removed);
    engine.counters.merges.fetch_add(1, Ordering::Relaxed);
    Ok(Some(Work::More))
}

fn start_merge(engine: &Engine, maintenance: &mut Maintenance) -> Result<Option<TableMerge>> {
    let view = engine.view();
    let compacted = engine.compacted();
    let uids: Vec<u64> = view.tables.iter().map(|table| table.record().uid).collect();
    let current = Some((uids, compacted));
    if maintenance.contented == current {
        return Ok(None);
    }
    let bytes: Vec<u64> = view.tables.iter().map(|table| table.record().len).collect();
    let Some(group) = choose(&bytes, garbage(&view, compacted)) else {
        maintenance.contented = current;
        return Ok(None);
    };
    let with_oldest = group.end == view.tables.len();
    let inputs: Vec<_> = view.tables[group].to_vec();
    let tables = inputs.iter().cloned().map(Input::Table).collect();
    let merge = Merge::start(&*engine.disk, maintenance.take_uid(), tables, compacted, with_oldest)?;
    Ok(Some(TableMerge { merge, inputs }))
}

/// What a merge of all tables would leave out: of the versions at or below the compaction revision, all but
/// one for each key that is visible there. An estimate, exact where tables were written at that revision; so
/// after a merge of everything nothing is left to estimate wrongly, and merging comes to rest.
fn garbage(view: &View, compacted: i64) -> Garbage {
    let versions = view.tables.iter().map(|table| table.footer().sums.versions).sum();
    if let [only] = &view.tables[..]
        && only.footer().compacted == compacted
    {
        // The rule has been applied to it, whatever its weights say.
        return Garbage { versions, superfluous: 0 };
    }
    let (mut base, mut visible) = (0u64, 0i64);
    for table in &view.tables {
        let (versions, weight) = table.base(compacted);
        base += versions;
        visible += weight;
    }
    Garbage { versions, superfluous: base.saturating_sub(visible.max(0).cast_unsigned()) }
}

enum Progress {
    Unfinished,
    /// The table is complete and durable; `None` if nothing was left to write.
    Finished(Option<TableRecord>),
}

fn advance(engine: &Engine, merge: &mut Merge, budget: u64, applied: &Applied) -> Result<Progress> {
    if !merge.step(budget)? {
        return Ok(Progress::Unfinished);
    }
    let record = merge.finish(&*engine.disk, applied.clone())?;
    if record.is_some() {
        engine.disk.sync_dir().map_err(|source| Error::io("data directory", &source))?;
    }
    Ok(Progress::Finished(record))
}

/// Makes `edit` durable and shows it to readers; returns the tables that are shown no more.
fn swap_tables(
    engine: &Engine,
    maintenance: &mut Maintenance,
    edit: &Edit,
    added: Option<TableRecord>,
    thaw: bool,
) -> Result<Vec<Arc<Table>>> {
    let opened = match added {
        None => None,
        Some(record) => Some(Arc::new(Table::open(&*engine.disk, record, Arc::clone(&engine.cache))?)),
    };
    if let Err(error) = maintenance.manifest.commit(edit) {
        maintenance.doubtful.extend(added.map(|record| file_name(record.uid)));
        return Err(error);
    }
    let mut view = engine.view.write();
    let is_removed = |table: &Arc<Table>| edit.removed.contains(&table.record().uid);
    let place = view.tables.iter().position(is_removed).unwrap_or(0);
    let (removed, mut tables): (Vec<_>, Vec<_>) = view.tables.iter().cloned().partition(is_removed);
    tables.splice(place..place, opened);
    let shown = tables.iter().map(|table| table.record().uid);
    let named = maintenance.manifest.state().tables.iter().map(|record| record.uid);
    assert!(shown.eq(named), "the view shows other tables than the manifest names");
    let frozen = if thaw { None } else { view.frozen.clone() };
    *view = Arc::new(View { active: Arc::clone(&view.active), frozen, tables });
    Ok(removed)
}

/// Removes files of tables that nobody reads and no manifest names.
fn remove_files(engine: &Engine, maintenance: &mut Maintenance) -> Result<()> {
    if !maintenance.manifest.is_settled() {
        maintenance.manifest.settle()?;
    }
    let remove = |name: &str| engine.disk.remove(name).map_err(|source| Error::io(name, &source));
    for name in std::mem::take(&mut maintenance.doubtful) {
        remove(&name)?;
    }
    let (held, free): (Vec<_>, Vec<_>) =
        std::mem::take(&mut maintenance.retired).into_iter().partition(|table| Arc::strong_count(table) > 1);
    maintenance.retired = held;
    for table in free {
        remove(&file_name(table.record().uid))?;
    }
    Ok(())
}

/// Hands back the segments that nothing needs; `false` if there are none.
fn reclaim(engine: &Engine, maintenance: &mut Maintenance) -> Result<bool> {
    let sealed = engine.log.sealed();
    if sealed.is_empty() {
        return Ok(false);
    }
    let view = engine.view();
    let mut referenced: BTreeSet<u32> = BTreeSet::new();
    for memtable in view.memtables() {
        memtable.add_segments(&mut referenced);
    }
    referenced.extend(view.tables.iter().flat_map(|table| table.footer().segments.keys()));
    let floors = engine.history_floors.lock().clone();
    let flushed = &maintenance.manifest.state().applied.groups;
    let is_needed = |segment: &SegmentInfo| {
        referenced.contains(&segment.uid)
            || segment.groups.iter().any(|(group, _, last)| {
                let purged = engine.log.bounds(*group).map_or(0, |bounds| bounds.purged.1);
                let flushed = flushed.get(group).copied().unwrap_or(0);
                let floor = floors.get(group).copied().unwrap_or(0);
                *last > purged || *last > flushed || *last >= floor
            })
    };
    let uids: Vec<u32> =
        sealed.iter().filter(|segment| !is_needed(segment)).map(|segment| segment.uid).collect();
    if uids.is_empty() {
        return Ok(false);
    }
    let mut checkpoint = engine.log.checkpoint();
    checkpoint.remove_segments(&uids);
    let edit =
        Edit { next_uid: maintenance.next_uid, log: Some(checkpoint.encode().into()), ..Edit::default() };
    maintenance.manifest.commit(&edit)?;
    engine.log.release(&uids)?;
    engine.counters.segments_released.fetch_add(uids.len() as u64, Ordering::Relaxed);
    Ok(true)
}
