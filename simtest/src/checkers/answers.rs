//! Every answer is the model's, at the revision that it names; every refusal is the model's, at some revision and in
//! some view that there can have been.
//! Whether it may name that revision is a matter of real time.

use crate::checkers::facts::{is_serializable, written};
use crate::checkers::replay::Replayed;
use crate::checkers::{Case, Violation, describe, views};
use crate::history::{Operation, Outcome};
use crate::model::{Model, agree};
use crate::op::{Answer, Refusal, Request};

const GUARANTEE: &str = "answers";

/// Most revisions that are tried for a refusal, which names none.
const REVISIONS_MAX: i64 = 2_000;

/// Judges every operation of `case` but acknowledged writes, which the replay has judged.
pub(crate) fn answers(case: &Case<'_>, model: &Model, replayed: &Replayed) -> Vec<Violation> {
    let mut violations = Vec::new();
    for operation in &case.history.operations {
        match &operation.outcome {
            Outcome::Answered(answer) if written(answer).is_none() => {
                violations.extend(answered(case, model, replayed, operation, answer));
            }
            Outcome::Refused(refusal) => violations.extend(refused(case, model, operation, refusal)),
            Outcome::Answered(_) | Outcome::Unknown(_) => {}
        }
    }
    violations
}

fn answered(
    case: &Case<'_>,
    model: &Model,
    replayed: &Replayed,
    operation: &Operation,
    answer: &Answer,
) -> Option<Violation> {
    let named = answer.revision();
    let low = case.bounds.low(operation.invoked.order);
    let high = case.bounds.high(operation.completed.order);
    if named > replayed.last {
        // The witness was not told so far; that is judged elsewhere.
        return None;
    }
    let views = views::possible(operation, &case.compactions, &case.book);
    let mut expectations = Vec::new();
    let revisions = match (&operation.request, answer) {
        // Judged with the leases.
        (Request::Leases, _) => return None,
        (Request::Revoke { .. }, _) if replayed.revokes.contains(&operation.invoked.order) => return None,
        // The keys are looked up at a moment of its own.
        (Request::TimeToLive { keys: true, .. }, _) => {
            low.min(named)..=high.min(low.min(named) + REVISIONS_MAX).min(model.revision())
        }
        _ => named..=named,
    };
    for mut view in views {
        for revision in revisions.clone() {
            view.revision = revision;
            match model.ask(&view, &operation.request) {
                // A write that is answered as if it had changed nothing must have nothing to change.
                Ok((expected, events)) if events.is_empty() && agree::answers(&expected, answer) => {
                    return None;
                }
                Ok((expected, _)) => {
                    expectations.push(format!("at {revision} the model answers {expected:?}"))
                }
                Err(refusal) => {
                    expectations.push(format!("at {revision} the model refuses: {}", refusal.text))
                }
            }
        }
    }
    let message = format!("not the answer that there is at revision {named}");
    Some(wrong(case, GUARANTEE, message, operation, expectations))
}

fn refused(case: &Case<'_>, model: &Model, operation: &Operation, refusal: &Refusal) -> Option<Violation> {
    let low = case.bounds.low(operation.invoked.order);
    let high = case.bounds.high(operation.completed.order).min(model.revision());
    // A stale read may be refused by an older state.
    let low = if is_serializable(&operation.request) { low.min(case.history.first_revision) } else { low };
    let low = low.min(high).max(high - REVISIONS_MAX);
    let mut expectations = Vec::new();
    for mut view in views::possible(operation, &case.compactions, &case.book) {
        for revision in low..=high {
            view.revision = revision;
            match model.ask(&view, &operation.request) {
                Err(expected) if expected == *refusal => return None,
                Err(expected) => {
                    expectations.push(format!("at {revision} the model refuses: {}", expected.text))
                }
                Ok((expected, _)) => {
                    expectations.push(format!("at {revision} the model answers {expected:?}"))
                }
            }
        }
    }
    let message =
        format!("refused with code {} and {:?}, for which there is no reason", refusal.code, refusal.text);
    Some(wrong(case, GUARANTEE, message, operation, expectations))
}

fn wrong(
    case: &Case<'_>,
    guarantee: &'static str,
    message: String,
    operation: &Operation,
    expectations: Vec<String>,
) -> Violation {
    let mut window = vec![describe::operation(operation)];
    window.extend(expectations.into_iter().take(3).map(|line| describe::cut(line, 2_000)));
    window.extend(describe::window(case.history, operation.invoked.order, operation.completed.order));
    let revision = match &operation.outcome {
        Outcome::Answered(answer) => Some(answer.revision()),
        _ => None,
    };
    case.violation(guarantee, message, revision, window)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use crate::checkers::testing::{answer_of, found};
    use crate::history::Outcome;
    use crate::model::refuse;
    use crate::op::Answer;

    #[test]
    fn answers_that_are_not_the_models() {
        found("answers", "another value", |history| match answer_of(history, 3) {
            Answer::Range(answer) => answer.kvs[0].version = 2,
            other => panic!("{other:?} is no range's"),
        });
        found("answers", "a stale read at a revision of its own", |history| match answer_of(history, 9) {
            Answer::Range(answer) => answer.kvs[0].mod_revision = 2,
            other => panic!("{other:?} is no range's"),
        });
        found("answers", "a key that is not on the lease", |history| match answer_of(history, 11) {
            Answer::TimeToLive { keys, .. } => keys.push(Bytes::from_static(b"c")),
            other => panic!("{other:?} is no lease's"),
        });
        found("answers", "a refusal without a reason", |history| {
            history.operations[9].outcome = Outcome::Refused(refuse::future_revision());
        });
        found("answers", "the wrong text", |history| {
            let mut refusal = refuse::compacted();
            refusal.text = "mvcc: required revision has been compacted".to_owned();
            history.operations[8].outcome = Outcome::Refused(refusal);
        });
        found("answers", "a put on a lease that is there is refused", |history| {
            history.operations[2].outcome = Outcome::Refused(refuse::lease_not_found());
        });
    }
}
