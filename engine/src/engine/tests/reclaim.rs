//! Space comes back: what compaction hides leaves the tables, segments without values are used again.

use super::world::{Wish, World};
use crate::KeyRange;
use crate::disk::Disk;

/// Puts all of 60 keys, `len` bytes each.
fn put_all(world: &mut World, len: usize) {
    for first in (0..60).step_by(10) {
        let txn: Vec<Wish> = (first..first + 10).map(|key| (key, Some(len))).collect();
        world.batch(&[txn]);
    }
}

fn flush(world: &mut World) {
    assert!(world.freeze());
    world.settle();
    world.purge();
    world.settle();
}

fn files(world: &World, suffix: &str) -> usize {
    world.disk.list().unwrap().iter().filter(|name| name.ends_with(suffix)).count()
}

#[test]
fn overwritten_and_compacted_segments_are_released_and_used_again() {
    let mut world = World::new();
    let (mut files_max, mut size_max) = (0, 0);
    for round in 0..30 {
        put_all(&mut world, 2000);
        flush(&mut world);
        world.compact(world.model.revision);
        flush(&mut world);
        world.check(&KeyRange::all(), world.model.revision, 10);
        if round == 5 {
            files_max = files(&world, ".seg");
            size_max = world.engine.stats().db_size_bytes;
        }
    }
    let stats = world.engine.stats();
    // 60 values of 2000 bytes lie in two or three segments of 64 KiB; 30 rounds wrote about 60.
    assert!(stats.segments_released >= 40, "{stats:?}");
    assert!(stats.sealed_segments <= 6, "{stats:?}");
    assert!(
        stats.table_versions <= 120 + 60,
        "versions of both spaces, hardly more than the keys: {stats:?}"
    );
    assert!(
        files(&world, ".seg") <= files_max + 1,
        "files are used again: {} after {files_max}",
        files(&world, ".seg")
    );
    assert!(stats.db_size_bytes <= size_max * 2, "{size_max} grew: {stats:?}");
    world.restart(Some(7));
    world.check(&KeyRange::all(), world.model.revision, 10);
}

#[test]
fn nothing_is_released_that_something_needs() {
    for (purge, floor, compact, overwrite, want, why) in [
        (true, true, true, true, true, "nobody needs it"),
        (false, true, true, true, false, "a follower may lag behind"),
        (true, false, true, true, false, "a watch may begin there"),
        (true, true, false, true, false, "old versions can be read"),
        (true, true, true, false, false, "the values are alive"),
    ] {
        let mut world = World::new();
        put_all(&mut world, 3000);
        assert!(world.freeze());
        world.settle();
        if overwrite {
            put_all(&mut world, 10);
        }
        if compact {
            world.compact(world.model.revision);
        }
        assert!(world.freeze());
        world.settle();
        if purge {
            world.engine.log().purge(4, 1, world.flushed);
        }
        if floor {
            world.engine.set_history_floor(4, world.flushed + 1);
        }
        world.settle();
        let released = world.engine.stats().segments_released;
        assert_eq!(released > 0, want, "{why}: {released} released");
        world.check(&KeyRange::all(), world.model.revision, 10);
        world.restart(Some(3));
        world.check(&KeyRange::all(), world.model.revision, 10);
    }
}

#[test]
fn deleted_keys_leave_nothing() {
    let mut world = World::new();
    put_all(&mut world, 500);
    flush(&mut world);
    world.batch(&[(0..60).map(|key| (key, None)).collect()]);
    flush(&mut world);
    world.compact(world.model.revision);
    flush(&mut world);
    let tombstones = world.engine.history(crate::Space::Kv, &KeyRange::all(), 0, i64::MAX).unwrap();
    assert_eq!(tombstones.len(), 60, "tombstones exactly at the compaction revision stay");
    world.batch(&[vec![(61, Some(1))]]);
    world.compact(world.model.revision);
    flush(&mut world);
    let stats = world.engine.stats();
    assert!(stats.table_versions <= 2, "the one key, and its lease if it has one: {stats:?}");
    world.check(&KeyRange::all(), world.model.revision, 10);
}

#[test]
fn a_reader_keeps_the_tables_it_reads() {
    let mut world = World::new();
    put_all(&mut world, 100);
    flush(&mut world);
    let view = world.engine.view();
    let name = crate::table::writer::file_name(view.tables[0].record().uid);
    put_all(&mut world, 100);
    world.compact(world.model.revision);
    flush(&mut world);
    assert!(world.disk.list().unwrap().contains(&name), "held");
    let revision = view.tables[0].footer().applied.revision;
    assert_eq!(view.count(crate::Space::Kv, &KeyRange::all(), revision).unwrap(), 60);
    drop(view);
    world.settle();
    assert!(!world.disk.list().unwrap().contains(&name), "gone with its reader");
}

#[test]
fn a_value_outlives_its_segment_for_who_holds_a_pin() {
    let mut world = World::new();
    put_all(&mut world, 3000);
    flush(&mut world);
    let pin = world.engine.log().pin();
    let meta =
        world.engine.get(crate::Space::Kv, &super::world::key(1), world.model.revision).unwrap().unwrap();
    for _ in 0..4 {
        put_all(&mut world, 3000);
        world.compact(world.model.revision);
        flush(&mut world);
    }
    assert!(world.engine.stats().segments_released > 0);
    assert_eq!(world.engine.value(meta.value.as_ref().unwrap()).unwrap().len(), 3000);
    drop(pin);
    assert!(world.engine.value(meta.value.as_ref().unwrap()).is_err(), "never another value in its place");
}
