//! Random steps with crashes: what was reported durable survives, in order, and nothing else appears but
//! what was appended after it.

use super::model::{Model, differs, whole_body};
use super::{GROUPS, entry, open};
use crate::disk::{Disk, MemoryDisk};
use crate::error::Error;
use crate::log::format::{self, FrameHeader};
use crate::log::{GroupId, Kind, Log, LogCheckpoint, Record, SegmentPin};
use crate::types::Pointer;
use bytes::Bytes;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Debug, Clone)]
pub(super) enum Step {
    Append {
        group: usize,
        lens: Vec<u32>,
        same_term: bool,
    },
    Truncate {
        group: usize,
        share: u8,
    },
    Vote {
        group: usize,
    },
    Commit {
        frames: u8,
    },
    Purge {
        group: usize,
        share: u8,
    },
    /// Writes a checkpoint; releases the segments drawn by `which` that nobody needs.
    Checkpoint {
        which: u8,
    },
    Prepare {
        budget: u32,
    },
    /// Notes how far the log came, without a sync or with one.
    Note {
        end: bool,
    },
    /// Ends the process, or cuts the power.
    End {
        power_cut: bool,
        seed: u64,
    },
    FailSync {
        after: u32,
    },
    FailWrite,
    Pin,
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let group = || 0..GROUPS.len();
    let len = prop_oneof![8 => 0u32..200, 6 => 200u32..3000, 1 => 10_000u32..30_000];
    prop_oneof![
        10 => (group(), proptest::collection::vec(len, 1..8), proptest::bool::weighted(0.8))
            .prop_map(|(group, lens, same_term)| Step::Append { group, lens, same_term }),
        2 => (group(), any::<u8>()).prop_map(|(group, share)| Step::Truncate { group, share }),
        1 => group().prop_map(|group| Step::Vote { group }),
        8 => (1u8..6).prop_map(|frames| Step::Commit { frames }),
        5 => (group(), 100u8..).prop_map(|(group, share)| Step::Purge { group, share }),
        3 => any::<u8>().prop_map(|which| Step::Checkpoint { which }),
        6 => (0u32..10_000).prop_map(|budget| Step::Prepare { budget }),
        2 => any::<bool>().prop_map(|end| Step::Note { end }),
        3 => any::<(bool, u64)>().prop_map(|(power_cut, seed)| Step::End { power_cut, seed }),
        1 => (0u32..4).prop_map(|after| Step::FailSync { after }),
        1 => Just(Step::FailWrite),
        1 => Just(Step::Pin),
    ]
}

/// Which paths a run took, so that a test that tests nothing is seen.
#[derive(Debug, Default)]
struct Coverage {
    power_cuts: u32,
    /// Power cuts with unsynced bytes on the disk.
    at_stake: u32,
    survivors: u32,
    released: u32,
    reused: u32,
    poisoned: u32,
    footers: u32,
}

pub(super) struct World {
    pub(super) disk: MemoryDisk,
    pub(super) log: Log,
    pub(super) manifest: Option<Vec<u8>>,
    /// All records that are in the log, as far as is known.
    pub(super) records: Vec<Record>,
    /// How many of them were there when the log was opened.
    opened_with: usize,
    purged: BTreeMap<GroupId, u64>,
    term: u64,
    number: u32,
    pins: Vec<(SegmentPin, Vec<(Pointer, Bytes)>)>,
    coverage: Coverage,
}

impl World {
    pub(super) fn new() -> Self {
        let disk = MemoryDisk::new();
        let log = open(&disk, 1, None).unwrap();
        World {
            disk,
            log,
            manifest: None,
            records: Vec::new(),
            opened_with: 0,
            purged: BTreeMap::new(),
            term: 1,
            number: 0,
            pins: Vec::new(),
            coverage: Coverage::default(),
        }
    }

    fn durable(&self) -> usize {
        self.opened_with + self.log.durable().0 as usize
    }

