//! Real time is respected: a linearizable answer names no revision older than one that somebody had been told before
//! it was asked for, a write's is newer than all of those, and no answer names one that was asked for only later.

use crate::checkers::facts::{is_serializable, written};
use crate::checkers::replay::Replayed;
use crate::checkers::{Case, Violation, describe};
use crate::history::{Operation, Outcome};

/// Operations out of their time.
pub(crate) fn real_time(case: &Case<'_>, replayed: &Replayed) -> Vec<Violation> {
    let mut violations = Vec::new();
    for operation in &case.history.operations {
        let Outcome::Answered(answer) = &operation.outcome else { continue };
        let named = answer.revision();
        let low = case.bounds.low(operation.invoked.order);
        let high = case.bounds.high(operation.completed.order);
        if written(answer).is_some() && named <= low {
            let message = format!("a write at revision {named} was asked for when {low} was known");
            violations.push(violation(case, message, operation, named));
        } else if !is_serializable(&operation.request) && named < low {
            let message =
                format!("an answer names revision {named}; {low} was known before it was asked for");
            violations.push(violation(case, message, operation, named));
        } else if named > high {
            let message = format!("an answer names revision {named} when there was none after {high} yet");
            violations.push(violation(case, message, operation, named));
        }
    }
    for (operation, revision) in &replayed.found {
        let low = case.bounds.low(operation.invoked.order);
        if *revision <= low {
            let message = format!("revision {revision} was asked for when {low} was known");
            violations.push(violation(case, message, operation, *revision));
        }
    }
    violations
}

fn violation(case: &Case<'_>, message: String, operation: &Operation, revision: i64) -> Violation {
    let mut window = vec![describe::operation(operation)];
    window.extend(describe::window(case.history, operation.invoked.order, operation.completed.order));
    case.violation("real_time", message, Some(revision), window)
}

#[cfg(test)]
mod tests {
    use crate::checkers::testing::{answer_of, found};
    use crate::op::Answer;

    #[test]
    fn operations_out_of_their_time() {
        found("real_time", "a write was told revision 3 before the one at 2 was asked for", |history| {
            // The put at revision 3 now comes, as a whole, before that at 2.
            let (first, second) = (history.operations[1].clone(), history.operations[2].clone());
            (history.operations[1].invoked, history.operations[1].completed) =
                (second.invoked, second.completed);
            (history.operations[2].invoked, history.operations[2].completed) =
                (first.invoked, first.completed);
            history.operations.swap(1, 2);
        });
        found("real_time", "what a lost write did was known before it was asked for", |history| {
            match answer_of(history, 9) {
                Answer::Range(answer) => answer.revision = 6,
                other => panic!("{other:?} is no range's"),
            }
        });
        found("real_time", "a read of the past", |history| {
            // Asked for at the end, answered as in the middle.
            let (invoked, completed) = (history.operations[13].invoked, history.operations[13].completed);
            (history.operations[3].invoked, history.operations[3].completed) = (invoked, completed);
        });
    }
}
