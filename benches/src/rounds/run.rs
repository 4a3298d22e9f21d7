//! The rounds themselves: load, kill, start again, verify.
//!
//! A run stops at the first round with findings, so that the data directory and the log show what led to them. Without a
//! server of its own ([`Options::server_command`] is `None`) nothing is killed: one round on a server that runs already
//! and that nobody else writes to.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use prost::Message;
use rand::Rng;
use rand::rngs::StdRng;
use serde::Serialize;
use tokio::task::JoinHandle;

use super::check;
use super::follower::Follower;
use super::history::History;
use super::names::{PREFIX, row};
use super::record::{Call, Finding, KeyId, Outcome, Row};
use super::server::{Server, head_revision};
use super::writer::{Recorder, write};
use crate::client::wire::{self, frame, path, prefix_end};
use crate::client::{Connection, Endpoint, Failure};
use crate::clock;
use crate::load::payload::slot_random;

/// A watch that does not reach its goal in this time is stalled.
const WATCH_PATIENCE: Duration = Duration::from_secs(30);
/// A compaction is given up after this time; the kill may well come first.
const COMPACT_TIMEOUT: Duration = Duration::from_millis(500);
/// How far back a round's second watch begins at most, in revisions.
const OLD_WATCH_MAX: i64 = 5_000;
/// The longest life of a server that is killed while it starts.
const SHORT_LIFE_MS: u64 = 40;
/// gRPC's code for a revision that is compacted away.
const OUT_OF_RANGE: i32 = 11;
/// A run of so many rounds without a single call in doubt has tested nothing.
const ROUNDS_WITHOUT_DOUBT_MAX: u64 = 10;

/// What to do.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// Where the server listens.
    pub(crate) endpoint: Endpoint,
    /// The shell command that starts it.
    pub(crate) server_command: Option<String>,
    /// Its output is appended here.
    pub(crate) server_log: PathBuf,
    /// How long it may take to start.
    pub(crate) ready_patience: Duration,
    /// Rounds.
    pub(crate) rounds: u64,
    /// Shortest and longest load of a round, in milliseconds.
    pub(crate) round_ms: (u64, u64),
    /// Connections of writers.
    pub(crate) connections: usize,
    /// Writers on each.
    pub(crate) calls: usize,
    /// Keys; few, so that writers meet.
    pub(crate) keys: KeyId,
    /// Bytes of a value.
    pub(crate) value_bytes: usize,
    /// Seed of what is random.
    pub(crate) seed: u64,
    /// How often, in percent, a server is also killed while it starts.
    pub(crate) kill_starting_percent: u32,
    /// Compact to the round's first revision in every so many rounds; 0 is never.
    pub(crate) compact_every: u64,
}

/// What came of it.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Summary {
    /// Rounds verified.
    pub(crate) rounds: u64,
    /// Kills under load.
    pub(crate) kills: u64,
    /// Kills while starting.
    pub(crate) kills_while_starting: u64,
    /// Compactions acknowledged.
    pub(crate) compactions: u64,
    /// Calls acknowledged as written.
    pub(crate) calls_wrote: u64,
    /// Calls acknowledged as having read only.
    pub(crate) calls_read: u64,
    /// Writes without an answer that had happened.
    pub(crate) in_doubt_applied: u64,
    /// Writes without an answer that had not.
    pub(crate) in_doubt_lost: u64,
    /// Events told and checked.
    pub(crate) events: u64,
    /// Progress answers checked.
    pub(crate) progress_answers: u64,
    /// The last revision.
    pub(crate) revision: i64,
    /// From start to first linearizable read, median, in milliseconds.
    pub(crate) start_ms_median: f64,
    /// The slowest.
    pub(crate) start_ms_max: f64,
    /// Failures of calls by text.
    pub(crate) failures: BTreeMap<String, u64>,
    /// Promises broken.
    pub(crate) findings: Vec<Finding>,
}

