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

/// One chunk of a streamed range, in key order.
#[derive(Debug)]
pub(crate) struct RangePage {
    /// The rows.
    pub(crate) kvs: Vec<KeyValue>,
    /// Bytes of keys and values in them.
    pub(crate) bytes: usize,
}

impl RangePage {
    /// Reads the first `limit` rows of `keys` at `revision`.
    pub(crate) fn read(
        view: &impl View,
        keys: &KeyRange,
        revision: i64,
        limit: usize,
        keys_only: bool,
    ) -> Result<Self> {
        let mut rows = Vec::new();
        view.rows(keys, revision, limit, &mut rows)?;
        let mut page = RangePage { kvs: Vec::with_capacity(rows.len()), bytes: 0 };
        for row in &rows {
            let pair = if keys_only { key_alone(row) } else { view.pair(row)? };
            page.bytes += pair.key.len() + pair.value.len();
            page.kvs.push(pair);
        }
        Ok(page)
    }
}

fn has_filter(request: &Range) -> bool {
    request.min_mod_revision != 0
        || request.max_mod_revision != 0
        || request.min_create_revision != 0
        || request.max_create_revision != 0
}

fn limit(request: &Range) -> usize {
    if request.limit <= 0 { usize::MAX } else { usize::try_from(request.limit).unwrap_or(usize::MAX) }
}

fn rows_to_read(request: &Range) -> usize {
    if request.sort_order != SortOrder::None || has_filter(request) {
        return usize::MAX;
    }
    limit(request).saturating_add(1)
}

/// Filters, sorts, cuts, and loads the values of what is left; whether rows were cut off.
fn shape(view: &impl View, request: &Range, mut rows: Vec<Row>) -> Result<(Vec<KeyValue>, bool)> {
    let outside = |value: i64, min: i64, max: i64| (max != 0 && value > max) || (min != 0 && value < min);
    if has_filter(request) {
        rows.retain(|row| {
            !outside(row.modified, request.min_mod_revision, request.max_mod_revision)
                && !outside(row.create, request.min_create_revision, request.max_create_revision)
        });
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
            let more = pairs.len() > limit(request);
            pairs.truncate(limit(request));
            if request.keys_only {
                pairs.iter_mut().for_each(|pair| pair.value = Bytes::new());
            }
            return Ok((pairs, more));
        }
    }
    let more = rows.len() > limit(request);
    rows.truncate(limit(request));
    let pair = |row: &Row| if request.keys_only { Ok(key_alone(row)) } else { view.pair(row) };
    Ok((rows.iter().map(pair).collect::<Result<_>>()?, more))
}

fn sort(rows: &mut [Row], descending: bool, by: impl Fn(&Row) -> i64) {
    rows.sort_by(|a, b| if descending { by(b).cmp(&by(a)) } else { by(a).cmp(&by(b)) });
}

fn key_alone(row: &Row) -> KeyValue {
    KeyValue {
        key: row.key.clone(),
        create_revision: row.create,
        mod_revision: row.modified,
        version: row.version,
        value: Bytes::new(),
        lease: 0,
    }
}
