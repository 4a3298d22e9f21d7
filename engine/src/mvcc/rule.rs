//! Which versions a compaction revision leaves: etcd's rule, and where the weights go.
//!
//! For each key, with C the compaction revision:
//! * every version above C stays;
//! * of those at or below C the newest stays, so that a read at C finds it;
//! * unless it is a tombstone below C. A tombstone exactly at C stays until a later compaction, as in etcd.
//!   What was deleted and created again within the one revision C stays as well: its newest version is a put;
//! * a version that goes gives its weight to the next newer one that stays at or below C.
//!
//! Where only some of a key's versions are at hand (a merge without the oldest source) a tombstone below C
//! stays too: it hides, and its weight cancels, what the absent source holds.

use crate::table::Version;

/// The rule, fed with the versions of one key after the other, each key's from the newest to the oldest.
#[derive(Debug)]
pub(crate) struct Rule {
    compacted: i64,
    with_oldest: bool,
    /// The newest version at or below `compacted` of the key at hand, with the weights of the older ones.
    base: Option<Version>,
}

impl Rule {
    /// The rule at revision `compacted`. `with_oldest`: all versions of each key will be given.
    pub(crate) fn new(compacted: i64, with_oldest: bool) -> Self {
        Rule { compacted, with_oldest, base: None }
    }

    /// Takes the next version of the key; gives it back if it stays whatever follows.
    pub(crate) fn push(&mut self, version: Version) -> Option<Version> {
        if version.revision.main > self.compacted {
            return Some(version);
        }
        match &mut self.base {
            None => self.base = Some(version),
            Some(base) => base.weight += version.weight,
        }
        None
    }

    /// Ends the key; gives its newest version at or below the compaction revision if that stays.
    pub(crate) fn end_key(&mut self) -> Option<Version> {
        let base = self.base.take()?;
        // A tombstone that still carries a weight would take it along out of the world: it stays.
        let goes = self.with_oldest
            && base.is_tombstone()
            && base.revision.main < self.compacted
            && base.weight == 0;
        if goes { None } else { Some(base) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Revision, Value};
    use bytes::Bytes;
    use proptest::prelude::*;

    /// `(main, sub, weight)`; weight -1 is a tombstone.
    type Short = (i64, u32, i32);

    fn version((main, sub, weight): Short) -> Version {
        let value = (weight >= 0).then(|| Value::Inline(Bytes::new()));
        Version { revision: Revision { main, sub }, create: 0, version: 0, lease: 0, weight, value }
    }

    fn apply(newest_first: &[Short], compacted: i64, with_oldest: bool) -> Vec<Version> {
        let mut rule = Rule::new(compacted, with_oldest);
        let mut kept: Vec<_> = newest_first.iter().filter_map(|short| rule.push(version(*short))).collect();
        kept.extend(rule.end_key());
        kept
    }

    #[test]
    fn the_rule_case_by_case() {
        let deleted = [(7, 0, -1), (5, 0, 0), (3, 0, 1)];
        let recreated = [(7, 1, 1), (7, 0, -1), (3, 0, 1)];
        for (versions, compacted, with_oldest, want, why) in [
            (&deleted[..], 2, true, &[(7, 0, -1), (5, 0, 0), (3, 0, 1)][..], "all are newer"),
            (&deleted, 3, true, &[(7, 0, -1), (5, 0, 0), (3, 0, 1)], "the newest at C stays"),
            (&deleted, 5, true, &[(7, 0, -1), (5, 0, 1)], "the older gives its weight"),
            (&deleted, 6, true, &[(7, 0, -1), (5, 0, 1)], "a read at 6 finds 5"),
            (&deleted, 7, true, &[(7, 0, 0)], "a tombstone at C stays"),
            (&deleted, 8, true, &[], "a tombstone below C goes"),
            (&deleted, 8, false, &[(7, 0, 0)], "it may hide something in an older run"),
            (&deleted[..2], 8, false, &[(7, 0, -1)], "its weight cancels the creation in an older run"),
            (&deleted[..2], 8, true, &[(7, 0, -1)], "a weight never gets lost"),
            (&recreated, 7, true, &[(7, 1, 1)], "deleted and created again at C: the value stays"),
            (&recreated, 8, true, &[(7, 1, 1)], "and later too"),
            (&recreated, 6, true, &[(7, 1, 1), (7, 0, -1), (3, 0, 1)], "not reached yet"),
            (&[(7, 1, -1), (7, 0, 1)], 7, true, &[(7, 1, 0)], "created and deleted at C: tombstone stays"),
            (&[(7, 1, -1), (7, 0, 1)], 8, true, &[], "and goes later"),
        ] {
            let got: Vec<Short> = apply(versions, compacted, with_oldest)
                .iter()
                .map(|kept| (kept.revision.main, kept.revision.sub, kept.weight))
                .collect();
            assert_eq!(got, want, "{why}");
        }
    }

    proptest! {
        #[test]
        fn what_can_be_read_stays_the_same_and_weights_agree(
            deletes in proptest::collection::vec(any::<bool>(), 1..12),
            steps in proptest::collection::vec(1i64..4, 12),
            compactions in proptest::collection::vec(0i64..40, 1..4),
            split in any::<proptest::sample::Index>(),
        ) {
            let (mut exists, mut main, mut versions) = (false, 0, Vec::new());
            for (delete, step) in deletes.iter().zip(steps) {
                main += step;
                let weight = match (exists, delete) { (false, _) => 1, (true, true) => -1, (true, false) => 0 };
                exists = weight >= 0;
                versions.insert(0, (main, 0, weight));
            }
            let read = |versions: &[Version], at: i64| versions.iter()
                .find(|version| version.revision.main <= at)
                .filter(|version| !version.is_tombstone())
                .map(|version| version.revision);
            let before: Vec<Version> = versions.iter().map(|short| version(*short)).collect();
            let mut highest = 0;
            let mut now = before.clone();
            for compacted in compactions {
                highest = highest.max(compacted);
                // A merge of the newer part, then one of everything.
                let cut = split.index(now.len() + 1);
                let older = now.split_off(cut);
                for (with_oldest, rest) in [(false, older), (true, Vec::new())] {
                    let mut rule = Rule::new(highest, with_oldest);
                    let mut kept: Vec<_> = now.drain(..).filter_map(|version| rule.push(version)).collect();
                    kept.extend(rule.end_key());
                    kept.extend(rest);
                    now = kept;
                    for at in highest..=main + 1 {
                        prop_assert_eq!(read(&now, at), read(&before, at), "at {}", at);
                        let weight: i32 = now.iter().filter(|version| version.revision.main <= at).map(|v| v.weight).sum();
                        prop_assert_eq!(weight, i32::from(read(&before, at).is_some()), "weight at {}", at);
                    }
                }
            }
        }
    }
}