/// A follower at work, and the goal to set when it is known.
struct Following {
    task: JoinHandle<Follower>,
    goal: Rc<Cell<i64>>,
}

struct Run<'a> {
    options: &'a Options,
    random: StdRng,
    server: Option<Server>,
    history: History,
    recorder: Rc<Recorder>,
    /// Follows over all rounds; its events are those of the round.
    long: Follower,
    /// Reads below this revision are refused, if the last compaction happened.
    compacted: i64,
    start_ms: Vec<f64>,
    summary: Summary,
}

/// Runs all rounds.
///
/// # Errors
/// [`Failure`] if the rounds could not be run: the server never started, or there is none. Broken promises are in the
/// summary.
pub(crate) async fn run(options: &Options) -> Result<Summary, Failure> {
    let mut run = Run {
        options,
        random: slot_random(options.seed, usize::MAX),
        server: None,
        history: History::default(),
        recorder: Rc::new(Recorder::new(options.keys, options.value_bytes)),
        long: Follower::new(1),
        compacted: 0,
        start_ms: Vec::new(),
        summary: Summary::default(),
    };
    if options.server_command.is_some() && Connection::open(&options.endpoint).await.is_ok() {
        let reason = format!("somebody listens at {} already", options.endpoint.authority);
        return Err(Failure::Usage(reason));
    }
    run.restart().await?;
    let base = clear(&options.endpoint).await?;
    run.history = History::new(base);
    run.long = Follower::new(base + 1);
    for number in 1..=options.rounds {
        run.round(number).await?;
        run.summary.rounds = number;
        if !run.summary.findings.is_empty() {
            return Ok(run.finish());
        }
    }
    run.verify_whole().await;
    Ok(run.finish())
}

/// Deletes what an earlier run left; returns the revision after it.
async fn clear(endpoint: &Endpoint) -> Result<i64, Failure> {
    let mut connection = Connection::open(endpoint).await?;
    let request = wire::DeleteRangeRequest { key: PREFIX.into(), range_end: prefix_end(PREFIX.as_bytes()) };
    connection.unary(path::DELETE_RANGE, frame(&request)).await?;
    head_revision(endpoint).await
}

