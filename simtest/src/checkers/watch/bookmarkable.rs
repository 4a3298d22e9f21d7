//! Bookmarkable: a watch that goes on after a progress answer has missed nothing.

use crate::checkers::watch::{Watch, resumable};
use crate::checkers::{Case, Violation};
use crate::model::Model;

/// Watches that went on after a progress answer and were told something twice, or not at all.
pub(crate) fn bookmarkable(case: &Case<'_>, model: &Model, watches: &[Watch<'_>]) -> Vec<Violation> {
    resumable::across(case, model, watches, true, "watch_bookmarkable")
}

#[cfg(test)]
mod tests {
    use crate::checkers::testing::found;

    #[test]
    fn bookmarks_that_skip() {
        found("watch_bookmarkable", "an event before the bookmark was never told", |history| {
            history.streams[1].messages.remove(1);
        });
    }
}
