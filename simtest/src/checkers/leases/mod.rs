//! Leases in time: none ends early, none after an acknowledged renewal, and none lives for ever.

pub(crate) mod book;
pub(crate) mod early;
pub(crate) mod forever;
pub(crate) mod kept;
pub(crate) mod listed;

use crate::checkers::replay::Replayed;
use crate::checkers::{Case, Violation, describe};
use crate::history::Stamp;
use book::{Life, Sighting};

/// Leases that were gone at a moment at which they can't have ended, with that moment.
fn ended_too_soon<'a>(
    case: &'a Case<'_>,
    replayed: &'a Replayed,
    sightings: &'a [Sighting],
) -> impl Iterator<Item = (i64, &'a Life, Stamp)> {
    let by_events = replayed.ended.iter().map(|(lease, _, stamp)| (*lease, *stamp));
    let absent = sightings.iter().filter(|sighting| !sighting.present);
    let by_answers = absent.map(|sighting| (sighting.lease, sighting.completed));
    by_events.chain(by_answers).filter_map(|(lease, at)| {
        let life = case.book.lives.get(&lease)?;
        (life.was_granted_before(at) && !life.may_have_ended(at)).then_some((lease, life, at))
    })
}

fn violation(case: &Case<'_>, guarantee: &'static str, message: String, lease: i64, at: Stamp) -> Violation {
    use crate::op::Request;
    let about = case.history.operations.iter().filter(|operation| match &operation.request {
        Request::Grant { id, .. } | Request::Revoke { id } | Request::KeepAlive { id } => *id == lease,
        _ => false,
    });
    let mut window: Vec<String> = about.map(describe::operation).collect();
    window.extend(describe::window(case.history, at.order, at.order));
    case.violation(guarantee, message, None, window)
}
