//! Lines of a history, for people.

use crate::history::{History, Operation, Outcome, Stamp};
use crate::op::{Event, WatchMessage};

/// Longest line, bytes; what is longer is cut.
const LINE_MAX: usize = 4000;

/// The same of what was only near.
const NEAR_MAX: usize = 240;

/// Most lines of what was near.
const LINES_MAX: usize = 12;

/// One operation.
pub(crate) fn operation(operation: &Operation) -> String {
    let outcome = match &operation.outcome {
        Outcome::Answered(answer) => format!("{answer:?}"),
        Outcome::Refused(refusal) => format!("refused, code {}: {}", refusal.code, refusal.text),
        Outcome::Unknown(refusal) => format!("unknown, code {}: {}", refusal.code, refusal.text),
    };
    let Operation { client, invoked, completed, request, .. } = operation;
    cut(
        format!(
            "[{}..{}] {:.6}s client {client}: {request:?} -> {outcome}",
            invoked.order,
            completed.order,
            invoked.time.as_secs_f64()
        ),
        LINE_MAX,
    )
}

/// One message of a watch stream.
pub(crate) fn message(stamp: &Stamp, message: &WatchMessage) -> String {
    cut(format!("[{}] {:.6}s {message:?}", stamp.order, stamp.time.as_secs_f64()), LINE_MAX)
}

/// Events of a revision.
pub(crate) fn events(revision: i64, events: &[Event]) -> String {
    let names: Vec<String> = events
        .iter()
        .map(|event| format!("{} {:?}", if event.deleted { "delete" } else { "put" }, event.kv))
        .collect();
    cut(format!("revision {revision}: {}", names.join(", ")), LINE_MAX)
}

/// The operations of `history` that were under way between two moments, but for one that is made at the first and
/// answered at the second.
pub(crate) fn window(history: &History, from: u64, to: u64) -> Vec<String> {
    let overlaps = |operation: &&Operation| {
        let (invoked, completed) = (operation.invoked.order, operation.completed.order);
        completed >= from && invoked <= to && (invoked, completed) != (from, to)
    };
    let near = history.operations.iter().filter(overlaps).take(LINES_MAX);
    near.map(|near| cut(format!("near it: {}", operation(near)), NEAR_MAX)).collect()
}

/// `line`, at most `most` bytes of it.
pub(crate) fn cut(mut line: String, most: usize) -> String {
    if line.len() > most {
        line.truncate(line.floor_char_boundary(most));
        line.push('…');
    }
    line
}
