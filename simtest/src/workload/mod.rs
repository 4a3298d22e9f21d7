//! What is asked, from a seed.
//!
//! A run has clients that ask one thing after another, clients that watch, and a witness: a watch over all keys.
//! When the work is done the driver reads everything once more, tells the watching clients up to which revision
//! everything is due, and waits for them.
//!
//! READING ORDER
//! 1. [`run`] and [`Session`]. 2. `clients`, `streams`, `witness`: the tasks. 3. `mixed`, `kubernetes`: what they
//!    ask. 4. `knowledge`, `chance`: what they choose from.
//!
//! INVARIANTS
//! * Time is tokio's and chance comes from the seed; nothing iterates over a hash map; no thread is started.
//! * A lease id is asked for once, so a lease has one life.
//! * No client compacts beyond what the witness has seen.

mod chance;
mod clients;
mod knowledge;
mod kubernetes;
mod mixed;
mod streams;
mod witness;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tonic::transport::Channel;

use crate::client::Client;
use crate::history::{Clock, History, Operation, Outcome};
use crate::op::{Answer, Range, Request};
use knowledge::Knowledge;

/// Which mix of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Profile {
    /// Every operation that exists, on few keys.
    Mixed,
    /// What a Kubernetes API server asks.
    Kubernetes,
}

/// How a workload runs.
#[derive(Debug, Clone)]
pub struct Options {
    /// Clients that ask, at once.
    pub clients: u32,
    /// Clients that watch, at once.
    pub watchers: u32,
    /// Operations of all clients together; then the workload ends.
    pub operations: u64,
    /// The workload ends after this time too.
    pub duration: Duration,
    /// Longest pause of a client between two operations; pauses are drawn up to it.
    pub pause_max: Duration,
    /// How long a client waits for an answer before its outcome is unknown.
    pub request_timeout: Duration,
    /// How long the last reads are tried, and the watch streams waited for, after all clients have ended. Faults
    /// must be over by then.
    pub settle: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            clients: 8,
            watchers: 3,
            operations: 1_000,
            duration: Duration::from_secs(3600),
            pause_max: Duration::ZERO,
            request_timeout: Duration::from_secs(5),
            settle: Duration::from_secs(20),
        }
    }
}

/// How far a run is, for those that watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Clients work.
    Running,
    /// They have ended; everything up to `revision` is due.
    Draining { revision: i64 },
}

/// Runs `profile` over `channels` and returns what the clients saw.
///
/// A channel connects by itself and again after it broke; a client changes to another after a failure if there is
/// one. Time is tokio's and chance comes from `seed`: in a deterministic runtime the history is a function of the
/// arguments and the world. The store must have no keys and no leases, and no one else may use it.
///
/// If the store could not even be looked at, the history has the tries, and no final revision.
pub async fn run(channels: Vec<Channel>, profile: Profile, seed: u64, options: &Options) -> History {
    let operations = options.operations;
    let mut session = Session::new(channels, profile, seed, options.clone());
    match session.open().await {
        Ok(()) => session.window(operations).await,
        Err(_) => session.given_up(),
    }
}

/// Why a store can't be used for a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unfit {
    /// It answered nothing within [`Options::settle`]; with the last failure.
    Silent(String),
    /// It has keys or leases.
    NotEmpty,
}

impl std::fmt::Display for Unfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unfit::Silent(reason) => write!(f, "the store does not answer: {reason}"),
            Unfit::NotEmpty => write!(f, "the store has keys or leases; an empty one is needed"),
        }
    }
}

impl std::error::Error for Unfit {}

/// A run in windows, each a history of its own that begins where the one before ended.
#[derive(Debug)]
pub struct Session {
    channels: Vec<Channel>,
    profile: Profile,
    seed: u64,
    options: Options,
    clock: Clock,
    known: Arc<Mutex<Knowledge>>,
    /// What the driver itself asked since the last window.
    asked: Vec<Operation>,
    /// Windows run so far.
    windows: u64,
    /// The store's revision at the end of the last window.
    revision: i64,
    first_compacted: i64,
}

