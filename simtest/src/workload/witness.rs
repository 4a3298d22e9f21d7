//! A watch over all keys from the beginning. It tells which requests of unknown outcome were done, and when, so
//! that the checkers have one order of everything that happened.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::client::{Client, WatchLink, lost};
use crate::history::{Clock, Stream, StreamEnd};
use crate::op::{WatchCreate, WatchRequest};
use crate::workload::Phase;
use crate::workload::knowledge::Knowledge;

/// Pause between two tries, and between two requests for progress when the run ends.
const PAUSE: Duration = Duration::from_millis(50);

/// What the witness needs.
pub(crate) struct Witness {
    /// The client's number.
    pub(crate) client: u32,
    /// One for each channel.
    pub(crate) members: Vec<Client>,
    pub(crate) known: Arc<Mutex<Knowledge>>,
    pub(crate) clock: Clock,
    pub(crate) phase: watch::Receiver<Phase>,
    /// First revision to tell.
    pub(crate) next: i64,
    pub(crate) request_timeout: Duration,
    /// How long it is waited for after the run.
    pub(crate) settle: Duration,
}

impl Witness {
    /// Watches until everything has come, or was waited for long enough.
    pub(crate) async fn run(mut self) -> Vec<Stream> {
        let mut streams = Vec::new();
        let mut deadline = None;
        for member in (0..self.members.len()).cycle() {
            let stream = self.stream(member, &mut deadline).await;
            let done = stream.drained || deadline.is_some_and(|deadline| Instant::now() >= deadline);
            streams.push(stream);
            if done || self.phase.has_changed().is_err() {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
        streams
    }

    async fn stream(&mut self, member: usize, deadline: &mut Option<Instant>) -> Stream {
        let all = Bytes::from_static(b"\0");
        let create = WatchRequest::Create(WatchCreate {
            key: all.clone(),
            range_end: all,
            start_revision: self.next,
            ..WatchCreate::default()
        });
        let mut stream = Stream {
            client: self.client,
            requests: vec![(self.clock.now(), create.clone())],
            messages: Vec::new(),
            end: (self.clock.now(), StreamEnd::Left),
            drained: false,
        };
        let opened = tokio::time::timeout(self.request_timeout, self.members[member].watch(&create)).await;
        let end = match opened {
            Ok(Ok(mut link)) => self.follow(&mut stream, &mut link, deadline).await,
            Ok(Err(refusal)) => StreamEnd::Broken(refusal),
            Err(_) => StreamEnd::Broken(lost("the stream did not open in time")),
        };
        stream.end = (self.clock.now(), end);
        stream
    }

    async fn follow(
        &mut self,
        stream: &mut Stream,
        link: &mut WatchLink,
        deadline: &mut Option<Instant>,
    ) -> StreamEnd {
        loop {
            let ending = match *self.phase.borrow() {
                Phase::Running => None,
                Phase::Draining { revision } => Some(revision),
            };
            if let Some(revision) = ending {
                let until = *deadline.get_or_insert_with(|| Instant::now() + self.settle);
                stream.drained = self.next > revision;
                if stream.drained || Instant::now() >= until {
                    return StreamEnd::Left;
                }
                // A stream that was left half open would else never tell that it is broken.
                stream.requests.push((self.clock.now(), WatchRequest::Progress));
                link.send(&WatchRequest::Progress);
            }
            tokio::select! {
                biased;
                message = link.receive() => match message {
                    Ok(message) => {
                        if let Some(last) = message.events.last() {
                            self.next = last.kv.mod_revision + i64::from(!message.fragment);
                            let mut known = self.known.lock();
                            known.witnessed = known.witnessed.max(self.next - 1);
                            known.newest = known.newest.max(message.revision);
                        }
                        let canceled = message.canceled;
                        stream.messages.push((self.clock.now(), message));
                        if canceled {
                            return StreamEnd::Left;
                        }
                    }
                    Err(refusal) => return StreamEnd::Broken(refusal),
                },
                changed = self.phase.changed() => {
                    if changed.is_err() {
                        return StreamEnd::Left;
                    }
                }
                () = tokio::time::sleep(PAUSE), if ending.is_some() => {}
            }
        }
    }
}