    fn append(&mut self, records: Vec<Record>) {
        let Ok(ticket) = self.log.append(records.clone()) else {
            assert!(self.log.poisoned().is_some());
            return;
        };
        self.records.extend(records);
        assert_eq!(ticket.0 as usize + self.opened_with, self.records.len());
    }

    fn commit(&mut self) {
        match self.log.commit_step() {
            Ok(Some(ticket)) => assert_eq!(ticket, self.log.durable()),
            Ok(None) => assert_eq!(self.durable(), self.records.len(), "nothing waits, so all is durable"),
            Err(_) => {
                assert!(self.log.poisoned().is_some());
                self.log.append([]).unwrap_err();
            }
        }
    }

    fn body(&mut self, len: u32) -> Vec<u8> {
        self.number += 1;
        let mut body = self.number.to_le_bytes().repeat(len as usize / 4 + 1);
        body.truncate(len as usize);
        body
    }

    pub(super) fn run(&mut self, step: &Step) {
        let purged = |world: &World, group| world.purged.get(&group).copied().unwrap_or(0);
        match step {
            Step::Append { group, lens, same_term } => {
                let group = GROUPS[*group];
                self.term += u64::from(!same_term);
                let last = Model::of(&self.records).last(group).max(purged(self, group));
                let mut records = Vec::new();
                for (index, len) in (last + 1..).zip(lens) {
                    let body = self.body(*len);
                    records.push(entry(group, self.term, index, body));
                }
                self.append(records);
            }
            Step::Truncate { group, share } => {
                let group = GROUPS[*group];
                let (from, last) = (purged(self, group) + 1, Model::of(&self.records).last(group));
                let index = from + (last + 1).saturating_sub(from) * u64::from(*share) / 255;
                let kind = if share % 3 == 0 { Kind::Part } else { Kind::Truncate };
                let body = if kind == Kind::Part { Bytes::from_static(b"replaces") } else { Bytes::new() };
                self.append(vec![Record { group, kind, term: self.term, index, body }]);
            }
            Step::Vote { group } => {
                self.term += 1;
                let body = Bytes::from(self.body(20));
                let record =
                    Record { group: GROUPS[*group], kind: Kind::Vote, term: self.term, index: 0, body };
                self.append(vec![record]);
            }
            Step::Commit { frames } => (0..*frames).for_each(|_| self.commit()),
            Step::Purge { group, share } => {
                let group = GROUPS[*group];
                let now = Model::of(&self.records);
                let last = Model::of(&self.records[..self.durable()]).last(group).min(now.last(group));
                let upto = last * u64::from(*share) / 255;
                if upto > purged(self, group) {
                    self.log.purge(group, now.entries[&group][&upto].term, upto);
                    self.purged.insert(group, upto);
                }
            }
            Step::Checkpoint { which } => self.checkpoint(*which),
            Step::Prepare { budget } => {
                let _ = self.log.prepare_step(u64::from(*budget));
            }
            Step::Note { end } => {
                let _ = if *end { self.log.note_end() } else { self.log.note_step() };
            }
            Step::End { power_cut, seed } => self.end(*power_cut, *seed),
            Step::FailSync { after } => self.disk.fail_sync_after(*after),
            Step::FailWrite => self.disk.fail_writes(true),
            Step::Pin => {
                let values = GROUPS
                    .iter()
                    .flat_map(|group| self.log.entries(*group, purged(self, *group), u64::MAX, 5000).unwrap())
                    .map(|entry| (whole_body(&entry), entry.body))
                    .collect();
                self.pins.push((self.log.pin(), values));
            }
        }
        for (_, values) in &self.pins {
            for (pointer, want) in values {
                assert_eq!(&self.log.value(*pointer).unwrap(), want, "{pointer:?} is pinned");
            }
        }
    }

