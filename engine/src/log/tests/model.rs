//! The log as a plain list of records.

use super::GROUPS;
use crate::log::{Entry, GroupId, Kind, Log, Record};
use crate::types::Pointer;
use bytes::Bytes;
use std::collections::BTreeMap;

/// What the log should hold: the records one after the other.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Model {
    pub(super) entries: BTreeMap<GroupId, BTreeMap<u64, Record>>,
    pub(super) votes: BTreeMap<GroupId, Bytes>,
}

impl Model {
    pub(super) fn of(records: &[Record]) -> Self {
        let mut model = Model::default();
        for record in records {
            model.add(record);
        }
        model
    }

    pub(super) fn add(&mut self, record: &Record) {
        let entries = self.entries.entry(record.group).or_default();
        match record.kind {
            Kind::Vote => {
                self.votes.insert(record.group, record.body.clone());
            }
            Kind::Truncate => {
                entries.split_off(&record.index);
            }
            Kind::Entry | Kind::Part => {
                entries.split_off(&record.index);
                entries.insert(record.index, record.clone());
            }
        }
    }

    pub(super) fn last(&self, group: GroupId) -> u64 {
        self.entries.get(&group).and_then(|entries| entries.keys().next_back().copied()).unwrap_or(0)
    }
}

/// Compares what a log gives with the model; above the purge marks all must be there, below what is there
/// must be right.
pub(super) fn differs(log: &Log, model: &Model) -> std::result::Result<(), String> {
    for group in GROUPS {
        let bounds = log.bounds(group).unwrap_or_default();
        let want = model.entries.get(&group).cloned().unwrap_or_default();
        let (old, live): (Vec<_>, Vec<_>) =
            want.into_values().partition(|entry| entry.index <= bounds.purged.1);
        let read = |from, to| log.entries(group, from, to, usize::MAX).map_err(|error| error.to_string());
        let found = read(bounds.purged.1 + 1, u64::MAX)?;
        let same = |found: &Entry, want: &Record| {
            (found.kind, found.term, found.index, &found.body)
                == (want.kind, want.term, want.index, &want.body)
        };
        if found.len() != live.len() || found.iter().zip(&live).any(|(found, want)| !same(found, want)) {
            return Err(format!(
                "group {group} above {:?}: {:?}, not {:?}",
                bounds.purged,
                found.iter().map(|entry| (entry.term, entry.index)).collect::<Vec<_>>(),
                live.iter().map(|entry| (entry.term, entry.index)).collect::<Vec<_>>(),
            ));
        }
        for want in &old {
            if let Some(found) = read(want.index, want.index + 1)?.first()
                && !same(found, want)
            {
                return Err(format!("group {group}: wrong entry {} below the purge mark", want.index));
            }
        }
        let last = live.last().map_or(bounds.purged, |entry| (entry.term, entry.index));
        if bounds.last != last {
            return Err(format!("group {group}: last is {:?}, not {last:?}", bounds.last));
        }
        if log.vote(group) != model.votes.get(&group).cloned() {
            return Err(format!("group {group}: another vote"));
        }
        let pointers: Vec<Pointer> = found.iter().rev().map(whole_body).collect();
        let mut values = Vec::new();
        log.values(&pointers, &mut values).map_err(|error| error.to_string())?;
        if values.iter().ne(found.iter().rev().map(|entry| &entry.body)) {
            return Err(format!("group {group}: another value"));
        }
    }
    Ok(())
}

pub(super) fn whole_body(entry: &Entry) -> Pointer {
    let (len, crc) = (entry.body.len() as u32, crc32fast::hash(&entry.body));
    Pointer { segment: entry.segment, offset: entry.body_offset, len, crc }
}
