//! Unique: no event comes twice.

use std::collections::BTreeSet;

use crate::checkers::watch::Watch;
use crate::checkers::{Case, Violation};

/// The first event that `watch` was told twice. A revision changes a key once.
pub(crate) fn unique(case: &Case<'_>, watch: &Watch<'_>) -> Option<Violation> {
    let mut told = BTreeSet::new();
    for (stamp, event) in watch.told() {
        let revision = event.kv.mod_revision;
        if !told.insert((revision, &event.kv.key)) {
            let message = format!("the event of revision {revision} on {:?} came twice", event.kv.key);
            return Some(watch.violation(case, "watch_unique", message, Some(revision), stamp.order));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use crate::checkers::testing::found;

    #[test]
    fn events_that_come_twice() {
        found("watch_unique", "a message comes twice", |history| {
            let messages = &mut history.streams[0].messages;
            messages[2].1 = messages[1].1.clone();
        });
    }
}
