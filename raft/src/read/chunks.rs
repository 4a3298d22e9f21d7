//! A range as etcd's `RangeStream` cuts it: chunks of rows, whose number grows or shrinks towards the request
//! limit.

use std::sync::Arc;

use engine::KeyRange;

use super::cursor::Cursor;
use crate::error::Result;
use crate::eval::{EngineView, View, key_alone, key_range};
use crate::request::{At, KeyValue, Range};
use crate::shared::Shared;

/// Rows of the first chunk.
const FIRST_CHUNK_ROWS: usize = 10;

/// A range read in chunks, all at one revision. Nothing is read before it is asked for.
pub struct RangeStream {
    cursor: Cursor,
    all: KeyRange,
    newest: i64,
    keys_only: bool,
    count_only: bool,
    rows_left: usize,
    chunk_rows: usize,
    sent: usize,
    ended: bool,
}

/// One chunk of a [`RangeStream`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeChunk {
    /// Rows, in key order.
    pub kvs: Vec<KeyValue>,
    /// With the last chunk: the newest revision when the stream began, whether the limit cut rows off, and
    /// the number of keys in the range.
    pub last: Option<At<(bool, i64)>>,
}

impl std::fmt::Debug for RangeStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RangeStream").field("revision", &self.cursor.revision).finish_non_exhaustive()
    }
}

impl RangeStream {
    /// Opens `request`, which asks for key order and has no filter, at `revision`; `newest` is the newest.
    pub(crate) fn new(shared: Arc<Shared>, request: &Range, revision: i64, newest: i64) -> Self {
        RangeStream {
            cursor: Cursor::new(shared, request, revision),
            all: key_range(&request.key, &request.range_end),
            newest,
            keys_only: request.keys_only,
            count_only: request.count_only,
            rows_left: if request.count_only { 0 } else { request.rows_max() },
            chunk_rows: FIRST_CHUNK_ROWS,
            sent: 0,
            ended: false,
        }
    }

    /// Reads the next chunk; `None` after the last. Reads the disk for values that are not recent.
    ///
    /// # Errors
    /// [`crate::Error::Compacted`] if the revision was compacted meanwhile, [`crate::Error::Storage`].
    pub fn next_chunk(&mut self) -> Result<Option<RangeChunk>> {
        if self.ended {
            return Ok(None);
        }
        let shared = Arc::clone(&self.cursor.shared);
        let view = EngineView::latest(&shared.engine);
        let asked = self.chunk_rows.min(self.rows_left);
        let mut rows = Vec::new();
        self.cursor.step(&view, asked, &mut rows)?;
        let mut bytes = 0;
        let mut kvs = Vec::with_capacity(rows.len());
        for row in &rows {
            let pair = if self.keys_only { key_alone(row) } else { view.pair(row)? };
            bytes += pair.key.len() + pair.value.len();
            kvs.push(pair);
        }
        self.sent += kvs.len();
        self.rows_left -= kvs.len();
        let target = shared.config.max_request_bytes;
        if bytes < target / 2 {
            self.chunk_rows = self.chunk_rows.saturating_mul(2);
        } else if bytes > target {
            self.chunk_rows = (self.chunk_rows / 2).max(1);
        }
        let mut last = None;
        if self.cursor.has_ended() || self.rows_left == 0 {
            self.ended = true;
            let count = view.count(&self.all, self.cursor.revision)?;
            let more = !self.count_only && count > self.sent as i64;
            last = Some(At { revision: self.newest, answer: (more, count) });
        }
        Ok(Some(RangeChunk { kvs, last }))
    }
}
