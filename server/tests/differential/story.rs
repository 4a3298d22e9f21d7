//! Requests by chance, from a seed: every shape, on few keys, so that they meet.
//!
//! What comes next hangs on the seed and on what the first server answered (which revision it is at, which leases
//! there are), so the same seed tells the same story. The chance is our own: no library may change it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use server::pb::etcdserverpb::{self as pb, compare::TargetUnion, request_op::Request as Operation};

use crate::step::{OnStream, Outcome, Step};

/// Keys: neighbours, prefixes of each other, the smallest and the largest bytes, and none.
const KEYS: [&[u8]; 16] = [
    b"",
    b"\0",
    b"\0\0",
    b"a",
    b"a\0",
    b"a\xff",
    b"aa",
    b"b",
    b"c",
    b"d",
    b"k/1",
    b"k/2",
    b"k/10",
    b"z",
    b"\xff",
    b"\xff\xff",
];
/// Leases that are asked for by name.
const LEASES: [i64; 6] = [1, 2, 7, -5, i64::MAX, i64::MIN];
/// Streams whose watchers do not wait for the future.
const STREAMS: u32 = 3;
/// Watchers that live at once.
const WATCHERS_MAX: usize = 12;
/// Compactions whose hashes etcd remembers while it runs.
const REMEMBERED_HASHES: usize = 10;

/// SplitMix64.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `n`.
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// True once in `n`.
    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }
}

/// See the module's text.
pub(crate) struct Story {
    chance: Chance,
    revision: i64,
    compacted: i64,
    /// Newest compactions.
    compactions: VecDeque<i64>,
    /// The last compaction did not wait for the removal.
    removing: bool,
    leases: BTreeSet<i64>,
    /// First revisions of the watchers of each stream.
    watchers: BTreeMap<(u32, i64), i64>,
    next_stream: u32,
    /// Alarms that are on, and for how many more steps.
    alarm: Option<(pb::AlarmRequest, u32)>,
    /// What must come next.
    due: VecDeque<Step>,
}

impl Story {
    pub(crate) fn new(seed: u64) -> Story {
        Story {
            chance: Chance::new(seed),
            revision: 1,
            compacted: 0,
            compactions: VecDeque::new(),
            removing: false,
            leases: BTreeSet::new(),
            watchers: BTreeMap::new(),
            next_stream: STREAMS,
            alarm: None,
            due: VecDeque::new(),
        }
    }

    /// The next step.
    pub(crate) fn next_step(&mut self) -> Step {
        if let Some(step) = self.due.pop_front() {
            return step;
        }
        if let Some((alarm, left)) = &mut self.alarm {
            *left -= 1;
            if *left == 0 {
                let alarm = *alarm;
                self.alarm = None;
                return Step::Alarm(pb::AlarmRequest { action: 2, ..alarm });
            }
        }
        match self.chance.below(1000) {
            0..350 => Step::Txn(self.txn(3)),
            350..530 => Step::Put(self.put()),
            530..600 => Step::DeleteRange(self.delete_range()),
            600..770 => Step::Range(self.range()),
            770..800 => Step::RangeStream(self.range_stream()),
            800..870 => self.compact(),
            870..895 => Step::LeaseGrant(self.grant()),
            895..905 => Step::LeaseRevoke(pb::LeaseRevokeRequest { id: self.lease() }),
            905..915 => Step::LeaseKeepAlive(pb::LeaseKeepAliveRequest { id: self.lease() }),
            915..930 => Step::LeaseTimeToLive(pb::LeaseTimeToLiveRequest {
                id: self.lease(),
                keys: !self.chance.one_in(3),
            }),
            930..936 => Step::LeaseLeases(pb::LeaseLeasesRequest {}),
            936..964 => self.watch(),
            964..974 => self.cancel(),
            974..984 => Step::Settle,
            984..996 => self.hash(),
            _ => self.raise(),
        }
    }

    /// The last steps: everything that there is, once more.
    pub(crate) fn last_steps(&mut self) -> Vec<Step> {
        let all = pb::RangeRequest {
            key: Bytes::from_static(b"\0"),
            range_end: Bytes::from_static(b"\0"),
            ..Default::default()
        };
        let mut steps: Vec<Step> = self.due.drain(..).collect();
        if let Some((alarm, _)) = self.alarm.take() {
            steps.push(Step::Alarm(pb::AlarmRequest { action: 2, ..alarm }));
        }
        steps.push(Step::Settle);
        for revision in self.compacted.max(1)..=self.revision {
            if revision % 7 == self.revision % 7 {
                steps.push(Step::Range(pb::RangeRequest { revision, ..all.clone() }));
            }
        }
        for id in &self.leases {
            steps.push(Step::LeaseTimeToLive(pb::LeaseTimeToLiveRequest { id: *id, keys: true }));
        }
        steps.push(Step::LeaseLeases(pb::LeaseLeasesRequest {}));
        steps.push(Step::Alarm(pb::AlarmRequest::default()));
        steps
    }

