//! Counts equal lists: an answer's count, its pairs and whether there are more agree with each other.

use crate::checkers::{Case, Violation, describe};
use crate::history::Outcome;
use crate::op::{Answer, OpAnswer, Range, RangeAnswer, Request, Txn, TxnAnswer, TxnOp};

/// Answers to ranges that do not agree with themselves.
pub(crate) fn counts(case: &Case<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for operation in &case.history.operations {
        let Outcome::Answered(answer) = &operation.outcome else { continue };
        let mut pairs = Vec::new();
        match (&operation.request, answer) {
            (Request::Range(range) | Request::RangeStream(range), Answer::Range(answer)) => {
                pairs.push((range, answer));
            }
            (Request::Txn(txn), Answer::Txn(answer)) => inside(txn, answer, &mut pairs),
            _ => {}
        }
        for (range, answer) in pairs {
            if let Some(message) = disagreement(range, answer) {
                let window = vec![describe::operation(operation)];
                violations.push(case.violation("counts", message, Some(answer.revision), window));
            }
        }
    }
    violations
}

fn inside<'a>(txn: &'a Txn, answer: &'a TxnAnswer, pairs: &mut Vec<(&'a Range, &'a RangeAnswer)>) {
    let branch = if answer.succeeded { &txn.success } else { &txn.failure };
    for operation in branch.iter().zip(&answer.responses) {
        match operation {
            (TxnOp::Range(range), OpAnswer::Range(answer)) => pairs.push((range, answer)),
            (TxnOp::Txn(txn), OpAnswer::Txn(answer)) => inside(txn, answer, pairs),
            _ => {}
        }
    }
}

fn disagreement(range: &Range, answer: &RangeAnswer) -> Option<String> {
    let listed = i64::try_from(answer.kvs.len()).expect("an answer's pairs fit in memory");
    let (count, more) = (answer.count, answer.more);
    if range.count_only {
        return (listed > 0 || more).then(|| format!("{listed} pairs where the count alone was asked for"));
    }
    let filters = [
        range.min_mod_revision,
        range.max_mod_revision,
        range.min_create_revision,
        range.max_create_revision,
    ];
    let filtered = filters.iter().any(|filter| *filter != 0);
    if listed > count || (range.limit > 0 && listed > range.limit) {
        return Some(format!("{listed} pairs with a count of {count} and a limit of {}", range.limit));
    }
    if more && (listed != range.limit || (!filtered && count <= listed)) {
        return Some(format!(
            "more than {listed} pairs with a count of {count} and a limit of {}",
            range.limit
        ));
    }
    (!more && !filtered && listed != count)
        .then(|| format!("{listed} pairs, no more, and a count of {count}"))
}

#[cfg(test)]
mod tests {
    use crate::checkers::testing::{answer_of, found};
    use crate::op::{Answer, RangeAnswer};

    fn corrupted(why: &str, corrupt: fn(&mut RangeAnswer)) {
        found("counts", why, |history| match answer_of(history, 3) {
            Answer::Range(answer) => corrupt(answer),
            other => panic!("{other:?} is no range's"),
        });
    }

    #[test]
    fn answers_that_disagree_with_themselves() {
        corrupted("one pair is missing", |answer| {
            answer.kvs.pop();
        });
        corrupted("one is counted too many", |answer| answer.count += 1);
        corrupted("more without a limit", |answer| answer.more = true);
    }
}
