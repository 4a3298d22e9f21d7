//! Whether there is a leader, for the streams whose clients ask for one.
//!
//! A stream is not cut for a moment without a leader, since beginning it anew costs more than waiting: only when
//! there was none at three looks in a row, one election timeout apart, as in etcd.

use std::time::Duration;

use raft::Store;

use crate::flag::FlagPole;

/// Looks in a row without a leader after which streams end.
const LOOKS_MAX: u32 = 3;

/// Raises `leaderless` while streams that need a leader must end. Never returns.
pub(super) async fn watch(store: Store, election_ms: u64, leaderless: FlagPole) {
    let mut count = Count::default();
    loop {
        tokio::time::sleep(Duration::from_millis(election_ms)).await;
        leaderless.set(count.look(store.status().leader != 0));
    }
}

/// Looks in a row without a leader.
#[derive(Debug, Default)]
struct Count(u32);

impl Count {
    /// Takes one look; whether streams must end.
    fn look(&mut self, has_leader: bool) -> bool {
        self.0 = if has_leader { 0 } else { self.0.saturating_add(1) };
        self.0 >= LOOKS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_looks_in_a_row() {
        let mut count = Count::default();
        for (has_leader, want, why) in [
            (false, false, "one"),
            (false, false, "two"),
            (true, false, "there is one again"),
            (false, false, "counted anew"),
            (false, false, "two"),
            (false, true, "three"),
            (false, true, "as long as it lasts"),
            (true, false, "over"),
        ] {
            assert_eq!(count.look(has_leader), want, "{why}");
        }
    }
}
