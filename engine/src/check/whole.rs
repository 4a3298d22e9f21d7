//! The whole check, one part after the other; what is bad in one does not keep the next from being read.

use std::sync::Arc;

use super::sums::SumsWalk;
use super::{Damage, Progress};
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::log::verify::{self, SegmentFiles};
use crate::log::{LogCheckpoint, LogContent};
use crate::manifest::{CURRENT, Manifest, State};
use crate::table::reader::{Table, new_cache};
use crate::table::verify::Verification;
use crate::table::writer::file_name;

/// Bytes read between two reports of progress.
const STEP_BYTES: u64 = 4 << 20;
/// Values that are looked up together, so that neighbours are read in order.
const VALUES_AT_ONCE: usize = 256 << 10;

/// What a check found.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// All that is wrong; a start may still be possible, and the undamaged part be read.
    pub damages: Vec<Damage>,
    /// Live segments of the log.
    pub segments: u64,
    /// Frames in them.
    pub frames: u64,
    /// Records in those.
    pub records: u64,
    /// Tables of the index.
    pub tables: u64,
    /// Versions in them.
    pub versions: u64,
    /// Users' keys that exist in the tables.
    pub keys: u64,
    /// Values in the log that versions point to.
    pub values: u64,
    /// Revision up to which the tables are complete.
    pub revision: i64,
    /// Compaction revision.
    pub compacted: i64,
    /// Bytes read, values apart.
    pub bytes: u64,
}

