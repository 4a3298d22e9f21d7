//! Liveness: once faults have ended, requests are answered, the last reads succeed, and every watch is told what is
//! due.

use std::time::Duration;

use crate::checkers::{Case, Violation, describe};
use crate::history::Outcome;

/// What did not come although no fault was left.
pub(crate) fn liveness(case: &Case<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    let wrong = |message: String, window| case.violation("liveness", message, None, window);
    let faults_end = case.options.faults_end;
    let due = if faults_end.is_zero() { Duration::ZERO } else { faults_end + case.options.recovery };
    for operation in &case.history.operations {
        if matches!(operation.outcome, Outcome::Unknown(_)) && operation.invoked.time >= due {
            let message = format!("a request failed, though faults had ended at {faults_end:?}");
            violations.push(wrong(message, vec![describe::operation(operation)]));
        }
    }
    if case.history.final_revision.is_none() {
        violations.push(wrong("the last read was not answered".to_owned(), Vec::new()));
        return violations;
    }
    for client in &case.history.unsettled {
        let streams = case.history.streams.iter().chain(&case.history.witness);
        let Some(stream) = streams.rev().find(|stream| stream.client == *client) else { continue };
        let window = stream.messages.iter().rev().take(6).rev();
        let mut window: Vec<String> =
            window.map(|(stamp, message)| describe::message(stamp, message)).collect();
        window.extend(stream.requests.iter().rev().take(4).map(|request| format!("{request:?}")));
        window.push(format!("{:?}", stream.end));
        let message = format!(
            "the watches of client {} were not told, or not told that they were told, of everything up to {:?}",
            client, case.history.final_revision
        );
        violations.push(wrong(message, window));
    }
    violations
}

#[cfg(test)]
mod tests {
    use crate::checkers::testing::found;
    use crate::history::Outcome;
    use crate::op::Refusal;

    #[test]
    fn what_does_not_come() {
        found("liveness", "a request is not answered", |history| {
            let refusal = Refusal { code: 14, text: "etcdserver: no leader".to_owned() };
            history.operations[12].outcome = Outcome::Unknown(refusal);
        });
        found("liveness", "the last read is not answered", |history| history.final_revision = None);
        found("liveness", "a watch does not come to its end", |history| {
            history.streams.last_mut().expect("a stream").drained = false;
            history.unsettled.push(1);
        });
    }
}
