//! Complete: every event that matches comes, as it happened, and nothing else, from the first revision asked for up
//! to the last one told, promised by a progress answer, or due.

use crate::checkers::watch::Watch;
use crate::checkers::{Case, Violation};
use crate::model::Model;
use crate::op::Event;

/// The first event of `watch` that is missing, wrong, or not its own.
pub(crate) fn complete(case: &Case<'_>, model: &Model, watch: &Watch<'_>) -> Option<Violation> {
    const GUARANTEE: &str = "watch_complete";
    let (created, answer) = watch.created?;
    if answer.canceled {
        return None;
    }
    let told: Vec<_> = watch.told().filter(|(_, event)| event.kv.mod_revision <= model.revision()).collect();
    let first_told = told.first().map(|(_, event)| event.kv.mod_revision);
    let first = if watch.create.start_revision > 0 {
        watch.create.start_revision
    } else {
        // It begins at some moment between the request and the answer; what comes after the answer is all due.
        let after = answer.revision + 1;
        let low = case.bounds.low(watch.asked.order) + 1;
        if let Some(revision) = first_told.filter(|revision| *revision < low) {
            let message = format!("a watch from now on was told of revision {revision}, which was before");
            return Some(watch.violation(case, GUARANTEE, message, Some(revision), created.order));
        }
        first_told.map_or(after, |revision| revision.min(after))
    };
    let horizon = horizon(case, watch, &told).min(model.revision());
    let mut due = watch.due(model, first).take_while(|event| event.kv.mod_revision <= horizon);
    for (stamp, event) in &told {
        let revision = event.kv.mod_revision;
        let found = match due.next() {
            Some(expected) if same(expected, event) => continue,
            Some(expected) if expected.kv.mod_revision < revision => {
                let missing = expected.kv.mod_revision;
                format!("the event of revision {missing} on {:?} is missing", expected.kv.key)
            }
            Some(expected) if expected.kv.mod_revision == revision => format!(
                "revision {revision} came as {:?} where it was {:?}",
                (event.deleted, &event.kv),
                (expected.deleted, &expected.kv)
            ),
            _ => format!("an event of revision {revision} on {:?} came that was not due", event.kv.key),
        };
        return Some(watch.violation(case, GUARANTEE, found, Some(revision), stamp.order));
    }
    let missing = due.next()?;
    let revision = missing.kv.mod_revision;
    if watch.is_cut() && revision == watch.last_told() {
        return None;
    }
    let message = format!(
        "the event of revision {revision} on {:?} is missing, though due at {horizon}",
        missing.kv.key
    );
    Some(watch.violation(case, GUARANTEE, message, Some(revision), u64::MAX))
}

/// The revision up to which everything must have come.
fn horizon(case: &Case<'_>, watch: &Watch<'_>, told: &[(crate::history::Stamp, &Event)]) -> i64 {
    let told = told.iter().map(|(_, event)| event.kv.mod_revision).max().unwrap_or(0);
    let promised = watch.progress().map(|(_, revision)| revision).max().unwrap_or(0);
    let stayed = watch.drained && watch.leaving.is_none() && watch.canceled.is_none();
    let due = if stayed { case.history.final_revision.unwrap_or(0) } else { 0 };
    told.max(promised).max(due)
}

fn same(expected: &Event, told: &Event) -> bool {
    expected.deleted == told.deleted && expected.kv == told.kv
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use crate::checkers::testing::{found, watch_create};

    #[test]
    fn watches_that_are_not_complete() {
        found("watch_complete", "a gap between history and live", |history| {
            history.streams[0].messages.remove(2);
        });
        found("watch_complete", "the last one is missing, and the stream says it is done", |history| {
            history.streams[2].messages.remove(2);
        });
        found("watch_complete", "one of a revision's two events is missing", |history| {
            history.streams[0].messages[3].1.events.pop();
        });
        found("watch_complete", "another value", |history| {
            history.streams[0].messages[1].1.events[0].kv.value = Bytes::from_static(b"other");
        });
        found("watch_complete", "a key that was not asked for", |history| {
            let create = watch_create(history, 0);
            (create.key, create.range_end) = (Bytes::from_static(b"b"), Bytes::new());
        });
        found("watch_complete", "a watch from now on is told of the past", |history| {
            watch_create(history, 1).start_revision = 0;
            history.streams[1].messages[1].1 = history.streams[0].messages[1].1.clone();
        });
        found("watch_complete", "the witness is not told of a write", |history| {
            history.witness[0].messages.remove(2);
        });
    }
}
