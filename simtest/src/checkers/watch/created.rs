//! Created and ended as asked: each create request is answered once, with an id of its own or with the right
//! reason; a watch ends because the client wants it, or because what it needs next was compacted.

use crate::checkers::watch::{Stray, Watch};
use crate::checkers::{Case, Violation, describe};

const GUARANTEE: &str = "watch_created";

/// What is wrong with the answer to `watch`'s create request.
pub(crate) fn created(case: &Case<'_>, watch: &Watch<'_>) -> Option<Violation> {
    let (stamp, answer) = watch.created?;
    let wrong = |message: String| Some(watch.violation(case, GUARANTEE, message, None, stamp.order));
    let high = case.bounds.high(stamp.order);
    if answer.revision > high {
        return wrong(format!(
            "answered at revision {} when there was none after {high} yet",
            answer.revision
        ));
    }
    let expected = refusal(watch);
    if let Some(reason) = expected {
        let refused = answer.canceled && answer.watch_id == -1 && answer.cancel_reason == reason;
        return if refused { None } else { wrong(format!("not refused because {reason:?}")) };
    }
    let wanted = watch.create.watch_id;
    if wanted != 0 && (watch.in_use.contains(&wanted) || watch.half_free.contains(&wanted)) {
        let reason = "mvcc: duplicate watch ID provided on the WatchStream";
        let refused = answer.canceled && answer.watch_id == -1 && answer.cancel_reason == reason;
        if refused {
            return None;
        }
        if watch.in_use.contains(&wanted) {
            return wrong(format!("not refused because {reason:?}"));
        }
    }
    if answer.canceled {
        return wrong(format!("refused because {:?}, for which there is no reason", answer.cancel_reason));
    }
    if wanted != 0 && answer.watch_id != wanted {
        return wrong(format!("id {wanted} was asked for and {} given", answer.watch_id));
    }
    if watch.in_use.contains(&answer.watch_id) || answer.watch_id < 0 {
        return wrong(format!("id {} is in use already, or none", answer.watch_id));
    }
    None
}

/// Why `watch` can't come to be, by its form.
fn refusal(watch: &Watch<'_>) -> Option<&'static str> {
    if watch.create.start_revision < 0 {
        return Some("etcdserver: mvcc: required revision has been compacted");
    }
    let end = &watch.create.range_end[..];
    let is_empty = !end.is_empty() && end != [0] && end <= &watch.first_key()[..];
    is_empty.then_some("mvcc: watcher range is empty")
}

/// What is wrong with `watch`'s end.
pub(crate) fn ended(case: &Case<'_>, watch: &Watch<'_>) -> Option<Violation> {
    let (stamp, end) = watch.canceled?;
    let wrong = |message: String| Some(watch.violation(case, GUARANTEE, message, None, stamp.order));
    if end.compact_revision == 0 {
        let asked = watch.leaving.is_some_and(|asked| asked < stamp);
        return if asked { None } else { wrong("ended, which nobody had asked for".to_owned()) };
    }
    if !end.cancel_reason.is_empty() || end.revision != 0 {
        return wrong("ended by a compaction with a reason or a revision in the header".to_owned());
    }
    let promised = watch.progress().map(|(_, revision)| revision).max().unwrap_or(0);
    let next = watch.create.start_revision.max(watch.last_told() + 1).max(promised + 1);
    if end.compact_revision <= next {
        let compacted = end.compact_revision;
        return wrong(format!("ended by the compaction of {compacted}, though revision {next} was next"));
    }
    if end.compact_revision > case.compactions.high(stamp.order) {
        return wrong(format!("ended by a compaction of {}, which there was not", end.compact_revision));
    }
    None
}

/// Messages that belong to no watch.
pub(crate) fn strays(case: &Case<'_>, strays: &[Stray<'_>]) -> Vec<Violation> {
    let line = |stray: &Stray<'_>| vec![describe::message(&stray.stamp, stray.message)];
    let text = || "a message came for a watch that there is not".to_owned();
    strays.iter().map(|stray| case.violation(GUARANTEE, text(), None, line(stray))).collect()
}

#[cfg(test)]
mod tests {
    use crate::checkers::testing::{found, watch_create};

    #[test]
    fn watches_that_begin_or_end_wrongly() {
        found("watch_created", "another id than asked for", |history| watch_create(history, 0).watch_id = 5);
        found("watch_created", "before the first revision there is", |history| {
            watch_create(history, 0).start_revision = -1;
        });
        found("watch_created", "it ends by itself", |history| {
            let end = &mut history.streams[0].messages[4].1;
            (end.canceled, end.watch_id) = (true, 0);
        });
        found("watch_created", "it ends by a compaction that it is above", |history| {
            let end = &mut history.streams[0].messages[4].1;
            (end.canceled, end.watch_id, end.compact_revision, end.revision) = (true, 0, 3, 0);
        });
        found("watch_created", "a message for another", |history| {
            history.streams[0].messages[2].1.watch_id = 9
        });
    }
}