    fn checkpoint(&mut self, which: u8) {
        if self.log.poisoned().is_some() {
            return;
        }
        let mut checkpoint = self.log.checkpoint();
        let needed = |group, last| self.purged.get(&group).is_none_or(|purged| last > *purged);
        let sealed = self.log.sealed();
        let unneeded = sealed
            .iter()
            .filter(|segment| segment.groups.iter().all(|(group, _, last)| !needed(*group, *last)));
        let uids: Vec<u32> =
            unneeded.enumerate().filter(|(at, _)| which >> (at % 8) & 1 == 1).map(|(_, it)| it.uid).collect();
        checkpoint.remove_segments(&uids);
        self.manifest = Some(checkpoint.encode());
        self.coverage.released += uids.len() as u32;
        self.log.release(&uids).unwrap();
    }

    fn end(&mut self, power_cut: bool, seed: u64) {
        self.pins.clear();
        self.coverage.poisoned += u32::from(self.log.poisoned().is_some());
        let uids = self.log.checkpoint().segments().last().unwrap_or(0);
        let files = self.disk.list().unwrap().iter().filter(|name| name.ends_with(".seg")).count();
        self.coverage.reused += u32::from(uids as usize > files);
        if power_cut {
            self.coverage.power_cuts += 1;
            self.coverage.at_stake += u32::from(self.disk.unsynced_bytes() > 0);
            self.disk = self.disk.crash(seed);
        }
        self.disk.fail_writes(false);
        let durable = self.durable();
        let checkpoint = self.manifest.as_ref().map(|bytes| LogCheckpoint::decode(bytes).unwrap());
        self.log = match open(&self.disk, seed, checkpoint.as_ref()) {
            // The failure that was due met the opening: the next one must cope with what that left.
            Err(Error::Io { .. }) => open(&self.disk, seed, checkpoint.as_ref()).unwrap(),
            other => other.unwrap(),
        };
        self.purged = GROUPS
            .iter()
            .filter_map(|group| Some((*group, self.log.bounds(*group)?.purged.1)))
            .filter(|(_, purged)| *purged > 0)
            .collect();
        let mut model = Model::of(&self.records[..durable]);
        let mut kept = durable;
        let mut first = None;
        while let Err(difference) = differs(&self.log, &model) {
            first.get_or_insert(difference);
            let Some(record) = self.records.get(kept) else {
                panic!(
                    "no prefix of {} records, {durable} of them durable, is what was found: {}",
                    self.records.len(),
                    first.unwrap_or_default()
                );
            };
            model.add(record);
            kept += 1;
        }
        self.coverage.survivors += u32::from(kept > durable);
        self.coverage.footers +=
            self.log.sealed().iter().filter(|it| footer_at(&self.disk, it.bytes).is_some()).count() as u32;
        self.records.truncate(kept);
        self.opened_with = kept;
    }
}

/// A file with a footer at `end`, if there is one.
fn footer_at(disk: &MemoryDisk, end: u64) -> Option<String> {
    disk.list().unwrap().into_iter().find(|name| {
        let bytes = disk.file_bytes(name).unwrap_or_default();
        let header = bytes.get(end as usize..).and_then(FrameHeader::decode);
        header.is_some_and(|header| header.flags == format::FOOTER)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_shrink_iters: 5000, ..ProptestConfig::default() })]

    #[test]
    fn what_was_reported_durable_survives_and_nothing_else_appears(
        steps in proptest::collection::vec(step(), 1..80),
        seed in any::<u64>(),
    ) {
        let mut world = World::new();
        for step in &steps {
            world.run(step);
        }
        prop_assert_eq!(differs(&world.log, &Model::of(&world.records)), Ok(()));
        world.end(true, seed);
    }
}

