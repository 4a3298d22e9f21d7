//! What a read sees.
//!
//! A [`View`] answers reads at a revision over the user's keys. [`EngineView`] is what is applied;
//! `overlay::Layered` puts changes that are not applied yet on top of another view.

use bytes::{BufMut, Bytes, BytesMut};
use engine::log::SegmentPin;
use engine::{Direction, Engine, KeyMeta, KeyRange, Space, Value};

use crate::error::Result;
use crate::request::KeyValue;

/// Keys asked of the engine in one call, so that no call holds its locks for long.
const SCAN_CHUNK: usize = 1024;

/// A key as a view has it; its value may still lie in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) key: Bytes,
    pub(crate) create: i64,
    pub(crate) modified: i64,
    pub(crate) version: i64,
    pub(crate) lease: i64,
    pub(crate) value: RowValue,
}

/// Where the value of a [`Row`] is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RowValue {
    /// Where the engine keeps it.
    Stored(Value),
    /// In memory, not applied yet.
    Memory(Bytes),
}

impl RowValue {
    /// Length of the value, bytes.
    pub(crate) fn len(&self) -> usize {
        match self {
            RowValue::Stored(value) => value.len(),
            RowValue::Memory(bytes) => bytes.len(),
        }
    }
}

/// Reads at a revision; `revision` arguments are at most [`View::revision`].
pub(crate) trait View {
    /// The newest revision it has.
    fn revision(&self) -> i64;

    /// The newest version of `key` at or below `revision`, `None` if there is none or it is deleted.
    fn get(&self, key: &[u8], revision: i64) -> Result<Option<Row>>;

    /// Appends the first `limit` keys of the range in key order.
    fn rows(&self, range: &KeyRange, revision: i64, limit: usize, out: &mut Vec<Row>) -> Result<()>;

    /// How many keys the range has.
    fn count(&self, range: &KeyRange, revision: i64) -> Result<i64>;

    /// The bytes of a row's value; at most one read of the log.
    fn load(&self, value: &RowValue) -> Result<Bytes>;

    /// A row with its value.
    fn pair(&self, row: &Row) -> Result<KeyValue> {
        Ok(KeyValue {
            key: row.key.clone(),
            create_revision: row.create,
            mod_revision: row.modified,
            version: row.version,
            value: self.load(&row.value)?,
            lease: row.lease,
        })
    }
}

/// What is applied. While it lives, the log's segments that its rows point into are not reused.
#[derive(Debug)]
pub(crate) struct EngineView<'a> {
    engine: &'a Engine,
    revision: i64,
    _pin: SegmentPin,
}

impl<'a> EngineView<'a> {
    /// The engine as of its newest applied revision.
    pub(crate) fn latest(engine: &'a Engine) -> Self {
        EngineView { engine, _pin: engine.log().pin(), revision: engine.revision() }
    }

    /// What is read.
    pub(crate) fn engine(&self) -> &'a Engine {
        self.engine
    }
}

impl View for EngineView<'_> {
    fn revision(&self) -> i64 {
        self.revision
    }

    fn get(&self, key: &[u8], revision: i64) -> Result<Option<Row>> {
        Ok(self.engine.get(Space::Kv, key, revision)?.map(Row::from))
    }

    fn rows(&self, range: &KeyRange, revision: i64, limit: usize, out: &mut Vec<Row>) -> Result<()> {
        let mut range = range.clone();
        let mut left = limit;
        let mut chunk = Vec::new();
        while left > 0 {
            let asked = left.min(SCAN_CHUNK);
            self.engine.scan(Space::Kv, &range, revision, Direction::Forward, asked, &mut chunk)?;
            let got = chunk.len();
            if let Some(last) = chunk.last() {
                range.start = after(&last.key);
            }
            out.extend(chunk.drain(..).map(Row::from));
            if got < asked {
                break;
            }
            left -= got;
        }
        Ok(())
    }

    fn count(&self, range: &KeyRange, revision: i64) -> Result<i64> {
        let count = self.engine.count(Space::Kv, range, revision)?;
        Ok(i64::try_from(count).expect("fewer keys than i64 counts"))
    }

    fn load(&self, value: &RowValue) -> Result<Bytes> {
        match value {
            RowValue::Stored(value) => Ok(self.engine.value(value)?),
            RowValue::Memory(bytes) => Ok(bytes.clone()),
        }
    }
}

/// The first key after `key`.
pub(crate) fn after(key: &[u8]) -> Bytes {
    let mut next = BytesMut::with_capacity(key.len() + 1);
    next.put_slice(key);
    next.put_u8(0);
    next.freeze()
}

impl From<KeyMeta> for Row {
    fn from(meta: KeyMeta) -> Row {
        Row {
            key: meta.key,
            create: meta.create,
            modified: meta.modified.main,
            version: meta.version,
            lease: meta.lease,
            value: RowValue::Stored(meta.value.expect("reads give live keys only")),
        }
    }
}
