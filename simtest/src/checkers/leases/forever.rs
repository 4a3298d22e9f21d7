//! Not for ever: a lease that nobody renews is gone a little after its time, and so are its keys.

use std::time::Duration;

use crate::checkers::leases::book::{Life, Sighting, seconds};
use crate::checkers::leases::violation;
use crate::checkers::{Case, Violation};

/// Leases that somebody found, or whose keys there were, too long after their time.
pub(crate) fn forever(case: &Case<'_>, sightings: &[Sighting]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut judge = |lease: i64, at: crate::history::Stamp, what: &str| {
        let Some(life) = case.book.lives.get(&lease) else { return };
        let limit = limit(case, life);
        if at.time > limit {
            let message =
                format!("{what} lease {lease} there at {:?}; its time was over by {limit:?}", at.time);
            violations.push(violation(case, "lease_forever", message, lease, at));
        }
    };
    for sighting in sightings.iter().filter(|sighting| sighting.present) {
        judge(sighting.lease, sighting.invoked, "");
    }
    for pair in &case.history.final_pairs {
        judge(pair.lease, case.history.final_read, "a key was on");
    }
    violations
}

/// The time after which `life` must be over. Faults hold a lease's time up, and may give it all of it again.
fn limit(case: &Case<'_>, life: &Life) -> Duration {
    life.end.max(case.options.faults_end + seconds(life.ttl)) + case.options.lease_grace
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::checkers::testing::{answer_of, found};
    use crate::op::Answer;

    #[test]
    fn leases_that_do_not_end() {
        found("lease_forever", "a lease of 10 s, renewed at 6 s, is listed at 40 s", |history| {
            match answer_of(history, 12) {
                Answer::Leases { ids, .. } => ids.push(7),
                other => panic!("{other:?} is no list of leases"),
            }
            history.operations[12].invoked.time = Duration::from_secs(40);
        });
        found("lease_forever", "its key is there at 40 s", |history| {
            history.final_pairs[0].lease = 7;
            history.final_read.time = Duration::from_secs(40);
        });
    }
}
