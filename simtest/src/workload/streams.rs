//! A client that watches: several watches on a stream, created, cancelled and asked how far they are at random;
//! streams that it leaves or that break, and watches that go on on the next stream where they were.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::Rng as _;
use rand::rngs::StdRng;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::client::{Client, WatchLink, lost};
use crate::history::{Clock, Resumed, Stream, StreamEnd};
use crate::op::{WatchCreate, WatchMessage, WatchRequest};
use crate::workload::chance::permille;
use crate::workload::knowledge::Knowledge;
use crate::workload::{Options, Phase, Profile, kubernetes, mixed};

/// Most watches at once on a stream.
const WATCHES_MAX: usize = 4;

/// Longest pause between two requests of a stream.
const PAUSE_MAX: Duration = Duration::from_millis(80);

/// Pause between two requests for progress when the run ends, and between two tries to open a stream.
const DRAIN_PAUSE: Duration = Duration::from_millis(50);

/// What a watching client needs.
pub(crate) struct Watcher {
    /// The client's number.
    pub(crate) client: u32,
    /// One for each channel.
    pub(crate) members: Vec<Client>,
    pub(crate) profile: Profile,
    pub(crate) random: StdRng,
    pub(crate) known: Arc<Mutex<Knowledge>>,
    pub(crate) clock: Clock,
    pub(crate) options: Options,
    pub(crate) phase: watch::Receiver<Phase>,
}

/// What a watching client saw.
pub(crate) struct Watched {
    /// The client's number.
    pub(crate) client: u32,
    pub(crate) streams: Vec<Stream>,
    /// Which watch went on from which; the numbers of streams count from 0.
    pub(crate) resumed: Vec<Resumed>,
    /// Whether everything due has come.
    pub(crate) settled: bool,
}

/// A watch that the client has, or goes on with on its next stream.
#[derive(Debug, Clone)]
struct Live {
    create: WatchCreate,
    /// Its id, once the server has told.
    id: Option<i64>,
    /// Place of its create request on its stream.
    request: usize,
    /// First revision that it has not seen to the end.
    next: i64,
    /// Whether `next` comes from a progress answer.
    bookmark: bool,
    /// Whether the client has asked to cancel it.
    leaving: bool,
}

/// What the client does next.
enum Turn {
    /// Goes on with this stream.
    Stay,
    /// Leaves it and opens another.
    Leave,
    /// Ends: everything due has come.
    Done,
}

impl Watcher {
    /// Watches until the run ends and everything due has come, or was waited for long enough.
    pub(crate) async fn run(mut self) -> Watched {
        let (mut streams, mut resumed) = (Vec::new(), Vec::new());
        let mut lives: Vec<Live> = Vec::new();
        let mut deadline = None;
        loop {
            let ending = matches!(*self.phase.borrow(), Phase::Draining { .. });
            let given_up = deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if ending && (lives.is_empty() || given_up) {
                return Watched { client: self.client, streams, resumed, settled: lives.is_empty() };
            }
            let number = streams.len();
            let before = std::mem::take(&mut lives);
            let (stream, kept, links) = self.stream(before, &mut deadline).await;
            lives = kept;
            resumed.extend(links.into_iter().map(|(from, to, bookmark)| Resumed {
                from: (number.wrapping_sub(1), from),
                to: (number, to),
                bookmark,
            }));
            let drained = stream.drained;
            streams.push(stream);
            if drained {
                return Watched { client: self.client, streams, resumed, settled: true };
            }
            tokio::time::sleep(DRAIN_PAUSE).await;
        }
    }

