//! What a sealed segment says of itself at its end, so that opening need not read its frames.
//!
//! LAYOUT of the footer's bytes, within a frame flagged FOOTER (little-endian)
//! ```text
//! | groups u32 | group ... |
//! group: | group u32 | flags u32 | cut u64 | vote_seq u64 | vote_len u32 | runs u32 | vote | run ... |
//! run:   | first u64 | last u64 | term u64 | points u32 | 0 u32 | point ... |
//! point: | index u64 | offset u32 | 0 u32 |
//! flags: bit 0 cut is set, bit 1 there is a vote
//! ```
//! It tells the state at the end of the segment: later truncations are told by later segments.

use super::GroupId;
use super::index::{Index, Point, Run, Summary};
use bytes::{Buf, BufMut, Bytes};

/// Bytes of a group without its vote and runs.
pub(super) const GROUP_LEN: u64 = 32;
/// Bytes of a run without its points.
pub(super) const RUN_LEN: u64 = 32;
/// Bytes of a point.
pub(super) const POINT_LEN: u64 = 16;

const CUT: u32 = 1;
const VOTE: u32 = 2;

/// One group's part of a footer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FooterGroup {
    pub(super) group: GroupId,
    /// Entries in older segments are dead from this index on.
    pub(super) cut: Option<u64>,
    /// The last vote in the segment and the seq of its frame.
    pub(super) vote: Option<(u64, Bytes)>,
    pub(super) runs: Vec<Run>,
}

/// The groups' parts for the segment `uid`, the newest in the index.
pub(super) fn gather(uid: u32, index: &Index, summary: &Summary) -> Vec<FooterGroup> {
    let mut groups = Vec::new();
    for (group, runs) in index.newest_runs(uid) {
        let cut = summary.cuts.get(&group).copied();
        let vote = summary.votes.get(&group).cloned();
        let runs: Vec<Run> = runs.cloned().collect();
        if cut.is_some() || vote.is_some() || !runs.is_empty() {
            groups.push(FooterGroup { group, cut, vote, runs });
        }
    }
    groups
}

pub(super) fn encode(groups: &[FooterGroup]) -> Vec<u8> {
    let mut out = Vec::new();
    out.put_u32_le(count(groups.len()));
    for FooterGroup { group, cut, vote, runs } in groups {
        let (vote_seq, vote_bytes) = vote.as_ref().map_or((0, &[][..]), |(seq, bytes)| (*seq, &bytes[..]));
        out.put_u32_le(*group);
        out.put_u32_le(if cut.is_some() { CUT } else { 0 } | if vote.is_some() { VOTE } else { 0 });
        out.put_u64_le(cut.unwrap_or(0));
        out.put_u64_le(vote_seq);
        out.put_u32_le(count(vote_bytes.len()));
        out.put_u32_le(count(runs.len()));
        out.put_slice(vote_bytes);
        for run in runs {
            out.put_u64_le(run.first);
            out.put_u64_le(run.last);
            out.put_u64_le(run.term);
            out.put_u32_le(count(run.points.len()));
            out.put_u32_le(0);
            for point in &run.points {
                out.put_u64_le(point.index);
                out.put_u32_le(point.offset);
                out.put_u32_le(0);
            }
        }
    }
    out
}

fn count(len: usize) -> u32 {
    u32::try_from(len).expect("a segment is below 4 GiB")
}

/// Reads a footer of the segment `uid`; `None` if it breaks a rule of the layout or of [`Run`].
pub(super) fn decode(uid: u32, mut bytes: &[u8]) -> Option<Vec<FooterGroup>> {
    let count = bytes.try_get_u32_le().ok()?;
    let mut groups = Vec::new();
    for _ in 0..count {
        let group = bytes.try_get_u32_le().ok()?;
        let flags = bytes.try_get_u32_le().ok()?;
        let cut = bytes.try_get_u64_le().ok()?;
        let vote_seq = bytes.try_get_u64_le().ok()?;
        let vote_len = bytes.try_get_u32_le().ok()? as usize;
        let run_count = bytes.try_get_u32_le().ok()?;
        let vote = Bytes::copy_from_slice(bytes.get(..vote_len)?);
        bytes.advance(vote_len);
        let mut runs: Vec<Run> = Vec::new();
        for _ in 0..run_count {
            let run = run(uid, &mut bytes)?;
            if runs.last().is_some_and(|before| before.last >= run.first) {
                return None;
            }
            runs.push(run);
        }
        groups.push(FooterGroup {
            group,
            cut: (flags & CUT != 0).then_some(cut),
            vote: (flags & VOTE != 0).then_some((vote_seq, vote)),
            runs,
        });
    }
    bytes.is_empty().then_some(groups)
}

fn run(uid: u32, bytes: &mut &[u8]) -> Option<Run> {
    let first = bytes.try_get_u64_le().ok()?;
    let last = bytes.try_get_u64_le().ok()?;
    let term = bytes.try_get_u64_le().ok()?;
    let count = bytes.try_get_u32_le().ok()?;
    bytes.try_get_u32_le().ok()?;
    let mut points: Vec<Point> = Vec::new();
    for _ in 0..count {
        let index = bytes.try_get_u64_le().ok()?;
        let offset = bytes.try_get_u32_le().ok()?;
        bytes.try_get_u32_le().ok()?;
        if points.last().is_some_and(|before| before.index >= index || before.offset >= offset) {
            return None;
        }
        points.push(Point { index, offset });
    }
    let within = points.first()?.index == first && points.last()?.index <= last;
    within.then_some(Run { first, last, term, segment: uid, points, closed: true })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_footer_decodes_to_what_was_encoded_and_not_if_cut_short() {
        let points = vec![Point { index: 3, offset: 4160 }, Point { index: 40, offset: 70_000 }];
        let run = Run { first: 3, last: 50, term: 2, segment: 9, points, closed: true };
        let groups = vec![
            FooterGroup { group: 0, cut: Some(3), vote: None, runs: vec![run] },
            FooterGroup { group: 5, cut: None, vote: Some((8, Bytes::from_static(b"me"))), runs: vec![] },
        ];
        let bytes = encode(&groups);
        assert_eq!(decode(9, &bytes), Some(groups));
        for len in 0..bytes.len() {
            assert_eq!(decode(9, &bytes[..len]), None, "cut to {len}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_read_without_panic(
            mut bytes in proptest::collection::vec(prop_oneof![3 => Just(0u8), 1 => any::<u8>()], 0..200),
        ) {
            let _ = decode(1, &bytes);
            if let Some(first) = bytes.first_mut() {
                *first &= 3;
            }
            let _ = decode(1, &bytes);
        }
    }
}
