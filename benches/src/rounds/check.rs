//! The rules. Each takes plain data and returns what is broken; none talks to a server.
//!
//! GLOSSARY
//! * *told*: the events that a fresh watch told for this round, from `base + 1` to `head`.
//! * *floor* of a call: the highest revision in any answer that was there before the call was sent.
//!
//! RULES, by the name in a finding
//! * `gap`, `order`, `overrun`: told revisions are each of `base + 1 ..= head`, in order, no other.
//! * `counters`: create revision and version follow from the key's events; a delete deletes something.
//! * `phantom`: each told revision is one call's effect, whole, and no call has two.
//! * `lost`, `reused`: each acknowledged write is told at its revision. Lost: told nowhere; reused: its revision tells
//!   another write, or two acknowledgements name the same one.
//! * `moved`: an acknowledged write is told at another revision. `refused`: a call that only read has written.
//! * `back`: a call's revision is not below its floor, and above it if the call wrote.
//! * `read`: a row read is the key's row at the answer's revision. `ahead`: that revision is not beyond the head.
//! * `compare`: an update wrote if and only if the key had the expected mod revision.
//! * `watch`: a watch over restarts tells what the history says, each event once, in order.
//! * `rows`: a list at a revision is the history's rows at that revision.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::history::History;
use super::record::{Action, Call, Event, Finding, KeyId, Outcome, Row, WriteId};

/// Findings of one rule in one round beyond this are left out: the first ones tell the story.
const FINDINGS_MAX: usize = 10;

/// What became of the calls whose answer never came.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct InDoubt {
    /// They had happened.
    pub(crate) applied: u64,
    /// They had not.
    pub(crate) lost: u64,
}

/// Checks a round and appends what it told to `history`, whose head is the round's base.
pub(crate) fn round(
    history: &mut History,
    head: i64,
    told: &[Event],
    calls: &[Call],
) -> (Vec<Finding>, InDoubt) {
    let base = history.head();
    let mut findings = dense(base, head, told);
    findings.extend(counters(history, told));
    history.append(told);
    let (attributed, broken) = attribute(told, calls);
    findings.extend(broken);
    findings.extend(acknowledged(calls, &attributed));
    findings.extend(real_time(base, calls, &attributed));
    findings.extend(reads(history, head, calls));
    findings.extend(compares(history, calls));
    (findings, in_doubt(calls, &attributed))
}

/// `gap`, `order`, `overrun`.
fn dense(base: i64, head: i64, told: &[Event]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut last = base;
    for event in told {
        let revision = event.revision;
        if revision > last + 1 {
            findings.push(Finding::new("gap", format!("{} follows {last}", revision)));
        } else if revision < last || (revision == last && last == base) {
            findings.push(Finding::new("order", format!("{revision} follows {last}")));
        }
        if revision > head {
            findings.push(Finding::new("overrun", format!("{revision} is told, the head is {head}")));
        }
        last = last.max(revision);
    }
    if last < head {
        findings.push(Finding::new("gap", format!("nothing is told after {last}, the head is {head}")));
    }
    findings.truncate(FINDINGS_MAX);
    findings
}

/// `counters`.
fn counters(history: &History, told: &[Event]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut rows: BTreeMap<KeyId, Option<Row>> = BTreeMap::new();
    for event in told {
        let row = rows.entry(event.key).or_insert_with(|| history.row_at(event.key, history.head()));
        let want =
            row.map_or((event.revision, 1), |row| (row.stored.create_revision, row.stored.version + 1));
        match event.put {
            Some(put) if (put.create_revision, put.version) != want => findings.push(Finding::new(
                "counters",
                format!(
                    "key {} at {}: {put:?}, but create and version are {want:?}",
                    event.key, event.revision
                ),
            )),
            None if row.is_none() => findings.push(Finding::new(
                "counters",
                format!("key {} at {}: deleted, but it did not exist", event.key, event.revision),
            )),
            _ => {}
        }
        *row = event.put.map(|stored| Row { mod_revision: event.revision, stored });
    }
    findings.truncate(FINDINGS_MAX);
    findings
}

/// The write of an action; `None` for deletes and reads.
fn write_of(action: &Action) -> Option<WriteId> {
    match action {
        Action::Put { write, .. } | Action::Update { write, .. } | Action::Pair { write, .. } => Some(*write),
        Action::Delete { .. } | Action::Get { .. } => None,
    }
}

