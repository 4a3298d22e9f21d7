//! When the background was at work, told by its thread to the puts.
//!
//! A put belongs to the time at which it was meant to start. Counting every put that overlaps the work would pick the slow
//! ones: the longer a put takes, the more likely it meets a short piece of work somewhere.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::clock;

/// A put that was meant to start in the idle window.
pub(crate) const IDLE: &str = "idle";
/// A put that was meant to start while the background was at work.
pub(crate) const BESIDE: &str = "beside";
/// Any other: while the run warms up, and between two pieces of background work.
pub(crate) const BETWEEN: &str = "between";

/// A piece of work, in time since the epoch; no end while it goes on.
#[derive(Debug, Clone, Copy)]
struct Piece {
    from: Duration,
    until: Option<Duration>,
}

/// The windows of a run and the background's pieces.
#[derive(Debug)]
pub(crate) struct Spans {
    /// Times count from here.
    pub(crate) epoch: Instant,
    idle_from: Duration,
    /// The end of the idle window; the background begins.
    pub(crate) idle_until: Duration,
    /// In order of time; only the last one may go on.
    pieces: Mutex<Vec<Piece>>,
}

impl Spans {
    /// An idle window of `idle` after `warm_up`, both from `epoch` on.
    pub(crate) fn new(epoch: Instant, warm_up: Duration, idle: Duration) -> Self {
        Spans { epoch, idle_from: warm_up, idle_until: warm_up + idle, pieces: Mutex::default() }
    }

    fn since_epoch(&self, at: Instant) -> Duration {
        at.saturating_duration_since(self.epoch)
    }

    /// A piece of work begins.
    pub(crate) fn begin(&self) {
        self.begin_at(self.since_epoch(clock::now()));
    }

    /// It has ended; returns how long it took.
    pub(crate) fn end(&self) -> Duration {
        self.end_at(self.since_epoch(clock::now()))
    }

    fn begin_at(&self, from: Duration) {
        let piece = Piece { from, until: None };
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner).push(piece);
    }

    fn end_at(&self, until: Duration) -> Duration {
        let mut pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        let piece = pieces.last_mut().expect("a piece of work ends after it began");
        piece.until = Some(until);
        until - piece.from
    }

    /// What a put is that was meant to start at `from`.
    pub(crate) fn kind(&self, from: Instant) -> &'static str {
        let from = self.since_epoch(from);
        let pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        // The last piece that began by then is the only one that can cover it.
        let piece = pieces.iter().rev().find(|piece| piece.from <= from);
        if piece.is_some_and(|piece| piece.until.is_none_or(|until| from < until)) {
            BESIDE
        } else if (self.idle_from..self.idle_until).contains(&from) {
            IDLE
        } else {
            BETWEEN
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_put_belongs_to_when_it_was_meant_to_start() {
        let epoch = clock::now();
        let seconds = Duration::from_secs_f64;
        let spans = Spans::new(epoch, seconds(1.0), seconds(10.0));
        let kind = |at| spans.kind(epoch + seconds(at));
        assert_eq!((kind(0.5), kind(1.0), kind(10.9), kind(11.0)), (BETWEEN, IDLE, IDLE, BETWEEN));
        spans.begin_at(seconds(11.0));
        assert_eq!((kind(10.9), kind(11.0), kind(99.0)), (IDLE, BESIDE, BESIDE), "it goes on");
        assert_eq!(spans.end_at(seconds(12.0)), seconds(1.0));
        spans.begin_at(seconds(13.0));
        assert_eq!(
            (kind(11.5), kind(12.0), kind(12.9), kind(13.5)),
            (BESIDE, BETWEEN, BETWEEN, BESIDE),
            "also of the piece before"
        );
    }
}
