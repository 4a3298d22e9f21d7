//! The two-layer baseline gives the right answers: what it is slower or faster at, it must also do.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

#[path = "../benches/support/two_layer.rs"]
mod two_layer;

use two_layer::TwoLayer;

/// Keys that are prefixes of each other and hold the bytes that the layout uses.
const KEYS: &[&[u8]] = &[b"a", b"a\0", b"a\0\0", b"a\0\xff", b"a\xff", b"ab", b"b", b"\0", b"\xff"];

#[test]
fn it_agrees_with_a_map_over_random_histories() {
    for seed in 0..20 {
        let directory = tempfile::tempdir().expect("a directory");
        let mut store = TwoLayer::open(directory.path()).expect("an empty store");
        let (mut random, mut model) = (StdRng::seed_from_u64(seed), BTreeMap::new());
        let mut revision = 1;
        for step in 0..60u32 {
            let key = KEYS[random.random_range(0..KEYS.len())];
            if random.random_range(0..3) == 0 {
                let existed = model.remove(key).is_some();
                assert_eq!(store.delete(key).expect("it works"), existed, "seed {seed}");
                revision += u64::from(existed);
            } else {
                let value = step.to_le_bytes();
                revision += 1;
                assert_eq!(store.put(key, &value).expect("it works"), revision, "seed {seed}");
                model.insert(key, value);
            }
            for key in KEYS {
                let got = store.get(key).expect("it works");
                assert_eq!(got.as_deref(), model.get(key).map(|value| &value[..]), "seed {seed}, {key:?}");
            }
        }
        store.sync().expect("it works");
        for (start, end) in [(&b"\0"[..], &b"\xff"[..]), (b"a", b"b"), (b"a\0", b"a\0\xff"), (b"ab", b"ab")] {
            let want: Vec<_> = model
                .iter()
                .filter(|(key, _)| (start..end).contains(*key))
                .map(|(key, _)| key.to_vec())
                .collect();
            let rows = store.list(start, end, usize::MAX).expect("it works");
            let keys: Vec<_> = rows.into_iter().map(|(key, _)| key).collect();
            assert_eq!(keys, want, "seed {seed}, {start:?}..{end:?}");
            assert_eq!(store.count(start, end).expect("it works"), want.len() as u64, "seed {seed}");
            assert_eq!(store.list(start, end, 2).expect("it works").len(), want.len().min(2), "seed {seed}");
        }
    }
}
