//! Every revision is one write that somebody asked for, and did what the model says.
//!
//! Writes carry their revisions, and the witness tells what each revision changed, so the order is given: the model
//! is replayed in it. A revision that no acknowledged write claims is explained by a request whose outcome is
//! unknown, by a revoke, or by a lease that came to its end.

use std::collections::BTreeMap;

use crate::checkers::facts::written;
use crate::checkers::{Case, Violation, describe, views};
use crate::history::{Operation, Outcome, Stamp};
use crate::model::{Model, View, agree};
use crate::op::{Answer, Event, Request};

/// What became of a history's revisions.
#[derive(Debug, Default)]
pub(crate) struct Replayed {
    /// Revisions and the moments at which they were asked for, as far as known.
    pub(crate) asked: Vec<(u64, i64)>,
    /// Writes of unknown outcome that were done, and the revision that each made.
    pub(crate) found: Vec<(Operation, i64)>,
    /// Acknowledged revokes, by when they were made, that took their answer's revision for themselves.
    pub(crate) revokes: Vec<u64>,
    /// Leases whose keys went although nobody had asked: the lease, the revision, and when the witness saw it.
    pub(crate) ended: Vec<(i64, i64, Stamp)>,
    /// The last revision replayed.
    pub(crate) last: i64,
}

const GUARANTEE: &str = "order";

/// Replays `case` on `model`. `pending` are writes of unknown outcome from before; those of the history are added
/// and those that were found to be done are taken out.
pub(crate) fn replay(
    case: &Case<'_>,
    model: &mut Model,
    pending: &mut Vec<Operation>,
) -> (Replayed, Vec<Violation>) {
    let history = case.history;
    let mut violations = Vec::new();
    let witnessed = witnessed(case);
    let mut claims: BTreeMap<i64, &Operation> = BTreeMap::new();
    let mut revokes: BTreeMap<i64, Vec<&Operation>> = BTreeMap::new();
    for operation in &history.operations {
        match &operation.outcome {
            Outcome::Answered(answer @ Answer::Revoke { .. }) => {
                revokes.entry(answer.revision()).or_default().push(operation);
            }
            Outcome::Answered(answer) => {
                let Some(revision) = written(answer) else { continue };
                claims.insert(revision, operation);
            }
            Outcome::Unknown(_) if may_write(&operation.request) => pending.push(operation.clone()),
            _ => {}
        }
    }
    let mut replayed = Replayed { last: model.revision(), ..Replayed::default() };
    let told = witnessed.keys().next_back().copied().unwrap_or(0);
    let last = told.max(claims.keys().next_back().copied().unwrap_or(0));
    for revision in model.revision() + 1..=last {
        let seen = witnessed.get(&revision);
        let claim = claims.get(&revision).copied();
        let events = match (claim, seen) {
            (Some(operation), seen) => {
                replayed.asked.push((operation.invoked.order, revision));
                let (events, found) =
                    acknowledged(case, model, operation, seen.map(|(_, events)| &events[..]));
                violations.extend(found);
                if seen.is_none() && revision < told {
                    violations.push(case.violation(
                        "complete",
                        format!(
                            "the watch over all keys from the beginning was not told of revision {revision}"
                        ),
                        Some(revision),
                        vec![describe::operation(operation)],
                    ));
                }
                events
            }
            (None, Some((stamp, events))) => {
                let view = View { revision: revision - 1, compacted: -1, leases: BTreeMap::new() };
                let revokes = revokes.get(&revision).map_or(&[][..], Vec::as_slice);
                let found = explain(model, &view, events, revokes, pending, *stamp);
                match found {
                    Some(Cause::Revoke(order)) => {
                        replayed.revokes.push(order);
                        replayed.asked.push((order, revision));
                    }
                    Some(Cause::Pending(at)) => {
                        let operation = pending.remove(at);
                        replayed.asked.push((operation.invoked.order, revision));
                        replayed.found.push((operation, revision));
                    }
                    Some(Cause::Lease(lease)) => replayed.ended.push((lease, revision, *stamp)),
                    None => violations.push(
                        case.violation(
                            GUARANTEE,
                            format!("nobody asked for what revision {revision} did"),
                            Some(revision),
                            std::iter::once(describe::events(revision, events))
                                .chain(describe::window(history, stamp.order.saturating_sub(20), stamp.order))
                                .collect(),
                        ),
                    ),
                }
                with_previous(model, events)
            }
            // A gap, which is judged elsewhere; what comes after it can't be replayed.
            (None, None) => break,
        };
        if events.is_empty() {
            violations.push(case.violation(
                GUARANTEE,
                format!("revision {revision} is of a write that has nothing to change"),
                Some(revision),
                claim.map(describe::operation).into_iter().collect(),
            ));
            break;
        }
        model.apply(events);
        replayed.last = revision;
    }
    (replayed, violations)
}

/// What the witness saw of each revision, and when first.
fn witnessed(case: &Case<'_>) -> BTreeMap<i64, (Stamp, Vec<Event>)> {
    let mut witnessed: BTreeMap<i64, (Stamp, Vec<Event>)> = BTreeMap::new();
    let mut newest = case.history.first_revision;
    for stream in &case.history.witness {
        for (stamp, message) in &stream.messages {
            for event in &message.events {
                let revision = event.kv.mod_revision;
                // What comes again is judged as any watch; here the first time counts.
                if revision > newest || witnessed.get(&revision).is_some_and(|(first, _)| first == stamp) {
                    newest = newest.max(revision);
                    witnessed.entry(revision).or_insert((*stamp, Vec::new())).1.push(event.clone());
                }
            }
        }
    }
    witnessed
}

