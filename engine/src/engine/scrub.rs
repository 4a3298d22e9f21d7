//! The scrub: reading everything that lies still, bit by bit, so that rot is found before it is needed.
//!
//! A round goes through the sealed segments, frame by frame; then the tables, block by block; both read past
//! the system's cache where the disk can, as only then the medium is looked at. Last come the weights of all
//! versions in the tables, key by key. What is written during a round is left to the next one; what goes
//! meanwhile is passed over. Nothing is held from one step to the next but a segment's or table's file.
//!
//! A wrong sum makes counts wrong. From then on they are made by going through the keys.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Engine;
use crate::check::Damage;
use crate::check::sums::SumsWalk;
use crate::error::{Error, Result};
use crate::log::verify::SealedScan;
use crate::table::reader::{Table, new_cache};
use crate::table::verify::Verification;
use crate::table::writer::TableRecord;
use crate::types::Space;

/// What a step of the scrub did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScrubStep {
    /// What it found damaged.
    pub damages: Vec<Damage>,
    /// About how many bytes it read.
    pub bytes: u64,
    /// Whether that was the end of a round: the next step begins another.
    pub round_ended: bool,
}

/// Where a round is.
#[derive(Debug, Default)]
pub(super) enum Scrub {
    /// The next step begins a round.
    #[default]
    Idle,
    /// In the sealed segments: the last one done, the one under way.
    Segments(u32, Option<Box<SealedScan>>),
    /// In the tables: those to be done, the one under way.
    Tables(Vec<TableRecord>, Option<Verification>),
    /// In the versions: the key to go on from.
    Sums(Space, Vec<u8>),
}

/// One step; see [`Engine::scrub_step`].
pub(super) fn step(engine: &Engine, budget: u64) -> Result<ScrubStep> {
    let mut scrub = engine.scrub.lock();
    let mut done = ScrubStep::default();
    let next = match std::mem::take(&mut *scrub) {
        Scrub::Idle => Scrub::Segments(0, None),
        Scrub::Segments(after, scan) => segments_step(engine, after, scan, budget, &mut done),
        Scrub::Tables(records, verification) => {
            tables_step(engine, records, verification, budget, &mut done)?
        }
        Scrub::Sums(space, key) => sums_step(engine, (space, key), budget, &mut done)?,
    };
    done.round_ended = matches!(next, Scrub::Idle);
    *scrub = next;
    Ok(done)
}

fn segments_step(
    engine: &Engine,
    after: u32,
    scan: Option<Box<SealedScan>>,
    budget: u64,
    done: &mut ScrubStep,
) -> Scrub {
    let mut scan = match scan
        .map_or_else(|| engine.log.scan_sealed(after).map(|scan| scan.map(Box::new)), |scan| Ok(Some(scan)))
    {
        Ok(Some(scan)) => scan,
        Ok(None) => {
            let records = engine.view().tables.iter().map(|table| table.record()).collect();
            return Scrub::Tables(records, None);
        }
        Err((uid, error)) => {
            done.damages.push(error.into());
            return Scrub::Segments(uid, None);
        }
    };
    let before = scan.position();
    let mut found = Vec::new();
    let ended = scan.step(budget, &mut found).unwrap_or_else(|error| {
        found.push(error);
        true
    });
    done.bytes = scan.position().saturating_sub(before);
    done.damages.extend(found.into_iter().map(Damage::from));
    if ended { Scrub::Segments(scan.uid(), None) } else { Scrub::Segments(after, Some(scan)) }
}

fn tables_step(
    engine: &Engine,
    mut records: Vec<TableRecord>,
    verification: Option<Verification>,
    budget: u64,
    done: &mut ScrubStep,
) -> Result<Scrub> {
    let verification = match verification {
        Some(verification) => Some(verification),
        None => match records.pop() {
            None => return Ok(Scrub::Sums(Space::Kv, Vec::new())),
            Some(record) => open(engine, record, done)?,
        },
    };
    let Some(mut verification) = verification else { return Ok(Scrub::Tables(records, None)) };
    let before = verification.position();
    let mut found = Vec::new();
    match verification.step(budget, &mut found) {
        Ok(true) => {
            done.damages.extend(found.into_iter().map(Damage::from));
            done.bytes = verification.position() - before;
            Ok(Scrub::Tables(records, None))
        }
        rest => {
            // A block that cannot be read is damage; the next step goes on behind it.
            found.extend(rest.err());
            done.damages.extend(found.into_iter().map(Damage::from));
            done.bytes = verification.position() - before;
            Ok(Scrub::Tables(records, Some(verification)))
        }
    }
}

/// Opens the table once more, past the cache; `None` if it has gone meanwhile, or is damaged.
fn open(engine: &Engine, record: TableRecord, done: &mut ScrubStep) -> Result<Option<Verification>> {
    let view = engine.view();
    // Held, so that the file is there.
    if !view.tables.iter().any(|table| table.record().uid == record.uid) {
        return Ok(None);
    }
    let name = crate::table::writer::file_name(record.uid);
    let opened = engine.disk.open_uncached(&name).map_err(|source| Error::io(&name, &source));
    match opened.and_then(|file| Table::of(file, record, new_cache(0))) {
        Ok(table) => Ok(Some(Verification::new(Arc::new(table)))),
        Err(error @ (Error::Corrupt { .. } | Error::Io { .. })) => {
            done.damages.push(error.into());
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn sums_step(engine: &Engine, start: (Space, Vec<u8>), budget: u64, done: &mut ScrubStep) -> Result<Scrub> {
    let view = engine.view();
    // Taken after the view: no merge in it has applied a later one.
    let compacted = engine.compacted();
    let tables = view.tables.clone();
    let mut walk = match SumsWalk::from(tables, compacted, start) {
        Ok(walk) => walk,
        // The tables' part of the round has told, or the next one will; sums are of no use then.
        Err(Error::Corrupt { .. } | Error::Io { .. }) => return Ok(Scrub::Idle),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    let ended = walk.step(budget, &mut found, |_| {}).unwrap_or(true);
    if !found.is_empty() {
        engine.sums_wrong.store(true, Ordering::Release);
    }
    done.bytes = walk.done;
    done.damages.extend(found);
    let (space, key) = walk.position();
    Ok(if ended { Scrub::Idle } else { Scrub::Sums(space, key) })
}
