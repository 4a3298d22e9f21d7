//! The watchers: streams opened on connections, one task reading each, and what all of them have seen.
//!
//! INVARIANTS
//! * Nothing is kept by event or by watcher but the server's answers in flight: a run of any length needs the same memory.
//! * A stream has at most one progress request that waits for its answer.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::stamp::sent_nanos;
use crate::client::fields::watch_answer;
use crate::client::stream::{Answers, Requests, watch};
use crate::client::wire::WatchCreateRequest;
use crate::client::{Connection, Endpoint, Failure};
use crate::clock;
use crate::load::driver::latencies;

/// A server that has not confirmed all watchers after this time without any news is given up.
const SETUP_PATIENCE: Duration = Duration::from_secs(60);
/// A progress request that is not answered is asked again after this time; its latency counts from the first.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// How often waiting looks whether it is over.
const GLANCE: Duration = Duration::from_millis(2);

/// What all watchers have seen.
pub(crate) struct Seen {
    /// Stamps count from here.
    pub(crate) epoch: Instant,
    /// From put to event, in nanoseconds.
    pub(crate) delivery: RefCell<Histogram<u64>>,
    /// From progress request to answer, in nanoseconds.
    pub(crate) progress: RefCell<Histogram<u64>>,
    /// Answers that were messages of their own; events / answers is how many events the server packs.
    pub(crate) answers: Cell<u64>,
    /// Events whose value carries no stamp: deletes, and what others wrote.
    pub(crate) unstamped: Cell<u64>,
    /// What went wrong, by reason.
    pub(crate) errors: RefCell<BTreeMap<String, u64>>,
    /// When the last answer came.
    pub(crate) last_news: Cell<Instant>,
    created: Cell<u64>,
    /// By stream: when the progress request that still waits was first asked.
    asked: Vec<Cell<Option<Instant>>>,
}

impl Seen {
    fn new(streams: usize) -> Self {
        let now = clock::now();
        Seen {
            epoch: now,
            delivery: RefCell::new(latencies()),
            progress: RefCell::new(latencies()),
            answers: Cell::new(0),
            unstamped: Cell::new(0),
            errors: RefCell::default(),
            last_news: Cell::new(now),
            created: Cell::new(0),
            asked: vec![Cell::new(None); streams],
        }
    }

    /// Nanoseconds since the epoch.
    pub(crate) fn nanos(&self) -> u64 {
        clock::nanos_between(self.epoch, clock::now())
    }

    /// Counts something that went wrong.
    pub(crate) fn error(&self, reason: impl Into<String>, times: u64) {
        *self.errors.borrow_mut().entry(reason.into()).or_default() += times;
    }

    fn take(&self, stream: usize, message: &[u8]) -> Result<(), Failure> {
        let now = clock::now();
        let at = clock::nanos_between(self.epoch, now);
        let mut delivery = self.delivery.borrow_mut();
        let mut unstamped = 0;
        let head = watch_answer(message, |value| match sent_nanos(value) {
            Some(sent) => delivery.saturating_record(at.saturating_sub(sent)),
            None => unstamped += 1,
        })?;
        self.last_news.set(now);
        self.answers.set(self.answers.get() + 1);
        self.unstamped.set(self.unstamped.get() + unstamped);
        if head.canceled {
            self.error("a watcher was canceled", 1);
        } else if head.created {
            self.created.set(self.created.get() + 1);
        } else if head.events == 0
            && head.watch_id == -1
            && let Some(asked) = self.asked[stream].take()
        {
            self.progress.borrow_mut().saturating_record(clock::nanos_between(asked, now));
        }
        Ok(())
    }
}

async fn read(seen: Rc<Seen>, stream: usize, mut answers: Answers) {
    loop {
        let taken = match answers.next_bytes().await {
            Ok(Some(message)) => seen.take(stream, &message),
            Ok(None) => Err(Failure::Transport("the server ended a watch stream".to_owned())),
            Err(failure) => Err(failure),
        };
        if let Err(failure) = taken {
            seen.error(failure.to_string(), 1);
            return;
        }
    }
}

/// How many watchers of what.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    /// The server.
    pub(crate) endpoint: Endpoint,
    /// TCP connections.
    pub(crate) connections: usize,
    /// Streams on each.
    pub(crate) streams: usize,
    /// Watchers altogether.
    pub(crate) watchers: usize,
    /// The prefixes that they watch, in turn.
    pub(crate) prefixes: Vec<String>,
    /// With the previous version.
    pub(crate) prev_kv: bool,
}

impl Shape {
    /// Streams altogether: none without a watcher.
    pub(crate) fn streams_used(&self) -> usize {
        (self.connections * self.streams).min(self.watchers)
    }

    /// How many watchers watch the prefix number `prefix`.
    pub(crate) fn receivers(&self, prefix: usize) -> u64 {
        (self.watchers - prefix.min(self.watchers)).div_ceil(self.prefixes.len()) as u64
    }

    fn create(&self, watcher: usize) -> WatchCreateRequest {
        let prefix = &self.prefixes[watcher % self.prefixes.len()];
        WatchCreateRequest { prev_kv: self.prev_kv, ..WatchCreateRequest::prefix(prefix, 0) }
    }
}

