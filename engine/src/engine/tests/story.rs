//! Random stories, checked at every step.

use proptest::prelude::*;

use super::world::{Wish, World, key};
use crate::KeyRange;

#[derive(Debug, Clone)]
enum Step {
    Batch(Vec<Vec<Wish>>),
    /// To the revision at this share of what is not compacted.
    Compact(u8),
    Freeze,
    Maintain {
        budget: u64,
        steps: usize,
    },
    Settle,
    Purge,
    Restart,
    PowerCut(u64),
}

fn wish() -> impl Strategy<Value = Wish> {
    let len = prop_oneof![2 => 0usize..64, 2 => 65usize..3000, 1 => Just(64usize), 1 => Just(65)];
    (0u16..60, prop_oneof![3 => len.prop_map(Some), 1 => Just(None)])
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => proptest::collection::vec(proptest::collection::vec(wish(), 1..6), 1..5).prop_map(Step::Batch),
        // The same key twice and more in one revision.
        2 => (0u16..60, any::<bool>()).prop_map(|(key, put)| {
            let last = if put { Some(70) } else { None };
            Step::Batch(vec![vec![(key, Some(5)), (key, None), (key, Some(90)), (key, last)]])
        }),
        2 => any::<u8>().prop_map(Step::Compact),
        4 => Just(Step::Freeze),
        4 => (100u64..50_000, 1usize..6).prop_map(|(budget, steps)| Step::Maintain { budget, steps }),
        1 => Just(Step::Settle),
        2 => Just(Step::Purge),
        1 => Just(Step::Restart),
        2 => any::<u64>().prop_map(Step::PowerCut),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn the_engine_answers_as_the_model(
        steps in proptest::collection::vec(
            (step(), 0u16..60, proptest::option::of(0u16..62), any::<u8>(), 1usize..30), 1..60),
    ) {
        let mut world = World::new();
        for (step, from, to, share, limit) in steps {
            match step {
                Step::Batch(txns) => { world.batch(&txns); }
                Step::Compact(share) => {
                    let (oldest, latest) = (world.model.compacted, world.model.revision);
                    world.compact(oldest + (latest - oldest) * i64::from(share) / 255);
                }
                Step::Freeze => { world.freeze(); }
                Step::Maintain { budget, steps } => {
                    for _ in 0..steps { world.step(budget); }
                }
                Step::Settle => world.settle(),
                Step::Purge => world.purge(),
                Step::Restart => world.restart(None),
                Step::PowerCut(seed) => world.restart(Some(seed)),
            }
            let latest = world.model.revision;
            let range = KeyRange { start: key(from), end: to.map(key) };
            world.check(&range, latest, limit);
            world.check(&range, latest * i64::from(share) / 255, limit);
        }
        world.check(&KeyRange::all(), world.model.revision, usize::MAX);
        world.engine.verify_tables().unwrap();
    }
}

#[test]
fn a_long_story_merges_by_size_and_stays_right() {
    let mut world = World::new();
    let (mut flushes, mut merges) = (0, 0);
    for round in 0..120u16 {
        let txns: Vec<Vec<Wish>> = (0..20)
            .map(|at| {
                vec![(
                    (round * 7 + at * 13) % 60,
                    if at % 5 == 4 { None } else { Some(usize::from(at) * 40) },
                )]
            })
            .collect();
        world.batch(&txns);
        if round % 30 == 29 {
            world.compact(world.model.revision - 50);
        }
        world.freeze();
        for _ in 0..10 {
            world.step(20_000);
        }
        if round % 20 == 19 {
            let stats = world.engine.stats();
            (flushes, merges) = (flushes + stats.flushes, merges + stats.merges);
            world.restart(Some(u64::from(round)));
            world.check(&KeyRange::all(), world.model.revision - 30, 7);
        }
    }
    world.settle();
    world.check(&KeyRange::all(), world.model.revision, 7);
    let stats = world.engine.stats();
    assert!(stats.tables <= 12, "{stats:?}");
    assert!(flushes > 20 && merges > 3, "{flushes} flushes, {merges} merges");
}
