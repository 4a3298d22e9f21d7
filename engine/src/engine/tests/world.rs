//! An engine with its owner: who appends, commits, applies, flushes, and starts again after a power cut.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};

use super::model::{Model, Plain};
use crate::batch::{Change, Decoder, Encoder, Header, Item, Op};
use crate::disk::{Disk, MemoryDisk};
use crate::engine::{Engine, Opened, Options, Work};
use crate::error::{Error, Result};
use crate::log::{Entry, Kind, LogOptions, Record};
use crate::table::Applied;
use crate::types::{Pointer, Revision, Space, Value};
use crate::{Direction, KeyMeta, KeyRange, Write};

const GROUP: u32 = 4;

/// One change of a transaction: the key's number, and the length of its value; `None` deletes.
pub(crate) type Wish = (u16, Option<usize>);

pub(crate) struct World {
    pub(crate) disk: MemoryDisk,
    pub(crate) engine: Engine,
    pub(crate) model: Model,
    options: Options,
    /// Revision and compaction revision after each entry, by its index.
    pub(crate) states: Vec<(i64, i64)>,
    /// Ticket of the last entry appended.
    last_ticket: u64,
    /// Index of the last applied entry.
    pub(crate) index: u64,
    /// Boundary of the last flush that was reported.
    pub(crate) flushed: u64,
}

pub(crate) fn options() -> Options {
    Options {
        log: LogOptions { segment_bytes: 64 << 10, tail_bytes: 16 << 10, ..LogOptions::default() },
        memtable_bytes_max: 64 << 10,
        log_bytes_max_since_flush: 256 << 10,
        block_cache_bytes: 256 << 10,
    }
}

/// Keys of very different lengths: the long ones fill a block with a dozen of them.
pub(crate) fn key(number: u16) -> Bytes {
    let mut key = BytesMut::new();
    key.put_u16(number / 2);
    if number.is_multiple_of(2) {
        key.put_bytes(number as u8, 1500);
    }
    key.freeze()
}

fn lease_key(lease: i64, key: &[u8]) -> Bytes {
    [&lease.to_be_bytes()[..], key].concat().into()
}

impl World {
    pub(crate) fn new() -> Self {
        let disk = MemoryDisk::new();
        World::on(disk.clone(), Arc::new(disk), options())
    }

    /// A new store on `disk`, which it reaches through `seam`.
    pub(crate) fn on(disk: MemoryDisk, seam: Arc<dyn Disk>, options: Options) -> Self {
        let Opened { engine, state, applied } = Engine::open(seam, options.clone()).unwrap();
        assert_eq!((state, applied), (None, Applied::default()));
        let model = Model::default();
        World { disk, engine, model, options, states: vec![(0, 0)], last_ticket: 0, index: 0, flushed: 0 }
    }

    /// What a start finds on `disk`, which a power cut left of this store: of its entries all up to `acked`, and
    /// perhaps some that follow.
    pub(crate) fn recovered(&self, disk: MemoryDisk, acked: u64) -> World {
        let opened = Engine::open(Arc::new(disk.clone()), self.options.clone());
        let Opened { engine, applied, .. } = opened.unwrap_or_else(|error| panic!("no start: {error}"));
        let flushed = applied.groups.get(&GROUP).copied().unwrap_or(0);
        let mut world = World {
            disk,
            engine,
            model: self.model.clone(),
            options: self.options.clone(),
            states: self.states.clone(),
            last_ticket: 0,
            index: 0,
            flushed,
        };
        world.apply_from(flushed + 1);
        let index = world.index;
        assert!(index >= acked, "entry {acked} was acknowledged, {index} is the last found");
        world.states.truncate(index as usize + 1);
        let (revision, compacted) = world.states[index as usize];
        assert_eq!((world.engine.revision(), world.engine.compacted()), (revision, compacted), "at {index}");
        world.model.cut(revision, compacted);
        world
    }

    /// Appends, commits and applies one entry of transactions. Returns whether it changed anything.
    pub(crate) fn batch(&mut self, txns: &[Vec<Wish>]) -> bool {
        let appended = self.append_batch(txns);
        self.commit(|_| {});
        appended
    }

    /// Appends one entry of transactions, and no more. Returns whether it changes anything.
    pub(crate) fn append_batch(&mut self, txns: &[Vec<Wish>]) -> bool {
        let mut encoder = Encoder::new(0);
        for txn in txns {
            let revision = self.model.revision + 1;
            let mut ops = Vec::new();
            for (number, len) in txn {
                let revision = Revision { main: revision, sub: ops.len() as u32 };
                ops.extend(self.evaluate(&key(*number), *len, revision));
            }
            if !ops.is_empty() {
                encoder.txn(&ops);
                self.model.revision = revision;
            }
        }
        if encoder.is_empty() {
            return false;
        }
        self.append(encoder.finish(&Header::default()));
        true
    }