    /// One stream from its opening to its end. `before` are the watches to go on with.
    async fn stream(
        &mut self,
        before: Vec<Live>,
        deadline: &mut Option<Instant>,
    ) -> (Stream, Vec<Live>, Vec<(usize, usize, bool)>) {
        let mut open = Open::new(self.client, self.clock.clone());
        let mut links = Vec::new();
        for live in before {
            let confirmed = live.id.is_some();
            let mut create = live.create.clone();
            if confirmed {
                create.start_revision = live.next;
                links.push((live.request, open.stream.requests.len(), live.bookmark));
            }
            open.note_create(create);
        }
        if open.lives.is_empty() {
            let create = self.create();
            open.note_create(create);
        }
        let member = self.random.random_range(0..self.members.len());
        let first = open.stream.requests[0].1.clone();
        let opened =
            tokio::time::timeout(self.options.request_timeout, self.members[member].watch(&first)).await;
        let mut link = match opened {
            Ok(Ok(link)) => link,
            Ok(Err(refusal)) => return open.end(StreamEnd::Broken(refusal), links),
            Err(_) => return open.end(StreamEnd::Broken(lost("the stream did not open in time")), links),
        };
        for (_, request) in &open.stream.requests[1..] {
            link.send(request);
        }
        let end = self.follow(&mut open, &mut link, deadline).await;
        open.end(end, links)
    }

    /// Reads messages and makes requests until the stream ends or the client leaves it.
    async fn follow(
        &mut self,
        open: &mut Open,
        link: &mut WatchLink,
        deadline: &mut Option<Instant>,
    ) -> StreamEnd {
        loop {
            let ending = match *self.phase.borrow() {
                Phase::Running => None,
                Phase::Draining { revision } => Some(revision),
            };
            let pause = match ending {
                Some(_) => DRAIN_PAUSE,
                None => self.random.random_range(Duration::from_millis(1)..PAUSE_MAX),
            };
            let tick = tokio::time::sleep(pause);
            tokio::pin!(tick);
            let mut phase = self.phase.clone();
            phase.mark_unchanged();
            // Messages until the pause is over; then one request of the client's own.
            loop {
                tokio::select! {
                    biased;
                    () = &mut tick => break,
                    changed = phase.changed(), if ending.is_none() => {
                        // A driver that is gone has given up its run.
                        if changed.is_err() {
                            return StreamEnd::Left;
                        }
                        break;
                    }
                    message = link.receive() => match message {
                        Ok(message) => {
                            open.take(message, ending);
                            if open.stream.drained {
                                return StreamEnd::Left;
                            }
                        }
                        Err(refusal) => return StreamEnd::Broken(refusal),
                    },
                }
            }
            let turn = match ending {
                None => self.act(open, link),
                Some(revision) => {
                    let until = *deadline.get_or_insert_with(|| Instant::now() + self.options.settle);
                    if Instant::now() >= until { Turn::Leave } else { drain(open, link, revision) }
                }
            };
            match turn {
                Turn::Stay => {}
                Turn::Leave | Turn::Done => return StreamEnd::Left,
            }
        }
    }

    fn create(&mut self) -> WatchCreate {
        let known = self.known.lock();
        match self.profile {
            Profile::Mixed => mixed::watch(&mut self.random, &known),
            Profile::Kubernetes => kubernetes::watch(&mut self.random, &known),
        }
    }

    /// One thing that a client does on a stream.
    fn act(&mut self, open: &mut Open, link: &WatchLink) -> Turn {
        let (create, cancel, leave) = match self.profile {
            Profile::Mixed => (350, 150, 30),
            Profile::Kubernetes => (200, 20, 15),
        };
        let choice = self.random.random_range(0..1000);
        if choice < create {
            if open.lives.len() < WATCHES_MAX {
                let create = self.create();
                link.send(&open.note_create(create));
            }
        } else if choice < create + cancel {
            let at = self.random.random_range(0..=open.lives.len());
            if let Some(live) = open.lives.get_mut(at) {
                if let Some(id) = live.id.filter(|_| !live.leaving) {
                    live.leaving = true;
                    link.send(&open.note(WatchRequest::Cancel { watch_id: id }));
                }
            } else {
                // One that there is not: nothing is answered.
                link.send(&open.note(WatchRequest::Cancel { watch_id: 77 }));
            }
        } else if choice < create + cancel + leave {
            // Most watches go on on the next stream.
            let random = &mut self.random;
            open.lives.retain(|_| permille(random, 850));
            return Turn::Leave;
        } else {
            link.send(&open.note(WatchRequest::Progress));
        }
        Turn::Stay
    }
}