    /// Learns from what the first server answered.
    pub(crate) fn learn(&mut self, step: &Step, outcome: &Outcome) {
        if let Outcome::Refused { .. } = outcome {
            return;
        }
        let header = match step {
            Step::Put(_) => outcome.answer::<pb::PutResponse>().and_then(|answer| answer.header),
            Step::DeleteRange(_) => {
                outcome.answer::<pb::DeleteRangeResponse>().and_then(|answer| answer.header)
            }
            Step::Txn(_) => outcome.answer::<pb::TxnResponse>().and_then(|answer| answer.header),
            Step::LeaseRevoke(request) => {
                self.leases.remove(&request.id);
                outcome.answer::<pb::LeaseRevokeResponse>().and_then(|answer| answer.header)
            }
            Step::LeaseGrant(request) => {
                let granted = outcome.answer::<pb::LeaseGrantResponse>().expect("it was answered");
                if request.id != 0 && granted.ttl >= 60 {
                    self.leases.insert(request.id);
                }
                granted.header
            }
            Step::Compact(request) => {
                self.compacted = request.revision;
                self.removing = !request.physical;
                self.compactions.push_back(request.revision);
                if self.compactions.len() > REMEMBERED_HASHES {
                    self.compactions.pop_front();
                }
                None
            }
            Step::WatchCreate(on) => {
                let created = outcome.answer::<pb::WatchResponse>().expect("it was answered");
                if !created.canceled {
                    self.watchers.insert((on.stream, created.watch_id), on.request.start_revision);
                }
                None
            }
            Step::WatchCancel(on) => {
                self.watchers.remove(&(on.stream, on.request.watch_id));
                None
            }
            _ => None,
        };
        self.revision = header.map_or(0, |header| header.revision).max(self.revision);
    }

    fn key(&mut self) -> Bytes {
        // The empty key is refused before anything is looked at; it comes less often.
        let key = self.chance.of(&KEYS);
        let key = if key.is_empty() && !self.chance.one_in(4) { b"a" } else { key };
        if self.chance.one_in(6) {
            return Bytes::from(format!("k/{}", self.chance.below(40)));
        }
        Bytes::from_static(key)
    }

    /// A key and the end of its range: one key, a prefix, from a key on, all, an interval, one that is reversed.
    fn interval(&mut self) -> (Bytes, Bytes) {
        let key = self.key();
        match self.chance.below(12) {
            0..4 => (key, Bytes::new()),
            4 => (key, Bytes::from_static(b"\0")),
            5 => (Bytes::from_static(b"\0"), Bytes::from_static(b"\0")),
            6 => (Bytes::from_static(b"k/"), Bytes::from_static(b"k0")),
            7 => (key.clone(), key),
            _ => (key, self.key()),
        }
    }

    fn value(&mut self) -> Bytes {
        let len = match self.chance.below(400) {
            0..40 => 0,
            40..360 => 1 + self.chance.below(4),
            360..390 => self.chance.below(300),
            390..399 => self.chance.below(9000),
            // Beyond etcd's limit for one request in one of four.
            _ => 1_572_864 - 300 + self.chance.below(400),
        };
        let byte = b'a' + self.chance.below(4) as u8;
        Bytes::from(vec![byte; len as usize])
    }

    /// A revision: mostly one that can be read, also ones gone, to come, below zero.
    fn some_revision(&mut self) -> i64 {
        let span = (self.revision - self.compacted + 1).max(1) as u64;
        match self.chance.below(20) {
            0 => self.revision + 1 + self.chance.below(3) as i64,
            1 => self.compacted - 1 - self.chance.below(4) as i64,
            2 => self.compacted,
            3 => self.revision,
            4 => -1,
            5 => self.chance.of(&[0, i64::MAX, i64::MIN, 1]),
            _ => self.compacted + self.chance.below(span) as i64,
        }
    }

    fn bound(&mut self) -> i64 {
        if self.chance.one_in(12) { self.some_revision() } else { 0 }
    }

    fn flag(&mut self, n: u64) -> bool {
        self.chance.one_in(n)
    }

    fn range(&mut self) -> pb::RangeRequest {
        let (key, range_end) = self.interval();
        let sorted = self.flag(3);
        pb::RangeRequest {
            key,
            range_end,
            limit: match self.chance.below(8) {
                0 => self.chance.of(&[-1, i64::MAX, i64::MIN, 1000]),
                1..4 => 1 + self.chance.below(5) as i64,
                _ => 0,
            },
            revision: if self.flag(3) { self.some_revision() } else { 0 },
            sort_order: if sorted { self.chance.of(&[0, 1, 2, 2, 1, 3, -1]) } else { 0 },
            sort_target: if sorted { self.chance.of(&[0, 1, 2, 3, 4, 1, 2, 3, 4, 5, -2]) } else { 0 },
            serializable: self.flag(4),
            keys_only: self.flag(5),
            count_only: self.flag(8),
            min_mod_revision: self.bound(),
            max_mod_revision: self.bound(),
            min_create_revision: self.bound(),
            max_create_revision: self.bound(),
        }
    }

