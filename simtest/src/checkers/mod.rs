//! What must hold of a history, one file a guarantee.
//!
//! The order of everything is given: writes carry revisions, and the witness tells what each revision changed. So
//! [`replay`](self) puts the model into that order first, and every other checker asks the model.
//!
//! READING ORDER
//! 1. `facts`: what a history says about order. `leases::book`: the same of leases. `views`: what is possible.
//! 2. `replay`, `answers`. 3. Everything else, in any order.
//!
//! A [`Judge`] takes a run in windows and keeps between them only the model above the compaction, the leases that
//! may be there, and writes of unknown outcome.

mod answers;
mod compaction;
mod counts;
mod describe;
mod durable;
mod facts;
mod leases;
mod liveness;
mod real_time;
mod replay;
mod revisions;
#[cfg(test)]
mod testing;
mod views;
mod watch;

use std::time::Duration;

use crate::history::{History, Operation};
use crate::model::Model;
use facts::{Bounds, Compactions};
use leases::book::Book;

/// What the checkers take for granted.
#[derive(Debug, Clone)]
pub struct Options {
    /// When faults ended, in the history's time; zero if there were none. Nothing that depends on time is due
    /// before.
    pub faults_end: Duration,
    /// How long after the faults' end a request may still fail.
    pub recovery: Duration,
    /// How far a lease's end may come after its time ran out, without faults.
    pub lease_grace: Duration,
    /// Most violations reported of each guarantee.
    pub violations_max: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            faults_end: Duration::ZERO,
            recovery: Duration::from_secs(10),
            lease_grace: Duration::from_secs(5),
            violations_max: 5,
        }
    }
}

/// A guarantee that did not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The guarantee's name: that of its checker.
    pub guarantee: &'static str,
    /// What happened and what had to.
    pub message: String,
    /// The revision that it is about, if it is about one.
    pub revision: Option<i64>,
    /// Lines of the history around it.
    pub window: Vec<String>,
}

/// Every guarantee that `history` violates; none is well.
#[must_use]
pub fn check_all(history: &History, options: &Options) -> Vec<Violation> {
    Judge::new(options.clone()).window(history)
}

/// A history to judge, with what is known of it.
pub(crate) struct Case<'a> {
    pub(crate) history: &'a History,
    pub(crate) options: &'a Options,
    pub(crate) bounds: Bounds,
    pub(crate) compactions: Compactions,
    pub(crate) book: Book,
}

impl Case<'_> {
    pub(crate) fn violation(
        &self,
        guarantee: &'static str,
        message: String,
        revision: Option<i64>,
        window: Vec<String>,
    ) -> Violation {
        Violation { guarantee, message, revision, window }
    }
}

/// Judges a run, window by window.
#[derive(Debug)]
pub struct Judge {
    options: Options,
    /// What carries over from the last window; `None` before the first.
    carried: Option<Carried>,
}

#[derive(Debug)]
struct Carried {
    model: Model,
    compactions: Compactions,
    book: Book,
    /// Writes of unknown outcome that were not found to be done.
    pending: Vec<Operation>,
}

impl Judge {
    /// Before the first window.
    #[must_use]
    pub fn new(options: Options) -> Judge {
        Judge { options, carried: None }
    }

    /// Every guarantee that the next window violates.
    pub fn window(&mut self, history: &History) -> Vec<Violation> {
        let Carried { mut model, mut compactions, mut book, mut pending } =
            self.carried.take().unwrap_or_else(|| Carried {
                model: Model::new(history.first_revision),
                compactions: Compactions::new(history.first_compacted),
                book: Book::default(),
                pending: Vec::new(),
            });
        compactions.note(history);
        let sightings = book.note(history);
        let mut case =
            Case { history, options: &self.options, bounds: Bounds::new(history), compactions, book };
        let (mut replayed, mut violations) = replay::replay(&case, &mut model, &mut pending);
        case.bounds.note_writes(model.revision(), std::mem::take(&mut replayed.asked));
        violations.extend(revisions::unique(&case));
        violations.extend(revisions::dense(&case));
        violations.extend(revisions::never_back(&case));
        violations.extend(real_time::real_time(&case, &replayed));
        violations.extend(answers::answers(&case, &model, &replayed));
        violations.extend(counts::counts(&case));
        violations.extend(compaction::requests(&case));
        violations.extend(watch::check(&case, &model));
        violations.extend(leases::early::early(&case, &replayed, &sightings));
        violations.extend(leases::kept::kept(&case, &replayed, &sightings));
        violations.extend(leases::forever::forever(&case, &sightings));
        violations.extend(leases::listed::listed(&case));
        violations.extend(durable::durable(&case, &model));
        violations.extend(liveness::liveness(&case));
        let Case { mut compactions, mut book, .. } = case;
        let end = history.ended.order;
        model.forget(compactions.low(end));
        compactions.forget(end);
        book.forget(end);
        self.carried = Some(Carried { model, compactions, book, pending });
        few_of_each(violations, self.options.violations_max)
    }
}

impl Judge {
    /// Whether the next window can't be judged, as `history`, the last, was not told to its end.
    #[must_use]
    pub fn has_lost_track(&self, history: &History) -> bool {
        let known = self.carried.as_ref().map(|carried| carried.model.revision());
        history.final_revision.is_none() || known < history.final_revision
    }
}

/// At most `most` violations of each guarantee.
fn few_of_each(violations: Vec<Violation>, most: usize) -> Vec<Violation> {
    let mut counts: std::collections::BTreeMap<&'static str, usize> = std::collections::BTreeMap::new();
    let mut few = Vec::new();
    for violation in violations {
        let count = counts.entry(violation.guarantee).or_default();
        *count += 1;
        if *count <= most {
            few.push(violation);
        }
    }
    few
}
