//! Kept: a lease does not end before its TTL has passed since the last acknowledged renewal was asked for.

use crate::checkers::leases::book::Sighting;
use crate::checkers::leases::{ended_too_soon, violation};
use crate::checkers::replay::Replayed;
use crate::checkers::{Case, Violation};

/// Leases that ended in spite of a renewal.
pub(crate) fn kept(case: &Case<'_>, replayed: &Replayed, sightings: &[Sighting]) -> Vec<Violation> {
    let lost = ended_too_soon(case, replayed, sightings).filter(|(_, life, _)| life.renewed);
    lost.map(|(lease, life, at)| {
        let message = format!(
            "lease {lease} of {} s was gone at {:?}, though renewed until {:?} and not revoked",
            life.ttl, at.time, life.deadline
        );
        violation(case, "lease_kept", message, lease, at)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::checkers::testing::found;

    #[test]
    fn leases_that_end_in_spite_of_a_renewal() {
        found(
            "lease_kept",
            "its keys go at 12 s; it was granted at 1 s and renewed at 6 s for 10 s",
            |history| {
                for (stamp, message) in history.witness.iter_mut().flat_map(|stream| &mut stream.messages) {
                    if message.revision == 7 {
                        stamp.time = Duration::from_secs(12);
                    }
                }
            },
        );
    }
}
