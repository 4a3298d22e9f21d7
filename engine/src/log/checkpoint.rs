//! What the manifest remembers of the log: enough to know which files are segments, and what lived only in
//! segments that have been reclaimed since.
//!
//! LAYOUT (little-endian; the manifest's edit carries the checksum)
//! ```text
//! | format u32 | next_uid u32 | durable_seq u64 | segments u32 | groups u32 | cuts u32 |
//! segment: | uid u32 | slot u32 | incarnation u64 | last_seq u64 |
//! group:   | group u32 | vote_len u32 (all ones: no vote) | purged_term u64 | purged_index u64 | vote |
//! cut:     | uid u32 | group u32 | index u64 |
//! ```

use super::GroupId;
use super::format::FORMAT;
use bytes::{Buf, BufMut, Bytes};

/// Length that stands for "no vote".
const NO_VOTE: u32 = u32::MAX;

/// State of the log as of its durable end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogCheckpoint {
    /// Segments from this uid on came into use later.
    pub(super) next_uid: u32,
    /// Highest frame known durable: if it is not found, it was lost.
    pub(super) durable_seq: u64,
    /// Live segments, oldest first.
    pub(super) segments: Vec<CheckpointSegment>,
    pub(super) groups: Vec<CheckpointGroup>,
    pub(super) cuts: Vec<Cut>,
}

/// A live segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CheckpointSegment {
    pub(super) uid: u32,
    /// Its file.
    pub(super) slot: u32,
    pub(super) incarnation: u64,
    /// Its last frame if it is sealed, else 0.
    pub(super) last_seq: u64,
}

/// What is known of a group beside its entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CheckpointGroup {
    pub(super) group: GroupId,
    pub(super) vote: Option<Bytes>,
    pub(super) purged: (u64, u64),
}

/// A truncation told by the segment `uid`: entries of the group in older segments are dead from `index` on.
/// Kept here because that segment may be reclaimed before the older ones are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) uid: u32,
    pub(super) group: GroupId,
    pub(super) index: u64,
}

impl LogCheckpoint {
    /// Takes segments out, before the checkpoint is written and [`super::Log::release`] is called for them.
    pub fn remove_segments(&mut self, uids: &[u32]) {
        self.segments.retain(|segment| !uids.contains(&segment.uid));
    }

    /// Uids of the segments listed, oldest first.
    pub fn segments(&self) -> impl Iterator<Item = u32> {
        self.segments.iter().map(|segment| segment.uid)
    }

    /// The last frame of the segment `uid`; 0 if it was not full.
    pub(super) fn last_seq(&self, uid: u32) -> u64 {
        self.segments.iter().find(|segment| segment.uid == uid).map_or(0, |segment| segment.last_seq)
    }

    /// The bytes that [`LogCheckpoint::decode`] reads.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let count = |len: usize| u32::try_from(len).expect("few segments, groups and cuts");
        let mut out = Vec::new();
        out.put_u32_le(FORMAT);
        out.put_u32_le(self.next_uid);
        out.put_u64_le(self.durable_seq);
        out.put_u32_le(count(self.segments.len()));
        out.put_u32_le(count(self.groups.len()));
        out.put_u32_le(count(self.cuts.len()));
        for segment in &self.segments {
            out.put_u32_le(segment.uid);
            out.put_u32_le(segment.slot);
            out.put_u64_le(segment.incarnation);
            out.put_u64_le(segment.last_seq);
        }
        for CheckpointGroup { group, vote, purged } in &self.groups {
            out.put_u32_le(*group);
            out.put_u32_le(vote.as_ref().map_or(NO_VOTE, |vote| count(vote.len())));
            out.put_u64_le(purged.0);
            out.put_u64_le(purged.1);
            out.put_slice(vote.as_deref().unwrap_or_default());
        }
        for cut in &self.cuts {
            out.put_u32_le(cut.uid);
            out.put_u32_le(cut.group);
            out.put_u64_le(cut.index);
        }
        out
    }

    /// Reads an encoded checkpoint; `None` if the bytes are not one of this format version.
    #[must_use]
    pub fn decode(mut bytes: &[u8]) -> Option<Self> {
        let bytes = &mut bytes;
        if bytes.try_get_u32_le().ok()? != FORMAT {
            return None;
        }
        let next_uid = bytes.try_get_u32_le().ok()?;
        let durable_seq = bytes.try_get_u64_le().ok()?;
        let segment_count = bytes.try_get_u32_le().ok()?;
        let group_count = bytes.try_get_u32_le().ok()?;
        let cut_count = bytes.try_get_u32_le().ok()?;
        let (mut segments, mut groups, mut cuts): (Vec<CheckpointSegment>, _, _) = (vec![], vec![], vec![]);
        for _ in 0..segment_count {
            let uid = bytes.try_get_u32_le().ok()?;
            let slot = bytes.try_get_u32_le().ok()?;
            let incarnation = bytes.try_get_u64_le().ok()?;
            let last_seq = bytes.try_get_u64_le().ok()?;
            if uid >= next_uid || segments.last().is_some_and(|before| before.uid >= uid) {
                return None;
            }
            segments.push(CheckpointSegment { uid, slot, incarnation, last_seq });
        }
        for _ in 0..group_count {
            let group = bytes.try_get_u32_le().ok()?;
            let vote_len = bytes.try_get_u32_le().ok()?;
            let purged = (bytes.try_get_u64_le().ok()?, bytes.try_get_u64_le().ok()?);
            let vote = if vote_len == NO_VOTE {
                None
            } else {
                let vote = Bytes::copy_from_slice(bytes.get(..vote_len as usize)?);
                bytes.advance(vote.len());
                Some(vote)
            };
            groups.push(CheckpointGroup { group, vote, purged });
        }
        for _ in 0..cut_count {
            let uid = bytes.try_get_u32_le().ok()?;
            let group = bytes.try_get_u32_le().ok()?;
            cuts.push(Cut { uid, group, index: bytes.try_get_u64_le().ok()? });
        }
        bytes.is_empty().then_some(LogCheckpoint { next_uid, durable_seq, segments, groups, cuts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_checkpoint_decodes_to_what_was_encoded_and_not_if_cut_short() {
        let checkpoint = LogCheckpoint {
            next_uid: 4,
            durable_seq: 99,
            segments: vec![
                CheckpointSegment { uid: 1, slot: 7, incarnation: 5, last_seq: 40 },
                CheckpointSegment { uid: 3, slot: 1, incarnation: 6, last_seq: 0 },
            ],
            groups: vec![
                CheckpointGroup { group: 0, vote: Some(Bytes::from_static(b"")), purged: (1, 2) },
                CheckpointGroup { group: 9, vote: None, purged: (0, 0) },
            ],
            cuts: vec![Cut { uid: 2, group: 9, index: 17 }],
        };
        let bytes = checkpoint.encode();
        assert_eq!(LogCheckpoint::decode(&bytes).as_ref(), Some(&checkpoint), "an empty vote is not no vote");
        for len in 0..bytes.len() {
            assert_eq!(LogCheckpoint::decode(&bytes[..len]), None, "cut to {len}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_read_without_panic(
            rest in proptest::collection::vec(prop_oneof![3 => Just(0u8), 1 => any::<u8>()], 0..200),
        ) {
            let _ = LogCheckpoint::decode(&[&FORMAT.to_le_bytes()[..], &rest].concat());
        }
    }
}