/// The keys that an action puts.
fn keys_of(action: &Action) -> BTreeSet<KeyId> {
    match action {
        Action::Put { key, .. } | Action::Update { key, .. } => BTreeSet::from([*key]),
        Action::Pair { keys, .. } => BTreeSet::from(*keys),
        Action::Delete { .. } | Action::Get { .. } => BTreeSet::new(),
    }
}

/// `phantom`: finds the call behind each told revision. Returns each call's revision, by the call's place.
fn attribute(told: &[Event], calls: &[Call]) -> (BTreeMap<usize, i64>, Vec<Finding>) {
    let mut by_write = BTreeMap::new();
    let mut deletes_by_revision = BTreeMap::new();
    let mut deletes_in_doubt: BTreeMap<KeyId, VecDeque<usize>> = BTreeMap::new();
    for (place, call) in calls.iter().enumerate() {
        if let Some(write) = write_of(&call.action) {
            by_write.insert(write, place);
        }
        match (call.action, call.outcome) {
            (Action::Delete { key }, Outcome::Wrote { revision }) => {
                deletes_by_revision.insert((revision, key), place);
            }
            // In order of start: the earliest has the lowest floor, so it fits wherever a later one would.
            (Action::Delete { key }, Outcome::Unknown) => {
                deletes_in_doubt.entry(key).or_default().push_back(place)
            }
            _ => {}
        }
    }
    let mut attributed = BTreeMap::new();
    let mut findings = Vec::new();
    for group in told.chunk_by(|one, next| one.revision == next.revision) {
        let first = &group[0];
        let revision = first.revision;
        let place = match first.put {
            Some(put) => by_write.get(&put.write).copied().filter(|place| {
                let keys: BTreeSet<KeyId> = group.iter().map(|event| event.key).collect();
                let whole = group.iter().all(|event| event.put.is_some_and(|other| other.write == put.write));
                whole && keys.len() == group.len() && keys == keys_of(&calls[*place].action)
            }),
            None if group.len() == 1 => deletes_by_revision
                .get(&(revision, first.key))
                .copied()
                .or_else(|| deletes_in_doubt.get_mut(&first.key)?.pop_front()),
            None => None,
        };
        match place {
            None => {
                findings.push(Finding::new(
                    "phantom",
                    format!("{revision} is no call's whole effect: {group:?}"),
                ));
            }
            Some(place) => {
                if let Some(before) = attributed.insert(place, revision) {
                    let call = calls[place].action;
                    findings.push(Finding::new(
                        "phantom",
                        format!("{call:?} has happened at {before} and {revision}"),
                    ));
                }
            }
        }
    }
    findings.truncate(FINDINGS_MAX);
    (attributed, findings)
}

/// `lost`, `reused`, `moved`, `refused`.
fn acknowledged(calls: &[Call], attributed: &BTreeMap<usize, i64>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut owners: BTreeMap<i64, usize> =
        attributed.iter().map(|(place, revision)| (*revision, *place)).collect();
    for (place, call) in calls.iter().enumerate() {
        let action = call.action;
        let told = attributed.get(&place);
        match (call.outcome, told) {
            (Outcome::Wrote { revision }, Some(told)) if *told != revision => findings.push(Finding::new(
                "moved",
                format!("{action:?} was acknowledged at {revision}, is told at {told}"),
            )),
            (Outcome::Wrote { revision }, None) => match owners.get(&revision) {
                Some(owner) => findings.push(Finding::new(
                    "reused",
                    format!("{action:?} was acknowledged at {revision}, which is {:?}", calls[*owner]),
                )),
                None => {
                    findings.push(Finding::new("lost", format!("{action:?} was acknowledged at {revision}")))
                }
            },
            (Outcome::Read { revision, .. }, Some(told)) => findings.push(Finding::new(
                "refused",
                format!("{action:?} only read at {revision}, but is told at {told}"),
            )),
            _ => {}
        }
        if let Outcome::Wrote { revision } = call.outcome {
            owners.entry(revision).or_insert(place);
        }
    }
    findings.truncate(FINDINGS_MAX);
    findings
}

