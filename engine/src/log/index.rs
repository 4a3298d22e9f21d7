//! Where the entries of each group lie, in memory: sparse, and in line with all truncations.
//!
//! A group's live entries are a list of runs. A run is a row of consecutive indexes of one term in one
//! segment, with no dead entry of the group between its records, so whoever reads from one of its points
//! onwards meets its entries in order and stops at its last. A truncation cuts runs; what is dead is not in
//! the list, whatever lies on the disk.
//!
//! What a segment adds to the index, and what its footer will need, is gathered in its [`Summary`].
//! Appending and replaying go through the same [`Index::record`]; that makes them agree.
//!
//! INVARIANT The runs of a group ascend and do not overlap. Gaps are legal: segments in the middle may have
//! been reclaimed, and after an installed snapshot the indexes jump.

use super::{Bounds, GroupId, Kind};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};

/// A run gets a point for about each so many bytes of log: what a lookup reads in vain at most.
const POINT_EVERY: u64 = 64 << 10;

/// Entries of all groups.
#[derive(Debug, Default)]
pub(super) struct Index {
    groups: BTreeMap<GroupId, Group>,
}

#[derive(Debug, Default)]
struct Group {
    /// Latest vote.
    vote: Option<Bytes>,
    /// Term and index of the last purged entry, (0, 0) if none was.
    purged: (u64, u64),
    runs: VecDeque<Run>,
}

/// Consecutive live entries of one group and term in one segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) first: u64,
    /// Invariant: first <= last.
    pub(super) last: u64,
    pub(super) term: u64,
    pub(super) segment: u32,
    /// Never empty; the first is that of `first`; both fields ascend.
    pub(super) points: Vec<Point>,
    /// Dead entries follow it in its segment: it cannot be extended.
    pub(super) closed: bool,
}

/// Where the head of an entry's record lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) index: u64,
    pub(super) offset: u32,
}

/// A place in the log.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) segment: u32,
    /// Frame.
    pub(super) seq: u64,
    /// Of the record's head in the segment.
    pub(super) offset: u64,
}

/// What one segment did to the index, beside its runs.
#[derive(Debug, Default)]
pub(super) struct Summary {
    /// Per group the lowest index that the segment truncated: entries of older segments from there on are dead.
    pub(super) cuts: BTreeMap<GroupId, u64>,
    /// Per group its last vote in the segment and the frame it is in.
    pub(super) votes: BTreeMap<GroupId, (u64, Bytes)>,
    /// At least the bytes that the footer will take for what is in the segment so far.
    pub(super) footer_bytes: u64,
}

impl Summary {
    /// At least the bytes by which a footer grows with one group, run and point more.
    pub(super) const STEP: u64 = super::footer::GROUP_LEN + super::footer::RUN_LEN + super::footer::POINT_LEN;

    fn cut(&mut self, group: GroupId, index: u64) {
        let cut = self.cuts.entry(group).or_insert(index);
        *cut = index.min(*cut);
        self.footer_bytes += super::footer::GROUP_LEN;
    }
}

impl Index {
    /// Takes a record in; `Some(index)` if it killed live entries from that index on: a truncation, or an
    /// entry that replaces some without one.
    pub(super) fn record(
        &mut self,
        summary: &mut Summary,
        place: Place,
        (kind, group, term, index): (Kind, GroupId, u64, u64),
        body: &[u8],
    ) -> Option<u64> {
        let of_group = self.groups.entry(group).or_default();
        match kind {
            Kind::Vote => {
                let vote = Bytes::copy_from_slice(body);
                summary.footer_bytes += super::footer::GROUP_LEN + body.len() as u64;
                summary.votes.insert(group, (place.seq, vote.clone()));
                of_group.vote = Some(vote);
                None
            }
            Kind::Truncate => {
                let cut = of_group.cut(index).then_some(index)?;
                summary.cut(group, cut);
                Some(cut)
            }
            Kind::Entry | Kind::Part => {
                let cut = of_group.cut(index).then_some(index);
                if let Some(cut) = cut {
                    summary.cut(group, cut);
                }
                summary.footer_bytes += of_group.entry(place, term, index);
                cut
            }
        }
    }

    /// Takes in what a footer says: first the cut, then the segment's own runs.
    pub(super) fn restore(&mut self, group: GroupId, cut: Option<u64>, runs: Vec<Run>) {
        if let Some(cut) = cut {
            self.cut(group, cut);
        }
        let of_group = self.groups.entry(group).or_default();
        for run in runs {
            of_group.cut(run.first);
            of_group.runs.push_back(run);
        }
    }

    /// Entries of `group` from `index` on are dead.
    pub(super) fn cut(&mut self, group: GroupId, index: u64) {
        self.groups.entry(group).or_default().cut(index);
    }

    pub(super) fn set_vote(&mut self, group: GroupId, vote: Bytes) {
        self.groups.entry(group).or_default().vote = Some(vote);
    }

    pub(super) fn vote(&self, group: GroupId) -> Option<&Bytes> {
        self.groups.get(&group)?.vote.as_ref()
    }

    /// Moves the purge mark forward, never back.
    pub(super) fn purge(&mut self, group: GroupId, term: u64, upto: u64) {
        let purged = &mut self.groups.entry(group).or_default().purged;
        if purged.1 < upto {
            *purged = (term, upto);
        }
    }

    pub(super) fn bounds(&self, group: GroupId) -> Option<Bounds> {
        let group = self.groups.get(&group)?;
        let last = group.runs.back().map_or((0, 0), |run| (run.term, run.last));
        let last = if last.1 <= group.purged.1 { group.purged } else { last };
        Some(Bounds { purged: group.purged, last })
    }

