//! etcd's Range on a view: limits, filters, orders, counts, with its quirks.
//!
//! The quirks (seen on etcd 3.7.3): the count ignores limit and filters; a sort target other than the key
//! with no order means ascending, but takes the first `limit + 1` keys in key order before it sorts; with an
//! order or a filter everything is read, filtered and sorted, then cut; keys alone show no lease, unless
//! they are sorted by value.

use bytes::Bytes;
use engine::KeyRange;

use super::view::{Row, View};
use crate::error::{Error, Result};
use crate::request::{KeyValue, Range, RangeAnswer, SortOrder, SortTarget};

/// The interval that `key` and `range_end` mean in etcd's API.
pub(crate) fn key_range(key: &Bytes, range_end: &Bytes) -> KeyRange {
    match &range_end[..] {
        [] => KeyRange::single(key),
        [0] => KeyRange { start: key.clone(), end: None },
        _ => KeyRange { start: key.clone(), end: Some(range_end.clone()) },
    }
}

/// The revision that a read asks for.
///
/// # Errors
/// [`Error::FutureRevision`], [`Error::Compacted`].
pub(crate) fn read_revision(asked: i64, current: i64, compacted: i64) -> Result<i64> {
    let revision = if asked <= 0 { current } else { asked };
    if revision > current {
        return Err(Error::FutureRevision);
    }
    if revision < compacted {
        return Err(Error::Compacted);
    }
    Ok(revision)
}

/// Answers `request` on `view`; a newest revision asked for is the view's.
///
/// # Errors
/// [`Error::FutureRevision`], [`Error::Compacted`], [`Error::Storage`].
pub(crate) fn range(view: &impl View, request: &Range, compacted: i64) -> Result<RangeAnswer> {
    let revision = read_revision(request.revision, view.revision(), compacted)?;
    let keys = key_range(&request.key, &request.range_end);
    if request.range_end.is_empty() && !request.count_only {
        // One key: the count is what the read finds.
        let rows: Vec<Row> = view.get(&request.key, revision)?.into_iter().collect();
        let count = rows.len() as i64;
        return Ok(RangeAnswer { kvs: shape(view, request, rows)?.0, more: false, count });
    }
    let count = view.count(&keys, revision)?;
    if request.count_only {
        return Ok(RangeAnswer { kvs: Vec::new(), more: false, count });
    }
    let mut rows = Vec::new();
    view.rows(&keys, revision, rows_to_read(request), &mut rows)?;
    let (kvs, more) = shape(view, request, rows)?;
    Ok(RangeAnswer { kvs, more, count })
}

/// Bounds of the revisions of rows; 0: no bound.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowFilter {
    modified: (i64, i64),
    create: (i64, i64),
}

impl RowFilter {
    pub(crate) fn of(request: &Range) -> Self {
        RowFilter {
            modified: (request.min_mod_revision, request.max_mod_revision),
            create: (request.min_create_revision, request.max_create_revision),
        }
    }

    /// Whether every row passes.
    pub(crate) fn is_open(&self) -> bool {
        (self.modified, self.create) == ((0, 0), (0, 0))
    }

    pub(crate) fn passes(&self, row: &Row) -> bool {
        let within =
            |value: i64, (min, max): (i64, i64)| (min == 0 || value >= min) && (max == 0 || value <= max);
        within(row.modified, self.modified) && within(row.create, self.create)
    }
}

/// Whether the answer can be read in key order, or against it, row by row.
pub(crate) fn comes_in_pieces(request: &Range) -> bool {
    !request.range_end.is_empty() && !request.count_only && request.sort_target == SortTarget::Key
}

fn rows_to_read(request: &Range) -> usize {
    if request.sort_order != SortOrder::None || !RowFilter::of(request).is_open() {
        return usize::MAX;
    }
    request.rows_max().saturating_add(1)
}

/// Filters, sorts, cuts, and loads the values of what is left; whether rows were cut off.
fn shape(view: &impl View, request: &Range, mut rows: Vec<Row>) -> Result<(Vec<KeyValue>, bool)> {
    let filter = RowFilter::of(request);
    if !filter.is_open() {
        rows.retain(|row| filter.passes(row));
    }
    let descending = request.sort_order == SortOrder::Descend;
    match request.sort_target {
        SortTarget::Key if descending => rows.reverse(),
        SortTarget::Key => {}
        SortTarget::Version => sort(&mut rows, descending, |row| row.version),
        SortTarget::Create => sort(&mut rows, descending, |row| row.create),
        SortTarget::Mod => sort(&mut rows, descending, |row| row.modified),
        SortTarget::Value => {
            let mut pairs = rows.iter().map(|row| view.pair(row)).collect::<Result<Vec<_>>>()?;
            pairs.sort_by(|a, b| if descending { b.value.cmp(&a.value) } else { a.value.cmp(&b.value) });
            let more = pairs.len() > request.rows_max();
            pairs.truncate(request.rows_max());
            if request.keys_only {
                pairs.iter_mut().for_each(|pair| pair.value = Bytes::new());
            }
            return Ok((pairs, more));
        }
    }
    let more = rows.len() > request.rows_max();
    rows.truncate(request.rows_max());
    let pair = |row: &Row| if request.keys_only { Ok(key_alone(row)) } else { view.pair(row) };
    Ok((rows.iter().map(pair).collect::<Result<_>>()?, more))
}

fn sort(rows: &mut [Row], descending: bool, by: impl Fn(&Row) -> i64) {
    rows.sort_by(|a, b| if descending { by(b).cmp(&by(a)) } else { by(a).cmp(&by(b)) });
}

/// A row without its value.
pub(crate) fn key_alone(row: &Row) -> KeyValue {
    KeyValue {
        key: row.key.clone(),
        create_revision: row.create,
        mod_revision: row.modified,
        version: row.version,
        value: Bytes::new(),
        lease: 0,
    }
}
