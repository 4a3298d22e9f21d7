//! Readers beside the applier and the maintaining thread.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;

use super::world::options;
use crate::disk::MemoryDisk;
use crate::engine::{Engine, Options};
use crate::error::Error;
use crate::table::Applied;
use crate::types::{Revision, Space, Value};
use crate::{Direction, KeyRange, Write};

const KEYS: i64 = 500;
const REVISIONS: i64 = 6000;

/// Revision `main` puts or, at every eighth, deletes key `main * 7 % KEYS`; keys are created on the way.
fn write(main: i64, exists: &mut [bool]) -> Write {
    let number = main * 7 % KEYS;
    let exists = &mut exists[number as usize];
    let delete = *exists && main % 8 == 0;
    let weight = match (*exists, delete) {
        (false, _) => 1,
        (true, false) => 0,
        (true, true) => -1,
    };
    *exists = !delete;
    Write {
        space: Space::Kv,
        key: Bytes::from(format!("{number:04}")),
        revision: Revision { main, sub: 0 },
        create: if delete { 0 } else { main },
        version: 1,
        lease: 0,
        weight,
        value: (!delete).then(|| Value::Inline(Bytes::from(main.to_le_bytes().to_vec()))),
    }
}

#[test]
fn reads_are_those_of_one_revision_whatever_goes_on_beside() {
    let options = Options { block_cache_bytes: 64 << 10, ..options() };
    let engine = Engine::open(Arc::new(MemoryDisk::new()), options).unwrap().engine;
    let (engine, done) = (&engine, &AtomicBool::new(false));
    let mut counts = vec![0i64];
    let mut exists = vec![false; KEYS as usize];
    let writes: Vec<Write> = (1..=REVISIONS).map(|main| write(main, &mut exists)).collect();
    for write in &writes {
        counts.push(counts.last().unwrap() + i64::from(write.weight));
    }
    let counts = &counts;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for batch in writes.chunks(3) {
                let revision = batch.last().unwrap().revision.main;
                engine.apply(batch, revision);
                if revision % 300 == 0 {
                    let applied = Applied { revision, groups: BTreeMap::new() };
                    while !engine.freeze(applied.clone(), Bytes::new()) {
                        std::thread::yield_now();
                    }
                }
                if revision % 900 == 0 {
                    engine.compact(revision - 400);
                }
            }
            done.store(true, Ordering::Release);
        });
        scope.spawn(move || {
            while !done.load(Ordering::Acquire) {
                engine.maintain_step(3000).unwrap();
            }
        });
        for reader in 0..2i64 {
            scope.spawn(move || {
                let mut reads = 0;
                while !done.load(Ordering::Acquire) || reads == 0 {
                    let revision = engine.revision() - (reads * 37 + reader) % 300;
                    if revision < engine.compacted() || revision < 1 {
                        reads += 1;
                        continue;
                    }
                    let direction = if reads % 2 == 0 { Direction::Forward } else { Direction::Backward };
                    let mut found = Vec::new();
                    let scanned =
                        engine.scan(Space::Kv, &KeyRange::all(), revision, direction, usize::MAX, &mut found);
                    match (scanned, engine.count(Space::Kv, &KeyRange::all(), revision)) {
                        (Ok(()), Ok(count)) => {
                            assert_eq!(count as i64, counts[revision as usize], "count at {revision}");
                            assert_eq!(found.len() as i64, counts[revision as usize], "scan at {revision}");
                            assert!(found.iter().all(|meta| meta.modified.main <= revision));
                        }
                        (_, Err(Error::Compacted { .. })) => {}
                        (scanned, counted) => panic!("{scanned:?}, {counted:?}"),
                    }
                    reads += 1;
                }
            });
        }
    });
    assert!(engine.stats().flushes >= REVISIONS as u64 / 300 - 1, "{:?}", engine.stats());
}
