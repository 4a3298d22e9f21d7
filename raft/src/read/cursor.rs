//! Where a read of a range stands.

use std::sync::Arc;

use engine::{Direction, KeyRange, Space};

use crate::error::Result;
use crate::eval::{EngineView, Row, RowFilter, after, key_range};
use crate::request::{Range, SortOrder};
use crate::shared::Shared;

/// The rows of a range that are still to come, in key order or against it.
#[derive(Clone)]
pub(super) struct Cursor {
    pub(super) shared: Arc<Shared>,
    /// Keys not looked at yet.
    left: KeyRange,
    direction: Direction,
    pub(super) revision: i64,
    filter: RowFilter,
    /// Whether `left` has no more rows.
    ended: bool,
}

impl Cursor {
    pub(super) fn new(shared: Arc<Shared>, request: &Range, revision: i64) -> Self {
        let descends = request.sort_order == SortOrder::Descend;
        Cursor {
            shared,
            left: key_range(&request.key, &request.range_end),
            direction: if descends { Direction::Backward } else { Direction::Forward },
            revision,
            filter: RowFilter::of(request),
            ended: false,
        }
    }

    /// Whether rows may be passed over.
    pub(super) fn is_filtered(&self) -> bool {
        !self.filter.is_open()
    }

    /// Whether every row was given.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Looks at `keys` more keys; those that pass the filter are appended to `out`. Reads blocks of tables.
    ///
    /// The caller holds a view since before, so that the rows' values stay where they are.
    pub(super) fn step(&mut self, view: &EngineView<'_>, keys: usize, out: &mut Vec<Row>) -> Result<()> {
        let mut found = Vec::with_capacity(keys);
        let engine = view.engine();
        engine.scan(Space::Kv, &self.left, self.revision, self.direction, keys, &mut found)?;
        self.ended = found.len() < keys;
        if let Some(last) = found.last() {
            self.move_behind(&last.key.clone());
        }
        out.extend(found.into_iter().map(Row::from).filter(|row| self.filter.passes(row)));
        Ok(())
    }

    /// Goes on behind `key`, which may be before what was looked at.
    pub(super) fn go_behind(&mut self, key: &bytes::Bytes) {
        self.ended = false;
        self.move_behind(key);
    }

    fn move_behind(&mut self, key: &bytes::Bytes) {
        match self.direction {
            Direction::Forward => self.left.start = after(key),
            Direction::Backward => self.left.end = Some(key.clone()),
        }
    }
}
