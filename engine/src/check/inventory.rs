//! What is in a store, read as a start reads it.

use std::sync::Arc;

use bytes::Bytes;

use super::Damage;
use super::whole::is_ours;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::log::{LogCheckpoint, LogContent};
use crate::manifest::{self, Manifest};
use crate::table::Applied;
use crate::table::reader::{Table, new_cache};
use crate::table::writer::file_name;

/// What is in a table.
#[derive(Debug, Clone, Default)]
pub struct TableContent {
    /// Its number.
    pub uid: u64,
    /// Name of its file.
    pub file: String,
    /// Length of the file, bytes.
    pub bytes: u64,
    /// Keys with versions in it.
    pub keys: u64,
    /// Versions in it.
    pub versions: u64,
    /// Sum of their weights.
    pub weight: i64,
    /// Bytes of their values, inline and in the log.
    pub value_bytes: u64,
    /// Lowest and highest main revision.
    pub revisions: (i64, i64),
    /// Compaction revision by whose rule it was written.
    pub compacted: i64,
    /// First and last key, of whichever space.
    pub keys_between: (Bytes, Bytes),
    /// Segments that its versions point to, with the bytes of the values there.
    pub segments: Vec<(u32, u64)>,
    /// What it holds, with all older tables.
    pub applied: Applied,
}

/// What is in a store.
#[derive(Debug, Clone, Default)]
pub struct Inventory {
    /// Name of the manifest that counts.
    pub manifest: String,
    /// Number for the next table.
    pub next_table: u64,
    /// Compaction revision.
    pub compacted: i64,
    /// What the tables hold exactly.
    pub applied: Applied,
    /// The caller's state at that boundary.
    pub state: Option<Bytes>,
    /// Newest first.
    pub tables: Vec<TableContent>,
    /// The log.
    pub log: LogContent,
    /// Files that an interrupted flush, merge or change of manifests left, and a start removes.
    pub others: Vec<String>,
    /// What cannot be told because it is damaged.
    pub damages: Vec<Damage>,
}

/// Reads what a start reads and tells what is there; changes nothing.
///
/// # Errors
/// [`Error::Refused`] if there is no store, or one of another format; [`Error::Corrupt`] if the manifest is
/// damaged, as it leads to everything else; [`Error::Io`].
pub fn inspect(disk: &Arc<dyn Disk>) -> Result<Inventory> {
    let names = disk.list().map_err(|source| Error::io("data directory", &source))?;
    let manifest = Manifest::open(Arc::clone(disk), &names)?
        .ok_or_else(|| Error::Refused("the directory holds no store: it has no CURRENT".to_owned()))?;
    let state = manifest.state();
    let mut inventory = Inventory {
        manifest: manifest.name(),
        next_table: state.next_uid,
        compacted: state.compacted,
        applied: state.applied.clone(),
        state: state.state.clone(),
        ..Inventory::default()
    };
    for record in &state.tables {
        match Table::open(&**disk, *record, new_cache(0)) {
            Ok(table) => inventory.tables.push(table_content(&table)),
            Err(refused @ Error::Refused(_)) => return Err(refused),
            Err(error) => inventory.damages.push(error.into()),
        }
    }
    let checkpoint = state.log.as_ref().map(|bytes| {
        LogCheckpoint::decode(bytes).ok_or_else(|| Error::Corrupt {
            file: manifest.name(),
            offset: 0,
            reason: "checkpoint of the log does not decode",
        })
    });
    match crate::log::verify::content(&**disk, checkpoint.transpose()?.as_ref()) {
        Ok(log) => inventory.log = log,
        Err(error) => inventory.damages.push(error.into()),
    }
    let known = |name: &String| {
        *name == inventory.manifest
            || name == manifest::CURRENT
            || name == crate::log::LOG_END
            || state.tables.iter().any(|table| file_name(table.uid) == **name)
            || name.ends_with(".seg")
    };
    let orphan = |name: &&String| {
        !known(name) && (is_ours(name) || manifest::is_file_name(name) || *name == manifest::CURRENT_NEW)
    };
    inventory.others = names.iter().filter(orphan).cloned().collect();
    Ok(inventory)
}

fn table_content(table: &Table) -> TableContent {
    let footer = table.footer();
    TableContent {
        uid: footer.uid,
        file: file_name(footer.uid),
        bytes: table.record().len,
        keys: footer.keys,
        versions: footer.sums.versions,
        weight: footer.sums.weight,
        value_bytes: footer.sums.value_bytes,
        revisions: (footer.revisions.min, footer.revisions.max),
        compacted: footer.compacted,
        keys_between: (footer.first.1.clone(), footer.last.1.clone()),
        segments: footer.segments.iter().map(|(uid, bytes)| (*uid, *bytes)).collect(),
        applied: footer.applied.clone(),
    }
}
