//! Whole stores, damaged ones, and stores that are none.

use std::sync::Arc;

use super::{Report, check, inspect};
use crate::disk::{Disk, MemoryDisk};
use crate::engine::tests::world::{World, options};
use crate::error::Error;
use crate::{Engine, KeyRange};

fn checked(disk: &MemoryDisk) -> Report {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    check(&disk, &mut |_| {}).unwrap()
}

fn everything(disk: &MemoryDisk) -> Vec<(String, Option<Vec<u8>>)> {
    disk.list().unwrap().into_iter().map(|name| (name.clone(), disk.file_bytes(&name))).collect()
}

/// A store with tables, merged and not, segments sealed and not, compacted versions, and a rest in the log.
fn filled() -> World {
    let mut world = World::new();
    for round in 0..12u16 {
        world.batch(&[(0..30).map(|key| (key, Some(usize::from(key + round) * 40))).collect()]);
        world.batch(&[(0..5).map(|key| (key * 3 + round, None)).collect()]);
        if round % 5 == 4 {
            world.compact(world.model.revision - 3);
        }
        if round < 10 {
            world.freeze();
            world.settle();
        }
        if round == 6 {
            world.purge();
            world.settle();
        }
    }
    world.engine.note_end().unwrap();
    world
}

#[test]
fn a_whole_store_is_told_to_be_whole_and_counted() {
    let world = filled();
    let before = everything(&world.disk);
    let mut stages = Vec::new();
    let disk: Arc<dyn Disk> = Arc::new(world.disk.clone());
    let report = check(&disk, &mut |progress| {
        assert!(progress.done <= progress.total, "{progress:?}");
        stages.push(progress.stage);
    })
    .unwrap();
    assert_eq!(report.damages, [], "{report:?}");
    assert!(everything(&world.disk) == before, "nothing is changed");
    stages.dedup();
    assert_eq!(stages, ["log", "tables", "versions"]);
    let stats = world.engine.stats();
    assert_eq!((report.tables, report.versions), (stats.tables, stats.table_versions));
    assert!(report.segments > 2 && report.frames > 3 && report.values > 30, "{report:?}");
    let visible = world.engine.count(crate::Space::Kv, &KeyRange::all(), report.revision).unwrap();
    assert_eq!(report.keys, visible);
    assert_eq!(report.compacted, world.model.compacted);

    let inventory = inspect(&disk).unwrap();
    assert!(everything(&world.disk) == before, "nothing is changed");
    assert!(inventory.damages.is_empty() && inventory.others.is_empty(), "{inventory:?}");
    assert_eq!(inventory.tables.iter().map(|table| table.versions).sum::<u64>(), report.versions);
    assert_eq!(inventory.applied.revision, report.revision);
    assert_eq!(inventory.log.segments.len() as u64, report.segments);
    assert_eq!(inventory.log.groups[0].1.last.1, world.index);
}

#[test]
fn a_flipped_bit_anywhere_is_told_with_its_file_or_does_no_harm() {
    let world = filled();
    let (mut told, mut harmless) = (0, 0);
    for name in world.disk.list().unwrap() {
        let len = world.disk.file_bytes(&name).unwrap().len() as u64;
        for number in 0..40u64 {
            let offset = if number < 10 { number * 7 } else { number * 7919 * 31 } % len;
            let disk = world.disk.crash(0);
            disk.flip_bit(&name, offset, (number % 8) as u8);
            let before = everything(&disk);
            let report = checked(&disk);
            assert!(everything(&disk) == before, "nothing is changed");
            if !report.damages.is_empty() {
                told += 1;
                assert!(
                    report.damages.iter().any(|damage| damage.file == name),
                    "byte {offset} of {name}: {:?}",
                    report.damages
                );
                continue;
            }
            harmless += 1;
            let found = world.recovered(disk, world.index);
            found.check(&KeyRange::all(), found.model.revision, 7);
        }
    }
    assert!(told > 100 && harmless > 10, "{told} told, {harmless} without harm");
}

#[test]
fn all_damage_is_told_not_the_first_alone() {
    let world = filled();
    let names = world.disk.list().unwrap();
    let tables: Vec<&String> = names.iter().filter(|name| name.ends_with(".tab")).collect();
    let segments = inspect(&(Arc::new(world.disk.clone()) as Arc<dyn Disk>)).unwrap().log.segments;
    let disk = world.disk.crash(0);
    for table in &tables {
        disk.flip_bit(table, 40, 1);
    }
    let oldest = &segments[0];
    // Both of its frames.
    for offset in [4200, oldest.used_bytes / 2, oldest.used_bytes - 200] {
        disk.flip_bit(&oldest.file, offset, 2);
    }
    disk.remove(&segments[1].file).unwrap();
    let damages = checked(&disk).damages;
    for table in tables {
        assert!(damages.iter().any(|damage| damage.file == *table), "{table}: {damages:?}");
    }
    assert!(damages.iter().filter(|damage| damage.file == oldest.file).count() >= 2, "{damages:?}");
    assert!(damages.iter().any(|damage| damage.file == segments[1].file), "{damages:?}");
}

#[test]
fn a_store_that_cannot_be_found_is_no_whole_one() {
    let empty: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    assert!(matches!(check(&empty, &mut |_| {}), Err(Error::Refused(_))));
    assert!(matches!(inspect(&empty), Err(Error::Refused(_))));
    let world = filled();
    for name in ["CURRENT", "LOG-END", "MANIFEST-00000001"] {
        let disk = world.disk.crash(0);
        disk.remove(name).unwrap();
        let report = checked(&disk);
        assert!(report.damages.iter().any(|damage| damage.file == name), "{name}: {:?}", report.damages);
        assert!(report.frames > 3, "the log is looked at all the same");
        Engine::open(Arc::new(disk), options()).unwrap_err();
    }
}

#[test]
fn a_torn_end_is_no_damage_and_a_cut_one_is() {
    let mut world = filled();
    world.batch(&[vec![(1, Some(500))]]);
    for seed in 0..20 {
        let report = checked(&world.disk.crash(seed));
        assert_eq!(report.damages, [], "seed {seed}: a start would succeed");
    }
    world.engine.note_end().unwrap();
    let newest =
        inspect(&(Arc::new(world.disk.clone()) as Arc<dyn Disk>)).unwrap().log.segments.pop().unwrap();
    let mut bytes = world.disk.file_bytes(&newest.file).unwrap();
    bytes[newest.used_bytes as usize - 600..].fill(0);
    world.disk.put_file(&newest.file, bytes);
    let damages = checked(&world.disk).damages;
    assert!(damages.iter().any(|damage| damage.file == newest.file), "{damages:?}");
}