impl Session {
    /// A run over `channels`; nothing is asked yet.
    #[must_use]
    pub fn new(channels: Vec<Channel>, profile: Profile, seed: u64, options: Options) -> Session {
        assert!(!channels.is_empty(), "a run needs a channel");
        Session {
            channels,
            profile,
            seed,
            options,
            clock: Clock::new(),
            known: Arc::default(),
            asked: Vec::new(),
            windows: 0,
            revision: 0,
            first_compacted: -1,
        }
    }

    /// The clock of the run's histories.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Looks at the store: it must be empty. On one that was used before, everything that it was is compacted.
    ///
    /// # Errors
    /// Why the store can't be used.
    pub async fn open(&mut self) -> Result<(), Unfit> {
        let Some(Answer::Range(found)) = self.insist(Request::Range(everything())).await else {
            return Err(self.silent());
        };
        let Some(Answer::Leases { ids, .. }) = self.insist(Request::Leases).await else {
            return Err(self.silent());
        };
        if found.count > 0 || !ids.is_empty() {
            return Err(Unfit::NotEmpty);
        }
        self.revision = found.revision;
        if self.revision > 1 {
            let compact = Request::Compact { revision: self.revision, physical: false };
            // Refused if it was compacted there before, which is as good.
            if self.insist(compact).await.is_none()
                && !matches!(self.asked.last().map(|last| &last.outcome), Some(Outcome::Refused(_)))
            {
                return Err(self.silent());
            }
            self.first_compacted = self.revision;
        }
        // Whatever was asked so far is no part of a history: before it nothing is known of the store.
        self.asked.clear();
        let mut known = self.known.lock();
        (known.newest, known.witnessed) = (self.revision, self.revision);
        known.compacted = self.first_compacted.max(0);
        Ok(())
    }

    fn silent(&self) -> Unfit {
        let last = self.asked.last().map(|last| format!("{:?}", last.outcome));
        Unfit::Silent(last.unwrap_or_default())
    }

    /// The history of a run that could not begin.
    fn given_up(self) -> History {
        History { operations: self.asked, ended: self.clock.now(), ..History::default() }
    }

    /// Runs `operations` and everything that belongs to them.
    pub async fn window(&mut self, operations: u64) -> History {
        {
            let mut known = self.known.lock();
            known.remaining = operations;
            known.until = self.clock.elapsed() + self.options.duration;
        }
        let (phase, watching) = watch::channel(Phase::Running);
        let seed = self.seed.wrapping_add(self.windows.wrapping_mul(0x1_0000));
        self.windows += 1;
        let clients = self.options.clients;
        let mut askers = JoinSet::new();
        for client in 0..clients {
            askers.spawn(self.asker(client, seed).run());
        }
        let mut watchers = JoinSet::new();
        for number in 0..self.options.watchers {
            let watcher = self.watcher(clients + number, seed, watching.clone());
            watchers.spawn(watcher.run());
        }
        let witness = tokio::spawn(self.witness(watching).run());

        let mut history = History {
            first_revision: self.revision,
            first_compacted: self.first_compacted,
            ..History::default()
        };
        while let Some(done) = askers.join_next().await {
            history.operations.extend(done.expect("a client does not panic"));
        }
        self.read_everything(&mut history).await;
        // Without a last read nothing is due; the watchers end.
        let revision = history.final_revision.unwrap_or(0);
        // Receivers that are gone have ended by themselves.
        let _ = phase.send(Phase::Draining { revision });
        let mut watched = Vec::new();
        while let Some(done) = watchers.join_next().await {
            watched.push(done.expect("a watcher does not panic"));
        }
        watched.sort_by_key(|watched: &streams::Watched| watched.client);
        for watched in watched {
            take_streams(&mut history, watched);
        }
        history.witness = witness.await.expect("the witness does not panic");
        if !history.witness.last().is_some_and(|stream| stream.drained) {
            history.unsettled.push(clients + self.options.watchers);
        }
        history.operations.append(&mut self.asked);
        history.operations.sort_by_key(|operation| operation.invoked.order);
        history.ended = self.clock.now();
        self.revision = history.final_revision.unwrap_or(self.revision);
        history
    }

