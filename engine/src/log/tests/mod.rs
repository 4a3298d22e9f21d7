//! The log against a plain list of records, on a disk that crashes, fails, fills up and rots.

mod crash;
mod files;
mod model;
mod rot;
mod witness;

use super::{GroupId, Kind, LOG_END, Log, LogCheckpoint, LogOptions, Record};
use crate::disk::{Disk, MemoryDisk};
use crate::error::Result;
use bytes::Bytes;
use std::sync::Arc;

const GROUPS: [GroupId; 3] = [0, 1, 7];

fn options(seed: u64) -> LogOptions {
    LogOptions {
        segment_bytes: 16 << 10,
        tail_bytes: 4 << 10,
        frame_bytes_max: 6 << 10,
        prepare_after_bytes: 8 << 10,
        seed,
    }
}

fn entry(group: GroupId, term: u64, index: u64, body: Vec<u8>) -> Record {
    Record { group, kind: Kind::Entry, term, index, body: Bytes::from(body) }
}

/// Opens the log; makes one if the directory has none.
fn open(disk: &MemoryDisk, seed: u64, checkpoint: Option<&LogCheckpoint>) -> Result<Log> {
    if !disk.list().unwrap().iter().any(|name| name == LOG_END) {
        Log::create(disk)?;
    }
    Log::open(Arc::new(disk.clone()), options(seed), checkpoint)
}

fn commit_all(log: &Log) {
    while log.commit_step().unwrap().is_some() {}
}
