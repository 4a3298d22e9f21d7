//! Never early: a lease that was not renewed does not end before its TTL has passed since the grant was asked for.

use crate::checkers::leases::book::Sighting;
use crate::checkers::leases::{ended_too_soon, violation};
use crate::checkers::replay::Replayed;
use crate::checkers::{Case, Violation};

/// Leases that ended early.
pub(crate) fn early(case: &Case<'_>, replayed: &Replayed, sightings: &[Sighting]) -> Vec<Violation> {
    let early = ended_too_soon(case, replayed, sightings).filter(|(_, life, _)| !life.renewed);
    early
        .map(|(lease, life, at)| {
            let message = format!(
                "lease {lease} of {} s was gone at {:?}; nobody revoked it and it was good until {:?}",
                life.ttl, at.time, life.deadline
            );
            violation(case, "lease_early", message, lease, at)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::checkers::testing::found;

    #[test]
    fn leases_that_end_early() {
        found("lease_early", "its keys go after 9 of 10 seconds", |history| {
            history.operations.remove(5);
            for (stamp, message) in history.witness.iter_mut().flat_map(|stream| &mut stream.messages) {
                if message.revision == 7 {
                    stamp.time = Duration::from_secs(9);
                }
            }
        });
    }
}
