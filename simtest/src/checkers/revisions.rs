//! Revisions are unique, dense, and never go back.

use std::collections::BTreeMap;

use crate::checkers::facts::{is_serializable, written};
use crate::checkers::{Case, Violation, describe};
use crate::history::{Operation, Outcome};

/// Writes that were told the same revision.
pub(crate) fn unique(case: &Case<'_>) -> Vec<Violation> {
    let mut claims: BTreeMap<i64, &Operation> = BTreeMap::new();
    let mut violations = Vec::new();
    for operation in &case.history.operations {
        let Outcome::Answered(answer) = &operation.outcome else { continue };
        let Some(revision) = written(answer) else { continue };
        if let Some(other) = claims.insert(revision, operation) {
            let message = format!("two writes were told revision {revision}");
            let window = vec![describe::operation(other), describe::operation(operation)];
            violations.push(case.violation("revisions_unique", message, Some(revision), window));
        }
    }
    violations
}

/// The first revision, up to the last that anybody was told of, that neither a write nor the witness has.
pub(crate) fn dense(case: &Case<'_>) -> Option<Violation> {
    let mut known: BTreeMap<i64, String> = BTreeMap::new();
    for operation in &case.history.operations {
        let Outcome::Answered(answer) = &operation.outcome else { continue };
        if let Some(revision) = written(answer) {
            known.entry(revision).or_insert_with(|| describe::operation(operation));
        }
    }
    let messages = case.history.witness.iter().flat_map(|stream| &stream.messages);
    for (stamp, message) in messages {
        for event in &message.events {
            known.entry(event.kv.mod_revision).or_insert_with(|| describe::message(stamp, message));
        }
    }
    let mut before = (case.history.first_revision, "the revision before the history".to_owned());
    for (revision, line) in known {
        if revision > before.0 + 1 {
            let missing = before.0 + 1;
            let message =
                format!("revision {missing} changed nothing: neither a write nor the witness has it");
            let window = vec![before.1, line];
            return Some(case.violation("revisions_dense", message, Some(missing), window));
        }
        before = (revision, line);
    }
    None
}

/// Answers of one client after the other that name ever smaller revisions.
pub(crate) fn never_back(case: &Case<'_>) -> Vec<Violation> {
    let mut newest: BTreeMap<u32, (i64, &Operation)> = BTreeMap::new();
    let mut violations = Vec::new();
    for operation in &case.history.operations {
        let Outcome::Answered(answer) = &operation.outcome else { continue };
        if is_serializable(&operation.request) {
            continue;
        }
        let revision = answer.revision();
        let before = newest.entry(operation.client).or_insert((revision, operation));
        if revision < before.0 {
            let message = format!("a client was told revision {revision} after {}", before.0);
            let window = vec![describe::operation(before.1), describe::operation(operation)];
            violations.push(case.violation("revisions_never_back", message, Some(revision), window));
        }
        *before = (revision, operation);
    }
    violations
}

#[cfg(test)]
mod tests {
    use crate::checkers::testing::{answer_of, found};
    use crate::op::Answer;

    #[test]
    fn revisions() {
        found("revisions_unique", "two puts at revision 2", |history| match answer_of(history, 2) {
            Answer::Put(answer) => answer.revision = 2,
            other => panic!("{other:?} is no put's"),
        });
        found("revisions_dense", "the witness and the writer know nothing of 5", |history| {
            history.operations.remove(6);
            for stream in &mut history.witness {
                stream.messages.retain(|(_, message)| message.revision != 5);
            }
        });
        found("revisions_never_back", "a read of revision 2 after a write at 3", |history| {
            match answer_of(history, 3) {
                Answer::Range(answer) => answer.revision = 2,
                other => panic!("{other:?} is no range's"),
            }
        });
    }
}