    pub(crate) fn compact(&mut self, revision: i64) {
        self.model.compacted = self.model.compacted.max(revision);
        let mut encoder = Encoder::new(0);
        encoder.note(&revision.to_le_bytes());
        self.append(encoder.finish(&Header::default()));
        self.commit(|_| {});
    }

    fn append(&mut self, body: Bytes) {
        let index = self.states.len() as u64;
        self.states.push((self.model.revision, self.model.compacted));
        let record = Record { group: GROUP, kind: Kind::Entry, term: 1, index, body };
        self.last_ticket = self.engine.log().append([record]).unwrap().0;
    }

    /// Makes what was appended durable, tells how far that came after each frame, and applies it.
    pub(crate) fn commit(&mut self, mut acknowledged: impl FnMut(u64)) {
        let last = self.states.len() as u64 - 1;
        while self.engine.log().commit_step().unwrap().is_some() {
            acknowledged(last - (self.last_ticket - self.engine.log().durable().0));
        }
        self.apply_from(self.index + 1);
        assert_eq!(self.index, last);
    }

    /// The op that the wish comes to, if it changes anything; the model takes it.
    fn evaluate(&mut self, key: &Bytes, len: Option<usize>, revision: Revision) -> Option<Op> {
        let latest = self.model.latest(Space::Kv, key).cloned();
        let old_lease = latest.as_ref().map_or(0, |latest| latest.lease);
        let lease = revision.main % 3;
        let plain = |key: &Bytes, create, version, lease, value| Plain {
            key: key.clone(),
            revision,
            create,
            version,
            lease,
            value,
        };
        let (change, lease) = match len {
            None => {
                latest.as_ref()?;
                self.model.push(Space::Kv, plain(key, 0, 0, 0, None));
                (Change::Delete, 0)
            }
            Some(len) => {
                let value = Bytes::from(vec![revision.main as u8; len]);
                let create = latest.as_ref().map(|latest| latest.create);
                let version = latest.as_ref().map_or(1, |latest| latest.version + 1);
                let (at, bytes) = (create.unwrap_or(revision.main), Some(value.clone()));
                self.model.push(Space::Kv, plain(key, at, version, lease, bytes));
                let value_crc = crc32fast::hash(&value);
                (Change::Put { create, version, lease, value, value_crc, value_at: 0 }, lease)
            }
        };
        if old_lease != lease {
            if old_lease != 0 {
                self.model.push(Space::Lease, plain(&lease_key(old_lease, key), 0, 0, 0, None));
            }
            if lease != 0 {
                let empty = Some(Bytes::new());
                self.model.push(Space::Lease, plain(&lease_key(lease, key), revision.main, 1, 0, empty));
            }
        }
        Some(Op { key: key.clone(), old_lease, change })
    }

    /// Applies every entry from `from` on, as a replica does: from the log alone.
    fn apply_from(&mut self, from: u64) {
        self.index = from - 1;
        loop {
            let entries = self.engine.log().entries(GROUP, self.index + 1, u64::MAX, 64 << 10).unwrap();
            for entry in &entries {
                self.apply(entry);
            }
            if entries.is_empty() {
                return;
            }
        }
    }

    fn apply(&mut self, entry: &Entry) {
        assert_eq!(entry.index, self.index + 1);
        self.index = entry.index;
        let mut decoder = Decoder::new(entry.body.clone()).unwrap();
        let (mut ops, mut writes) = (Vec::new(), Vec::new());
        let mut main = self.engine.revision();
        while let Some(item) = decoder.next_item(&mut ops).unwrap() {
            if let Item::Note(bytes) = item {
                self.engine.compact(i64::from_le_bytes(bytes[..].try_into().unwrap()));
                continue;
            }
            main += 1;
            for (sub, op) in (0..).zip(&ops) {
                write(op, Revision { main, sub }, entry, &mut writes);
            }
        }
        self.engine.apply(&writes, main);
    }

    pub(crate) fn freeze(&mut self) -> bool {
        let revision = self.engine.revision();
        let applied = Applied { revision, groups: BTreeMap::from([(GROUP, self.index)]) };
        self.engine.freeze(applied, Bytes::from(self.index.to_le_bytes().to_vec()))
    }

    pub(crate) fn step(&mut self, budget: u64) -> Work {
        let work = self.engine.maintain_step(budget).unwrap();
        if let Work::Flushed(applied) = &work {
            self.flushed = applied.groups[&GROUP];
        }
        work
    }

    /// Works until there is nothing to do.
    pub(crate) fn settle(&mut self) {
        for _ in 0..10_000 {
            if self.step(1 << 20) == Work::Idle {
                return;
            }
        }
        panic!("maintenance does not come to rest");
    }

    /// Lets go of the log up to the last flush.
    pub(crate) fn purge(&mut self) {
        self.engine.log().purge(GROUP, 1, self.flushed);
        self.engine.set_history_floor(GROUP, self.flushed + 1);
    }

