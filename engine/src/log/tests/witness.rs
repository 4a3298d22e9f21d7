//! A log whose end was taken away while nobody looked.

use super::{commit_all, entry, open};
use crate::disk::{Disk, MemoryDisk};
use crate::error::Error;
use crate::log::witness::{Facts, KnownFile, LOG_END, Newest};
use crate::log::{Log, LogCheckpoint};
use proptest::prelude::*;

fn append(log: &Log, from: u64, count: u64) {
    for index in from..from + count {
        log.append([entry(0, 1, index, vec![index as u8; 1000])]).unwrap();
        commit_all(log);
    }
}

fn everything(disk: &MemoryDisk) -> Vec<(String, Vec<u8>)> {
    disk.list().unwrap().into_iter().map(|name| (name.clone(), disk.file_bytes(&name).unwrap())).collect()
}

/// How the process that wrote the log came to its end.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Stop {
    Clean,
    /// After a step of background work.
    Killed,
    /// Before one.
    KilledAtOnce,
    PowerCut,
}

fn damage(disk: &MemoryDisk, name: &str, cut_to: Option<u64>) {
    match cut_to {
        None => disk.remove(name).unwrap(),
        Some(len) => {
            let mut bytes = disk.file_bytes(name).unwrap();
            bytes.truncate(len as usize);
            disk.put_file(name, bytes);
        }
    }
}

fn zero_from(disk: &MemoryDisk, name: &str, from: usize) {
    let mut bytes = disk.file_bytes(name).unwrap();
    bytes[from..].fill(0);
    disk.put_file(name, bytes);
}

/// Twelve records, ten of them in the first segment; the second segment is 00000002.seg.
fn stopped(stop: Stop, checkpoint: bool) -> (MemoryDisk, Option<LogCheckpoint>) {
    let disk = MemoryDisk::new();
    let log = open(&disk, 1, None).unwrap();
    append(&log, 1, 12);
    let checkpoint = checkpoint.then(|| log.checkpoint());
    append(&log, 13, 2);
    match stop {
        Stop::Clean => log.note_end().unwrap(),
        Stop::Killed => log.note_step().unwrap(),
        Stop::KilledAtOnce => {}
        Stop::PowerCut => {
            log.note_step().unwrap();
            return (disk.crash(5), checkpoint);
        }
    }
    (disk, checkpoint)
}

