//! etcd's semantics in plain maps.
//!
//! The model holds every version of every key and the events of every revision. It is asked with a [`View`]:
//! the revision at which the request takes effect, the compaction revision then, and the leases then. A caller
//! that knows all three gets the one right answer; a checker that does not tries those that are possible.
//!
//! It knows no time: a lease is there or not as the view says, and what a TimeToLive says is at most the TTL.
//!
//! LAYOUT
//! * here: versions, views, and asking; [`range`]: reads; [`txn`]: transactions and what is refused of them;
//!   [`draft`]: the effects of one request; [`refuse`]: codes and texts; [`agree`]: equality of answers.
//!
//! INVARIANTS
//! * Revisions are dense: `apply` adds exactly one.
//! * `Model::floor` is the oldest revision that can be read; it moves up only by `forget`.

pub mod agree;
pub mod draft;
pub mod range;
pub mod refuse;
pub mod txn;

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::op::{Answer, Event, KeyValue, Put, Refusal, Request};
use draft::Draft;

/// Smallest TTL that is granted, seconds: etcd's with an election timeout of one second.
pub const LEASE_TTL_MIN: i64 = 2;

/// Largest TTL that may be asked for, seconds.
pub const LEASE_TTL_MAX: i64 = 9_000_000_000;

/// What a request is judged by, beside the pairs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// The store's revision when the request takes effect; what it writes gets the next.
    pub revision: i64,
    /// The compaction revision then; -1 before the first compaction.
    pub compacted: i64,
    /// The leases then, with the TTL granted.
    pub leases: BTreeMap<i64, i64>,
}

/// What a key was from a revision on.
#[derive(Debug, Clone)]
struct Version {
    revision: i64,
    /// `None` if it was deleted.
    pair: Option<KeyValue>,
}

/// All versions and events since `floor`.
#[derive(Debug, Clone)]
pub struct Model {
    /// Versions of each key, oldest first. No key has an empty list.
    keys: BTreeMap<Bytes, Vec<Version>>,
    /// Events of each revision above `floor`, in their order, with the pairs as they were.
    log: BTreeMap<i64, Vec<Event>>,
    /// The newest revision.
    revision: i64,
    /// Oldest revision that can be read.
    floor: i64,
}

impl Model {
    /// A store without keys at `revision`; an empty store is at 1.
    #[must_use]
    pub fn new(revision: i64) -> Model {
        Model { keys: BTreeMap::new(), log: BTreeMap::new(), revision, floor: revision }
    }

    /// The newest revision.
    #[must_use]
    pub fn revision(&self) -> i64 {
        self.revision
    }

    /// Events of `revision`; none if it is not known any more, or not yet.
    #[must_use]
    pub fn events(&self, revision: i64) -> &[Event] {
        self.log.get(&revision).map_or(&[], Vec::as_slice)
    }

    /// Events of every revision from `first` on, in order.
    pub fn events_from(&self, first: i64) -> impl Iterator<Item = (i64, &[Event])> {
        self.log.range(first..).map(|(revision, events)| (*revision, events.as_slice()))
    }

    /// The pair of `key` at `revision`.
    #[must_use]
    pub fn pair(&self, key: &Bytes, revision: i64) -> Option<&KeyValue> {
        let versions = self.keys.get(key)?;
        let newer = versions.partition_point(|version| version.revision <= revision);
        versions[..newer].last()?.pair.as_ref()
    }

