//! Listed: a list of leases has every lease that must be there and none that can't.

use crate::checkers::leases::violation;
use crate::checkers::{Case, Violation};
use crate::history::Outcome;
use crate::op::Answer;

/// Lists that are wrong.
pub(crate) fn listed(case: &Case<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for operation in &case.history.operations {
        let Outcome::Answered(Answer::Leases { ids, .. }) = &operation.outcome else { continue };
        let mut nameless = 0;
        for id in ids {
            if !case.book.lives.contains_key(id) {
                nameless += 1;
            } else if !case.book.may_be_there(*id, operation) {
                let message = format!("lease {id} was listed, though it was gone or not granted yet");
                violations.push(violation(case, "lease_listed", message, *id, operation.completed));
            }
        }
        for id in case.book.lives.keys().filter(|id| !ids.contains(id)) {
            if !case.book.may_be_away(*id, operation) {
                let message = format!("lease {id} was not listed, though it was there");
                violations.push(violation(case, "lease_listed", message, *id, operation.completed));
            }
        }
        if nameless > case.book.nameless {
            let message = format!("{nameless} leases were listed that nobody was granted");
            violations.push(violation(case, "lease_listed", message, 0, operation.completed));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::checkers::testing::{answer_of, found};
    use crate::op::Answer;

    fn ids(answer: &mut Answer) -> &mut Vec<i64> {
        match answer {
            Answer::Leases { ids, .. } => ids,
            other => panic!("{other:?} is no list of leases"),
        }
    }

    #[test]
    fn lists_that_are_wrong() {
        found("lease_listed", "a lease that nobody asked for", |history| {
            ids(answer_of(history, 12)).push(99)
        });
        found("lease_listed", "a lease that is there is not listed", |history| {
            history.operations[12].invoked.time = Duration::from_secs(7);
            history.operations[12].completed.time = Duration::from_secs(7);
        });
    }
}
