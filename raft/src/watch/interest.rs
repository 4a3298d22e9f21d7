//! Which live watchers want a key: an index of keys and of intervals.
//!
//! Watchers of one key are found by that key. Intervals stand in a treap by start and end, where each node knows
//! the greatest end below it, so that finding the k intervals that hold a key among n costs O(log n + k), however
//! they overlap. Priorities come from a fixed sequence: the same calls make the same tree.
//!
//! INVARIANTS
//! * No node has fewer than one watcher.
//! * `reach` of a node is the greatest end of its subtree; a node's priority is at least that of its children.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use engine::KeyRange;

use super::hub::WatcherId;

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Interest {
    /// Watchers of one key.
    keys: BTreeMap<Bytes, BTreeSet<WatcherId>>,
    /// Watchers of intervals.
    intervals: Tree,
    /// Nodes made so far; their priorities are drawn from it.
    made: u64,
}

impl Interest {
    pub(super) fn insert(&mut self, range: &KeyRange, id: WatcherId) {
        match single_key(range) {
            Some(key) => {
                self.keys.entry(key.clone()).or_default().insert(id);
            }
            None => {
                self.made += 1;
                insert(&mut self.intervals, range, id, mix(self.made));
            }
        }
    }

    /// Takes out a watcher that is in the index.
    pub(super) fn remove(&mut self, range: &KeyRange, id: WatcherId) {
        let was = match single_key(range) {
            Some(key) => {
                let ids = self.keys.get_mut(key).expect("a live watcher is in the index");
                let was = ids.remove(&id);
                if ids.is_empty() {
                    self.keys.remove(key);
                }
                was
            }
            None => remove(&mut self.intervals, range, id),
        };
        assert!(was, "watcher {id:?} of {range:?} is not in the index");
    }

    /// Calls `f` with every watcher of `key`.
    pub(super) fn each(&self, key: &[u8], mut f: impl FnMut(WatcherId)) {
        self.keys.get(key).into_iter().flatten().for_each(|id| f(*id));
        each(&self.intervals, key, &mut f);
    }
}

type Tree = Option<Box<Node>>;

#[derive(Debug)]
struct Node {
    range: KeyRange,
    ids: BTreeSet<WatcherId>,
    priority: u64,
    /// Greatest end of the subtree; `None` is behind all keys.
    reach: Option<Bytes>,
    left: Tree,
    right: Tree,
}

impl Node {
    fn update(&mut self) {
        let children = [&self.left, &self.right].into_iter().flatten();
        let reaches = children.map(|child| &child.reach);
        let reach = reaches.fold(&self.range.end, |most, end| if after(end, most) { end } else { most });
        self.reach = reach.clone();
    }
}

/// Whether end `a` is behind end `b`.
fn after(a: &Option<Bytes>, b: &Option<Bytes>) -> bool {
    match (a, b) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(a), Some(b)) => a > b,
    }
}

fn order(a: &KeyRange, b: &KeyRange) -> Ordering {
    a.start.cmp(&b.start).then_with(|| a.end.cmp(&b.end))
}

fn insert(tree: &mut Tree, range: &KeyRange, id: WatcherId, priority: u64) {
    let Some(node) = tree else {
        let (range, reach) = (range.clone(), range.end.clone());
        *tree = Some(Box::new(Node {
            range,
            ids: BTreeSet::from([id]),
            priority,
            reach,
            left: None,
            right: None,
        }));
        return;
    };
    match order(range, &node.range) {
        Ordering::Equal => {
            node.ids.insert(id);
        }
        Ordering::Less => insert(&mut node.left, range, id, priority),
        Ordering::Greater => insert(&mut node.right, range, id, priority),
    }
    settle(tree);
}

/// Puts the child with the greatest priority on top, and makes `reach` true again.
fn settle(tree: &mut Tree) {
    let Some(mut node) = tree.take() else { return };
    let higher = |child: &Tree| child.as_ref().is_some_and(|child| child.priority > node.priority);
    if higher(&node.left) {
        let mut top = node.left.take().expect("it is higher");
        node.left = top.right.take();
        node.update();
        top.right = Some(node);
        node = top;
    } else if higher(&node.right) {
        let mut top = node.right.take().expect("it is higher");
        node.right = top.left.take();
        node.update();
        top.left = Some(node);
        node = top;
    }
    node.update();
    *tree = Some(node);
}

