//! openraft's log on the node's one log.
//!
//! Appending is memory only; the answer to openraft ("flushed") comes from [`Committer::step`], which writes
//! and syncs one frame for all that waits and then completes everything up to what is durable. Votes take the
//! same way, so votes and entries keep their order.
//!
//! INVARIANT: completions are called in the order of their tickets.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use engine::log::{Kind, Log, Record, Ticket};
use openraft::storage::{IOFlushed, LogState, RaftLogReader, RaftLogStorage};
use openraft::type_config::alias::{EntryOf, LogIdOf, VoteOf};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::types::{HOME, TypeConfig, entry_of, log_id, position, record_of};

/// Bodies read from the log in one go, bytes.
const READ_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Wakes the thread or task that calls [`Committer::step`].
pub(crate) type Wake = Arc<dyn Fn() + Send + Sync>;

/// Who waits for records to be durable.
enum Waiter {
    Append(IOFlushed<TypeConfig>),
    Vote(oneshot::Sender<io::Result<()>>),
}

impl Waiter {
    fn complete(self, result: io::Result<()>) {
        match self {
            Waiter::Append(flushed) => flushed.io_completed(result),
            // openraft is shutting down if it no longer waits for its vote.
            Waiter::Vote(sender) => drop(sender.send(result)),
        }
    }
}

/// Makes appended records durable. Its owner calls [`Committer::step`] whenever the wake-up given at the
/// opening of the store fires.
pub struct Committer {
    log: Arc<Log>,
    waiters: Mutex<VecDeque<(Ticket, Waiter)>>,
    wake: Wake,
}

impl Debug for Committer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Committer").finish_non_exhaustive()
    }
}

impl Committer {
    pub(super) fn new(log: Arc<Log>, wake: Wake) -> Arc<Self> {
        Arc::new(Committer { log, waiters: Mutex::new(VecDeque::new()), wake })
    }

    /// Writes and syncs one frame of what was appended, and tells whoever waited. Whether there was any.
    ///
    /// # Errors
    /// The log's error; the log then accepts nothing more, and the process should end.
    pub fn step(&self) -> engine::Result<bool> {
        match self.log.commit_step() {
            Ok(None) => Ok(false),
            Ok(Some(durable)) => {
                for waiter in self.take(|ticket| ticket <= durable) {
                    waiter.complete(Ok(()));
                }
                Ok(true)
            }
            Err(error) => {
                for waiter in self.take(|_| true) {
                    waiter.complete(Err(io::Error::other(error.to_string())));
                }
                Err(error)
            }
        }
    }

    /// To be called at a clean stop, when nothing waits any more: writes down how far the log reaches.
    ///
    /// # Errors
    /// The log's error.
    pub fn end(&self) -> engine::Result<()> {
        self.log.note_end()
    }

    fn take(&self, done: impl Fn(Ticket) -> bool) -> Vec<Waiter> {
        let mut waiters = self.waiters.lock();
        let n = waiters.iter().take_while(|(ticket, _)| done(*ticket)).count();
        waiters.drain(..n).map(|(_, waiter)| waiter).collect()
    }

    fn append(&self, records: impl IntoIterator<Item = Record>, waiter: Waiter) -> io::Result<()> {
        {
            // Under one lock, so that waiters stand in the order of their tickets.
            let mut waiters = self.waiters.lock();
            let ticket = self.log.append(records).map_err(into_io)?;
            waiters.push_back((ticket, waiter));
        }
        (self.wake)();
        Ok(())
    }
}

/// See the module's text.
#[derive(Clone)]
pub(super) struct LogStore {
    log: Arc<Log>,
    committer: Arc<Committer>,
}

impl LogStore {
    pub(super) fn new(log: Arc<Log>, committer: Arc<Committer>) -> Self {
        LogStore { log, committer }
    }

    /// Entries by openraft's indexes.
    fn entries(&self, from: u64, to: u64, bytes_max: usize) -> io::Result<Vec<EntryOf<TypeConfig>>> {
        let (from, to) = (from.saturating_add(1), to.saturating_add(1));
        let stored = self.log.entries(HOME, from, to, bytes_max).map_err(into_io)?;
        stored.into_iter().map(entry_of).collect()
    }
}

impl RaftLogReader<TypeConfig> for LogStore {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + Debug + Send>(
        &mut self,
        range: R,
    ) -> io::Result<Vec<EntryOf<TypeConfig>>> {
        let from = match range.start_bound() {
            Bound::Included(from) => *from,
            Bound::Excluded(before) => before + 1,
            Bound::Unbounded => 0,
        };
        let to = match range.end_bound() {
            Bound::Included(last) => last + 1,
            Bound::Excluded(to) => *to,
            Bound::Unbounded => u64::MAX,
        };
        self.entries(from, to, usize::MAX)
    }

    async fn limited_get_log_entries(
        &mut self,
        start: u64,
        end: u64,
    ) -> io::Result<Vec<EntryOf<TypeConfig>>> {
        self.entries(start, end, READ_BYTES_MAX)
    }

    async fn read_vote(&mut self) -> io::Result<Option<VoteOf<TypeConfig>>> {
        match self.log.vote(HOME) {
            Some(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            None => Ok(None),
        }
    }
}

impl RaftLogStorage<TypeConfig> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<TypeConfig>> {
        let Some(bounds) = self.log.bounds(HOME) else { return Ok(LogState::default()) };
        let id = |(term, index): (u64, u64)| (index > 0).then(|| log_id(term, index));
        Ok(LogState { last_purged_log_id: id(bounds.purged), last_log_id: id(bounds.last) })
    }

    async fn get_log_reader(&mut self) -> Self::LogReader {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &VoteOf<TypeConfig>) -> io::Result<()> {
        let body = serde_json::to_vec(vote)?.into();
        let record = Record { group: HOME, kind: Kind::Vote, term: vote.leader_id.term, index: 0, body };
        let (sender, durable) = oneshot::channel();
        self.committer.append([record], Waiter::Vote(sender))?;
        durable.await.map_err(|_| io::Error::other("the log was closed"))?
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<TypeConfig>) -> io::Result<()>
    where
        I: IntoIterator<Item = EntryOf<TypeConfig>> + Send,
        I::IntoIter: Send,
    {
        let records = entries.into_iter().map(record_of).collect::<io::Result<Vec<_>>>()?;
        self.committer.append(records, Waiter::Append(callback))
    }

    async fn truncate_after(&mut self, last: Option<LogIdOf<TypeConfig>>) -> io::Result<()> {
        let index = last.map_or(1, |last| position(&last).1 + 1);
        let record = Record { group: HOME, kind: Kind::Truncate, term: 0, index, body: bytes::Bytes::new() };
        self.log.append([record]).map_err(into_io)?;
        Ok(())
    }

    async fn purge(&mut self, upto: LogIdOf<TypeConfig>) -> io::Result<()> {
        let (term, index) = position(&upto);
        self.log.purge(HOME, term, index);
        Ok(())
    }
}

fn into_io(error: engine::Error) -> io::Error {
    io::Error::other(error.to_string())
}
