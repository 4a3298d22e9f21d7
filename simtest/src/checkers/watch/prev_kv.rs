//! prev_kv: an event that changes or deletes a pair brings the pair as it was, if that was asked for and is not
//! compacted; no other event brings one. A watch whose end the client has asked for may be told without.

use crate::checkers::watch::Watch;
use crate::checkers::{Case, Violation};
use crate::model::Model;

/// The first event of `watch` with the wrong pair, or without the right one.
pub(crate) fn prev_kv(case: &Case<'_>, model: &Model, watch: &Watch<'_>) -> Option<Violation> {
    for (stamp, event) in watch.told() {
        let revision = event.kv.mod_revision;
        let mut happened = model.events(revision).iter();
        let Some(happened) = happened.find(|happened| happened.kv.key == event.kv.key) else { continue };
        let expected = happened.prev_kv.as_ref().filter(|_| watch.create.prev_kv);
        if event.prev_kv.as_ref() == expected {
            continue;
        }
        let compacted = case.compactions.high(stamp.order) > revision - 1;
        // Once the end of a watch is asked for, etcd no longer looks the pairs up.
        let left = watch.leaving.is_some_and(|asked| asked < stamp);
        if event.prev_kv.is_some() || !(compacted || left) {
            let told = &event.prev_kv;
            let message =
                format!("revision {revision} came with {told:?} as it was, where it was {expected:?}");
            return Some(watch.violation(case, "watch_prev_kv", message, Some(revision), stamp.order));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use crate::checkers::testing::{found, watch_create};

    #[test]
    fn pairs_as_they_were_not() {
        found("watch_prev_kv", "it is missing, and not compacted", |history| {
            history.streams[1].messages[1].1.events[0].prev_kv = None;
        });
        found("watch_prev_kv", "it is another version", |history| {
            let event = &mut history.streams[0].messages[3].1.events[0];
            event.prev_kv.as_mut().expect("there was one").version += 1;
        });
        found("watch_prev_kv", "it was not asked for", |history| watch_create(history, 0).prev_kv = false);
    }
}
