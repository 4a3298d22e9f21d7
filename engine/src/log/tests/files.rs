//! Files: their number, their size, reuse, real ones, and a disk that is slow, full or failing.

use super::{commit_all, entry, open, options};
use crate::disk::{DirDisk, Disk, File, MemoryDisk};
use crate::error::{Error, Result};
use crate::log::{Kind, Log, Record};
use bytes::Bytes;
use std::io::{self, IoSlice};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

fn append_and_commit(log: &Log, from: u64, count: u64, len: usize) {
    for index in from..from + count {
        log.append([entry(0, 1, index, vec![index as u8; len])]).unwrap();
        commit_all(log);
    }
}

fn segment_files(disk: &MemoryDisk) -> usize {
    disk.list().unwrap().iter().filter(|name| name.ends_with(".seg")).count()
}

fn release_all(log: &Log) -> Vec<u32> {
    let uids: Vec<u32> = log.sealed().iter().map(|segment| segment.uid).collect();
    log.release(&uids).unwrap();
    uids
}

#[test]
fn files_of_released_segments_are_used_again_once_no_pin_holds_them() {
    let disk = MemoryDisk::new();
    let log = open(&disk, 1, None).unwrap();
    append_and_commit(&log, 1, 40, 1000);
    let files = segment_files(&disk);
    assert_eq!(files, 4, "16 KiB hold ten records and a footer");
    let pin = log.pin();
    let old = log.entries(0, 1, 2, 0).unwrap().remove(0);
    assert_eq!(release_all(&log), [1, 2, 3]);
    append_and_commit(&log, 41, 20, 1000);
    assert!(segment_files(&disk) > files, "pinned files are not used again");
    let pointer = super::model::whole_body(&old);
    assert_eq!(log.value(pointer).unwrap(), old.body);
    assert!(log.entries(0, 1, 2, 0).unwrap().is_empty(), "the entries are gone from the index");
    drop(pin);
    assert!(matches!(log.value(pointer), Err(Error::Corrupt { .. })), "never another segment's bytes");
    let files = segment_files(&disk);
    append_and_commit(&log, 61, 20, 1000);
    assert_eq!(segment_files(&disk), files, "and now they are");
}

#[test]
fn a_commit_into_a_file_written_ahead_is_one_write_and_one_sync_without_growth() {
    let disk = MemoryDisk::new();
    let log = open(&disk, 1, None).unwrap();
    append_and_commit(&log, 1, 10, 1000);
    while log.prepare_step(4 << 10).unwrap() {}
    assert_eq!(segment_files(&disk), 3, "two files ahead");
    disk.set_free_bytes(Some(0));
    let before = (log.metrics(), disk.syncs());
    append_and_commit(&log, 11, 20, 1000);
    let after = (log.metrics(), disk.syncs());
    assert_eq!(after.0.syncs - before.0.syncs, 20);
    assert_eq!(after.1 - before.1, 20, "no sync of the directory either");
    assert_eq!(after.0.frames - before.0.frames, 20);
    assert!(log.sealed().len() >= 2, "over the ends of segments too");
}

#[test]
fn a_record_longer_than_a_segment_gets_a_file_of_its_own_which_is_not_kept() {
    let disk = MemoryDisk::new();
    let log = open(&disk, 1, None).unwrap();
    let body: Vec<u8> = (0..100_000u32).map(|n| n as u8).collect();
    log.append([entry(0, 1, 1, b"small".to_vec()), entry(0, 1, 2, body.clone())]).unwrap();
    log.append([entry(0, 1, 3, b"small".to_vec())]).unwrap();
    commit_all(&log);
    drop(log);
    let log = open(&disk, 2, None).unwrap();
    assert_eq!(log.entries(0, 2, 3, 0).unwrap()[0].body, body);
    assert_eq!(log.entries(0, 1, 9, usize::MAX).unwrap().len(), 3);
    let files = disk.list().unwrap().len();
    assert_eq!(release_all(&log), [1, 2]);
    while log.prepare_step(1 << 20).unwrap() {}
    let sizes = disk.list().unwrap().into_iter().map(|name| disk.file_bytes(&name).unwrap().len());
    assert!(sizes.max() <= Some(16 << 10), "of {files} files the long one was removed");
}