/// Asks for what is still due up to `revision`. A watch that begins after it would keep the server from answering.
fn drain(open: &mut Open, link: &WatchLink, revision: i64) -> Turn {
    let mut cancels = Vec::new();
    for live in &mut open.lives {
        if live.create.start_revision > revision
            && !live.leaving
            && let Some(id) = live.id
        {
            live.leaving = true;
            cancels.push(id);
        }
    }
    for watch_id in cancels {
        link.send(&open.note(WatchRequest::Cancel { watch_id }));
    }
    if open.lives.is_empty() && open.creating.is_empty() {
        open.stream.drained = true;
        return Turn::Done;
    }
    if open.compacted {
        return Turn::Leave;
    }
    link.send(&open.note(WatchRequest::Progress));
    Turn::Stay
}

/// A stream while it is open.
struct Open {
    clock: Clock,
    stream: Stream,
    lives: Vec<Live>,
    /// Places of create requests that were not answered yet; they are answered in their order.
    creating: VecDeque<usize>,
    /// Whether a watch was ended by a compaction. etcd answers no request for progress on such a stream any more.
    compacted: bool,
}

impl Open {
    fn new(client: u32, clock: Clock) -> Open {
        let end = (clock.now(), StreamEnd::Left);
        let (requests, messages) = (Vec::new(), Vec::new());
        let stream = Stream { client, requests, messages, end, drained: false };
        Open { clock, stream, lives: Vec::new(), creating: VecDeque::new(), compacted: false }
    }

    fn note(&mut self, request: WatchRequest) -> WatchRequest {
        self.stream.requests.push((self.clock.now(), request.clone()));
        request
    }

    fn note_create(&mut self, create: WatchCreate) -> WatchRequest {
        let request = self.stream.requests.len();
        self.creating.push_back(request);
        let (next, id) = (create.start_revision, None);
        let live = Live { create: create.clone(), id, request, next, bookmark: false, leaving: false };
        self.lives.push(live);
        self.note(WatchRequest::Create(create))
    }

    /// Takes a message in; `ending` is the revision up to which everything is due, once the run ends.
    fn take(&mut self, message: WatchMessage, ending: Option<i64>) {
        let quiet = message.events.is_empty() && !message.created && !message.canceled;
        if message.created {
            if let Some(request) = self.creating.pop_front() {
                if message.canceled {
                    self.lives.retain(|live| live.request != request);
                } else if let Some(live) = self.lives.iter_mut().find(|live| live.request == request) {
                    live.id = Some(message.watch_id);
                    if live.next == 0 {
                        live.next = message.revision + 1;
                    }
                }
            }
        } else if message.canceled {
            self.compacted |= message.compact_revision > 0;
            self.lives.retain(|live| live.id != Some(message.watch_id));
        } else if quiet && message.watch_id == -1 {
            for live in self.lives.iter_mut().filter(|live| live.id.is_some()) {
                live.progress(message.revision);
            }
            if ending.is_some_and(|revision| message.revision >= revision) && self.creating.is_empty() {
                self.stream.drained = true;
            }
        } else if let Some(live) = self.lives.iter_mut().find(|live| live.id == Some(message.watch_id)) {
            match message.events.last() {
                None => live.progress(message.revision),
                Some(last) => {
                    // After a fragment the rest of its last revision is still due.
                    live.next = last.kv.mod_revision + i64::from(!message.fragment);
                    live.bookmark = false;
                }
            }
        }
        self.stream.messages.push((self.clock.now(), message));
    }

    fn end(
        mut self,
        end: StreamEnd,
        links: Vec<(usize, usize, bool)>,
    ) -> (Stream, Vec<Live>, Vec<(usize, usize, bool)>) {
        self.stream.end = (self.clock.now(), end);
        self.lives.retain(|live| !live.leaving);
        (self.stream, self.lives, links)
    }
}

impl Live {
    fn progress(&mut self, revision: i64) {
        if revision >= self.next {
            self.next = revision + 1;
            self.bookmark = true;
        }
    }
}