    /// Streams refuse most orders and all bounds; they are asked for less often.
    fn range_stream(&mut self) -> pb::RangeRequest {
        let plain = !self.flag(5);
        let range = self.range();
        if !plain {
            return range;
        }
        pb::RangeRequest {
            sort_order: 0,
            min_mod_revision: 0,
            max_mod_revision: 0,
            min_create_revision: 0,
            max_create_revision: 0,
            ..range
        }
    }

    /// A lease: one that is there, or any.
    fn lease(&mut self) -> i64 {
        let there: Vec<i64> = self.leases.iter().copied().collect();
        if there.is_empty() || self.flag(5) { self.chance.of(&LEASES) } else { self.chance.of(&there) }
    }

    fn put(&mut self) -> pb::PutRequest {
        let (ignore_value, ignore_lease) = (self.flag(12), self.flag(12));
        pb::PutRequest {
            key: self.key(),
            value: if ignore_value && !self.flag(6) { Bytes::new() } else { self.value() },
            lease: if ignore_lease && !self.flag(6) || !self.flag(4) { 0 } else { self.lease() },
            prev_kv: self.flag(3),
            ignore_value,
            ignore_lease,
        }
    }

    fn delete_range(&mut self) -> pb::DeleteRangeRequest {
        let (key, range_end) = self.interval();
        // A store that is always emptied is a dull one.
        let range_end = if self.flag(3) { range_end } else { Bytes::new() };
        pb::DeleteRangeRequest { key, range_end, prev_kv: self.flag(3) }
    }

    fn compare(&mut self) -> pb::Compare {
        let (key, range_end) = self.interval();
        let range_end = if self.flag(3) { range_end } else { Bytes::new() };
        let number = match self.chance.below(4) {
            0 => 0,
            1 => self.chance.below(4) as i64,
            _ => self.some_revision(),
        };
        let target = self.chance.of(&[0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, -1]);
        let union = if self.flag(10) { self.chance.below(6) as i32 } else { target };
        pb::Compare {
            key,
            range_end,
            result: self.chance.of(&[0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 4, -1]),
            target,
            target_union: match union {
                0 => Some(TargetUnion::Version(number)),
                1 => Some(TargetUnion::CreateRevision(number)),
                2 => Some(TargetUnion::ModRevision(number)),
                3 => Some(TargetUnion::Value(self.value())),
                4 => Some(TargetUnion::Lease(self.lease())),
                _ => None,
            },
        }
    }

    fn txn(&mut self, depth: u32) -> pb::TxnRequest {
        let compares = self.chance.of(&[0, 0, 1, 1, 1, 2, 3]);
        let mut txn = pb::TxnRequest {
            compare: (0..compares).map(|_| self.compare()).collect(),
            success: self.operations(depth),
            failure: self.operations(depth),
        };
        if self.flag(300) {
            // Around the most that a list may have, in one that a deeper one shares.
            let many = 125 + self.chance.below(6) as usize;
            txn.success.resize(many, self.operation(depth));
        }
        if breaks_etcd(&txn) {
            return self.txn(depth);
        }
        txn
    }

    fn operations(&mut self, depth: u32) -> Vec<pb::RequestOp> {
        let operations = self.chance.of(&[0, 1, 1, 1, 2, 2, 3, 5]);
        (0..operations).map(|_| self.operation(depth)).collect()
    }

    fn operation(&mut self, depth: u32) -> pb::RequestOp {
        let request = match self.chance.below(40) {
            0 if self.flag(5) => None,
            0..16 => Some(Operation::RequestPut(self.put())),
            16..22 => Some(Operation::RequestDeleteRange(self.delete_range())),
            22..28 if depth > 0 => Some(Operation::RequestTxn(self.txn(depth - 1))),
            // A range of a revision that is not there fails the whole; it comes less often.
            _ => {
                let range = self.range();
                let revision = if self.flag(4) { range.revision } else { 0 };
                Some(Operation::RequestRange(pb::RangeRequest { revision, ..range }))
            }
        };
        pb::RequestOp { request }
    }