#[test]
fn entries_stop_at_the_limit_and_at_gaps() {
    let log = open(&MemoryDisk::new(), 1, None).unwrap();
    append_and_commit(&log, 1, 30, 1000);
    append_and_commit(&log, 40, 3, 10);
    for (from, to, bytes_max, want, why) in [
        (1, 100, usize::MAX, 1..=30, "the row ends at the gap"),
        (1, 100, 3500, 1..=3, "as many as fit"),
        (5, 100, 0, 5..=5, "one in any case"),
        (28, 100, 1000, 28..=28, "just filled"),
        (5, 7, usize::MAX, 5..=6, "half-open"),
        (40, 100, 20, 40..=41, "from memory"),
        (27, 31, 2500, 27..=28, "where memory and disk meet"),
    ] {
        let found: Vec<u64> =
            log.entries(0, from, to, bytes_max).unwrap().iter().map(|it| it.index).collect();
        assert_eq!(found, want.collect::<Vec<_>>(), "{from}..{to} up to {bytes_max}: {why}");
    }
    for (group, from, to) in [(0, 31, 40), (0, 50, 60), (0, 5, 5), (9, 1, 2)] {
        assert!(log.entries(group, from, to, 99).unwrap().is_empty(), "group {group}: {from}..{to}");
    }
}

#[test]
fn a_truncation_outlives_its_segment() {
    let disk = MemoryDisk::new();
    let log = open(&disk, 1, None).unwrap();
    let truncate = Record { group: 0, kind: Kind::Truncate, term: 0, index: 5, body: Bytes::new() };
    append_and_commit(&log, 1, 12, 1000);
    let vote = Bytes::from_static(b"for me");
    let record = Record { group: 3, kind: Kind::Vote, term: 1, index: 0, body: vote.clone() };
    log.append([truncate, record]).unwrap();
    for index in 1..=30 {
        log.append([entry(1, 1, index, vec![2; 1000])]).unwrap();
        commit_all(&log);
    }
    let mut checkpoint = log.checkpoint();
    // The truncation lies in the second segment; the first, with what it killed, stays.
    checkpoint.remove_segments(&[2]);
    log.release(&[2]).unwrap();
    drop(log);
    let log = open(&disk, 2, Some(&checkpoint)).unwrap();
    assert_eq!(log.bounds(0).unwrap().last, (1, 4), "dead entries stay dead");
    assert_eq!(log.vote(3), Some(vote), "votes stay");
    let again = log.checkpoint();
    assert_eq!(open(&disk, 3, Some(&again)).unwrap().bounds(0).unwrap().last, (1, 4));
}

#[test]
fn real_files_hold_a_log() {
    let directory = tempfile::tempdir().unwrap();
    let open = || -> Result<Log> { Log::open(Arc::new(DirDisk::open(directory.path())?), options(7), None) };
    Log::create(&DirDisk::open(directory.path()).unwrap()).unwrap();
    let log = open().unwrap();
    assert!(open().unwrap_err().to_string().contains("in use by another process"));
    append_and_commit(&log, 1, 50, 1500);
    while log.prepare_step(64 << 10).unwrap() {}
    drop(log);
    let log = open().unwrap();
    let entries = log.entries(0, 1, 100, usize::MAX).unwrap();
    assert_eq!(entries.len(), 50);
    assert!(entries.iter().all(|entry| entry.body == vec![entry.index as u8; 1500]));
    append_and_commit(&log, 51, 1, 10);
    assert_eq!(log.bounds(0).unwrap().last, (1, 51));
}

#[test]
fn after_a_failed_sync_nothing_is_accepted_and_nothing_reported_durable() {
    let disk = MemoryDisk::new();
    let log = open(&disk, 1, None).unwrap();
    append_and_commit(&log, 1, 1, 10);
    let durable = log.durable();
    log.append([entry(0, 1, 2, vec![1; 10])]).unwrap();
    disk.fail_next_sync();
    log.commit_step().unwrap_err();
    assert!(matches!(log.commit_step(), Err(Error::Io { .. })), "no second try");
    log.append([entry(0, 1, 3, vec![1; 10])]).unwrap_err();
    assert_eq!(log.durable(), durable);
    assert!(log.poisoned().is_some());
    assert!(!log.prepare_step(1 << 20).unwrap());
}

