//! The lives of leases, as far as a history tells.
//!
//! Leases are not ordered by revisions, so what can be said of one is when it surely was there and when it surely
//! was not. Each id is granted once, so a life has one end: by a revoke, or by its time.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::history::{History, Operation, Outcome, Stamp};
use crate::model::LEASE_TTL_MIN;
use crate::op::{Answer, Request};

/// One lease.
#[derive(Debug, Clone)]
pub(crate) struct Life {
    /// Seconds granted.
    pub(crate) ttl: i64,
    /// When it was first asked for.
    asked: u64,
    /// When it was known to be there: the grant's answer.
    granted: Option<u64>,
    /// Before this time it can't have ended by itself: the latest acknowledged refresh, when it was asked for, and
    /// the TTL.
    pub(crate) deadline: Duration,
    /// Whether a renewal, and not the grant, set `deadline`.
    pub(crate) renewed: bool,
    /// After this time it can't be there, but for the grace: the latest refresh that may have been done, when it was
    /// answered or given up, and the TTL.
    pub(crate) end: Duration,
    /// When a revoke of it was first asked for, if that was not refused.
    pub(crate) revoke: Option<u64>,
    /// When it was known to be gone.
    gone: Option<u64>,
    /// The last moment at which something began that found it there.
    seen: u64,
}

/// A client that found a lease there, or gone.
#[derive(Debug, Clone)]
pub(crate) struct Sighting {
    /// The lease.
    pub(crate) lease: i64,
    /// Whether it was there.
    pub(crate) present: bool,
    /// When the request was made.
    pub(crate) invoked: Stamp,
    /// When it was answered.
    pub(crate) completed: Stamp,
}

/// All leases of a run.
#[derive(Debug, Default)]
pub(crate) struct Book {
    pub(crate) lives: BTreeMap<i64, Life>,
    /// Grants of an id of the server's choice whose outcome is unknown: so many leases may be there whose ids
    /// nobody knows.
    pub(crate) nameless: usize,
}

impl Book {
    /// Takes in what the operations of `history` tell. What they found is given back for the checkers.
    pub(crate) fn note(&mut self, history: &History) -> Vec<Sighting> {
        for operation in &history.operations {
            self.note_grant(operation);
        }
        for operation in &history.operations {
            self.note_refresh_and_revoke(operation);
        }
        let mut sightings = Vec::new();
        for operation in &history.operations {
            self.sight(operation, &mut sightings);
        }
        for sighting in &sightings {
            self.note_sighting(sighting);
        }
        sightings
    }

    fn note_grant(&mut self, operation: &Operation) {
        let Request::Grant { id: asked, ttl } = operation.request else { return };
        let (id, granted) = match &operation.outcome {
            Outcome::Answered(Answer::Grant { id, .. }) => (*id, true),
            Outcome::Unknown(_) if asked == 0 => {
                self.nameless += 1;
                return;
            }
            Outcome::Unknown(_) => (asked, false),
            _ => return,
        };
        let ttl = ttl.max(LEASE_TTL_MIN);
        let span = seconds(ttl);
        let known = granted.then_some(operation.completed.order);
        let life = Life {
            ttl,
            asked: operation.invoked.order,
            granted: known,
            deadline: if granted { operation.invoked.time + span } else { Duration::ZERO },
            renewed: false,
            end: operation.completed.time + span,
            revoke: None,
            gone: None,
            seen: 0,
        };
        self.lives.entry(id).or_insert(life);
    }

    fn note_refresh_and_revoke(&mut self, operation: &Operation) {
        let (Request::KeepAlive { id } | Request::Revoke { id }) = operation.request else { return };
        let Some(life) = self.lives.get_mut(&id) else { return };
        let span = seconds(life.ttl);
        match (&operation.request, &operation.outcome) {
            (Request::KeepAlive { .. }, Outcome::Answered(Answer::KeepAlive { ttl: 1.., .. })) => {
                let deadline = operation.invoked.time + span;
                if deadline > life.deadline {
                    (life.deadline, life.renewed) = (deadline, true);
                }
                life.end = life.end.max(operation.completed.time + span);
            }
            (Request::KeepAlive { .. }, Outcome::Unknown(_)) => {
                life.end = life.end.max(operation.completed.time + span);
            }
            (Request::Revoke { .. }, Outcome::Answered(_) | Outcome::Unknown(_)) => {
                let asked = operation.invoked.order;
                life.revoke = Some(life.revoke.map_or(asked, |before| before.min(asked)));
                if matches!(operation.outcome, Outcome::Answered(_)) {
                    life.note_gone(operation.completed.order);
                }
            }
            _ => {}
        }
    }

