//! Compaction is exact: what is below it is refused, everything else is not, and a compaction that is not newer than
//! the last is refused.

use crate::checkers::watch::Watch;
use crate::checkers::{Case, Violation, describe};
use crate::history::{Operation, Outcome};
use crate::model::refuse;
use crate::op::Request;

const GUARANTEE: &str = "compaction";

/// Requests that were answered below a compaction, or refused without one.
pub(crate) fn requests(case: &Case<'_>) -> Vec<Violation> {
    let refusal = refuse::compacted();
    let mut violations = Vec::new();
    for operation in &case.history.operations {
        // The oldest revision that the request needs to be above the compaction, or at it.
        let needs = match &operation.request {
            Request::Range(range) | Request::RangeStream(range) if range.revision > 0 => range.revision,
            Request::Compact { revision, .. } => revision - 1,
            _ => continue,
        };
        let low = case.compactions.low(operation.invoked.order);
        let high = case.compactions.during(operation).last().copied().unwrap_or(low);
        let found = match &operation.outcome {
            Outcome::Answered(_) if needs < low => format!("answered, though {low} was compacted before"),
            Outcome::Refused(found) if *found == refusal && needs >= high => {
                format!("refused as compacted, though nothing above {high} was")
            }
            _ => continue,
        };
        violations.push(violation(case, found, operation));
    }
    violations
}

fn violation(case: &Case<'_>, message: String, operation: &Operation) -> Violation {
    let mut window = vec![describe::operation(operation)];
    let compactions = case.history.operations.iter();
    let compactions = compactions.filter(|found| matches!(found.request, Request::Compact { .. }));
    let before = compactions.filter(|found| found.invoked.order < operation.completed.order);
    let before: Vec<String> = before.map(describe::operation).collect();
    window.extend(before.into_iter().rev().take(6));
    case.violation(GUARANTEE, message, None, window)
}

/// What `watch` was told although its first revision was compacted before it was asked for.
pub(crate) fn watched(case: &Case<'_>, watch: &Watch<'_>) -> Option<Violation> {
    let first = watch.create.start_revision;
    let low = case.compactions.low(watch.asked.order);
    if first <= 0 || first >= low || watch.id().is_none() {
        return None;
    }
    if let Some((stamp, event)) = watch.told().next() {
        let message = format!("a watch from revision {first} was told of events, though {low} was compacted");
        let revision = Some(event.kv.mod_revision);
        return Some(watch.violation(case, GUARANTEE, message, revision, stamp.order));
    }
    let stayed = watch.drained && watch.canceled.is_none() && watch.leaving.is_none();
    stayed.then(|| {
        let message = format!("a watch from revision {first} did not end, though {low} was compacted");
        watch.violation(case, GUARANTEE, message, Some(first), u64::MAX)
    })
}

#[cfg(test)]
mod tests {
    use crate::checkers::testing::{found, watch_create};
    use crate::history::Outcome;
    use crate::model::refuse;
    use crate::op::{Answer, RangeAnswer, Request};

    #[test]
    fn compactions_that_are_not_exact() {
        found("compaction", "a read below the compaction is answered", |history| {
            history.operations[8].outcome = Outcome::Answered(Answer::Range(RangeAnswer::default()));
        });
        found("compaction", "a read above the compaction is refused", |history| {
            history.operations[9].outcome = Outcome::Refused(refuse::compacted());
        });
        found("compaction", "the same compaction twice", |history| {
            let mut again = history.operations[7].clone();
            (again.invoked, again.completed) =
                (history.operations[9].invoked, history.operations[9].completed);
            history.operations[9] = again;
        });
        found("compaction", "a compaction is refused that is newer than any", |history| {
            let Request::Compact { .. } = history.operations[7].request else { panic!("no compaction") };
            history.operations[7].outcome = Outcome::Refused(refuse::compacted());
        });
        found("compaction", "a watch from below goes on", |history| {
            watch_create(history, 2).start_revision = 2;
        });
    }
}