    /// Starts again, after a power cut if there is a seed.
    pub(crate) fn restart(&mut self, power_cut: Option<u64>) {
        if let Some(seed) = power_cut {
            self.disk = self.disk.crash(seed);
        }
        let Opened { engine, state, applied } =
            Engine::open(Arc::new(self.disk.clone()), self.options.clone()).unwrap();
        self.engine = engine;
        let index = applied.groups.get(&GROUP).copied().unwrap_or(0);
        assert!(index >= self.flushed, "the boundary went back from {} to {index}", self.flushed);
        assert_eq!(state.map_or(0, |state| u64::from_le_bytes(state[..].try_into().unwrap())), index);
        assert_eq!(self.engine.revision(), applied.revision);
        self.flushed = index;
        let last = self.index;
        self.apply_from(index + 1);
        assert_eq!(self.index, last, "what was applied is in the log");
        assert_eq!(self.engine.revision(), self.model.revision);
        assert_eq!(self.engine.compacted(), self.model.compacted);
    }

    /// Compares every kind of read at `main`.
    pub(crate) fn check(&self, range: &KeyRange, main: i64, limit: usize) {
        for space in [Space::Kv, Space::Lease] {
            let count = self.engine.count(space, range, main);
            if main < self.model.compacted {
                assert!(matches!(count, Err(Error::Compacted { oldest }) if oldest == self.model.compacted));
                continue;
            }
            for direction in [Direction::Forward, Direction::Backward] {
                let want = self.model.scan(space, range, main, direction);
                assert_eq!(*count.as_ref().unwrap(), want.len() as u64, "count of {space:?} at {main}");
                let mut got = Vec::new();
                self.engine.scan(space, range, main, direction, limit, &mut got).unwrap();
                assert!(got.len() == limit.min(want.len()), "scan of {space:?} at {main} is short");
                self.compare(&got, &want[..got.len()]);
                if let Some(last) = got.last() {
                    let (rest, seen) = (range.after(&last.key, direction), got.len());
                    self.engine.scan(space, &rest, main, direction, usize::MAX, &mut got).unwrap();
                    self.compare(&got[seen..], &want[seen..]);
                }
            }
            for (_, key) in self.model.versions.keys().filter(|(of, key)| *of == space && range.contains(key))
            {
                let got = self.engine.get(space, key, main).unwrap();
                let want = self.model.scan(space, &KeyRange::single(key), main, Direction::Forward);
                self.compare(&Vec::from_iter(got), &want);
            }
            for from in [0, self.model.compacted, main] {
                let got = self.engine.history(space, range, from, main).unwrap();
                self.compare(&got, &self.model.history(space, range, from, main));
            }
        }
    }

    fn compare(&self, got: &[KeyMeta], want: &[Plain]) {
        let got: Vec<Plain> = got.iter().map(|meta| self.plain(meta).unwrap()).collect();
        let short = |plain: &Plain| {
            (plain.key.slice(..2.min(plain.key.len())), plain.revision, plain.value.is_some())
        };
        let shorts = |plains: &[Plain]| plains.iter().map(short).collect::<Vec<_>>();
        assert_eq!(shorts(&got), shorts(want));
        assert!(got == want, "metadata or values differ");
    }

    fn plain(&self, meta: &KeyMeta) -> Result<Plain> {
        Ok(Plain {
            key: meta.key.clone(),
            revision: meta.modified,
            create: meta.create,
            version: meta.version,
            lease: meta.lease,
            value: meta.value.as_ref().map(|value| self.engine.value(value)).transpose()?,
        })
    }
}

fn write(op: &Op, revision: Revision, entry: &Entry, writes: &mut Vec<Write>) {
    let tombstone =
        |space, key| Write { space, key, revision, create: 0, version: 0, lease: 0, weight: -1, value: None };
    let (write, lease) = match &op.change {
        Change::Delete => (tombstone(Space::Kv, op.key.clone()), 0),
        Change::Put { create, version, lease, value, value_crc, value_at } => {
            let value = if value.len() <= Value::INLINE_MAX {
                Value::Inline(value.clone())
            } else {
                Value::Pointer(Pointer {
                    segment: entry.segment,
                    offset: entry.body_offset + value_at,
                    len: value.len() as u32,
                    crc: *value_crc,
                })
            };
            let write = Write {
                space: Space::Kv,
                key: op.key.clone(),
                revision,
                create: create.unwrap_or(revision.main),
                version: *version,
                lease: *lease,
                weight: op.change.weight(),
                value: Some(value),
            };
            (write, *lease)
        }
    };
    writes.push(write);
    if op.old_lease != lease {
        if op.old_lease != 0 {
            writes.push(tombstone(Space::Lease, lease_key(op.old_lease, &op.key)));
        }
        if lease != 0 {
            let value = Some(Value::Inline(Bytes::new()));
            let (key, create) = (lease_key(lease, &op.key), revision.main);
            writes.push(Write { weight: 1, version: 1, create, value, ..tombstone(Space::Lease, key) });
        }
    }
}
