//! An engine with a minimal owner: evaluates puts, appends them as one batch, commits, applies. What the raft layer does,
//! without raft: the price of the engine alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use engine::batch::{Change, Decoder, Encoder, Header, Op};
use engine::disk::Disk;
use engine::log::{Kind, Record};
use engine::{Applied, Engine, Options, Pointer, Revision, Space, Value, Work, Write};

const GROUP: u32 = 1;

/// An engine and the index of its last entry.
pub(crate) struct Node {
    /// The engine.
    pub(crate) engine: Engine,
    index: u64,
}

impl Node {
    /// A new engine on `disk`.
    pub(crate) fn new(disk: Arc<dyn Disk>) -> Self {
        let opened = Engine::open(disk, Options::default()).expect("an empty disk");
        Node { engine: opened.engine, index: 0 }
    }

    /// Puts each key in a transaction of its own, all in one batch: durable and applied on return. No key twice.
    pub(crate) fn put(&mut self, puts: &[(Bytes, Bytes)]) {
        let revision = self.engine.revision();
        let mut encoder = Encoder::new(puts.iter().map(|(key, value)| key.len() + value.len() + 64).sum());
        for (key, value) in puts {
            let latest = self.engine.get(Space::Kv, key, revision).expect("not compacted");
            let change = Change::Put {
                create: latest.as_ref().map(|latest| latest.create),
                version: latest.as_ref().map_or(1, |latest| latest.version + 1),
                lease: 0,
                value: value.clone(),
                value_crc: crc32fast::hash(value),
                value_at: 0,
            };
            encoder.txn(&[Op { key: key.clone(), old_lease: 0, change }]);
        }
        self.index += 1;
        let body = encoder.finish(&Header::default());
        let record = Record { group: GROUP, kind: Kind::Entry, term: 1, index: self.index, body };
        self.engine.log().append([record]).expect("the disk works");
        while self.engine.log().commit_step().expect("the disk works").is_some() {}
        self.apply();
    }

    /// Applies the last entry, as it lies in the log.
    fn apply(&self) {
        let entries = self.engine.log().entries(GROUP, self.index, self.index + 1, usize::MAX);
        let entry = entries.expect("the log is whole").pop().expect("it was appended");
        let mut decoder = Decoder::new(entry.body.clone()).expect("a batch");
        let (mut ops, mut writes, mut main) = (Vec::new(), Vec::new(), self.engine.revision());
        while decoder.next_item(&mut ops).expect("a batch").is_some() {
            main += 1;
            for op in ops.drain(..) {
                let weight = op.change.weight();
                let Change::Put { create, version, lease, value, value_crc, value_at } = op.change else {
                    continue;
                };
                let pointer = Pointer {
                    segment: entry.segment,
                    offset: entry.body_offset + value_at,
                    len: value.len() as u32,
                    crc: value_crc,
                };
                writes.push(Write {
                    space: Space::Kv,
                    key: op.key,
                    revision: Revision { main, sub: 0 },
                    create: create.unwrap_or(main),
                    version,
                    lease,
                    weight,
                    value: Some(Value::Pointer(pointer)),
                });
            }
        }
        self.engine.apply(&writes, main);
    }

    /// Moves everything from the memtable into tables, merged as far as maintenance goes.
    pub(crate) fn flush(&self) {
        const BUDGET_BYTES: u64 = 16 << 20;
        let applied =
            Applied { revision: self.engine.revision(), groups: BTreeMap::from([(GROUP, self.index)]) };
        assert!(self.engine.freeze(applied, Bytes::new()), "no other flush is under way");
        while self.engine.maintain_step(BUDGET_BYTES).expect("the disk works") != Work::Idle {}
    }
}
