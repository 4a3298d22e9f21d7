//! Progress: after a progress answer nothing at or below its revision comes, and it names no revision that there was
//! not yet. That everything at or below it has come is a matter of completeness.

use crate::checkers::watch::Watch;
use crate::checkers::{Case, Violation};

/// The first progress answer of `watch` that promised too much.
pub(crate) fn progress(case: &Case<'_>, watch: &Watch<'_>) -> Option<Violation> {
    const GUARANTEE: &str = "watch_progress";
    let mut promised = 0;
    for (stamp, message) in &watch.messages {
        if message.events.is_empty() {
            let high = case.bounds.high(stamp.order);
            if message.revision > high {
                let text =
                    format!("progress to revision {} when there was none after {high} yet", message.revision);
                return Some(watch.violation(case, GUARANTEE, text, Some(message.revision), stamp.order));
            }
            promised = promised.max(message.revision);
        }
        if let Some(event) = message.events.iter().find(|event| event.kv.mod_revision <= promised) {
            let revision = event.kv.mod_revision;
            let text = format!("an event of revision {revision} came after progress to {promised}");
            return Some(watch.violation(case, GUARANTEE, text, Some(revision), stamp.order));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use crate::checkers::testing::found;
    use crate::op::WatchMessage;

    #[test]
    fn progress_that_promises_too_much() {
        found("watch_progress", "ahead of an event", |history| {
            let messages = &mut history.streams[0].messages;
            let promise = WatchMessage { revision: 4, watch_id: -1, ..WatchMessage::default() };
            messages.insert(3, (messages[2].0, promise));
        });
        found("watch_progress", "a revision that was asked for later", |history| {
            history.streams[0].messages[4].1.revision = 6;
        });
    }
}