/// All watchers, confirmed by the server.
pub(crate) struct Crowd {
    /// What they have seen.
    pub(crate) seen: Rc<Seen>,
    /// The connections, for other calls beside the watches.
    pub(crate) connections: Vec<Connection>,
    requests: Vec<Requests>,
    /// The stream whose turn it is to ask for progress.
    turn: usize,
    /// Progress requests of which no answer had come when they were due to be asked again.
    pub(crate) asked_again: u64,
}

impl Crowd {
    /// Opens connections and streams and waits until every watcher is confirmed.
    ///
    /// # Errors
    /// The first that a connection or a stream has; [`Failure::Transport`] if confirmations stop coming.
    pub(crate) async fn gather(shape: &Shape) -> Result<Self, Failure> {
        let streams = shape.streams_used();
        let seen = Rc::new(Seen::new(streams));
        let mut connections = Vec::with_capacity(shape.connections);
        for _ in 0..shape.connections {
            connections.push(Connection::open(&shape.endpoint).await?);
        }
        let mut requests = Vec::with_capacity(streams);
        for stream in 0..streams {
            let connection = &mut connections[stream % shape.connections];
            let (mut asking, answers) = watch(connection, shape.create(stream)).await?;
            for watcher in (stream + streams..shape.watchers).step_by(streams) {
                asking.create(shape.create(watcher))?;
            }
            requests.push(asking);
            tokio::task::spawn_local(read(Rc::clone(&seen), stream, answers));
        }
        let confirmed = || seen.created.get() >= shape.watchers as u64 || !seen.errors.borrow().is_empty();
        wait(&seen, confirmed, SETUP_PATIENCE).await;
        let (created, errors) = (seen.created.get(), seen.errors.borrow().clone());
        if created < shape.watchers as u64 {
            return Err(Failure::Transport(format!(
                "{created} of {} watchers confirmed; errors: {errors:?}",
                shape.watchers
            )));
        }
        Ok(Crowd { seen, connections, requests, turn: 0, asked_again: 0 })
    }

    /// Asks the next stream for its progress.
    pub(crate) fn ask_progress(&mut self) {
        let stream = self.turn;
        self.turn = (self.turn + 1) % self.requests.len();
        self.ask_progress_of(stream);
    }

    /// Asks a stream for its progress. One that owes an answer is passed over, or asked again after a second.
    pub(crate) fn ask_progress_of(&mut self, stream: usize) {
        let (now, asked) = (clock::now(), &self.seen.asked[stream]);
        match asked.get() {
            None => asked.set(Some(now)),
            Some(first) if now.saturating_duration_since(first) < ASK_AGAIN => return,
            Some(_) => self.asked_again += 1,
        }
        if let Err(failure) = self.requests[stream].ask_progress() {
            self.seen.error(failure.to_string(), 1);
        }
    }

    /// Waits until `done` or until nothing has come for `patience`.
    pub(crate) async fn settle(&self, done: impl Fn() -> bool, patience: Duration) {
        wait(&self.seen, done, patience).await;
    }

    /// Progress requests that still wait for an answer.
    pub(crate) fn owed(&self) -> u64 {
        self.seen.asked.iter().filter(|asked| asked.get().is_some()).count() as u64
    }
}

async fn wait(seen: &Seen, done: impl Fn() -> bool, patience: Duration) {
    let begun = clock::now();
    while !done() {
        let quiet_since = begun.max(seen.last_news.get());
        if clock::now().saturating_duration_since(quiet_since) > patience {
            return;
        }
        tokio::time::sleep(GLANCE).await;
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::client::wire;
    use crate::watch::stamp::stamped;

    #[test]
    fn receivers_add_up_to_the_watchers() {
        for (watchers, prefixes, want, why) in [
            (10, 1, vec![10], "all watch the one prefix"),
            (10, 3, vec![4, 3, 3], "in turn"),
            (2, 3, vec![1, 1, 0], "nobody watches the third"),
        ] {
            let shape = Shape {
                endpoint: "localhost:1".parse().expect("an endpoint"),
                connections: 2,
                streams: 1,
                watchers,
                prefixes: vec![String::new(); prefixes],
                prev_kv: false,
            };
            let got: Vec<u64> = (0..prefixes).map(|prefix| shape.receivers(prefix)).collect();
            assert_eq!(got, want, "{why}");
        }
    }

    #[test]
    fn answers_are_told_apart() {
        let seen = Seen::new(1);
        let event = |value: &[u8]| {
            let kv = wire::KeyValue { value: bytes::Bytes::copy_from_slice(value), ..Default::default() };
            wire::Event { kind: 0, kv: Some(kv) }
        };
        let take = |answer: wire::WatchResponse| seen.take(0, &answer.encode_to_vec()).expect("a message");
        take(wire::WatchResponse { created: true, ..Default::default() });
        seen.asked[0].set(Some(clock::now()));
        take(wire::WatchResponse {
            events: vec![event(&stamped(&[0; 20], 5)), event(b"alien")],
            ..Default::default()
        });
        assert!(seen.asked[0].get().is_some(), "events are no progress answer");
        take(wire::WatchResponse { watch_id: -1, ..Default::default() });
        take(wire::WatchResponse { watch_id: -1, ..Default::default() });
        take(wire::WatchResponse { canceled: true, ..Default::default() });
        assert_eq!(seen.created.get(), 1);
        assert_eq!(seen.delivery.borrow().len(), 1);
        assert_eq!(seen.progress.borrow().len(), 1, "the second answer was not asked for");
        assert_eq!((seen.unstamped.get(), seen.errors.borrow().len()), (1, 1), "the alien; the cancel");
    }
}
