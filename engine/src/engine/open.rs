//! Opening a store: everything is read and judged first, and only then anything is changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};

use parking_lot::{Mutex, RwLock};

use super::maintenance::Maintenance;
use super::{Counters, Engine, Opened, Options};
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::log::{Log, LogCheckpoint};
use crate::manifest::{self, CURRENT, CURRENT_NEW, Manifest};
use crate::mvcc::view::View;
use crate::table::memtable::Memtable;
use crate::table::reader::{Table, new_cache};
use crate::table::writer::{TableRecord, file_name};

/// Name of the folder in which etcd keeps its data.
const ETCD_FOLDER: &str = "member";

pub(super) fn open(disk: Arc<dyn Disk>, options: Options) -> Result<Opened> {
    let names = disk.list().map_err(|source| Error::io("data directory", &source))?;
    refuse_foreign(&names)?;
    let mut manifest = match Manifest::open(Arc::clone(&disk), &names)? {
        Some(manifest) => manifest,
        None => {
            Log::create(&*disk)?;
            Manifest::create(Arc::clone(&disk), &names)?
        }
    };
    let state = manifest.state().clone();
    let cache = new_cache(options.block_cache_bytes);
    let mut tables = Vec::with_capacity(state.tables.len());
    for record in &state.tables {
        tables.push(Arc::new(Table::open(&*disk, *record, Arc::clone(&cache))?));
    }
    let checkpoint = match &state.log {
        None => None,
        Some(bytes) => Some(LogCheckpoint::decode(bytes).ok_or_else(|| Error::Corrupt {
            file: manifest.name(),
            offset: 0,
            reason: "checkpoint of the log does not decode",
        })?),
    };
    let log = Log::open(Arc::clone(&disk), options.log.clone(), checkpoint.as_ref())?;
    manifest.settle()?;
    remove_orphans(&*disk, &manifest, &state.tables)?;
    let view = View { active: Arc::new(Memtable::default()), frozen: None, tables };
    let engine = Engine {
        disk,
        options,
        log: Arc::new(log),
        cache,
        view: RwLock::new(Arc::new(view)),
        revision: AtomicI64::new(state.applied.revision),
        compacted: AtomicI64::new(state.compacted),
        applying: Mutex::new(()),
        frozen: Mutex::new(None),
        appended_at_freeze: AtomicU64::new(0),
        compacted_at_freeze: AtomicI64::new(state.compacted),
        history_floors: Mutex::new(BTreeMap::new()),
        maintenance: Mutex::new(Maintenance::new(manifest)),
        scrub: Mutex::default(),
        sums_wrong: AtomicBool::new(false),
        counters: Counters::default(),
    };
    Ok(Opened { engine, state: state.state, applied: state.applied })
}

fn refuse_foreign(names: &[String]) -> Result<()> {
    if names.iter().any(|name| name == ETCD_FOLDER) {
        return Err(Error::Refused(format!(
            "the data directory contains \"{ETCD_FOLDER}\": it belongs to etcd; choose another directory, or \
             import a snapshot of it"
        )));
    }
    let ours = |name: &&String| name.ends_with(".tab") || name.ends_with(".seg");
    match names.iter().find(ours) {
        Some(name) if !names.iter().any(|name| name == CURRENT) => Err(Error::Corrupt {
            file: CURRENT.to_owned(),
            offset: 0,
            reason: if name.ends_with(".tab") {
                "is not there, and tables are"
            } else {
                "is not there, and segments of the log are"
            },
        }),
        _ => Ok(()),
    }
}

/// Removes what an interrupted flush, merge or change of manifests left.
fn remove_orphans(disk: &dyn Disk, manifest: &Manifest, tables: &[TableRecord]) -> Result<()> {
    let known: BTreeSet<String> = tables.iter().map(|table| file_name(table.uid)).collect();
    let current = manifest.name();
    for name in disk.list().map_err(|source| Error::io("data directory", &source))? {
        let orphan = name.ends_with(".tab") && !known.contains(&name)
            || manifest::is_file_name(&name) && name != current
            || name == CURRENT_NEW;
        if orphan {
            disk.remove(&name).map_err(|source| Error::io(&name, &source))?;
        }
    }
    Ok(())
}
