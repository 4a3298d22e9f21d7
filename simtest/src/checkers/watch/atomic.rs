//! Atomic: the events of a revision come in one message, but where fragments were asked for and are marked.

use crate::checkers::watch::Watch;
use crate::checkers::{Case, Violation};

/// The first revision that `watch` was told in two messages.
pub(crate) fn atomic(case: &Case<'_>, watch: &Watch<'_>) -> Option<Violation> {
    let mut before: Option<(i64, bool)> = None;
    for (stamp, message) in watch.messages.iter().filter(|(_, message)| !message.events.is_empty()) {
        let first = message.events[0].kv.mod_revision;
        let last = message.events[message.events.len() - 1].kv.mod_revision;
        if let Some((revision, cut)) = before
            && revision == first
            && !cut
        {
            let message = format!("the events of revision {revision} came in two messages");
            return Some(watch.violation(case, "watch_atomic", message, Some(revision), stamp.order));
        }
        if message.fragment && !watch.create.fragment {
            let message = "a fragment came that was not asked for".to_owned();
            return Some(watch.violation(case, "watch_atomic", message, Some(first), stamp.order));
        }
        before = Some((last, message.fragment));
    }
    None
}

#[cfg(test)]
mod tests {
    use crate::checkers::testing::{found, watch_create};

    #[test]
    fn revisions_in_two_messages() {
        found("watch_atomic", "revision 4 changes two keys and comes in two messages", |history| {
            let messages = &mut history.streams[0].messages;
            let mut rest = messages[3].clone();
            rest.1.events.remove(0);
            messages[3].1.events.truncate(1);
            messages.insert(4, rest);
        });
        found("watch_atomic", "a fragment that was not asked for", |history| {
            watch_create(history, 0).fragment = false;
            history.streams[0].messages[3].1.fragment = true;
        });
    }
}