fn remove(tree: &mut Tree, range: &KeyRange, id: WatcherId) -> bool {
    let Some(node) = tree else { return false };
    let was = match order(range, &node.range) {
        Ordering::Less => remove(&mut node.left, range, id),
        Ordering::Greater => remove(&mut node.right, range, id),
        Ordering::Equal => {
            let was = node.ids.remove(&id);
            if node.ids.is_empty() {
                let (left, right) = (node.left.take(), node.right.take());
                *tree = join(left, right);
                return was;
            }
            was
        }
    };
    node.update();
    was
}

/// One tree of two, all of `left` before all of `right`.
fn join(left: Tree, right: Tree) -> Tree {
    match (left, right) {
        (None, tree) | (tree, None) => tree,
        (Some(mut left), Some(mut right)) => {
            let top = if left.priority >= right.priority {
                left.right = join(left.right.take(), Some(right));
                left
            } else {
                right.left = join(Some(left), right.left.take());
                right
            };
            let mut top = top;
            top.update();
            Some(top)
        }
    }
}

fn each(tree: &Tree, key: &[u8], f: &mut impl FnMut(WatcherId)) {
    let Some(node) = tree else { return };
    let ends_behind = |end: &Option<Bytes>| end.as_ref().is_none_or(|end| key < &end[..]);
    if !ends_behind(&node.reach) {
        return;
    }
    each(&node.left, key, f);
    if &node.range.start[..] <= key {
        if ends_behind(&node.range.end) {
            node.ids.iter().for_each(|id| f(*id));
        }
        each(&node.right, key, f);
    }
}

/// The only key that a range can hold, if there is but one.
fn single_key(range: &KeyRange) -> Option<&Bytes> {
    let end = range.end.as_ref()?;
    let single = end.len() == range.start.len() + 1 && end.starts_with(&range.start) && end.ends_with(&[0]);
    single.then_some(&range.start)
}

/// Steele and others' SplitMix64: spreads consecutive numbers evenly.
fn mix(n: u64) -> u64 {
    let mut z = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn depth(tree: &Tree) -> usize {
        tree.as_ref().map_or(0, |node| 1 + depth(&node.left).max(depth(&node.right)))
    }

    fn check(tree: &Tree) -> Option<&Node> {
        let node = tree.as_deref()?;
        assert!(!node.ids.is_empty());
        let mut reach = &node.range.end;
        for child in [check(&node.left), check(&node.right)].into_iter().flatten() {
            assert!(child.priority <= node.priority);
            if after(&child.reach, reach) {
                reach = &child.reach;
            }
        }
        assert_eq!(&node.reach, reach);
        Some(node)
    }

    fn found(interest: &Interest, key: &[u8]) -> Vec<WatcherId> {
        let mut ids = Vec::new();
        interest.each(key, |id| ids.push(id));
        ids.sort_unstable();
        ids
    }

    #[test]
    fn ten_thousand_nested_and_ordered_intervals_stay_shallow() {
        let mut interest = Interest::default();
        for n in 0..10_000u32 {
            let range = KeyRange {
                start: n.to_be_bytes().to_vec().into(),
                end: Some(vec![0xff, (n % 251) as u8].into()),
            };
            interest.insert(&range, (1, i64::from(n)));
        }
        check(&interest.intervals);
        assert!(depth(&interest.intervals) < 60, "depth {}", depth(&interest.intervals));
        assert_eq!(found(&interest, &7u32.to_be_bytes()).len(), 8);
    }

    fn key() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(0u8..4, 0..4)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn it_finds_what_a_plain_list_finds(
            steps in prop::collection::vec((key(), prop::option::of(key()), any::<prop::sample::Index>(), 0..3u8), 1..120),
            keys in prop::collection::vec(key(), 1..20),
        ) {
            let mut interest = Interest::default();
            let mut plain: Vec<(KeyRange, WatcherId)> = Vec::new();
            for (n, (start, end, which, kind)) in steps.into_iter().enumerate() {
                if kind == 0 && !plain.is_empty() {
                    let (range, id) = plain.swap_remove(which.index(plain.len()));
                    interest.remove(&range, id);
                } else {
                    let end = if kind == 1 { Some([&start[..], &[0]].concat()) } else { end };
                    if end.as_ref().is_some_and(|end| *end <= start) {
                        continue;
                    }
                    let range = KeyRange { start: start.into(), end: end.map(Bytes::from) };
                    let id = (n as u64 % 3, n as i64);
                    interest.insert(&range, id);
                    plain.push((range, id));
                }
                check(&interest.intervals);
            }
            for key in keys {
                let mut want: Vec<WatcherId> =
                    plain.iter().filter(|(range, _)| range.contains(&key)).map(|(_, id)| *id).collect();
                want.sort_unstable();
                prop_assert_eq!(found(&interest, &key), want);
            }
        }
    }
}
