use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn write(key: u16, main: i64, sub: u32, weight: i8) -> Write {
    let value = (weight >= 0).then(|| Value::Inline(Bytes::from_static(b"v")));
    Write {
        space: Space::Kv,
        key: Bytes::copy_from_slice(&key.to_be_bytes()),
        revision: Revision { main, sub },
        create: main,
        version: 1,
        lease: 0,
        weight,
        value,
    }
}

fn range(from: u16, to: Option<u16>) -> KeyRange {
    let bytes = |key: u16| Bytes::copy_from_slice(&key.to_be_bytes());
    KeyRange { start: bytes(from), end: to.map(bytes) }
}

fn all_visible(
    table: &Memtable,
    range: &KeyRange,
    main: i64,
    direction: Direction,
) -> Vec<(Bytes, Revision)> {
    let (mut found, mut rest) = (VecDeque::new(), Some(range.clone()));
    let mut result = Vec::new();
    while let Some(range) = rest {
        rest = table.visible(Space::Kv, &range, main, direction, 100, &mut found);
        result.extend(found.drain(..).map(|found| (found.key, found.version.revision)));
    }
    result
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn it_answers_as_a_plain_map(
        keys in proptest::collection::vec(0u16..2000, 1..1500),
        ranges in proptest::collection::vec((0u16..2000, proptest::option::of(0u16..2000), 0i64..1600), 8),
    ) {
        let table = Memtable::default();
        let mut model: BTreeMap<u16, Vec<(i64, i8)>> = BTreeMap::new();
        for (main, &key) in (1..).zip(&keys) {
            let versions = model.entry(key).or_default();
            let exists = versions.iter().map(|version| version.1).sum::<i8>();
            let weight = if exists == 0 { 1 } else if main % 3 == 0 { -1 } else { 0 };
            versions.push((main, weight));
            table.apply(&[write(key, main, 0, weight)]);
        }
        for (from, to, main) in ranges {
            let range = range(from, to);
            let inside = || model.iter().filter(|(key, _)| range.contains(&key.to_be_bytes()));
            let weight: i64 = inside().flat_map(|(_, versions)| versions).filter(|version| version.0 <= main)
                .map(|version| i64::from(version.1)).sum();
            prop_assert_eq!(table.weight(Space::Kv, &range, main), weight);
            let mut want: Vec<_> = inside()
                .filter_map(|(key, versions)| Some((key, versions.iter().rev().find(|version| version.0 <= main)?.0)))
                .map(|(key, main)| (Bytes::copy_from_slice(&key.to_be_bytes()), Revision { main, sub: 0 }))
                .collect();
            prop_assert_eq!(&all_visible(&table, &range, main, Direction::Forward), &want);
            want.reverse();
            prop_assert_eq!(&all_visible(&table, &range, main, Direction::Backward), &want);
            for (key, versions) in &model {
                let want = versions.iter().rev().find(|version| version.0 <= main).map(|version| version.0);
                let got = table.get(Space::Kv, &key.to_be_bytes(), main).map(|found| found.version.revision.main);
                prop_assert_eq!(got, want);
            }
            let (mut found, mut resume, mut got) = (VecDeque::new(), None, Vec::new());
            loop {
                resume = table.versions(Space::Kv, &range, (main / 2, main), resume.as_ref(), &mut found);
                got.extend(found.drain(..).map(|found| (found.key, found.version.revision.main)));
                if resume.is_none() { break; }
            }
            let want: Vec<_> = inside().flat_map(|(key, versions)| {
                let kept = versions.iter().rev().filter(|version| (main / 2..=main).contains(&version.0));
                kept.map(|version| (Bytes::copy_from_slice(&key.to_be_bytes()), version.0))
            }).collect();
            prop_assert_eq!(got, want);
        }
    }
}

#[test]
fn a_hot_key_comes_out_in_chunks() {
    let table = Memtable::default();
    for main in 1..=1000 {
        table.apply(&[write(1, main, 0, i8::from(main == 1)), write(1, main, 1, 0)]);
    }
    let (mut found, mut resume, mut got) = (VecDeque::new(), None, Vec::new());
    loop {
        resume = table.versions(Space::Kv, &KeyRange::all(), (0, i64::MAX), resume.as_ref(), &mut found);
        assert!(found.len() <= CHUNK);
        got.extend(found.drain(..).map(|found| found.version.revision));
        if resume.is_none() {
            break;
        }
    }
    let want: Vec<_> = (1..=1000).rev().flat_map(|main| [1, 0].map(|sub| Revision { main, sub })).collect();
    assert_eq!(got, want);
}

#[test]
fn a_second_write_at_the_same_revision_replaces_the_first() {
    let table = Memtable::default();
    table.apply(&[write(1, 1, 0, 1)]);
    table.apply(&[write(1, 2, 0, -1), write(1, 2, 0, 1)]);
    assert_eq!(table.weight(Space::Kv, &KeyRange::all(), 2), 1);
    let found = table.get(Space::Kv, &1u16.to_be_bytes(), 2).unwrap();
    assert!(!found.version.is_tombstone());
    assert_eq!(found.version.weight, 0);
}