#[test]
fn a_full_disk_opens() {
    let disk = MemoryDisk::new();
    let log = open(&disk, 1, None).unwrap();
    append_and_commit(&log, 1, 3, 1000);
    disk.set_free_bytes(Some(0));
    // More than is left in the file that grew in a step.
    log.append([entry(0, 1, 4, vec![1; 60_000])]).unwrap();
    assert!(matches!(log.commit_step(), Err(Error::Full(_))));
    drop(log);
    let log = open(&disk, 2, None).unwrap();
    assert_eq!(log.bounds(0).unwrap().last, (1, 3));
    assert!(matches!(log.prepare_step(1 << 20), Ok(false)), "below the size from which it writes ahead");
}

#[test]
fn a_segment_of_another_format_version_is_refused_by_name() {
    let disk = MemoryDisk::new();
    let mut page = vec![0; 4096];
    page[..4].copy_from_slice(b"KLSG");
    page[4] = 9;
    let crc = crc32fast::hash(&page[..32]);
    page[32..36].copy_from_slice(&crc.to_le_bytes());
    disk.put_file("00000003.seg", page);
    let error = open(&disk, 1, None).unwrap_err();
    assert!(matches!(&error, Error::Refused(text) if text.contains("00000003.seg")), "{error}");
}

/// A disk whose syncs wait for permission.
#[derive(Debug)]
struct SlowDisk {
    disk: MemoryDisk,
    gate: Arc<Gate>,
}

#[derive(Debug)]
struct Gate {
    entered: Sender<()>,
    leave: Mutex<Receiver<()>>,
}

#[derive(Debug)]
struct SlowFile(Arc<dyn File>, Arc<Gate>);

impl Disk for SlowDisk {
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(SlowFile(self.disk.create(name)?, self.gate.clone())))
    }
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.disk.open(name)
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }
    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }
    fn sync_dir(&self) -> io::Result<()> {
        self.disk.sync_dir()
    }
    fn free_bytes(&self) -> io::Result<u64> {
        self.disk.free_bytes()
    }
}

impl File for SlowFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.0.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, parts: &[IoSlice<'_>]) -> io::Result<()> {
        self.0.write_at(offset, parts)
    }
    fn sync(&self) -> io::Result<()> {
        self.1.entered.send(()).map_err(io::Error::other)?;
        self.1.leave.lock().unwrap().recv().map_err(io::Error::other)?;
        self.0.sync()
    }
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }
}

#[test]
fn appending_and_reading_go_on_while_a_frame_is_synced() {
    let (entered, wait_entered) = channel();
    let (allow, leave) = channel();
    let gate = Arc::new(Gate { entered, leave: Mutex::new(leave) });
    let disk = SlowDisk { disk: MemoryDisk::new(), gate };
    Log::create(&disk.disk).unwrap();
    let log = Log::open(Arc::new(disk), options(1), None).unwrap();
    let first = log.append([entry(0, 1, 1, vec![1; 2000])]).unwrap();
    std::thread::scope(|scope| {
        let committer = scope.spawn(|| (log.commit_step(), log.commit_step()));
        wait_entered.recv().unwrap();
        let second = log.append([entry(0, 1, 2, vec![2; 100]), entry(0, 1, 3, vec![3; 100])]).unwrap();
        assert_eq!(log.entries(0, 1, 9, usize::MAX).unwrap().len(), 3, "readable before durable");
        assert!(log.durable() < first);
        assert!(!log.prepare_step(1000).unwrap(), "nor does background work wait");
        assert!(log.checkpoint().segments().next().is_none(), "a checkpoint tells of durable segments only");
        allow.send(()).unwrap();
        wait_entered.recv().unwrap();
        assert_eq!(log.durable(), first, "the first frame took what was there when it began");
        allow.send(()).unwrap();
        let (one, two) = committer.join().unwrap();
        assert_eq!(
            (one.unwrap(), two.unwrap()),
            (Some(first), Some(second)),
            "one frame for all that waited"
        );
    });
}