/// The events of an acknowledged write, and what is wrong with it.
fn acknowledged(
    case: &Case<'_>,
    model: &Model,
    operation: &Operation,
    seen: Option<&[Event]>,
) -> (Vec<Event>, Vec<Violation>) {
    let revision = model.revision() + 1;
    let mut violations = Vec::new();
    let Outcome::Answered(answer) = &operation.outcome else { return (Vec::new(), violations) };
    let mut nearest = None;
    for mut view in views::possible(operation, &case.compactions, &case.book) {
        view.revision = revision - 1;
        let Ok((expected, events)) = model.ask(&view, &operation.request) else { continue };
        let same = seen.is_none_or(|seen| same_events(&events, seen));
        if same && agree::answers(&expected, answer) {
            return (events, violations);
        }
        nearest.get_or_insert((expected, events));
    }
    let mut window = vec![describe::operation(operation)];
    if let Some((expected, events)) = &nearest {
        window.push(format!("the model answers: {expected:?}"));
        window.push(format!("and makes {}", describe::events(revision, events)));
    } else {
        window.push("the model refuses it".to_owned());
    }
    if let Some(seen) = seen {
        window.push(format!("the witness saw {}", describe::events(revision, seen)));
    }
    violations.push(case.violation(
        GUARANTEE,
        format!("a write at revision {revision} did not do, or did not answer, what it has to"),
        Some(revision),
        window,
    ));
    // What was seen is what is there from now on.
    let events = match seen {
        Some(seen) => with_previous(model, seen),
        None => nearest.map(|(_, events)| events).unwrap_or_default(),
    };
    (events, violations)
}

/// Why a revision is there that no acknowledged write claims.
enum Cause {
    /// An acknowledged revoke, by when it was made.
    Revoke(u64),
    /// A pending write, by its place.
    Pending(usize),
    /// A lease's end.
    Lease(i64),
}

fn explain(
    model: &Model,
    view: &View,
    events: &[Event],
    revokes: &[&Operation],
    pending: &[Operation],
    seen: Stamp,
) -> Option<Cause> {
    for operation in revokes {
        let Request::Revoke { id } = operation.request else { continue };
        if ends_lease(model, view, id, events) {
            return Some(Cause::Revoke(operation.invoked.order));
        }
    }
    let begun = |operation: &Operation| operation.invoked.order < seen.order;
    let cause =
        pending.iter().position(|operation| begun(operation) && makes(model, view, operation, events));
    if let Some(at) = cause {
        return Some(Cause::Pending(at));
    }
    let lease = model.pair(&events.first()?.kv.key, view.revision)?.lease;
    (lease != 0 && ends_lease(model, view, lease, events)).then_some(Cause::Lease(lease))
}

/// Whether `events` are those of the end of `lease`.
fn ends_lease(model: &Model, view: &View, lease: i64, events: &[Event]) -> bool {
    let view = View { leases: BTreeMap::from([(lease, 0)]), ..view.clone() };
    matches!(model.ask(&view, &Request::Revoke { id: lease }), Ok((_, made)) if same_events(&made, events))
}

/// Whether `operation`, done in `view`, makes `events`. The leases that it names are taken to be there.
fn makes(model: &Model, view: &View, operation: &Operation, events: &[Event]) -> bool {
    let named = crate::checkers::facts::leases_named(&operation.request);
    let view = View { leases: named.into_iter().map(|lease| (lease, 0)).collect(), ..view.clone() };
    matches!(model.ask(&view, &operation.request), Ok((_, made)) if same_events(&made, events))
}

fn may_write(request: &Request) -> bool {
    matches!(request, Request::Put(_) | Request::Delete(_) | Request::Txn(_) | Request::Revoke { .. })
}

/// Whether both are the same changes in the same order. What was before is not compared.
fn same_events(made: &[Event], seen: &[Event]) -> bool {
    made.len() == seen.len()
        && made.iter().zip(seen).all(|(made, seen)| made.deleted == seen.deleted && made.kv == seen.kv)
}

/// `events` with the pairs as the model had them.
fn with_previous(model: &Model, events: &[Event]) -> Vec<Event> {
    let revision = model.revision();
    let previous = |event: &Event| model.pair(&event.kv.key, revision).cloned();
    events.iter().map(|event| Event { prev_kv: previous(event), ..event.clone() }).collect()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use crate::checkers::testing::{answer_of, found};
    use crate::op::Answer;

    #[test]
    fn revisions_that_nobody_explains() {
        found("order", "the transaction's branch is the other one", |history| match answer_of(history, 4) {
            Answer::Txn(answer) => answer.succeeded = false,
            other => panic!("{other:?} is no transaction's"),
        });
        found("order", "what happened is not what was asked for", |history| {
            for (_, message) in history.witness.iter_mut().flat_map(|stream| &mut stream.messages) {
                if message.revision == 2 && !message.events.is_empty() {
                    message.events[0].kv.value = Bytes::from_static(b"other");
                }
            }
        });
        found("order", "nobody asked for revision 6", |history| {
            history.operations.remove(10);
        });
        found("order", "a lease's end leaves one of its keys", |history| {
            match &mut history.operations[1].request {
                crate::op::Request::Put(put) => put.lease = 7,
                other => panic!("{other:?} is no put"),
            }
        });
    }
}
