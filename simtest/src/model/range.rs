//! Reads: intervals of keys, orders, limits and filters.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;

use crate::model::refuse;
use crate::op::{KeyValue, Range, RangeAnswer, Refusal, Tie};

/// Keys of a map within the API's interval: `range_end` is empty for `key` alone, one zero byte for all from `key`
/// on, else the first key not wanted. One at or below `key` makes the interval empty.
pub(crate) fn keys_within<'a, V>(
    map: &'a BTreeMap<Bytes, V>,
    key: &'a Bytes,
    range_end: &'a Bytes,
) -> impl Iterator<Item = (&'a Bytes, &'a V)> {
    let end = match &range_end[..] {
        [] => Bound::Included(key),
        [0] => Bound::Unbounded,
        // `BTreeMap::range` panics on an inverted interval.
        _ if range_end <= key => Bound::Excluded(key),
        _ => Bound::Excluded(range_end),
    };
    map.range::<Bytes, _>((Bound::Included(key), end))
}

/// Whether `key` lies within the API's interval.
#[must_use]
pub fn contains(start: &[u8], range_end: &[u8], key: &[u8]) -> bool {
    match range_end {
        [] => key == start,
        [0] => key >= start,
        _ => key >= start && key < range_end,
    }
}

/// What is refused of a range before the store is looked at.
pub(crate) fn check(range: &Range) -> Result<(), Refusal> {
    if range.key.is_empty() {
        return Err(refuse::empty_key());
    }
    if !(0..=2).contains(&range.sort_order) || !(0..=4).contains(&range.sort_target) {
        return Err(refuse::invalid_sort_option());
    }
    Ok(())
}

/// As [`check`], for a streamed range.
pub(crate) fn check_stream(range: &Range) -> Result<(), Refusal> {
    check(range)?;
    if !is_default_order(range) {
        return Err(refuse::stream_sort_order());
    }
    if has_filters(range) {
        return Err(refuse::stream_revision_filters());
    }
    Ok(())
}

const ORDER_NONE: i32 = 0;
const ORDER_ASCEND: i32 = 1;
const ORDER_DESCEND: i32 = 2;
const TARGET_KEY: i32 = 0;
const TARGET_VERSION: i32 = 1;
const TARGET_CREATE: i32 = 2;
const TARGET_MOD: i32 = 3;
const TARGET_VALUE: i32 = 4;

/// An order of none counts as the stored one, whatever the target.
fn is_default_order(range: &Range) -> bool {
    range.sort_order == ORDER_NONE || (range.sort_target == TARGET_KEY && range.sort_order == ORDER_ASCEND)
}

fn has_filters(range: &Range) -> bool {
    range.min_mod_revision != 0
        || range.max_mod_revision != 0
        || range.min_create_revision != 0
        || range.max_create_revision != 0
}

/// The answer to `range` over `pairs`, which are all pairs of its interval, by key.
pub(crate) fn answer(range: &Range, revision: i64, mut pairs: Vec<KeyValue>) -> RangeAnswer {
    let count = i64::try_from(pairs.len()).expect("a test's keys fit in memory");
    let mut answer = RangeAnswer { revision, count, ..RangeAnswer::default() };
    if range.count_only {
        return answer;
    }
    let limit = usize::try_from(range.limit).unwrap_or(0);
    // The scan stops one past the limit, also if what it found is sorted afterwards.
    if limit > 0 && is_default_order(range) && !has_filters(range) {
        pairs.truncate(limit.saturating_add(1));
    }
    let from_index = range.keys_only && range.sort_target != TARGET_VALUE;
    if from_index {
        for pair in &mut pairs {
            pair.lease = 0;
        }
    }
    let within = |least: i64, most: i64, revision: i64| {
        (least == 0 || revision >= least) && (most == 0 || revision <= most)
    };
    pairs.retain(|pair| {
        within(range.min_mod_revision, range.max_mod_revision, pair.mod_revision)
            && within(range.min_create_revision, range.max_create_revision, pair.create_revision)
    });
    let ranks = sort(range, &mut pairs);
    if range.keys_only {
        for pair in &mut pairs {
            pair.value = Bytes::new();
        }
    }
    if let Some(ranks) = ranks {
        answer.ties =
            ranks.into_iter().zip(pairs.iter().cloned()).map(|(rank, pair)| Tie { rank, pair }).collect();
    }
    answer.more = limit > 0 && pairs.len() > limit;
    if answer.more {
        pairs.truncate(limit);
    }
    answer.kvs = pairs;
    answer
}

/// Sorts `pairs` as asked. If that leaves the order of some open, says for each pair how many classes of equals
/// come before its own.
fn sort(range: &Range, pairs: &mut [KeyValue]) -> Option<Vec<usize>> {
    let compare = |a: &KeyValue, b: &KeyValue| match range.sort_target {
        TARGET_VERSION => a.version.cmp(&b.version),
        TARGET_CREATE => a.create_revision.cmp(&b.create_revision),
        TARGET_MOD => a.mod_revision.cmp(&b.mod_revision),
        TARGET_VALUE => a.value.cmp(&b.value),
        _ => a.key.cmp(&b.key),
    };
    if range.sort_order == ORDER_DESCEND {
        pairs.sort_by(|a, b| compare(b, a));
    } else {
        pairs.sort_by(compare);
    }
    let mut ranks = Vec::with_capacity(pairs.len());
    let mut rank = 0;
    for (at, pair) in pairs.iter().enumerate() {
        if at > 0 && compare(&pairs[at - 1], pair).is_ne() {
            rank += 1;
        }
        ranks.push(rank);
    }
    (rank + 1 < pairs.len()).then_some(ranks)
}