    /// What `operation` found.
    fn sight(&self, operation: &Operation, sightings: &mut Vec<Sighting>) {
        let mut note = |lease: i64, present: bool| {
            let (invoked, completed) = (operation.invoked, operation.completed);
            sightings.push(Sighting { lease, present, invoked, completed });
        };
        match (&operation.request, &operation.outcome) {
            (Request::KeepAlive { id }, Outcome::Answered(Answer::KeepAlive { ttl, .. })) => {
                note(*id, *ttl > 0)
            }
            (Request::TimeToLive { id, .. }, Outcome::Answered(Answer::TimeToLive { granted_ttl, .. })) => {
                note(*id, *granted_ttl > 0);
            }
            (Request::Revoke { id }, Outcome::Answered(_)) => note(*id, true),
            (Request::Revoke { id }, Outcome::Refused(_)) => note(*id, false),
            (Request::Grant { id, .. }, Outcome::Refused(refusal)) if refusal.code == 9 => note(*id, true),
            (Request::Put(put), Outcome::Answered(_)) if put.lease != 0 => note(put.lease, true),
            (Request::Put(put), Outcome::Refused(refusal)) if refusal.code == 5 => note(put.lease, false),
            (Request::Leases, Outcome::Answered(Answer::Leases { ids, .. })) => {
                for id in ids {
                    note(*id, true);
                }
                for (id, life) in &self.lives {
                    let there = life.granted.is_some_and(|at| at < operation.invoked.order);
                    if there && life.gone.is_none() && !ids.contains(id) {
                        note(*id, false);
                    }
                }
            }
            _ => {}
        }
    }

    fn note_sighting(&mut self, sighting: &Sighting) {
        let Some(life) = self.lives.get_mut(&sighting.lease) else { return };
        if sighting.present {
            life.seen = life.seen.max(sighting.invoked.order);
        } else if life.granted.is_some_and(|at| at < sighting.invoked.order) {
            life.note_gone(sighting.completed.order);
        }
    }

    /// Whether `lease` can have been there at some moment of `operation`.
    pub(crate) fn may_be_there(&self, lease: i64, operation: &Operation) -> bool {
        self.lives.get(&lease).is_some_and(|life| {
            life.asked < operation.completed.order && life.gone.is_none_or(|at| at > operation.invoked.order)
        })
    }

    /// Whether `lease` can have been away at some moment of `operation`.
    pub(crate) fn may_be_away(&self, lease: i64, operation: &Operation) -> bool {
        let Some(life) = self.lives.get(&lease) else { return true };
        if life.granted.is_none_or(|at| at > operation.invoked.order) {
            return true;
        }
        life.may_have_ended(operation.completed)
    }

    /// Forgets leases that were known to be gone before the moment `order`.
    pub(crate) fn forget(&mut self, order: u64) {
        self.lives.retain(|_, life| life.gone.is_none_or(|at| at > order));
    }
}

impl Life {
    /// Whether it was known to be there before the moment `at`.
    pub(crate) fn was_granted_before(&self, at: Stamp) -> bool {
        self.granted.is_some_and(|granted| granted < at.order)
    }

    /// Whether it can have ended by the moment `at`.
    pub(crate) fn may_have_ended(&self, at: Stamp) -> bool {
        if self.seen > at.order {
            return false;
        }
        self.revoke.is_some_and(|asked| asked < at.order) || at.time >= self.deadline
    }

    fn note_gone(&mut self, order: u64) {
        self.gone = Some(self.gone.map_or(order, |before| before.min(order)));
    }
}

/// A TTL as a time; one that is too large to add up is as good as for ever.
pub(crate) fn seconds(ttl: i64) -> Duration {
    Duration::from_secs(u64::try_from(ttl).unwrap_or(0).min(10_000_000_000))
}
