//! The history of a run so far: every event by revision, and each key's rows over time.
//!
//! INVARIANT: events are in the order of their revisions, which are dense from `base + 1` on, unless the checker has
//! already said otherwise.

use std::collections::BTreeMap;

use super::record::{Event, KeyId, Row};

/// Every event after `base`. At `base` no key of the rounds exists.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// The revision before the first event.
    pub(crate) base: i64,
    events: Vec<Event>,
    /// Each key's rows by revision; `None` from a delete on.
    rows: BTreeMap<KeyId, Vec<(i64, Option<Row>)>>,
}

impl History {
    /// An empty history after `base`.
    pub(crate) fn new(base: i64) -> Self {
        History { base, ..Default::default() }
    }

    /// The last revision known.
    pub(crate) fn head(&self) -> i64 {
        self.events.last().map_or(self.base, |event| event.revision)
    }

    /// Appends events.
    pub(crate) fn append(&mut self, events: &[Event]) {
        for event in events {
            let row = event.put.map(|stored| Row { mod_revision: event.revision, stored });
            self.rows.entry(event.key).or_default().push((event.revision, row));
            self.events.push(*event);
        }
    }

    /// The key as a read at `revision` must find it.
    pub(crate) fn row_at(&self, key: KeyId, revision: i64) -> Option<Row> {
        let rows = self.rows.get(&key)?;
        let after = rows.partition_point(|(at, _)| *at <= revision);
        rows[..after].last()?.1
    }

    /// All keys that exist at `revision`, by key.
    pub(crate) fn rows_at(&self, revision: i64) -> Vec<(KeyId, Row)> {
        self.rows.keys().filter_map(|key| Some((*key, self.row_at(*key, revision)?))).collect()
    }

    /// The events with revisions `from..=to`.
    pub(crate) fn events(&self, from: i64, to: i64) -> &[Event] {
        let start = self.events.partition_point(|event| event.revision < from);
        let end = self.events.partition_point(|event| event.revision <= to);
        &self.events[start..end.max(start)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::record::Stored;

    #[test]
    fn rows_over_time() {
        let stored = |write| Some(Stored { write, create_revision: 11, version: 1 });
        let event = |revision, key, put| Event { revision, key, put };
        let mut history = History::new(10);
        history.append(&[
            event(11, 1, stored(1)),
            event(12, 1, None),
            event(13, 1, stored(3)),
            event(13, 2, stored(3)),
        ]);
        for (revision, want, why) in [
            (10, None, "before the first"),
            (11, Some(1), "first version"),
            (12, None, "deleted"),
            (13, Some(3), "put again"),
            (99, Some(3), "latest"),
        ] {
            assert_eq!(history.row_at(1, revision).map(|row| row.stored.write), want, "at {revision}: {why}");
        }
        assert_eq!(history.rows_at(13).len(), 2);
        assert_eq!(history.events(12, 13).len(), 3);
        assert_eq!(history.events(14, 13), []);
        assert_eq!(history.head(), 13);
    }
}