#[test]
fn what_is_missing_at_the_end_is_named_and_nothing_is_changed() {
    let newest = "00000002.seg";
    for stop in [Stop::Clean, Stop::Killed, Stop::KilledAtOnce, Stop::PowerCut] {
        for with_checkpoint in [false, true] {
            for (name, cut_to, always, why) in [
                (newest, None, true, "its file was named before it began"),
                (newest, Some(0), false, "an empty file has no frames"),
                (newest, Some(5000), false, "not even the first frame is whole"),
                (newest, Some(7500), false, "two frames are left of four"),
                (newest, Some(16_000), false, "no frame is lost, but the file was longer"),
                ("00000001.seg", None, true, "the second needs the first"),
                (LOG_END, None, true, "it must be there"),
                (LOG_END, Some(30), false, "one whole record is enough"),
            ] {
                let (disk, checkpoint) = stopped(stop, with_checkpoint);
                damage(&disk, name, cut_to);
                let before = everything(&disk);
                let case = format!("{name} cut to {cut_to:?} after {stop:?}: {why}");
                match Log::open(std::sync::Arc::new(disk.clone()), super::options(2), checkpoint.as_ref()) {
                    Err(Error::Corrupt { file, .. }) => {
                        // Without a checkpoint it may be the second segment alone that tells of the first.
                        let told_by_second = name == "00000001.seg" && !with_checkpoint && file == newest;
                        assert!(file == name || told_by_second, "{file}: {case}");
                        assert_eq!(everything(&disk), before, "{case}");
                    }
                    Err(error) => panic!("{case}: {error}"),
                    Ok(log) => {
                        assert!(
                            !always && !matches!(stop, Stop::Clean | Stop::Killed) || name == LOG_END,
                            "{case}"
                        );
                        let known = if with_checkpoint { 12 } else { 10 };
                        assert!(log.bounds(0).unwrap().last.1 >= known, "{case}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_zeroed_end_is_damage_once_its_frames_were_noted() {
    for (stop, from, want) in [
        (Stop::Clean, 0, true),
        (Stop::Clean, 4096, true),
        (Stop::Clean, 6500, true),
        (Stop::Killed, 4096, true),
        (Stop::Killed, 6500, true),
        (Stop::KilledAtOnce, 6500, false),
    ] {
        let (disk, _) = stopped(stop, false);
        zero_from(&disk, "00000002.seg", from);
        let found = open(&disk, 2, None);
        match found {
            Err(Error::Corrupt { file, .. }) => {
                assert!(want, "{stop:?}, zeros from {from}");
                assert_eq!(file, "00000002.seg");
            }
            other => assert!(!want && other.is_ok(), "{stop:?}, zeros from {from}: {other:?}"),
        }
    }
}

#[test]
fn a_file_planned_for_the_next_segment_must_be_there() {
    let disk = MemoryDisk::new();
    let log = open(&disk, 1, None).unwrap();
    append(&log, 1, 10);
    while log.prepare_step(4 << 10).unwrap() {}
    drop(log);
    for cut_to in [None, Some(0), Some(16_000)] {
        let disk = disk.crash(3);
        damage(&disk, "00000002.seg", cut_to);
        let error = open(&disk, 2, None).unwrap_err().to_string();
        assert!(error.contains("00000002.seg"), "{error}");
    }
}

#[test]
fn a_long_file_is_removed_only_when_no_record_names_it() {
    let disk = MemoryDisk::new();
    let log = open(&disk, 1, None).unwrap();
    append(&log, 1, 1);
    log.append([entry(0, 1, 2, vec![2; 50_000])]).unwrap();
    commit_all(&log);
    log.note_end().unwrap();
    append(&log, 3, 1);
    log.release(&[1, 2]).unwrap();
    let checkpoint = {
        let mut checkpoint = log.checkpoint();
        checkpoint.remove_segments(&[1, 2]);
        checkpoint
    };
    while log.prepare_step(1 << 20).unwrap() {}
    assert!(!disk.list().unwrap().contains(&"00000002.seg".to_owned()), "too long to be kept");
    for seed in 0..40 {
        open(&disk.crash(seed), 2, Some(&checkpoint)).unwrap();
    }
}

#[test]
fn a_directory_that_lost_all_but_this_file_is_no_new_one() {
    let (disk, _) = stopped(Stop::Clean, false);
    for name in disk.list().unwrap().iter().filter(|name| *name != LOG_END) {
        disk.remove(name).unwrap();
    }
    let error = Log::create(&disk).unwrap_err();
    assert!(matches!(&error, Error::Corrupt { file, .. } if file == LOG_END), "{error}");
    let new = MemoryDisk::new();
    Log::create(&new).unwrap();
    Log::create(&new).expect("a start that ended early is begun again");
}

proptest! {
    #[test]
    fn records_come_back_and_cut_or_changed_ones_do_not(
        generation in any::<u64>(),
        durable_seq in any::<u64>(),
        newest in proptest::option::of((1u32.., any::<u32>(), any::<u64>())),
        coming in proptest::collection::vec((any::<u32>(), any::<u64>()), 0..5),
        at in 0usize..120,
    ) {
        let file = |(slot, len)| KnownFile { slot, len };
        let newest = newest.map(|(uid, slot, len)| Newest { uid, file: file((slot, len)) });
        let coming: Vec<_> = coming.into_iter().map(file).collect();
        let facts = Facts { generation, durable_seq, newest, coming };
        let bytes = facts.encode();
        let len = 44 + 16 * facts.coming.len() + 4;
        prop_assert_eq!(Facts::decode(&bytes), Some(Ok(facts)));
        prop_assert_eq!(Facts::decode(&bytes[..len - 1]), None);
        let mut changed = bytes.clone();
        changed[at % len] ^= 4;
        prop_assert_eq!(Facts::decode(&changed), None);
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let _ = Facts::decode(&bytes);
        let disk = MemoryDisk::new();
        disk.put_file(LOG_END, bytes);
        let _ = open(&disk, 1, None);
    }
}