/// Reads all of the store in `disk` and checks it; changes nothing. Memory is bounded but for the indexes of
/// the tables.
///
/// # Errors
/// [`Error::Refused`] if there is no store, or one of another format; [`Error::Io`] if not even the directory
/// can be read. What is damaged is in the report.
pub fn check(disk: &Arc<dyn Disk>, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Report> {
    let names = disk.list().map_err(|source| Error::io("data directory", &source))?;
    let mut report = Report::default();
    let manifest = match Manifest::open(Arc::clone(disk), &names) {
        Ok(Some(manifest)) => Some(manifest),
        Ok(None) if names.iter().any(|name| is_ours(name)) => {
            let reason = "is not there, and tables or segments are".to_owned();
            report.damages.push(Damage { file: CURRENT.to_owned(), offset: 0, reason });
            None
        }
        Ok(None) => return Err(Error::Refused("the directory holds no store: it has no CURRENT".to_owned())),
        Err(Error::Refused(text)) => return Err(Error::Refused(text)),
        Err(error) => {
            report.damages.push(error.into());
            None
        }
    };
    let state = manifest.as_ref().map(|manifest| manifest.state().clone());
    let checkpoint = state.as_ref().and_then(|state| state.log.as_ref()).and_then(|bytes| {
        let decoded = LogCheckpoint::decode(bytes);
        if decoded.is_none() {
            let reason = "checkpoint of the log does not decode".to_owned();
            let file = manifest.as_ref().map(Manifest::name).unwrap_or_default();
            report.damages.push(Damage { file, offset: 0, reason });
        }
        decoded
    });
    let (log, files) = check_log(&**disk, checkpoint.as_ref(), &mut report, progress)?;
    if let Some(state) = &state {
        check_boundary(state, &log, &mut report);
        check_tables(&**disk, state, &files, &mut report, progress)?;
    }
    Ok(report)
}

pub(super) fn is_ours(name: &str) -> bool {
    name.ends_with(".tab") || name.ends_with(".seg")
}

fn check_log(
    disk: &dyn Disk,
    checkpoint: Option<&LogCheckpoint>,
    report: &mut Report,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<(LogContent, SegmentFiles)> {
    let mut found = Vec::new();
    let mut tell = |done, total, file: &str| progress(Progress { stage: "log", file, done, total });
    let (log, files) = verify::verify(disk, checkpoint, &mut tell, &mut found)?;
    report.damages.extend(found.into_iter().map(Damage::from));
    report.segments = log.segments.len() as u64;
    report.frames = log.segments.iter().map(|segment| segment.frames).sum();
    report.records = log.segments.iter().map(|segment| segment.records).sum();
    report.bytes = log.segments.iter().map(|segment| segment.used_bytes).sum();
    Ok((log, files))
}

/// A start applies the log from the tables' boundary on.
fn check_boundary(state: &State, log: &LogContent, report: &mut Report) {
    report.revision = state.applied.revision;
    report.compacted = state.compacted;
    for (group, bounds) in &log.groups {
        let applied = state.applied.groups.get(group).copied().unwrap_or(0);
        if bounds.last.1 < applied {
            report.damages.push(Damage {
                file: log.segments.last().map(|segment| segment.file.clone()).unwrap_or_default(),
                offset: log.segments.last().map_or(0, |segment| segment.used_bytes),
                reason: format!(
                    "the log of group {group} ends at entry {}, the tables hold up to {applied}",
                    bounds.last.1
                ),
            });
        }
    }
}

fn check_tables(
    disk: &dyn Disk,
    state: &State,
    files: &SegmentFiles,
    report: &mut Report,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<()> {
    let total = state.tables.iter().map(|table| table.len).sum();
    let (mut done, mut whole) = (0, Vec::new());
    report.tables = state.tables.len() as u64;
    for record in &state.tables {
        let name = file_name(record.uid);
        let before = report.damages.len();
        progress(Progress { stage: "tables", file: &name, done, total });
        match Table::open(disk, *record, new_cache(0)) {
            Err(Error::Refused(text)) => return Err(Error::Refused(text)),
            Err(error) => report.damages.push(error.into()),
            Ok(table) => {
                let table = Arc::new(table);
                check_blocks(&table, report, &mut |position| {
                    progress(Progress { stage: "tables", file: &name, done: done + position, total });
                });
                if report.damages.len() == before {
                    whole.push(table);
                }
            }
        }
        done += record.len;
    }
    report.bytes += done;
    let complete = whole.len() == state.tables.len();
    check_versions(whole, complete, state.compacted, files, report, progress)
}

fn check_blocks(table: &Arc<Table>, report: &mut Report, tell: &mut dyn FnMut(u64)) {
    let mut verification = Verification::new(Arc::clone(table));
    loop {
        let mut found = Vec::new();
        let step = verification.step(STEP_BYTES, &mut found);
        report.damages.extend(found.into_iter().map(Damage::from));
        match step {
            Ok(true) => return,
            Ok(false) => {}
            Err(error) => report.damages.push(error.into()),
        }
        tell(verification.position());
    }
}

/// Weights and values. The weights only if the tables are `complete`: else they cannot be right.
fn check_versions(
    tables: Vec<Arc<Table>>,
    complete: bool,
    compacted: i64,
    files: &SegmentFiles,
    report: &mut Report,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<()> {
    let total: u64 = tables.iter().map(|table| table.footer().sums.versions).sum();
    let mut walk = SumsWalk::new(tables, compacted)?;
    let mut pointers = Vec::new();
    loop {
        let mut found = Vec::new();
        let step = walk.step(STEP_BYTES, &mut found, |pointer| pointers.push(pointer));
        if complete {
            report.damages.extend(found);
        }
        let ended = step.unwrap_or_else(|error| {
            report.damages.push(error.into());
            true
        });
        if ended || pointers.len() >= VALUES_AT_ONCE {
            let mut found = Vec::new();
            report.values += pointers.len() as u64;
            files.verify_values(&mut pointers, &mut found);
            report.damages.extend(found.into_iter().map(Damage::from));
        }
        let done = walk.versions_seen;
        progress(Progress { stage: "versions", file: "all tables", done, total });
        if ended {
            (report.versions, report.keys) = (walk.versions_seen, walk.keys);
            return Ok(());
        }
    }
}
