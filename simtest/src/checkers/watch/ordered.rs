//! Ordered: events come by revision.

use crate::checkers::watch::Watch;
use crate::checkers::{Case, Violation};

/// The first event of `watch` that is older than one before it.
pub(crate) fn ordered(case: &Case<'_>, watch: &Watch<'_>) -> Option<Violation> {
    let mut newest = 0;
    for (stamp, event) in watch.told() {
        let revision = event.kv.mod_revision;
        if revision < newest {
            let message = format!("an event of revision {revision} came after one of {newest}");
            return Some(watch.violation(case, "watch_ordered", message, Some(revision), stamp.order));
        }
        newest = revision;
    }
    None
}

#[cfg(test)]
mod tests {
    use crate::checkers::testing::found;

    #[test]
    fn events_out_of_order() {
        found("watch_ordered", "two messages change places", |history| {
            let messages = &mut history.streams[0].messages;
            let first = messages[1].1.clone();
            messages[1].1 = std::mem::replace(&mut messages[2].1, first);
        });
    }
}
