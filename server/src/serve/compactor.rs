//! Compaction that the member does by itself, on etcd's schedule.
//!
//! Periodic: the revision is noted ten times a period (or an hour, if that is shorter); once a whole period is
//! noted, the history before the oldest note goes, every period or hour. By revisions: every five minutes the
//! history before the newest N goes.

use std::collections::VecDeque;
use std::time::Duration;

use prometheus::IntGauge;
use raft::Store;

use crate::clock;
use crate::config::AutoCompaction;

const HOUR: Duration = Duration::from_secs(3600);
/// Pause between compactions by revisions.
const BY_REVISIONS_EVERY: Duration = Duration::from_secs(300);
/// Notes in a period, or an hour of it.
const NOTES: u32 = 10;

/// Compacts for ever. When it last did goes to `last`, in seconds since 1970.
pub(super) async fn run(store: Store, mode: AutoCompaction, last: IntGauge) {
    let (mut schedule, pause): (Box<dyn Schedule + Send>, Duration) = match mode {
        AutoCompaction::Off => return,
        AutoCompaction::Periodic(period) => (Box::new(Periodic::new(period)), Periodic::pause(period)),
        AutoCompaction::Revisions(kept) => (Box::new(Revisions { kept, last: 0 }), BY_REVISIONS_EVERY),
    };
    loop {
        tokio::time::sleep(pause).await;
        let Some(revision) = schedule.tick(store.revision()) else { continue };
        match store.compact(revision).await {
            Ok(_) => {
                last.set(i64::try_from(clock::since_epoch().as_secs()).unwrap_or(i64::MAX));
                tracing::info!(revision, "completed auto compaction");
            }
            Err(raft::Error::Compacted) => {}
            Err(error) => tracing::warn!(revision, %error, "failed auto compaction"),
        }
    }
}

/// When to compact.
trait Schedule {
    /// Time has moved on by a pause, the newest revision is `newest`: the revision to compact at, if it is time.
    fn tick(&mut self, newest: i64) -> Option<i64>;
}

struct Periodic {
    /// Revisions noted, oldest first; at most a period's.
    notes: VecDeque<i64>,
    /// Notes that make a period.
    full: usize,
    /// Notes between compactions.
    every: u32,
    /// Notes since the last compaction.
    since: u32,
}

impl Periodic {
    fn pause(period: Duration) -> Duration {
        period.min(HOUR) / NOTES
    }

    fn new(period: Duration) -> Self {
        let full = period.as_millis().div_ceil(Periodic::pause(period).as_millis().max(1));
        let full = usize::try_from(full).unwrap_or(usize::MAX).max(1);
        Periodic { notes: VecDeque::new(), full, every: NOTES, since: 0 }
    }
}

impl Schedule for Periodic {
    fn tick(&mut self, newest: i64) -> Option<i64> {
        self.notes.push_back(newest);
        self.since += 1;
        if self.notes.len() <= self.full {
            return None;
        }
        let oldest = self.notes.pop_front()?;
        if self.since < self.every {
            return None;
        }
        self.since = 0;
        Some(oldest)
    }
}

struct Revisions {
    kept: i64,
    last: i64,
}

impl Schedule for Revisions {
    fn tick(&mut self, newest: i64) -> Option<i64> {
        let revision = newest - self.kept;
        let due = revision > self.last && revision > 0;
        due.then(|| {
            self.last = revision;
            revision
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_is_kept_whole_and_then_cut_once_a_period() {
        let mut periodic = Periodic::new(Duration::from_secs(300));
        assert_eq!(Periodic::pause(Duration::from_secs(300)), Duration::from_secs(30));
        let compactions: Vec<(i64, i64)> =
            (1..=40).filter_map(|tick| Some((tick, periodic.tick(tick * 100)?))).collect();
        assert_eq!(compactions, [(11, 100), (21, 1100), (31, 2100)], "always the revision of one period ago");
    }

    #[test]
    fn a_long_period_is_cut_every_hour() {
        let mut periodic = Periodic::new(Duration::from_secs(5 * 3600));
        assert_eq!(Periodic::pause(Duration::from_secs(5 * 3600)), Duration::from_secs(360));
        let compactions: Vec<(i64, i64)> =
            (1..=70).filter_map(|tick| Some((tick, periodic.tick(tick)?))).collect();
        assert_eq!(compactions, [(51, 1), (61, 11)]);
    }

    #[test]
    fn the_newest_revisions_are_kept() {
        let mut revisions = Revisions { kept: 1000, last: 0 };
        for (newest, want, why) in [
            (500, None, "nothing is older"),
            (1500, Some(500), "what is older goes"),
            (1500, None, "nothing new"),
            (1700, Some(700), "again"),
        ] {
            assert_eq!(revisions.tick(newest), want, "{why}");
        }
    }
}