    /// All groups with their purge marks.
    pub(super) fn purged(&self) -> impl Iterator<Item = (GroupId, (u64, u64))> {
        self.groups.iter().map(|(id, group)| (*id, group.purged))
    }

    /// The run with the entry `index` of `group`.
    pub(super) fn run(&self, group: GroupId, index: u64) -> Option<&Run> {
        let runs = &self.groups.get(&group)?.runs;
        let run = runs.get(runs.partition_point(|run| run.last < index))?;
        (run.first <= index).then_some(run)
    }

    /// The runs that lie in the segment `uid`, which must be the newest with any.
    pub(super) fn newest_runs(
        &self,
        uid: u32,
    ) -> impl Iterator<Item = (GroupId, impl Iterator<Item = &Run>)> {
        self.groups.iter().map(move |(id, group)| {
            let older = group.runs.partition_point(|run| run.segment < uid);
            (*id, group.runs.range(older..))
        })
    }

    /// Forgets the entries of a segment that is no more.
    pub(super) fn forget_segment(&mut self, uid: u32) {
        for group in self.groups.values_mut() {
            group.runs.retain(|run| run.segment != uid);
        }
    }
}

impl Group {
    /// Removes entries from `index` on; whether there were any.
    fn cut(&mut self, index: u64) -> bool {
        let mut any = false;
        while let Some(run) = self.runs.back_mut()
            && run.last >= index
        {
            any = true;
            if run.first >= index {
                self.runs.pop_back();
            } else {
                run.last = index - 1;
                run.points.retain(|point| point.index < index);
            }
        }
        if any && let Some(run) = self.runs.back_mut() {
            run.closed = true;
        }
        any
    }

    /// Adds an entry above all others; returns the bytes it may add to the footer.
    fn entry(&mut self, place: Place, term: u64, index: u64) -> u64 {
        let offset = u32::try_from(place.offset).expect("segments are below 4 GiB");
        let point = Point { index, offset };
        match self.runs.back_mut() {
            Some(run)
                if run.segment == place.segment
                    && run.term == term
                    && run.last + 1 == index
                    && !run.closed =>
            {
                run.last = index;
                let before = run.points.last().expect("a run has a point").offset;
                if place.offset - u64::from(before) < POINT_EVERY {
                    return 0;
                }
                run.points.push(point);
                super::footer::POINT_LEN
            }
            _ => {
                let segment = place.segment;
                let points = vec![point];
                self.runs.push_back(Run { first: index, last: index, term, segment, points, closed: false });
                Summary::STEP
            }
        }
    }
}

impl Run {
    /// The last point at or before the entry `index`.
    pub(super) fn point(&self, index: u64) -> Point {
        let after = self.points.partition_point(|point| point.index <= index);
        self.points[after - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records of one group as (kind, term, index), 100 bytes apart, all in segment 1.
    fn index(records: &[(Kind, u64, u64)]) -> (Index, Summary) {
        let (mut index, mut summary) = (Index::default(), Summary::default());
        for (number, (kind, term, at)) in records.iter().enumerate() {
            let place = Place { segment: 1, seq: 1, offset: 4160 + 100 * number as u64 };
            index.record(&mut summary, place, (*kind, 7, *term, *at), b"");
        }
        (index, summary)
    }

    fn shape(index: &Index) -> Vec<(u64, u64, u64)> {
        index.groups[&7].runs.iter().map(|run| (run.first, run.last, run.term)).collect()
    }

    #[test]
    fn runs_follow_entries_and_truncations() {
        use Kind::{Entry, Truncate};
        for (records, want, cut, why) in [
            (vec![(Entry, 1, 1), (Entry, 1, 2)], vec![(1, 2, 1)], None, "one run"),
            (vec![(Entry, 1, 1), (Entry, 2, 2)], vec![(1, 1, 1), (2, 2, 2)], None, "a new term, a new run"),
            (vec![(Entry, 1, 1), (Entry, 1, 9)], vec![(1, 1, 1), (9, 9, 1)], None, "a jump"),
            (
                vec![(Entry, 1, 1), (Entry, 1, 2), (Entry, 1, 3), (Truncate, 0, 2), (Entry, 1, 2)],
                vec![(1, 1, 1), (2, 2, 1)],
                Some(2),
                "dead entries lie between, so the run is not extended",
            ),
            (
                vec![(Entry, 1, 1), (Entry, 1, 2), (Entry, 3, 1)],
                vec![(1, 1, 3)],
                Some(1),
                "an entry at a taken index replaces what is from there on",
            ),
            (
                vec![(Entry, 1, 5), (Truncate, 0, 1), (Entry, 2, 1), (Truncate, 0, 3)],
                vec![(1, 1, 2)],
                Some(1),
                "a truncation of nothing does nothing",
            ),
        ] {
            let (index, summary) = index(&records);
            assert_eq!(shape(&index), want, "{why}");
            assert_eq!(summary.cuts.get(&7).copied(), cut, "{why}");
        }
    }

    #[test]
    fn bounds_know_purge_marks_beyond_the_log() {
        let (mut index, _) = index(&[(Kind::Entry, 1, 1), (Kind::Entry, 2, 2)]);
        assert_eq!(index.bounds(7), Some(Bounds { purged: (0, 0), last: (2, 2) }));
        index.purge(7, 1, 1);
        assert_eq!(index.bounds(7), Some(Bounds { purged: (1, 1), last: (2, 2) }));
        index.purge(7, 5, 90);
        index.purge(7, 1, 1);
        assert_eq!(index.bounds(7), Some(Bounds { purged: (5, 90), last: (5, 90) }), "never back");
        assert_eq!(index.bounds(8), None);
        assert!(index.run(7, 2).is_some(), "entries below the mark stay readable");
        index.forget_segment(1);
        assert!(index.run(7, 2).is_none());
    }
}