/// `back`.
fn real_time(base: i64, calls: &[Call], attributed: &BTreeMap<usize, i64>) -> Vec<Finding> {
    let mut ends: Vec<(u64, i64)> = calls
        .iter()
        .filter_map(|call| match call.outcome {
            Outcome::Wrote { revision } | Outcome::Read { revision, .. } => {
                Some((call.ended_nanos, revision))
            }
            Outcome::Unknown => None,
        })
        .collect();
    ends.sort_unstable();
    let mut starts: Vec<usize> = (0..calls.len()).collect();
    starts.sort_unstable_by_key(|place| calls[*place].started_nanos);
    let mut findings = Vec::new();
    let mut ended = ends.into_iter().peekable();
    let mut floor = base;
    for place in starts {
        let call = &calls[place];
        while let Some((_, revision)) = ended.next_if(|(at, _)| *at < call.started_nanos) {
            floor = floor.max(revision);
        }
        let (revision, least) = match (call.outcome, attributed.get(&place)) {
            (Outcome::Wrote { revision }, _) => (revision, floor + 1),
            (Outcome::Read { revision, .. }, _) => (revision, floor),
            (Outcome::Unknown, Some(revision)) => (*revision, floor + 1),
            (Outcome::Unknown, None) => continue,
        };
        if revision < least {
            let action = call.action;
            findings.push(Finding::new(
                "back",
                format!("{action:?} is at {revision}, {floor} was answered before"),
            ));
        }
    }
    findings.truncate(FINDINGS_MAX);
    findings
}

/// `read`, `ahead`.
fn reads(history: &History, head: i64, calls: &[Call]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for call in calls {
        let Outcome::Read { revision, row } = call.outcome else { continue };
        let key = match call.action {
            Action::Get { key } | Action::Update { key, .. } | Action::Delete { key } => key,
            Action::Put { .. } | Action::Pair { .. } => continue,
        };
        if revision > head {
            findings
                .push(Finding::new("ahead", format!("key {key} was read at {revision}, the head is {head}")));
            continue;
        }
        let want = history.row_at(key, revision);
        if row != want {
            findings.push(Finding::new("read", format!("key {key} at {revision} was {row:?}, is {want:?}")));
        }
    }
    findings.truncate(FINDINGS_MAX);
    findings
}

/// `compare`.
fn compares(history: &History, calls: &[Call]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for call in calls {
        let Action::Update { key, expected, .. } = call.action else { continue };
        let (before, wrote) = match call.outcome {
            Outcome::Wrote { revision } => (revision - 1, true),
            Outcome::Read { revision, .. } => (revision, false),
            Outcome::Unknown => continue,
        };
        let found = history.row_at(key, before).map_or(0, |row| row.mod_revision);
        if wrote != (found == expected) {
            let verb = if wrote { "succeeded" } else { "failed" };
            let detail =
                format!("key {key} expected at {expected}: {verb}, but at {before} it is at {found}");
            findings.push(Finding::new("compare", detail));
        }
    }
    findings.truncate(FINDINGS_MAX);
    findings
}

fn in_doubt(calls: &[Call], attributed: &BTreeMap<usize, i64>) -> InDoubt {
    let mut found = InDoubt::default();
    for (place, call) in calls.iter().enumerate() {
        if call.outcome == Outcome::Unknown && !matches!(call.action, Action::Get { .. }) {
            if attributed.contains_key(&place) {
                found.applied += 1;
            } else {
                found.lost += 1;
            }
        }
    }
    found
}

/// `watch`: the first place where `seen`, followed from `from` on, departs from the history up to `head`.
pub(crate) fn followed(history: &History, from: i64, head: i64, seen: &[Event]) -> Option<Finding> {
    let want = history.events(from, head);
    let at = (0..want.len().max(seen.len())).find(|at| want.get(*at) != seen.get(*at))?;
    let detail =
        format!("from {from}, event {at}: {:?} was told, {:?} has happened", seen.get(at), want.get(at));
    Some(Finding::new("watch", detail))
}

/// `rows`: the first place where a list at `revision` departs from the history.
pub(crate) fn listed(history: &History, revision: i64, rows: &[(KeyId, Row)]) -> Option<Finding> {
    let want = history.rows_at(revision);
    let at = (0..want.len().max(rows.len())).find(|at| want.get(*at) != rows.get(*at))?;
    let detail = format!("at {revision}, row {at}: {:?} was listed, it is {:?}", rows.get(at), want.get(at));
    Some(Finding::new("rows", detail))
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
