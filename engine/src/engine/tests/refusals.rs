//! Foreign directories, full disks, rot, failing disks.

use std::sync::Arc;

use super::world::{World, options};
use crate::KeyRange;
use crate::disk::{Disk, MemoryDisk};
use crate::engine::{Engine, Work};
use crate::error::Error;

fn everything(disk: &MemoryDisk) -> Vec<(String, Option<Vec<u8>>)> {
    disk.list().unwrap().into_iter().map(|name| (name.clone(), disk.file_bytes(&name))).collect()
}

fn filled() -> World {
    let mut world = World::new();
    for round in 0..6u16 {
        world.batch(&[(0..30).map(|key| (key, Some(usize::from(key + round) * 9))).collect()]);
        world.freeze();
        world.settle();
    }
    world
}

#[test]
fn foreign_directories_are_refused_and_left_alone() {
    for (names, want, why) in [
        (&["member"][..], "it belongs to etcd", "etcd's data"),
        (
            &["00000001.seg"],
            "CURRENT at offset 0: is not there, and segments of the log are",
            "CURRENT was lost",
        ),
        (&["00000001.tab"], "CURRENT at offset 0: is not there, and tables are", "CURRENT was lost"),
    ] {
        let disk = MemoryDisk::new();
        for name in names {
            disk.put_file(name, b"x".to_vec());
        }
        let before = everything(&disk);
        let error = Engine::open(Arc::new(disk.clone()), options()).unwrap_err();
        assert!(error.to_string().contains(want), "{why}: {error}");
        assert_eq!(everything(&disk), before, "{why}");
    }
}

#[test]
fn other_files_are_left_alone_and_orphans_removed() {
    let world = filled();
    let disk = world.disk.clone();
    disk.put_file("lost+found", Vec::new());
    disk.put_file("99999999.tab", b"half a table".to_vec());
    disk.put_file("MANIFEST-00000077", b"half a manifest".to_vec());
    disk.put_file("CURRENT.new", b"?".to_vec());
    Engine::open(Arc::new(disk.clone()), options()).unwrap();
    let names = disk.list().unwrap();
    assert!(names.contains(&"lost+found".to_owned()));
    for gone in ["99999999.tab", "MANIFEST-00000077", "CURRENT.new"] {
        assert!(!names.contains(&gone.to_owned()), "{gone}");
    }
}

#[test]
fn rot_in_manifest_or_table_is_named_and_nothing_is_changed() {
    let world = filled();
    let names = world.disk.list().unwrap();
    for name in names.iter().filter(|name| !name.ends_with(".seg")) {
        let len = world.disk.file_bytes(name).unwrap().len() as u64;
        for offset in (0..len).step_by(1 + len as usize / 60) {
            let disk = world.disk.crash(0);
            disk.flip_bit(name, offset, 3);
            let before = everything(&disk);
            let found = Engine::open(Arc::new(disk.clone()), options()).and_then(|opened| {
                // Blocks are looked at when they are read.
                opened.engine.verify_tables()?;
                assert!(!name.ends_with(".tab"), "byte {offset} of {name}");
                Ok(())
            });
            match found {
                Err(Error::Corrupt { file, .. }) => assert_eq!(&file, name, "byte {offset}"),
                Err(other) => panic!("byte {offset} of {name}: {other}"),
                // The last edit's seal: the edit is whole, and the state that of before.
                Ok(()) => continue,
            }
            if name.ends_with(".tab") {
                continue;
            }
            assert_eq!(everything(&disk), before, "byte {offset} of {name}");
        }
    }
}

#[test]
fn a_full_disk_gives_up_the_table_and_nothing_else() {
    let mut world = filled();
    world.batch(&[(0..60).map(|key| (key, Some(600))).collect()]);
    world.freeze();
    for free in [0, 10, 300, 3000, 20_000] {
        world.disk.set_free_bytes(Some(free));
        let tables =
            |world: &World| world.disk.list().unwrap().iter().filter(|name| name.ends_with(".tab")).count();
        let before = (tables(&world), world.engine.stats().tables);
        let mut full = 0;
        for _ in 0..6 {
            match world.engine.maintain_step(1 << 20) {
                Err(Error::Full(_)) => full += 1,
                Err(other) => panic!("with {free} bytes: {other}"),
                Ok(work) => assert!(!matches!(work, Work::Flushed(_)), "with {free} bytes"),
            }
        }
        assert!(full > 1, "tried again with {free} bytes");
        assert_eq!(world.engine.stats().tables, before.1);
        assert!(tables(&world) <= before.0 + 1, "no half tables pile up");
        world.check(&KeyRange::all(), world.model.revision, 10);
    }
    world.disk.set_free_bytes(None);
    world.settle();
    world.check(&KeyRange::all(), world.model.revision, 10);
    world.restart(Some(1));
    world.check(&KeyRange::all(), world.model.revision, 10);
}

#[test]
fn a_failed_sync_of_table_or_manifest_loses_nothing() {
    for skip in [0, 3, 6, 9, 12] {
        let mut world = filled();
        world.batch(&[(0..60).map(|key| (key, Some(600))).collect()]);
        world.freeze();
        let mut failed = false;
        for step in 0..30 {
            if step == skip {
                world.disk.fail_next_sync();
            }
            match world.engine.maintain_step(20_000) {
                Err(Error::Io { .. }) => failed = true,
                Err(other) => panic!("{other}"),
                Ok(_) => {}
            }
            world.check(&KeyRange::all(), world.model.revision, 10);
        }
        assert!(failed || skip > 0, "the flush syncs");
        world.flushed = 0;
        world.restart(Some(skip));
        world.check(&KeyRange::all(), world.model.revision, 10);
    }
}
