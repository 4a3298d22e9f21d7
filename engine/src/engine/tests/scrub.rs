//! Reading everything again while the store is used.

use super::world::{Wish, World};
use crate::check::Damage;
use crate::{KeyRange, Space};

/// A round of the scrub in steps of `budget`; what it found, and the steps it took.
fn round(world: &World, budget: u64) -> (Vec<Damage>, u64) {
    let (mut damages, mut steps) = (Vec::new(), 0);
    loop {
        let step = world.engine.scrub_step(budget).unwrap();
        damages.extend(step.damages);
        steps += 1;
        assert!(steps < 100_000, "a round ends");
        if step.round_ended {
            return (damages, steps);
        }
    }
}

fn filled() -> World {
    let mut world = World::new();
    for at in 0..8u16 {
        let txn: Vec<Wish> = (0..30).map(|key| (key, Some(usize::from(key + at) * 40))).collect();
        world.batch(&[txn]);
        world.freeze();
        world.settle();
    }
    world
}

#[test]
fn a_whole_store_is_found_whole_in_steps_of_any_size_while_it_changes() {
    let mut world = filled();
    let (damages, few) = round(&world, u64::MAX / 2);
    assert_eq!(damages, []);
    let (damages, many) = round(&world, 1000);
    assert_eq!(damages, []);
    assert!(many > 4 * few && few > 5, "{few} steps, and {many} small ones");
    for at in 0..300u16 {
        assert_eq!(world.engine.scrub_step(20_000).unwrap().damages, []);
        world.batch(&[vec![(at % 50, (at % 4 > 0).then_some(usize::from(at) * 20))]]);
        if at % 10 == 9 {
            world.compact(world.model.revision - 5);
            world.freeze();
            world.settle();
            world.purge();
        }
    }
    assert!(world.engine.stats().segments_released > 0 && world.engine.stats().merges > 0);
}

#[test]
fn damage_in_what_lies_still_is_named_by_file_and_offset() {
    let mut world = filled();
    let sealed = world.engine.log().sealed();
    let names: Vec<String> = crate::disk::Disk::list(&world.disk).unwrap();
    let table = names.iter().find(|name| name.ends_with(".tab")).unwrap();
    world.disk.flip_bit("00000001.seg", 30_000, 3);
    world.disk.flip_bit(table, 100, 1);
    let (damages, _) = round(&world, 10_000);
    assert!(sealed.len() > 1);
    let of = |name: &str| damages.iter().filter(|damage| damage.file == name).collect::<Vec<_>>();
    assert_eq!((of("00000001.seg").len(), of(table).len(), damages.len()), (1, 1, 2), "{damages:?}");
    assert!(of("00000001.seg")[0].offset <= 30_000 && of(table)[0].offset <= 100);
    world.disk.flip_bit("00000001.seg", 30_000, 3);
    world.disk.flip_bit(table, 100, 1);
    assert_eq!(round(&world, 10_000).0, [], "it was all");
    world.batch(&[vec![(1, Some(1))]]);
}

#[test]
fn counts_go_through_the_keys_once_sums_are_wrong() {
    let world = filled();
    let count =
        |world: &World| world.engine.count(Space::Kv, &KeyRange::all(), world.model.revision).unwrap();
    let want = count(&world);
    world.engine.sums_wrong.store(true, std::sync::atomic::Ordering::Release);
    assert_eq!(count(&world), want);
    world.check(&KeyRange::all(), world.model.revision, 7);
}
