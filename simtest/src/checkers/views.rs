//! The views in which a request can have taken effect, for the model to be asked in.

use std::collections::BTreeMap;

use crate::checkers::facts::{Compactions, leases_named};
use crate::checkers::leases::book::Book;
use crate::history::Operation;
use crate::model::View;

/// Every combination of compaction and leases that can have held while `operation` was under way, the likely ones
/// first; at revision 0, which is to be filled in.
pub(crate) fn possible(operation: &Operation, compactions: &Compactions, book: &Book) -> Vec<View> {
    let mut sure = BTreeMap::new();
    let mut open = Vec::new();
    for lease in leases_named(&operation.request) {
        let ttl = book.lives.get(&lease).map_or(0, |life| life.ttl);
        match (book.may_be_there(lease, operation), book.may_be_away(lease, operation)) {
            (true, true) => open.push((lease, ttl)),
            (true, false) => {
                sure.insert(lease, ttl);
            }
            // Neither can only be if something is wrong; then the answer will not fit.
            (false, _) => {}
        }
    }
    // All of the open ones there; none there; all but one. Which of several is missing does not change a refusal.
    let mut choices = vec![with(&sure, &open, None)];
    if !open.is_empty() {
        choices.push(sure.clone());
    }
    if open.len() > 1 {
        choices.extend((0..open.len()).map(|away| with(&sure, &open, Some(away))));
    }
    let mut views = Vec::new();
    for compacted in compactions.during(operation) {
        for leases in &choices {
            views.push(View { revision: 0, compacted, leases: leases.clone() });
        }
    }
    views
}

fn with(sure: &BTreeMap<i64, i64>, open: &[(i64, i64)], away: Option<usize>) -> BTreeMap<i64, i64> {
    let mut leases = sure.clone();
    leases.extend(open.iter().enumerate().filter(|(at, _)| Some(*at) != away).map(|(_, lease)| *lease));
    leases
}
