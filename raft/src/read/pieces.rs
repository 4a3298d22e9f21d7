//! A range as pieces of about so many bytes.
//!
//! A client of a unary call is told the length of the whole answer first. It is known without the answer: the
//! index has the length of every key and value. So [`RangePieces::measure`] walks the index, and then the pieces
//! are read, each when there is room to send it.

use std::sync::Arc;

use super::cursor::Cursor;
use crate::error::Result;
use crate::eval::{EngineView, Row, View, key_alone};
use crate::request::{KeyValue, Range, RangeAnswer};
use crate::shared::Shared;

/// Keys looked at in one step at most.
const STEP_KEYS: usize = 1024;
/// Keys looked at in the first step.
const FIRST_STEP_KEYS: usize = 64;

/// A range opened for reading.
#[derive(Debug)]
pub enum RangeRead {
    /// It is one key, a count, or has an order that needs all rows at once: here it is.
    Whole(RangeAnswer),
    /// It comes in pieces.
    Pieces(RangePieces),
}

/// What decides about the encoded length of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowSize {
    /// Bytes of the key.
    pub key: usize,
    /// Bytes of the value.
    pub value: usize,
    /// As in [`KeyValue`].
    pub create_revision: i64,
    /// As in [`KeyValue`].
    pub mod_revision: i64,
    /// As in [`KeyValue`].
    pub version: i64,
    /// As in [`KeyValue`].
    pub lease: i64,
}

/// A range under way. Nothing is read before it is asked for.
pub struct RangePieces {
    cursor: Cursor,
    keys_only: bool,
    /// Rows still wanted.
    wanted: usize,
    /// Keys to look at in the next step.
    step: usize,
    count: i64,
}

/// Rows in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The rows.
    pub kvs: Vec<KeyValue>,
    /// With the last piece: whether the limit cut rows off.
    pub last: Option<bool>,
}

impl std::fmt::Debug for RangePieces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RangePieces").field("count", &self.count).finish_non_exhaustive()
    }
}

impl RangePieces {
    /// Opens `request`, of which `count` keys are in the range at `revision`.
    pub(crate) fn new(shared: Arc<Shared>, request: &Range, revision: i64, count: i64) -> Self {
        RangePieces {
            cursor: Cursor::new(shared, request, revision),
            keys_only: request.keys_only,
            wanted: request.rows_max(),
            step: FIRST_STEP_KEYS,
            count,
        }
    }

    /// How many keys the range has, whatever limit and filters say.
    #[must_use]
    pub fn count(&self) -> i64 {
        self.count
    }

    /// Reads rows until they have `bytes_max` bytes of keys and values, or one more than that; with their values.
    /// Between steps other tasks have their turn.
    ///
    /// # Errors
    /// [`crate::Error::Compacted`] if the revision was compacted meanwhile, [`crate::Error::Storage`].
    pub async fn next(&mut self, bytes_max: usize) -> Result<Piece> {
        let mut piece = Piece { kvs: Vec::new(), last: None };
        let mut bytes = 0;
        loop {
            bytes += self.step(bytes_max.saturating_sub(bytes), &mut piece.kvs)?;
            if self.wanted == 0 {
                piece.last = Some(self.has_more().await?);
                return Ok(piece);
            }
            if self.cursor.has_ended() {
                piece.last = Some(false);
                return Ok(piece);
            }
            if bytes >= bytes_max {
                return Ok(piece);
            }
            tokio::task::yield_now().await;
        }
    }

    /// The sum of `size` over the rows that [`RangePieces::next`] would still give, and whether the limit cuts
    /// rows off. Reads the index, no values; between steps other tasks have their turn.
    ///
    /// # Errors
    /// As [`RangePieces::next`].
    pub async fn measure(&self, size: impl Fn(&RowSize) -> usize) -> Result<(u64, bool)> {
        let mut ahead = self.at_same_place();
        let mut sum = 0;
        let mut rows = Vec::new();
        while ahead.wanted > 0 && !ahead.cursor.has_ended() {
            ahead.look(STEP_KEYS, &mut rows)?;
            sum += rows.iter().map(|row| size(&self.size_of(row)) as u64).sum::<u64>();
            ahead.wanted -= rows.len();
            rows.clear();
            tokio::task::yield_now().await;
        }
        let more = ahead.wanted == 0 && ahead.has_more().await?;
        Ok((sum, more))
    }

    fn at_same_place(&self) -> RangePieces {
        RangePieces { cursor: self.cursor.clone(), ..*self }
    }

    /// One step; gives the bytes read.
    fn step(&mut self, bytes_max: usize, out: &mut Vec<KeyValue>) -> Result<usize> {
        let shared = Arc::clone(&self.cursor.shared);
        let view = EngineView::latest(&shared.engine);
        let mut rows = Vec::new();
        self.look_in(&view, self.step, &mut rows)?;
        let mut bytes = 0;
        for (n, row) in rows.iter().enumerate() {
            if bytes >= bytes_max {
                // The rest is looked at again by the next step, which asks for fewer.
                self.cursor.go_behind(&rows[n - 1].key);
                self.step = n.max(1);
                return Ok(bytes);
            }
            let pair = if self.keys_only { key_alone(row) } else { view.pair(row)? };
            bytes += pair.key.len() + pair.value.len();
            out.push(pair);
            self.wanted -= 1;
        }
        self.step = (self.step * 2).min(STEP_KEYS);
        Ok(bytes)
    }

    fn look(&mut self, keys: usize, rows: &mut Vec<Row>) -> Result<()> {
        let shared = Arc::clone(&self.cursor.shared);
        self.look_in(&EngineView::latest(&shared.engine), keys, rows)
    }

    /// Looks at `keys` keys, and keeps no more rows than wanted.
    fn look_in(&mut self, view: &EngineView<'_>, keys: usize, rows: &mut Vec<Row>) -> Result<()> {
        self.cursor.step(view, keys.min(self.wanted), rows)
    }

    /// Whether there is a row beyond the limit.
    async fn has_more(&self) -> Result<bool> {
        let mut ahead = self.at_same_place();
        ahead.wanted = usize::MAX;
        let mut rows = Vec::new();
        while rows.is_empty() && !ahead.cursor.has_ended() {
            let keys = if self.cursor.is_filtered() { STEP_KEYS } else { 1 };
            ahead.look(keys, &mut rows)?;
            tokio::task::yield_now().await;
        }
        Ok(!rows.is_empty())
    }

    fn size_of(&self, row: &Row) -> RowSize {
        RowSize {
            key: row.key.len(),
            value: if self.keys_only { 0 } else { row.value.len() },
            create_revision: row.create,
            mod_revision: row.modified,
            version: row.version,
            lease: if self.keys_only { 0 } else { row.lease },
        }
    }
}