impl Run<'_> {
    /// Starts the server, after a short life now and then, and waits for it; returns its revision. Without a server of
    /// our own, only asks for the revision.
    async fn restart(&mut self) -> Result<i64, Failure> {
        let Some(command) = &self.options.server_command else {
            return head_revision(&self.options.endpoint).await;
        };
        if self.summary.kills > 0 && self.random.random_range(0..100) < self.options.kill_starting_percent {
            let mut server = Server::start(command, &self.options.server_log)?;
            tokio::time::sleep(Duration::from_millis(self.random.random_range(0..SHORT_LIFE_MS))).await;
            server.kill()?;
            self.summary.kills_while_starting += 1;
        }
        let begun = clock::now();
        let mut server = Server::start(command, &self.options.server_log)?;
        let revision = server.ready(&self.options.endpoint, self.options.ready_patience).await?;
        self.start_ms.push(clock::nanos_between(begun, clock::now()) as f64 / 1e6);
        self.server = Some(server);
        Ok(revision)
    }

    async fn round(&mut self, number: u64) -> Result<(), Failure> {
        let (base, options) = (self.history.head(), self.options);
        let load_ms = self.random.random_range(options.round_ms.0..=options.round_ms.1);
        let half = Duration::from_millis(load_ms) / 2;
        self.recorder.stop.set(false);
        let writers: Vec<_> = (0..options.connections * options.calls)
            .map(|slot| {
                let random = slot_random(self.random.random(), slot);
                tokio::task::spawn_local(write(Rc::clone(&self.recorder), options.endpoint.clone(), random))
            })
            .collect();
        let long = std::mem::replace(&mut self.long, Follower::new(base + 1));
        let long = self.set_off(long);
        tokio::time::sleep(half).await;
        let compact = self.options.compact_every > 0 && number.is_multiple_of(self.options.compact_every);
        if compact && base > self.compacted {
            // Said before it is done: no watch of this round may need what it takes away.
            self.compacted = base;
        }
        let earliest = (base - OLD_WATCH_MAX).max(self.history.base).max(self.compacted) + 1;
        let from = self.random.random_range(earliest..=base + 1);
        let old = self.set_off(Follower::new(from));
        let compacted = compact && self.compact(base).await;
        tokio::time::sleep(half).await;

        self.recorder.stop.set(true);
        if let Some(mut server) = self.server.take() {
            if let Some(end) = server.ended() {
                self.summary.findings.push(Finding::new("exited", end));
            }
            server.kill()?;
            self.summary.kills += 1;
        }
        for writer in writers {
            writer.await.map_err(|error| Failure::Transport(format!("a writer ended: {error}")))?;
        }
        let head = match self.restart().await {
            Ok(head) => head,
            Err(failure) => {
                self.summary.findings.push(Finding::new("start", failure.to_string()));
                return Ok(());
            }
        };
        let calls = self.recorder.take_calls();
        self.verify(base, head, &calls).await;
        let old = self.arrive(old, head).await;
        self.compare(&old, old.from, head);
        let mut long = self.arrive(long, head).await;
        self.compare(&long, base + 1, head);
        (long.from, long.findings) = (head + 1, Vec::new());
        long.events.clear();
        long.goal = Rc::new(Cell::new(i64::MAX));
        self.long = long;
        self.lists(base, head, compacted).await;
        let start_ms = self.start_ms.last().copied().unwrap_or(0.0);
        let in_doubt = calls.iter().filter(|call| call.outcome == Outcome::Unknown).count();
        eprintln!(
            "round {number}: {load_ms} ms, {} calls, {in_doubt} in doubt, revision {base} -> {head}, start {start_ms:.0} ms",
            calls.len()
        );
        Ok(())
    }

    /// Compacts to `base`. Returns whether that was acknowledged.
    async fn compact(&mut self, base: i64) -> bool {
        let endpoint = self.options.endpoint.clone();
        let acknowledged = tokio::time::timeout(COMPACT_TIMEOUT, async move {
            let request = wire::CompactionRequest { revision: base, physical: false };
            Connection::open(&endpoint).await?.unary(path::COMPACT, frame(&request)).await
        });
        let acknowledged = matches!(acknowledged.await, Ok(Ok(_)));
        self.summary.compactions += u64::from(acknowledged);
        acknowledged
    }

    fn set_off(&self, mut follower: Follower) -> Following {
        let goal = Rc::clone(&follower.goal);
        let endpoint = self.options.endpoint.clone();
        let task = tokio::task::spawn_local(async move {
            // Broken by the kill; `arrive` goes on from there.
            let _ = follower.follow(&endpoint).await;
            follower
        });
        Following { task, goal }
    }

    /// Lets a follower go on until it has been told everything up to `head`.
    async fn arrive(&mut self, following: Following, head: i64) -> Follower {
        following.goal.set(head);
        let endpoint = &self.options.endpoint;
        let stalled = |next: i64| {
            let come_to = next - 1;
            Finding::new(
                "stalled",
                format!("a watch is at {come_to} after {WATCH_PATIENCE:?}, the head is {head}"),
            )
        };
        let Ok(joined) = tokio::time::timeout(WATCH_PATIENCE, following.task).await else {
            let mut lost = Follower::new(head + 1);
            lost.findings.push(stalled(0));
            return lost;
        };
        let mut follower = joined.expect("a follower does not panic");
        let arrived = tokio::time::timeout(WATCH_PATIENCE, async {
            while follower.next <= head && follower.findings.is_empty() {
                if follower.follow(endpoint).await.is_err() {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
        });
        if arrived.await.is_err() {
            let next = follower.next;
            follower.findings.push(stalled(next));
        }
        self.summary.progress_answers += follower.progress_answers;
        follower.progress_answers = 0;
        follower
    }

    /// A follower's findings, and its events against the history.
    fn compare(&mut self, follower: &Follower, from: i64, head: i64) {
        self.summary.events += follower.events.len() as u64;
        self.summary.findings.extend_from_slice(&follower.findings);
        self.summary.findings.extend(check::followed(&self.history, from, head, &follower.events));
    }

    /// Everything that a fresh watch of the round tells against everything that was called.
    async fn verify(&mut self, base: i64, head: i64, calls: &[Call]) {
        let fresh = self.set_off(Follower::new(base + 1));
        let told = self.arrive(fresh, head).await;
        let (findings, in_doubt) = check::round(&mut self.history, head, &told.events, calls);
        self.summary.findings.extend(told.findings);
        self.summary.findings.extend(self.recorder.findings.take());
        self.summary.findings.extend(findings);
        self.summary.events += told.events.len() as u64;
        self.summary.in_doubt_applied += in_doubt.applied;
        self.summary.in_doubt_lost += in_doubt.lost;
        for call in calls {
            match call.outcome {
                Outcome::Wrote { .. } => self.summary.calls_wrote += 1,
                Outcome::Read { .. } => self.summary.calls_read += 1,
                Outcome::Unknown => {}
            }
        }
    }

    /// Lists at the head and at an older revision; after a compaction also below it, where it must be refused.
    async fn lists(&mut self, base: i64, head: i64, compacted: bool) {
        let older = self.random.random_range(base.max(self.compacted)..=head.max(base));
        for revision in [head, older] {
            match self.list(revision).await {
                Ok(Ok(rows)) => self.summary.findings.extend(check::listed(&self.history, revision, &rows)),
                Ok(Err(finding)) => self.summary.findings.push(finding),
                Err(failure) => {
                    self.summary
                        .findings
                        .push(Finding::new("rows", format!("a list at {revision}: {failure}")));
                }
            }
        }
        if compacted && self.compacted > 1 {
            let answer = self.list(self.compacted - 1).await;
            if !matches!(answer, Err(Failure::Status { code: OUT_OF_RANGE, .. })) {
                let detail = format!("{} was compacted, a list below it answers {answer:?}", self.compacted);
                self.summary.findings.push(Finding::new("compacted", detail));
            }
        }
    }

    async fn list(&self, revision: i64) -> Result<Result<Vec<(KeyId, Row)>, Finding>, Failure> {
        let (key, range_end) = (PREFIX.into(), prefix_end(PREFIX.as_bytes()));
        let request = wire::RangeRequest { key, range_end, revision, ..Default::default() };
        let mut connection = Connection::open(&self.options.endpoint).await?;
        let answer = wire::RangeResponse::decode(connection.unary(path::RANGE, frame(&request)).await?)?;
        Ok(answer.kvs.iter().map(row).collect())
    }

    /// The whole history once more, from the first revision that is kept.
    async fn verify_whole(&mut self) {
        let (from, head) = (self.history.base.max(self.compacted) + 1, self.history.head());
        let whole = self.set_off(Follower::new(from));
        let whole = self.arrive(whole, head).await;
        self.compare(&whole, from, head);
    }

    fn finish(mut self) -> Summary {
        let summary = &mut self.summary;
        let in_doubt = summary.in_doubt_applied + summary.in_doubt_lost;
        if summary.kills >= ROUNDS_WITHOUT_DOUBT_MAX && in_doubt == 0 {
            summary
                .findings
                .push(Finding::new("tame", format!("{} kills and no call in doubt", summary.kills)));
        }
        self.start_ms.sort_by(f64::total_cmp);
        summary.start_ms_median = self.start_ms.get(self.start_ms.len() / 2).copied().unwrap_or(0.0);
        summary.start_ms_max = self.start_ms.last().copied().unwrap_or(0.0);
        summary.revision = self.history.head();
        summary.failures = self.recorder.failures.take();
        self.summary
    }
}
