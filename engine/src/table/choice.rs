//! Which runs to merge next: size-tiered, with a look at what compaction has made superfluous.
//!
//! Runs stand from the newest to the oldest and only neighbours are merged, so the order by time stays.
//! 1. Garbage: if a fifth of all versions is superfluous at the compaction revision, all runs become one. A
//!    fifth bounds the work: each byte is rewritten for at least a fifth of a byte freed.
//! 2. Size: if four or more neighbours are of about one size (each at most twice the sum of those newer
//!    than it in the group), they become one. So a byte is rewritten once per fourfold growth.
//! 3. Number: beyond [`RUNS_MAX`] runs, the cheapest four neighbours become one: each run costs every read.

use std::ops::Range;

/// Neighbours that a merge by size takes at least.
const GROUP_MIN: usize = 4;
/// Runs beyond which a merge is due whatever their sizes.
const RUNS_MAX: usize = 12;
/// Share of superfluous versions that makes a full merge worth while: one in this many.
const GARBAGE_SHARE: u64 = 5;

/// What all runs hold together, at the compaction revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Garbage {
    /// Versions in all runs.
    pub(crate) versions: u64,
    /// About how many of them a full merge would leave out.
    pub(crate) superfluous: u64,
}

/// The runs to merge, newest first, if any.
pub(crate) fn choose(bytes: &[u64], garbage: Garbage) -> Option<Range<usize>> {
    if garbage.superfluous > 0 && garbage.superfluous * GARBAGE_SHARE >= garbage.versions {
        return Some(0..bytes.len());
    }
    if let Some(group) = (0..bytes.len()).map(|start| group_from(bytes, start)).find(|g| g.len() >= GROUP_MIN)
    {
        return Some(group);
    }
    if bytes.len() <= RUNS_MAX {
        return None;
    }
    (0..=bytes.len() - GROUP_MIN)
        .map(|start| start..start + GROUP_MIN)
        .min_by_key(|group| bytes[group.clone()].iter().sum::<u64>())
}

/// The longest group of neighbours from `start` on in which nobody is much larger than those before it.
fn group_from(bytes: &[u64], start: usize) -> Range<usize> {
    let mut sum = bytes[start];
    let mut end = start + 1;
    while end < bytes.len() && bytes[end] <= sum.saturating_mul(2) {
        sum = sum.saturating_add(bytes[end]);
        end += 1;
    }
    start..end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_merged_and_why() {
        let many: Vec<u64> = (0..13).map(|power| 3u64.pow(power)).collect();
        for (bytes, superfluous, want, why) in [
            (&[][..], 0, None, "nothing there"),
            (&[100], 0, None, "one run without garbage"),
            (&[100], 20, Some(0..1), "one run, a fifth of it garbage"),
            (&[100, 100], 19, None, "not worth it yet"),
            (&[100, 100, 100], 0, None, "three of a size wait for the fourth"),
            (&[100, 100, 100, 100, 5000], 0, Some(0..4), "four of a size, the large one stays"),
            (&[10, 100, 100, 100, 100, 5000], 0, Some(1..5), "the small one does not join"),
            (&[100, 300, 900, 2700, 8100], 0, None, "sizes of a well-merged store"),
            (&many, 0, Some(0..4), "too many runs: the four smallest"),
        ] {
            assert_eq!(choose(bytes, Garbage { versions: 100, superfluous }), want, "{why}");
        }
    }

    #[test]
    fn equal_flushes_are_rewritten_a_logarithmic_number_of_times() {
        let (mut runs, mut rewritten) = (Vec::new(), 0);
        for _ in 0..1000 {
            runs.insert(0, 1u64);
            while let Some(group) = choose(&runs, Garbage::default()) {
                let sum: u64 = runs[group.clone()].iter().sum();
                rewritten += sum;
                runs.splice(group, [sum]);
            }
            assert!(runs.len() <= RUNS_MAX, "{runs:?}");
        }
        assert!(rewritten < 8 * 1000, "{rewritten} units rewritten for 1000 flushed");
    }
}
