//! A follower: a watch of all keys that goes on after its connection breaks, as kube-apiserver's does: from the revision
//! after the last one told or promised by a progress answer.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use super::names;
use super::record::{Event, Finding};
use crate::client::stream::watch;
use crate::client::wire::WatchCreateRequest;
use crate::client::{Connection, Endpoint, Failure};

/// How often progress is asked for, and the goal looked at.
const PROGRESS_PERIOD: Duration = Duration::from_millis(50);

/// A watch over restarts.
pub(crate) struct Follower {
    /// The revision it began at.
    pub(crate) from: i64,
    /// The revision to go on from.
    pub(crate) next: i64,
    /// What was told.
    pub(crate) events: Vec<Event>,
    /// What is wrong with an answer in itself.
    pub(crate) findings: Vec<Finding>,
    /// Progress answers.
    pub(crate) progress_answers: u64,
    /// Where to stop; may be set while it follows.
    pub(crate) goal: Rc<Cell<i64>>,
}

impl Follower {
    /// A follower of everything from revision `from` on, without a goal yet.
    pub(crate) fn new(from: i64) -> Self {
        Follower {
            from,
            next: from,
            events: Vec::new(),
            findings: Vec::new(),
            progress_answers: 0,
            goal: Rc::new(Cell::new(i64::MAX)),
        }
    }

    /// Follows until the goal is told or promised.
    ///
    /// # Errors
    /// The connection's, when it breaks; following again goes on where it stopped.
    pub(crate) async fn follow(&mut self, endpoint: &Endpoint) -> Result<(), Failure> {
        let mut connection = Connection::open(endpoint).await?;
        let (mut requests, mut answers) =
            watch(&mut connection, WatchCreateRequest::all_keys(self.next)).await?;
        let mut ticks = tokio::time::interval(PROGRESS_PERIOD);
        while self.next <= self.goal.get() {
            tokio::select! {
                answer = answers.next() => match answer? {
                    Some(answer) => self.take(&answer)?,
                    None => return Err(Failure::Transport("the watch stream has ended".to_owned())),
                },
                _ = ticks.tick() => requests.ask_progress()?,
            }
        }
        Ok(())
    }

    fn take(&mut self, answer: &crate::client::wire::WatchResponse) -> Result<(), Failure> {
        let header = crate::client::wire::revision_of(&answer.header);
        if answer.canceled {
            let (compacted, reason) = (answer.compact_revision, &answer.cancel_reason);
            let detail = format!("from {}: canceled, compact revision {compacted}, `{reason}`", self.next);
            self.findings.push(Finding::new("canceled", detail.clone()));
            return Err(Failure::Transport(detail));
        }
        if answer.created {
            return Ok(());
        }
        let mut last = self.next - 1;
        for event in &answer.events {
            match names::event(event) {
                Ok(event) => {
                    // A revision told in two answers would be torn by a break between them.
                    if event.revision < self.next {
                        let detail =
                            format!("{} is told after {} in another answer", event.revision, self.next - 1);
                        self.findings.push(Finding::new("torn", detail));
                    }
                    last = last.max(event.revision);
                    self.events.push(event);
                }
                Err(finding) => self.findings.push(finding),
            }
        }
        if answer.events.is_empty() {
            self.progress_answers += 1;
            last = last.max(header);
        } else if header < last {
            self.findings.push(Finding::new("header", format!("an answer at {header} tells {last}")));
        }
        self.next = last + 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::wire;
    use crate::rounds::names::{key_name, value_of};

    fn answer(header: i64, revisions: &[i64]) -> wire::WatchResponse {
        let event = |revision: &i64| {
            let kv = wire::KeyValue {
                key: key_name(1),
                value: value_of(1, 16),
                mod_revision: *revision,
                ..Default::default()
            };
            wire::Event { kind: 0, kv: Some(kv) }
        };
        let header = Some(wire::ResponseHeader { revision: header });
        wire::WatchResponse { header, events: revisions.iter().map(event).collect(), ..Default::default() }
    }

    #[test]
    fn it_goes_on_after_what_was_told_or_promised() {
        let mut follower = Follower::new(5);
        follower.take(&wire::WatchResponse { created: true, ..answer(9, &[]) }).expect("created");
        assert_eq!(follower.next, 5, "`created` promises nothing");
        follower.take(&answer(9, &[5, 6])).expect("events");
        assert_eq!(follower.next, 7, "the header of events promises nothing");
        follower.take(&answer(8, &[])).expect("progress");
        assert_eq!((follower.next, follower.progress_answers), (9, 1));
        assert_eq!(follower.findings, []);
    }

    #[test]
    fn wrong_answers_are_findings() {
        for (answers, rule, why) in [
            (vec![answer(6, &[5]), answer(6, &[5, 6])], "torn", "a revision in two answers"),
            (vec![answer(9, &[]), answer(9, &[9])], "torn", "progress ran ahead of an event"),
            (vec![answer(4, &[5])], "header", "the header is behind its own events"),
            (
                vec![wire::WatchResponse { canceled: true, ..answer(0, &[]) }],
                "canceled",
                "nobody asked for it",
            ),
        ] {
            let mut follower = Follower::new(5);
            for answer in &answers {
                let _ = follower.take(answer);
            }
            assert_eq!(follower.findings.first().map(|finding| finding.rule), Some(rule), "{why}");
        }
    }
}
