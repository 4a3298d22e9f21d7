//! Lines of a history, for people.

use crate::history::{History, Operation, Outcome, Stamp};
use crate::op::{Event, WatchMessage};

/// Longest line, bytes; what is longer is cut.
const LINE_MAX: usize = 600;

/// Most lines of a window.
const LINES_MAX: usize = 40;

/// One operation.
pub(crate) fn operation(operation: &Operation) -> String {
    let outcome = match &operation.outcome {
        Outcome::Answered(answer) => format!("{answer:?}"),
        Outcome::Refused(refusal) => format!("refused, code {}: {}", refusal.code, refusal.text),
        Outcome::Unknown(refusal) => format!("unknown, code {}: {}", refusal.code, refusal.text),
    };
    let Operation { client, invoked, completed, request, .. } = operation;
    cut(format!(
        "[{}..{}] {:.6}s client {client}: {request:?} -> {outcome}",
        invoked.order,
        completed.order,
        invoked.time.as_secs_f64()
    ))
}

/// One message of a watch stream.
pub(crate) fn message(stamp: &Stamp, message: &WatchMessage) -> String {
    cut(format!("[{}] {:.6}s {message:?}", stamp.order, stamp.time.as_secs_f64()))
}

/// Events of a revision.
pub(crate) fn events(revision: i64, events: &[Event]) -> String {
    let names: Vec<String> = events
        .iter()
        .map(|event| format!("{} {:?}", if event.deleted { "delete" } else { "put" }, event.kv))
        .collect();
    cut(format!("revision {revision}: {}", names.join(", ")))
}

/// The operations of `history` that were under way between two moments, and the last before them.
pub(crate) fn window(history: &History, from: u64, to: u64) -> Vec<String> {
    let overlap: Vec<&Operation> = history
        .operations
        .iter()
        .filter(|operation| operation.completed.order >= from && operation.invoked.order <= to)
        .collect();
    overlap.iter().take(LINES_MAX).map(|found| operation(found)).collect()
}

fn cut(mut line: String) -> String {
    if line.len() > LINE_MAX {
        let mut at = LINE_MAX;
        while !line.is_char_boundary(at) {
            at -= 1;
        }
        line.truncate(at);
        line.push('…');
    }
    line
}
