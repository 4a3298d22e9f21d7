//! The effects of one request, while it is worked on: its operations see what those before them wrote.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::model::{Model, View, range, refuse};
use crate::op::{Delete, DeleteAnswer, Event, KeyValue, Put, PutAnswer, Range, RangeAnswer, Refusal};

/// What one request has written so far.
pub(crate) struct Draft<'a> {
    model: &'a Model,
    view: &'a View,
    /// Each key written, as it is now; `None` if it was deleted.
    written: BTreeMap<Bytes, Option<KeyValue>>,
    events: Vec<Event>,
}

impl<'a> Draft<'a> {
    /// Nothing written yet.
    pub(crate) fn new(model: &'a Model, view: &'a View) -> Draft<'a> {
        Draft { model, view, written: BTreeMap::new(), events: Vec::new() }
    }

    /// The store's revision as the request's own operations see it.
    pub(crate) fn revision(&self) -> i64 {
        self.view.revision + i64::from(!self.events.is_empty())
    }

    /// What was written.
    pub(crate) fn into_events(self) -> Vec<Event> {
        self.events
    }

    /// The revision that `wanted` stands for.
    fn readable(&self, wanted: i64) -> Result<i64, Refusal> {
        if wanted > self.revision() {
            return Err(refuse::future_revision());
        }
        let revision = if wanted <= 0 { self.revision() } else { wanted };
        if revision < self.view.compacted {
            return Err(refuse::compacted());
        }
        Ok(revision)
    }

    /// Whether a range of a transaction may be read; asked before anything is written. Here a negative revision
    /// is one before the first, and not the newest.
    pub(crate) fn admit_range(&self, range: &Range) -> Result<(), Refusal> {
        if range.revision == 0 {
            return Ok(());
        }
        if range.revision > self.view.revision {
            return Err(refuse::future_revision());
        }
        if range.revision < self.view.compacted {
            return Err(refuse::compacted());
        }
        Ok(())
    }

    /// Reads.
    pub(crate) fn range(&self, range: &Range) -> Result<RangeAnswer, Refusal> {
        let revision = self.readable(range.revision)?;
        let pairs = self.pairs(&range.key, &range.range_end, revision);
        Ok(range::answer(range, self.revision(), pairs))
    }

    /// Pairs of an interval at `revision`, by key.
    pub(crate) fn pairs(&self, key: &Bytes, range_end: &Bytes, revision: i64) -> Vec<KeyValue> {
        let stored = self.model.pairs(key, range_end, revision.min(self.view.revision));
        if revision <= self.view.revision {
            return stored.cloned().collect();
        }
        let mut pairs: BTreeMap<Bytes, KeyValue> =
            stored.map(|pair| (pair.key.clone(), pair.clone())).collect();
        for (key, pair) in range::keys_within(&self.written, key, range_end) {
            match pair {
                Some(pair) => pairs.insert(key.clone(), pair.clone()),
                None => pairs.remove(key),
            };
        }
        pairs.into_values().collect()
    }

    /// The pair of `key` now.
    fn pair(&self, key: &Bytes) -> Option<KeyValue> {
        match self.written.get(key) {
            Some(pair) => pair.clone(),
            None => self.model.pair(key, self.view.revision).cloned(),
        }
    }

    /// Whether a put may be done; asked before anything is written.
    pub(crate) fn admit_put(&self, put: &Put) -> Result<(), Refusal> {
        if put.lease != 0 && !self.view.leases.contains_key(&put.lease) {
            return Err(refuse::lease_not_found());
        }
        if (put.ignore_value || put.ignore_lease) && self.pair(&put.key).is_none() {
            return Err(refuse::key_not_found());
        }
        Ok(())
    }

    /// Writes a pair. What it keeps of the pair before is taken from there; if that is gone by now, nothing is kept.
    pub(crate) fn put(&mut self, put: &Put) -> PutAnswer {
        let before = self.pair(&put.key);
        let revision = self.view.revision + 1;
        let kept = before.as_ref();
        let pair = KeyValue {
            key: put.key.clone(),
            create_revision: kept.map_or(revision, |pair| pair.create_revision),
            mod_revision: revision,
            version: kept.map_or(1, |pair| pair.version + 1),
            value: match kept {
                Some(pair) if put.ignore_value => pair.value.clone(),
                _ => put.value.clone(),
            },
            lease: match kept {
                Some(pair) if put.ignore_lease => pair.lease,
                _ => put.lease,
            },
        };
        self.written.insert(put.key.clone(), Some(pair.clone()));
        self.events.push(Event { deleted: false, kv: pair, prev_kv: before.clone() });
        PutAnswer { revision, prev_kv: before.filter(|_| put.prev_kv) }
    }

    /// Deletes an interval.
    pub(crate) fn delete(&mut self, delete: &Delete) -> DeleteAnswer {
        let pairs = self.pairs(&delete.key, &delete.range_end, self.revision());
        for pair in &pairs {
            self.remove(pair.clone());
        }
        DeleteAnswer {
            revision: self.revision(),
            deleted: i64::try_from(pairs.len()).expect("a test's keys fit in memory"),
            prev_kvs: if delete.prev_kv { pairs } else { Vec::new() },
        }
    }

    /// Deletes what hangs on a lease.
    pub(crate) fn revoke(&mut self, lease: i64) {
        for key in self.model.attached(lease, self.view.revision) {
            if let Some(pair) = self.pair(&key) {
                self.remove(pair);
            }
        }
    }

    fn remove(&mut self, pair: KeyValue) {
        let mod_revision = self.view.revision + 1;
        let kv = KeyValue { key: pair.key.clone(), mod_revision, ..KeyValue::default() };
        self.written.insert(pair.key.clone(), None);
        self.events.push(Event { deleted: true, kv, prev_kv: Some(pair) });
    }
}