    /// Every pair in the interval at `revision`, by key.
    fn pairs<'a>(
        &'a self,
        key: &'a Bytes,
        range_end: &'a Bytes,
        revision: i64,
    ) -> impl Iterator<Item = &'a KeyValue> {
        range::keys_within(&self.keys, key, range_end).filter_map(move |(_, versions)| {
            let newer = versions.partition_point(|version| version.revision <= revision);
            versions[..newer].last()?.pair.as_ref()
        })
    }

    /// Every pair at `revision`, by key.
    #[must_use]
    pub fn all(&self, revision: i64) -> Vec<KeyValue> {
        let all = Bytes::from_static(b"\0");
        self.pairs(&all, &all, revision).cloned().collect()
    }

    /// Keys that hang on `lease` at `revision`, in order.
    #[must_use]
    pub fn attached(&self, lease: i64, revision: i64) -> Vec<Bytes> {
        let all = Bytes::from_static(b"\0");
        let pairs = self.pairs(&all, &all, revision).filter(|pair| pair.lease == lease);
        pairs.map(|pair| pair.key.clone()).collect()
    }

    /// What `request` is answered in `view`, and the events that it makes. Nothing changes; see [`Model::apply`].
    ///
    /// # Errors
    /// The refusal that etcd gives.
    pub fn ask(&self, view: &View, request: &Request) -> Result<(Answer, Vec<Event>), Refusal> {
        let mut draft = Draft::new(self, view);
        let revision = view.revision;
        let answer = match request {
            Request::Range(range) => {
                range::check(range)?;
                Answer::Range(draft.range(range)?)
            }
            Request::RangeStream(range) => {
                range::check_stream(range)?;
                Answer::Range(draft.range(range)?)
            }
            Request::Put(put) => {
                check_put(put)?;
                draft.admit_put(put)?;
                Answer::Put(draft.put(put))
            }
            Request::Delete(delete) => {
                if delete.key.is_empty() {
                    return Err(refuse::empty_key());
                }
                Answer::Delete(draft.delete(delete))
            }
            Request::Txn(txn) => Answer::Txn(txn::run(&mut draft, txn)?),
            Request::Compact { revision: wanted, .. } => {
                if *wanted <= view.compacted {
                    return Err(refuse::compacted());
                }
                if *wanted > revision {
                    return Err(refuse::future_revision());
                }
                Answer::Compact { revision }
            }
            Request::Grant { id, ttl } => {
                if *ttl > LEASE_TTL_MAX {
                    return Err(refuse::lease_ttl_too_large());
                }
                if view.leases.contains_key(id) {
                    return Err(refuse::lease_exists());
                }
                Answer::Grant { revision, id: *id, ttl: LEASE_TTL_MIN.max(*ttl) }
            }
            Request::Revoke { id } => {
                if !view.leases.contains_key(id) {
                    return Err(refuse::lease_not_found());
                }
                draft.revoke(*id);
                Answer::Revoke { revision: draft.revision() }
            }
            Request::KeepAlive { id } => {
                Answer::KeepAlive { revision, ttl: view.leases.get(id).copied().unwrap_or(0) }
            }
            Request::TimeToLive { id, keys } => match view.leases.get(id) {
                None => Answer::TimeToLive { revision, ttl: -1, granted_ttl: 0, keys: Vec::new() },
                Some(ttl) => {
                    let keys = if *keys { self.attached(*id, revision) } else { Vec::new() };
                    Answer::TimeToLive { revision, ttl: *ttl, granted_ttl: *ttl, keys }
                }
            },
            Request::Leases => Answer::Leases { revision, ids: view.leases.keys().copied().collect() },
        };
        Ok((answer, draft.into_events()))
    }

    /// Takes `events` in as one revision.
    ///
    /// # Panics
    /// If there are none, or they are not of the next revision.
    pub fn apply(&mut self, events: Vec<Event>) {
        assert!(!events.is_empty(), "a revision without a change, after {}", self.revision);
        let revision = self.revision + 1;
        for event in &events {
            let found = event.kv.mod_revision;
            assert_eq!(found, revision, "an event of revision {found} as {revision}");
            let pair = (!event.deleted).then(|| event.kv.clone());
            self.keys.entry(event.kv.key.clone()).or_default().push(Version { revision, pair });
        }
        self.log.insert(revision, events);
        self.revision = revision;
    }

    /// Forgets what a compaction at `compacted` hides.
    pub fn forget(&mut self, compacted: i64) {
        if compacted <= self.floor {
            return;
        }
        self.floor = compacted;
        self.log = self.log.split_off(&compacted);
        self.keys.retain(|_, versions| {
            let newer = versions.partition_point(|version| version.revision <= compacted);
            let hidden = newer.saturating_sub(1);
            versions.drain(..hidden);
            versions.len() > 1 || versions[0].pair.is_some() || versions[0].revision > compacted
        });
    }
}

/// What is refused of a put before the store is looked at.
fn check_put(put: &Put) -> Result<(), Refusal> {
    if put.key.is_empty() {
        return Err(refuse::empty_key());
    }
    if put.ignore_value && !put.value.is_empty() {
        return Err(refuse::value_provided());
    }
    if put.ignore_lease && put.lease != 0 {
        return Err(refuse::lease_provided());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