#[test]
fn the_random_runs_take_all_the_paths_that_they_are_for() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
    let mut runner =
        TestRunner::new_with_rng(Config::default(), TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let mut total = Coverage::default();
    for _ in 0..150 {
        let steps = proptest::collection::vec(step(), 80).new_tree(&mut runner).unwrap().current();
        let mut world = World::new();
        steps.iter().for_each(|step| world.run(step));
        let seen = world.coverage;
        total.power_cuts += seen.power_cuts;
        total.at_stake += seen.at_stake;
        total.survivors += seen.survivors;
        total.released += seen.released;
        total.poisoned += seen.poisoned;
        total.footers += seen.footers;
        total.reused += seen.reused;
    }
    let Coverage { power_cuts, at_stake, survivors, released, reused, poisoned, footers } = total;
    assert!(power_cuts > 30 && at_stake > 5 && survivors > 5 && poisoned > 10, "{total:?}");
    assert!(released > 10 && reused > 5 && footers > 10, "{total:?}");
}

#[test]
fn a_torn_segment_that_only_the_cache_forgot_is_out_of_date_not_damage() {
    let mut came_back = 0;
    for seed in 0..60 {
        let disk = MemoryDisk::new();
        let log = open(&disk, seed, None).unwrap();
        log.append([entry(0, 1, 1, vec![1; 9000])]).unwrap();
        log.commit_step().unwrap();
        // The second segment's file is there already, and its first write breaks off.
        while log.prepare_step(16 << 10).unwrap() {}
        log.append([entry(0, 1, 2, vec![2; 9000])]).unwrap();
        disk.fail_writes(true);
        log.commit_step().unwrap_err();
        disk.fail_writes(false);
        let torn = disk.open("00000002.seg").unwrap();
        torn.sync().unwrap();
        disk.sync_dir().unwrap();
        // It is erased, but that sync fails: the cache shows zeros, the disk may not have them.
        disk.fail_next_sync();
        open(&disk, seed, None).unwrap_err();
        let log = open(&disk, seed, None).unwrap();
        log.append([entry(0, 2, 2, vec![3; 100])]).unwrap();
        log.commit_step().unwrap();
        for power_cut in 0..4 {
            let image = disk.crash(seed * 4 + power_cut);
            came_back +=
                u32::from(image.file_bytes("00000002.seg").is_some_and(|bytes| bytes.starts_with(b"KLSG")));
            let log = open(&image, 9, None).unwrap();
            assert_eq!(log.bounds(0).unwrap().last, (2, 2), "seed {seed}");
        }
    }
    assert!(came_back > 10, "the torn header came back {came_back} times");
}

#[test]
fn what_was_found_torn_once_is_never_found_whole_later() {
    for (len, file, why) in [
        (2000, "00000001.seg", "the header of the torn frame is overwritten by a mark"),
        (9000, "00000002.seg", "the beginning of the torn segment is erased"),
    ] {
        let disk = MemoryDisk::new();
        let log = open(&disk, 1, None).unwrap();
        log.append([entry(0, 1, 1, vec![1; 9000])]).unwrap();
        log.commit_step().unwrap();
        log.append([entry(0, 1, 2, vec![2; len])]).unwrap();
        log.commit_step().unwrap();
        assert!(disk.file_bytes(file).is_some(), "{why}");

        // The frame's last sector is lost, and what remains is cut.
        let mut whole = disk.file_bytes(file).unwrap();
        let frames_end = whole.iter().rposition(|byte| *byte != 0).unwrap() + 1;
        whole.truncate(frames_end);
        let (kept, lost) = whole.split_at(whole.len() - 512);
        disk.put_file(file, kept.to_vec());
        assert_eq!(open(&disk, 2, None).unwrap().bounds(0).unwrap().last, (1, 1), "{why}");

        // Then the same bytes get there after all, as part of a later torn write.
        let mut bytes = disk.file_bytes(file).unwrap();
        bytes.truncate(kept.len());
        bytes.extend_from_slice(lost);
        disk.put_file(file, bytes);
        assert_eq!(open(&disk, 3, None).unwrap().bounds(0).unwrap().last, (1, 1), "{why}");
    }
}