    /// Compactions move slowly, so that there is a history. What a watcher is due comes before: whether one that is
    /// behind still gets it hangs on timing.
    fn compact(&mut self) -> Step {
        let span = (self.revision - self.compacted).max(1) as u64;
        let revision = match self.chance.below(12) {
            0 => self.revision,
            1 => self.revision + 1 + self.chance.below(2) as i64,
            2 => self.compacted - self.chance.below(3) as i64,
            3 => self.chance.of(&[0, -1, i64::MAX, i64::MIN]),
            4..6 => self.compacted + 1 + self.chance.below(span) as i64,
            _ => self.compacted + 1 + self.chance.below(span.min(20)) as i64,
        };
        let physical = self.flag(2);
        self.after_settling(Step::Compact(pb::CompactionRequest { revision, physical }))
    }

    fn after_settling(&mut self, step: Step) -> Step {
        if self.watchers.is_empty() {
            return step;
        }
        self.due.push_back(step);
        Step::Settle
    }

    fn grant(&mut self) -> pb::LeaseGrantRequest {
        let ttl = match self.chance.below(10) {
            0 => self.chance.of(&[0, -10, 1, 2, 30]),
            1 => self.chance.of(&[9_000_000_000, 9_000_000_001, i64::MAX, i64::MIN]),
            _ => 1000 * (1 + self.chance.below(9) as i64),
        };
        let id = if self.flag(8) { 0 } else { self.chance.of(&LEASES) };
        pb::LeaseGrantRequest { ttl, id }
    }

    fn watch(&mut self) -> Step {
        if self.watchers.len() >= WATCHERS_MAX {
            return self.cancel();
        }
        let (key, range_end) = self.interval();
        let start_revision = if self.flag(3) { 0 } else { self.some_revision() };
        let stream = if start_revision > self.revision {
            self.next_stream += 1;
            self.next_stream
        } else {
            self.chance.below(u64::from(STREAMS)) as u32
        };
        let request = pb::WatchCreateRequest {
            key,
            range_end,
            start_revision,
            progress_notify: self.flag(4),
            filters: self.chance.of(&[&[][..], &[], &[], &[0], &[1], &[0, 1], &[7]]).to_vec(),
            prev_kv: self.flag(2),
            watch_id: if self.flag(3) { self.chance.of(&[1, 2, 9, -7, i64::MAX]) } else { 0 },
            fragment: self.flag(4),
        };
        Step::WatchCreate(OnStream { stream, request })
    }

    fn cancel(&mut self) -> Step {
        let there: Vec<(u32, i64)> = self.watchers.keys().copied().collect();
        let (stream, watch_id) = if there.is_empty() || self.flag(6) {
            (self.chance.below(u64::from(STREAMS)) as u32, self.chance.below(4) as i64)
        } else {
            self.chance.of(&there)
        };
        self.after_settling(Step::WatchCancel(OnStream {
            stream,
            request: pb::WatchCancelRequest { watch_id },
        }))
    }

    /// etcd hashes what is there, so what a compaction hides must be gone.
    fn hash(&mut self) -> Step {
        let revision = if self.flag(2) { 0 } else { self.some_revision() };
        if self.removing || self.compactions.contains(&revision) {
            return Step::Range(self.range());
        }
        Step::HashKv(pb::HashKvRequest { revision })
    }

    /// Turns an alarm on, for a while.
    fn raise(&mut self) -> Step {
        let alarm = pb::AlarmRequest {
            action: self.chance.of(&[0, 0, 1, 1, 1, 2, 3, -1]),
            member_id: self.chance.of(&[0, 7, u64::MAX]),
            alarm: self.chance.of(&[0, 1, 1, 1, 2, 2, 3, -1]),
        };
        if alarm.action == 1 && matches!(alarm.alarm, 1 | 2) && self.alarm.is_none() {
            self.alarm = Some((alarm, 1 + self.chance.below(12) as u32));
            return Step::Alarm(alarm);
        }
        Step::Alarm(pb::AlarmRequest { action: if alarm.action == 1 { 0 } else { alarm.action }, ..alarm })
    }
}

/// Whether etcd spoils its own data on it: a deletion from a key on escapes its check for keys written twice, and
/// then a key that is put in the same transaction comes after its own deletion (etcd issue 22376).
fn breaks_etcd(txn: &pb::TxnRequest) -> bool {
    fn collect<'a>(txn: &'a pb::TxnRequest, puts: &mut Vec<&'a [u8]>, deletes: &mut Vec<&'a [u8]>) {
        for operation in txn.success.iter().chain(&txn.failure) {
            match &operation.request {
                Some(Operation::RequestPut(put)) => puts.push(&put.key),
                Some(Operation::RequestDeleteRange(delete)) if delete.range_end[..] == *b"\0" => {
                    deletes.push(&delete.key);
                }
                Some(Operation::RequestTxn(txn)) => collect(txn, puts, deletes),
                _ => {}
            }
        }
    }
    let (mut puts, mut deletes) = (Vec::new(), Vec::new());
    collect(txn, &mut puts, &mut deletes);
    puts.iter().any(|put| deletes.iter().any(|start| put >= start))
}
