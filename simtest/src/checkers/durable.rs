//! Acknowledged data is there at the end: the last read of everything is the model's state.

use std::collections::BTreeMap;

use crate::checkers::{Case, Violation};
use crate::model::Model;
use crate::op::KeyValue;

/// Pairs that are missing, wrong or too many in the last read.
pub(crate) fn durable(case: &Case<'_>, model: &Model) -> Vec<Violation> {
    let Some(revision) = case.history.final_revision.filter(|revision| *revision <= model.revision()) else {
        return Vec::new();
    };
    let expected = model.all(revision);
    let found: BTreeMap<_, &KeyValue> =
        case.history.final_pairs.iter().map(|pair| (&pair.key, pair)).collect();
    let mut violations = Vec::new();
    let mut wrong = |message: String, of: i64| {
        violations.push(case.violation("durable", message, Some(of), Vec::new()));
    };
    for pair in &expected {
        match found.get(&pair.key) {
            None => wrong(format!("at the end, at {revision}, this is missing: {pair:?}"), pair.mod_revision),
            Some(found) if *found != pair => {
                wrong(
                    format!("at the end, at {revision}, there is {found:?} for {pair:?}"),
                    pair.mod_revision,
                );
            }
            Some(_) => {}
        }
    }
    for pair in case.history.final_pairs.iter().filter(|pair| model.pair(&pair.key, revision).is_none()) {
        wrong(
            format!("at the end, at {revision}, this is there that should be gone: {pair:?}"),
            pair.mod_revision,
        );
    }
    violations
}

#[cfg(test)]
mod tests {
    use crate::checkers::testing::found;

    #[test]
    fn last_reads_that_are_wrong() {
        found("durable", "a pair is lost", |history| {
            history.final_pairs.pop();
        });
        found("durable", "a pair is older", |history| history.final_pairs[0].version += 1);
        found("durable", "a deleted pair is back", |history| {
            let mut pair = history.final_pairs[0].clone();
            pair.key = bytes::Bytes::from_static(b"a");
            history.final_pairs.push(pair);
        });
    }
}
