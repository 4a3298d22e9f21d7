//! What must be durable before what.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::world::{World, options};
use crate::disk::MemoryDisk;
use crate::engine::{Engine, Work};
use crate::error::Error;
use crate::log::{Kind, Record};
use crate::table::Applied;
use crate::{KeyRange, Space};

#[test]
fn a_flush_waits_until_the_log_is_durable_up_to_its_boundary() {
    let engine = Engine::open(Arc::new(MemoryDisk::new()), options()).unwrap().engine;
    let record = Record { group: 4, kind: Kind::Entry, term: 1, index: 1, body: Bytes::from_static(b"x") };
    let ticket = engine.log().append([record]).unwrap();
    engine.apply(&[], 1);
    let applied = Applied { revision: 1, groups: BTreeMap::from([(4, 1)]) };
    assert!(engine.freeze(applied.clone(), Bytes::new()));
    assert!(!engine.freeze(applied.clone(), Bytes::new()), "one waits already");
    for _ in 0..5 {
        assert!(!matches!(engine.maintain_step(1000).unwrap(), Work::Flushed(_)), "not durable yet");
    }
    assert_eq!(engine.log().commit_step().unwrap(), Some(ticket));
    assert_eq!(engine.maintain_step(1000).unwrap(), Work::Flushed(applied));
}

#[test]
fn what_a_merge_has_dropped_is_never_read_after_a_power_cut() {
    let mut world = World::new();
    for len in [10, 20] {
        world.batch(&[(0..30).map(|key| (key, Some(len))).collect()]);
        assert!(world.freeze());
        world.settle();
    }
    // The compaction is in the log behind the last flush; the merge comes before the next one.
    world.compact(world.model.revision);
    world.settle();
    assert!(world.engine.stats().merges > 0, "the overwritten versions are worth a merge");
    let disk = world.disk.crash(1);
    let engine = Engine::open(Arc::new(disk), options()).unwrap().engine;
    let old = engine.count(Space::Kv, &KeyRange::all(), 1);
    assert!(matches!(old, Err(Error::Compacted { oldest: 2 })), "before anything is applied again: {old:?}");
    world.restart(Some(1));
    world.check(&KeyRange::all(), world.model.revision, 10);
}
