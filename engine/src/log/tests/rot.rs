//! Damage: one flipped bit, and files of any bytes.

use super::crash::{Step, World, step};
use super::model::{Model, differs};
use super::{GROUPS, commit_all, entry, open};
use crate::disk::{Disk, MemoryDisk};
use crate::error::Error;
use crate::log::{Log, LogCheckpoint, format};
use proptest::prelude::*;

/// Everything appended is durable, and all background work done.
fn settle(log: &Log) {
    commit_all(log);
    for _ in 0..2 {
        while log.prepare_step(1 << 20).unwrap() {}
    }
}

/// A log with some history and no faults, at rest.
fn settled(steps: &[Step]) -> World {
    let mut world = World::new();
    for step in steps {
        if !matches!(
            step,
            Step::FailSync { .. } | Step::FailWrite | Step::Pin | Step::End { power_cut: true, .. }
        ) {
            world.run(step);
        }
    }
    settle(&world.log);
    world
}

fn reopen(world: &World) -> crate::Result<Log> {
    let checkpoint = world.manifest.as_ref().map(|bytes| LogCheckpoint::decode(bytes).unwrap());
    open(&world.disk, 5, checkpoint.as_ref())
}

/// Somewhere in a file, often in its headers.
fn place() -> impl Strategy<Value = (usize, u64)> {
    (any::<usize>(), prop_oneof![1 => 0u64..600, 2 => 4096u64..4300, 6 => 0u64..32_000])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn a_flipped_bit_is_reported_with_its_file_or_does_no_harm(
        steps in proptest::collection::vec(step(), 1..50),
        (file, offset) in place(),
        bit in 0u8..8,
    ) {
        let world = settled(&steps);
        let names = world.disk.list().unwrap();
        prop_assume!(!names.is_empty());
        let name = &names[file % names.len()];
        world.disk.flip_bit(name, offset, bit);
        let before = files(&world.disk);
        let model = Model::of(&world.records);
        match reopen(&world) {
            Err(Error::Corrupt { file, .. }) => {
                prop_assert_eq!(&file, name);
                prop_assert!(files(&world.disk) == before, "a refused log is left as it is");
            }
            Err(error) => return Err(TestCaseError::fail(format!("not a report of damage: {error}"))),
            Ok(log) => {
                if let Err(text) = differs(&log, &model) {
                    prop_assert!(text.contains("corrupt data") && text.contains(name), "{} {offset}: {}", name, text);
                }
            }
        }
    }

    #[test]
    fn files_of_any_bytes_are_read_without_panic(
        contents in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..6000), 1..4),
    ) {
        let disk = MemoryDisk::new();
        for (slot, content) in contents.into_iter().enumerate() {
            disk.put_file(&format!("{slot:08}.seg"), content);
        }
        let log = open(&disk, 1, None).unwrap();
        prop_assert_eq!(differs(&log, &Model::default()), Ok(()), "garbage is no log");
    }

    #[test]
    fn damaged_files_are_read_without_panic(
        steps in proptest::collection::vec(step(), 1..50),
        damage in proptest::collection::vec((place(), proptest::collection::vec(any::<u8>(), 1..700)), 1..4),
        cut in proptest::option::of(place()),
    ) {
        let world = settled(&steps);
        let names = world.disk.list().unwrap();
        prop_assume!(!names.is_empty());
        for ((file, offset), bytes) in damage {
            let name = &names[file % names.len()];
            let mut content = world.disk.file_bytes(name).unwrap();
            for (old, new) in content.iter_mut().skip(offset as usize).zip(bytes) {
                *old = new;
            }
            world.disk.put_file(name, content);
        }
        if let Some((file, len)) = cut {
            let name = &names[file % names.len()];
            let mut content = world.disk.file_bytes(name).unwrap();
            content.truncate(len as usize);
            world.disk.put_file(name, content);
        }
        if let Ok(log) = reopen(&world) {
            for group in GROUPS {
                let _ = log.entries(group, 0, u64::MAX, usize::MAX);
            }
        }
    }
}

fn files(disk: &MemoryDisk) -> Vec<Vec<u8>> {
    disk.list().unwrap().iter().map(|name| disk.file_bytes(name).unwrap()).collect()
}

#[test]
fn rot_in_the_last_frame_is_told_from_a_torn_write_by_the_mark() {
    for (marked, reopened, why) in [
        (true, false, "the mark proves that it was synced"),
        (false, true, "so does the mark that opening leaves"),
        (false, false, "nothing does: it is cut"),
    ] {
        let disk = MemoryDisk::new();
        let log = open(&disk, 1, None).unwrap();
        for index in 1..=3 {
            log.append([entry(0, 1, index, vec![1; 100])]).unwrap();
            commit_all(&log);
        }
        if marked {
            settle(&log);
        }
        if reopened {
            open(&disk, 2, None).unwrap();
        }
        let last = log.entries(0, 3, 4, 0).unwrap().remove(0);
        disk.flip_bit("00000001.seg", u64::from(last.body_offset) + 50, 3);
        match open(&disk, 3, None) {
            Err(Error::Corrupt { file, offset, .. }) => {
                assert!(marked || reopened, "{why}");
                let frame = u64::from(last.body_offset) - (format::RECORD_HEAD + format::FRAME_HEADER) as u64;
                assert_eq!((file.as_str(), offset), ("00000001.seg", frame));
            }
            Ok(log) => {
                assert!(!marked && !reopened, "{why}");
                assert_eq!(log.bounds(0).unwrap().last, (1, 2));
            }
            Err(error) => panic!("{error}"),
        }
    }
}
