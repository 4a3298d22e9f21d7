//! Resumable: a watch that goes on after the last event it was told, on another stream or member, is told
//! everything once over both.

use crate::checkers::watch::Watch;
use crate::checkers::{Case, Violation};
use crate::model::Model;

/// Watches that went on after an event and were told something twice, or not at all.
pub(crate) fn resumable(case: &Case<'_>, model: &Model, watches: &[Watch<'_>]) -> Vec<Violation> {
    across(case, model, watches, false, "watch_resumable")
}

/// Judges every watch that went on, after a progress answer if `bookmark`, together with the one before it.
pub(super) fn across(
    case: &Case<'_>,
    model: &Model,
    watches: &[Watch<'_>],
    bookmark: bool,
    guarantee: &'static str,
) -> Vec<Violation> {
    let find = |place| watches.iter().find(|watch| watch.place == Some(place));
    let mut violations = Vec::new();
    for resumed in case.history.resumed.iter().filter(|resumed| resumed.bookmark == bookmark) {
        let (Some(from), Some(to)) = (find(resumed.from), find(resumed.to)) else { continue };
        let first = to.create.start_revision;
        if let Some((stamp, event)) = to.told().find(|(_, event)| {
            let revision = event.kv.mod_revision;
            revision < first || (revision <= from.last_told() && !from.is_cut())
        }) {
            let revision = event.kv.mod_revision;
            let message = format!("a watch that went on from revision {first} was told of {revision} again");
            violations.push(to.violation(case, guarantee, message, Some(revision), stamp.order));
            continue;
        }
        // Between what was told before and where it went on nothing may have been due.
        let told = from.last_told();
        if told == 0 && from.create.start_revision == 0 {
            continue;
        }
        let next = (told + 1).max(from.create.start_revision);
        let skipped = from.due(model, next).find(|event| event.kv.mod_revision < first);
        if let Some(event) = skipped {
            let revision = event.kv.mod_revision;
            let message = format!("a watch went on from revision {first} and was never told of {revision}");
            violations.push(from.violation(case, guarantee, message, Some(revision), u64::MAX));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use crate::checkers::testing::{found, watch_create};

    #[test]
    fn watches_that_go_on_wrongly() {
        found("watch_resumable", "it is told again", |history| {
            watch_create(history, 1).start_revision = 5;
            history.streams[1].messages[1].1 = history.streams[0].messages[3].1.clone();
        });
        found("watch_resumable", "a revision lies between", |history| {
            history.streams[0].messages.remove(3);
        });
    }
}