    /// Deletes all keys and leases, so that the store can be used again.
    pub async fn clean(&mut self) {
        let everything = everything();
        let delete =
            crate::op::Delete { key: everything.key, range_end: everything.range_end, prev_kv: false };
        self.insist(Request::Delete(delete)).await;
        if let Some(Answer::Leases { ids, .. }) = self.insist(Request::Leases).await {
            for id in ids {
                self.insist(Request::Revoke { id }).await;
            }
        }
        self.asked.clear();
    }

    /// Reads all pairs and leases; it is tried until it is answered or [`Options::settle`] has passed.
    async fn read_everything(&mut self, history: &mut History) {
        if let Some(Answer::Range(last)) = self.insist(Request::Range(everything())).await {
            history.final_revision = Some(last.revision);
            history.final_pairs = last.kvs;
            history.final_read = self.asked.last().map(|last| last.invoked).unwrap_or_default();
        }
        self.insist(Request::Leases).await;
    }

    /// Asks until it is answered or refused, or [`Options::settle`] has passed; notes each try.
    async fn insist(&mut self, request: Request) -> Option<Answer> {
        let until = self.clock.elapsed() + self.options.settle;
        let mut members = self.members();
        let (count, client) = (members.len(), self.options.clients + self.options.watchers + 1);
        for at in (0..count).cycle() {
            let timeout = self.options.request_timeout;
            let asked = clients::ask(&mut members[at], client, &self.clock, timeout, request.clone()).await;
            self.asked.push(asked.clone());
            match asked.outcome {
                Outcome::Answered(answer) => return Some(answer),
                Outcome::Refused(_) => return None,
                Outcome::Unknown(_) if self.clock.elapsed() >= until => return None,
                Outcome::Unknown(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
        None
    }

    fn members(&self) -> Vec<Client> {
        self.channels.iter().map(|channel| Client::new(channel.clone())).collect()
    }

    fn asker(&self, client: u32, seed: u64) -> clients::Asker {
        clients::Asker {
            client,
            members: self.members(),
            profile: self.profile,
            random: chance::generator(seed, u64::from(client) + 1),
            known: Arc::clone(&self.known),
            clock: self.clock.clone(),
            options: self.options.clone(),
        }
    }

    fn watcher(&self, client: u32, seed: u64, phase: watch::Receiver<Phase>) -> streams::Watcher {
        streams::Watcher {
            client,
            members: self.members(),
            profile: self.profile,
            random: chance::generator(seed, u64::from(client) + 1),
            known: Arc::clone(&self.known),
            clock: self.clock.clone(),
            options: self.options.clone(),
            phase,
        }
    }

    fn witness(&self, phase: watch::Receiver<Phase>) -> witness::Witness {
        witness::Witness {
            client: self.options.clients + self.options.watchers,
            members: self.members(),
            known: Arc::clone(&self.known),
            clock: self.clock.clone(),
            phase,
            next: self.revision + 1,
            request_timeout: self.options.request_timeout,
            settle: self.options.settle,
        }
    }
}

/// Appends what one watching client saw.
fn take_streams(history: &mut History, watched: streams::Watched) {
    if !watched.settled {
        history.unsettled.push(watched.client);
    }
    let offset = history.streams.len();
    history.streams.extend(watched.streams);
    history.resumed.extend(watched.resumed.into_iter().map(|mut resumed| {
        resumed.from.0 += offset;
        resumed.to.0 += offset;
        resumed
    }));
}

/// All keys.
fn everything() -> Range {
    let all = Bytes::from_static(b"\0");
    Range { key: all.clone(), range_end: all, ..Range::default() }
}
