//! The network of the world: streams between hosts, as TCP gives them to a process.
//!
//! What is written travels as segments, each with a delay of its own; within one direction of a stream they arrive in
//! order, whatever was lost or overtaken on the way, as TCP sees to it. So loss shows as delay. A direction between
//! two hosts can be cut: what falls due then waits until it is healed.
//!
//! A process that is killed resets its streams. A machine that loses its power says nothing: its peers wait, until
//! it is back and answers whatever they send with a reset.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::{Buf as _, Bytes};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::clock;
use super::dice::Dice;
use super::trace::Trace;

/// A host's number.
pub(super) type Host = usize;

/// Bytes of one direction that were sent and not yet read, at most.
const WINDOW_BYTES: usize = 256 * 1024;
/// Bytes of one segment at most.
const SEGMENT_BYTES: usize = 16 * 1024;
/// Delay of a segment that was lost on the way and sent again, milliseconds.
const RESENT_MS: (u64, u64) = (200, 600);

/// Delays of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Delays {
    /// Shortest delay of a segment, milliseconds; at least 1.
    pub min_ms: u64,
    /// Longest delay of a segment that is not lost, milliseconds.
    pub max_ms: u64,
    /// One in so many segments is lost and sent again; 0 for none.
    pub lost_one_in: u64,
}

/// See the module's text. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Network(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    dice: Dice,
    delays: Delays,
    trace: Trace,
    streams: BTreeMap<u64, [End; 2]>,
    next_stream: u64,
    /// Segments under way by when they are due.
    flying: BTreeMap<(u64, u64), Segment>,
    next_segment: u64,
    /// Directions that are cut, and what waits for them.
    cut: BTreeSet<(Host, Host)>,
    waiting: Vec<Segment>,
    listeners: BTreeMap<Host, Backlog>,
    /// Hosts without power.
    dark: BTreeSet<Host>,
    delivered: u64,
}

#[derive(Debug, Default)]
struct Backlog {
    arrived: VecDeque<u64>,
    waker: Option<Waker>,
}

/// One end of a stream: what it has received, and who waits for it.
#[derive(Debug)]
struct End {
    host: Host,
    state: State,
    received: VecDeque<Bytes>,
    finished: bool,
    /// Bytes sent by this end that the other has not read.
    unread: usize,
    /// When the last segment sent by this end is due.
    last_due: u64,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Connecting,
    Open,
    Refused,
    Reset,
    /// The process dropped it, or is gone.
    Gone,
}

#[derive(Debug)]
struct Segment {
    stream: u64,
    /// Which of the stream's ends it goes to.
    to: usize,
    what: What,
}

#[derive(Debug)]
enum What {
    Connect,
    Accept,
    Refuse,
    Data(Bytes),
    Finish,
    Reset,
}

impl End {
    fn new(host: Host) -> End {
        End {
            host,
            state: State::Connecting,
            received: VecDeque::new(),
            finished: false,
            unread: 0,
            last_due: 0,
            reader: None,
            writer: None,
        }
    }

    fn wake(&mut self) {
        for waker in [self.reader.take(), self.writer.take()].into_iter().flatten() {
            waker.wake();
        }
    }

    fn end(&mut self, state: State) {
        if self.state != State::Gone {
            self.state = state;
        }
        self.received.clear();
        self.wake();
    }
}

impl Network {
    pub(super) fn new(dice: Dice, delays: Delays, trace: Trace) -> Network {
        Network(Arc::new(Mutex::new(Inner {
            dice,
            delays,
            trace,
            streams: BTreeMap::new(),
            next_stream: 0,
            flying: BTreeMap::new(),
            next_segment: 0,
            cut: BTreeSet::new(),
            waiting: Vec::new(),
            listeners: BTreeMap::new(),
            dark: BTreeSet::new(),
            delivered: 0,
        })))
    }

    /// Delivers what is due.
    pub(super) fn deliver(&self) {
        let now = clock::now_ms();
        let mut inner = self.0.lock();
        loop {
            let Some(first) = inner.flying.first_entry() else { return };
            if first.key().0 > now {
                return;
            }
            let segment = first.remove();
            inner.arrive(segment);
        }
    }

    /// Cuts the direction from one host to another, or heals it.
    pub(super) fn set_cut(&self, from: Host, to: Host, cut: bool) {
        let mut inner = self.0.lock();
        if cut {
            inner.cut.insert((from, to));
            return;
        }
        inner.cut.remove(&(from, to));
        for segment in std::mem::take(&mut inner.waiting) {
            inner.arrive(segment);
        }
    }

    /// The host's process is gone; with `dark`, so is its power.
    pub(super) fn kill(&self, host: Host, dark: bool) {
        let mut inner = self.0.lock();
        inner.listeners.remove(&host);
        if dark {
            inner.dark.insert(host);
        }
        let of_host: Vec<(u64, usize)> = inner
            .streams
            .iter()
            .flat_map(|(stream, ends)| {
                let mine = (0..2).filter(|end| ends[*end].host == host && ends[*end].state != State::Gone);
                mine.map(|end| (*stream, end)).collect::<Vec<_>>()
            })
            .collect();
        for (stream, end) in of_host {
            let ends = inner.streams.get_mut(&stream).expect("just found");
            ends[end].end(State::Gone);
            if !dark {
                inner.send(stream, 1 - end, What::Reset);
            }
        }
    }

    /// The host has power again.
    pub(super) fn light(&self, host: Host) {
        self.0.lock().dark.remove(&host);
    }

    /// Resets every stream of the host, which itself lives on.
    pub(super) fn reset_all(&self, host: Host) {
        let mut inner = self.0.lock();
        let with_host: Vec<u64> = inner
            .streams
            .iter()
            .filter(|(_, ends)| ends.iter().any(|end| end.host == host))
            .map(|(stream, _)| *stream)
            .collect();
        for stream in with_host {
            for end in 0..2 {
                inner.send(stream, end, What::Reset);
            }
        }
    }

    /// Takes connections to `host` from now on.
    pub(super) fn listen(&self, host: Host) -> Listener {
        self.0.lock().listeners.insert(host, Backlog::default());
        Listener { network: self.clone(), host }
    }

    /// Connects `from` to `to`.
    ///
    /// # Errors
    /// `ConnectionRefused` if nobody listens; it waits for as long as nobody answers.
    pub(super) async fn connect(&self, from: Host, to: Host) -> io::Result<Stream> {
        let stream = {
            let mut inner = self.0.lock();
            let number = inner.next_stream;
            inner.next_stream += 1;
            inner.streams.insert(number, [End::new(from), End::new(to)]);
            inner.send(number, 1, What::Connect);
            Stream { network: self.clone(), number, end: 0 }
        };
        std::future::poll_fn(|context| {
            let mut inner = self.0.lock();
            let Some(end) = inner.end(stream.number, 0) else {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            };
            match end.state {
                State::Connecting => {
                    end.reader = Some(context.waker().clone());
                    Poll::Pending
                }
                State::Open => Poll::Ready(Ok(())),
                State::Refused => Poll::Ready(Err(io::ErrorKind::ConnectionRefused.into())),
                State::Reset | State::Gone => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            }
        })
        .await?;
        Ok(stream)
    }

    /// Segments delivered so far.
    pub(super) fn delivered(&self) -> u64 {
        self.0.lock().delivered
    }
}

impl Inner {
    fn end(&mut self, stream: u64, end: usize) -> Option<&mut End> {
        self.streams.get_mut(&stream).map(|ends| &mut ends[end])
    }

    /// Sends a segment to the end `to` of a stream.
    fn send(&mut self, stream: u64, to: usize, what: What) {
        let Delays { min_ms, max_ms, lost_one_in } = self.delays;
        let mut delay = self.dice.between(min_ms, max_ms);
        if lost_one_in > 0 && self.dice.one_in(lost_one_in) {
            delay += self.dice.between(RESENT_MS.0, RESENT_MS.1);
        }
        let sender = self.end(stream, 1 - to).expect("a stream is kept while something may be sent on it");
        let due = (clock::now_ms() + delay.max(1)).max(sender.last_due);
        sender.last_due = due;
        self.flying.insert((due, self.next_segment), Segment { stream, to, what });
        self.next_segment += 1;
    }

    fn arrive(&mut self, segment: Segment) {
        let Segment { stream, to, .. } = segment;
        let Some(ends) = self.streams.get_mut(&stream) else { return };
        let hosts = (ends[1 - to].host, ends[to].host);
        if self.cut.contains(&hosts) {
            self.waiting.push(segment);
            return;
        }
        self.delivered += 1;
        let (kind, len, crc) = match &segment.what {
            What::Data(bytes) => ("data", bytes.len(), crc32fast::hash(bytes)),
            What::Connect => ("connect", 0, 0),
            What::Accept => ("accept", 0, 0),
            What::Refuse => ("refuse", 0, 0),
            What::Finish => ("finish", 0, 0),
            What::Reset => ("reset", 0, 0),
        };
        let (from, at) = hosts;
        self.trace.line("net", format_args!("{from}>{at} #{stream} {kind} {len} {crc:08x}"));
        if self.dark.contains(&at) {
            return;
        }
        let end = &mut ends[to];
        match segment.what {
            What::Connect => {
                if let Some(backlog) = self.listeners.get_mut(&at) {
                    end.state = State::Open;
                    backlog.arrived.push_back(stream);
                    if let Some(waker) = backlog.waker.take() {
                        waker.wake();
                    }
                    self.send(stream, 1 - to, What::Accept);
                } else {
                    end.state = State::Gone;
                    self.send(stream, 1 - to, What::Refuse);
                }
            }
            _ if end.state == State::Gone => {
                // Nobody is there any more; only what asks for an answer gets one.
                if matches!(segment.what, What::Data(_)) {
                    self.send(stream, 1 - to, What::Reset);
                } else {
                    self.forget(stream);
                }
            }
            What::Accept => {
                end.state = State::Open;
                end.wake();
            }
            What::Refuse => end.end(State::Refused),
            What::Data(bytes) => {
                end.received.push_back(bytes);
                end.wake();
            }
            What::Finish => {
                end.finished = true;
                end.wake();
            }
            What::Reset => end.end(State::Reset),
        }
    }

    /// Forgets a stream that has nobody at either end.
    fn forget(&mut self, stream: u64) {
        if self.streams.get(&stream).is_some_and(|ends| ends.iter().all(|end| end.state == State::Gone)) {
            self.streams.remove(&stream);
        }
    }
}

/// Takes connections to a host. It hears of no more once its process is killed.
#[derive(Debug)]
pub(super) struct Listener {
    network: Network,
    host: Host,
}

impl Listener {
    /// The next connection.
    pub(super) async fn accept(&self) -> Stream {
        let number = std::future::poll_fn(|context| {
            let mut inner = self.network.0.lock();
            let Some(backlog) = inner.listeners.get_mut(&self.host) else { return Poll::Pending };
            match backlog.arrived.pop_front() {
                Some(stream) => Poll::Ready(stream),
                None => {
                    backlog.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        });
        Stream { network: self.network.clone(), number: number.await, end: 1 }
    }
}

/// One end of a connection.
#[derive(Debug)]
pub(super) struct Stream {
    network: Network,
    number: u64,
    end: usize,
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut inner = self.network.0.lock();
        let Some(ends) = inner.streams.get_mut(&self.number) else {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        };
        let end = &mut ends[self.end];
        if matches!(end.state, State::Reset | State::Gone) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let Some(first) = end.received.front_mut() else {
            if end.finished {
                return Poll::Ready(Ok(()));
            }
            end.reader = Some(context.waker().clone());
            return Poll::Pending;
        };
        let len = first.len().min(buffer.remaining());
        buffer.put_slice(&first[..len]);
        first.advance(len);
        if first.is_empty() {
            end.received.pop_front();
        }
        let sender = &mut ends[1 - self.end];
        sender.unread -= len;
        if let Some(writer) = sender.writer.take() {
            writer.wake();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut inner = self.network.0.lock();
        let Some(end) = inner.end(self.number, self.end) else {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        };
        if matches!(end.state, State::Reset | State::Gone) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let room = WINDOW_BYTES.saturating_sub(end.unread);
        if room == 0 {
            end.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        let len = bytes.len().min(room).min(SEGMENT_BYTES);
        end.unread += len;
        let data = Bytes::copy_from_slice(&bytes[..len]);
        inner.send(self.number, 1 - self.end, What::Data(data));
        Poll::Ready(Ok(len))
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut inner = self.network.0.lock();
        let open = inner.end(self.number, self.end).is_some_and(|end| end.state == State::Open);
        if open {
            inner.send(self.number, 1 - self.end, What::Finish);
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for Stream {
    /// Closes both directions, as the system does with a socket that nobody has any more.
    fn drop(&mut self) {
        let mut inner = self.network.0.lock();
        let Some(end) = inner.end(self.number, self.end) else { return };
        let was = std::mem::replace(&mut end.state, State::Gone);
        if matches!(was, State::Open | State::Connecting) {
            inner.send(self.number, 1 - self.end, What::Reset);
        } else {
            inner.forget(self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::super::process::Process;
    use super::*;

    const DELAYS: Delays = Delays { min_ms: 1, max_ms: 5, lost_one_in: 4 };

    /// Runs two hosts side by side until the second says that it is done.
    fn run(network: &Network, processes: &[Process], ms: std::ops::Range<u64>) {
        for now in ms {
            clock::set_ms(now);
            network.deliver();
            processes.iter().for_each(|process| process.tick(now));
        }
    }

    #[test]
    fn streams_carry_bytes_in_order_over_loss_and_cuts_and_end_with_their_hosts() {
        clock::set_running(true);
        let network = Network::new(Dice::new(3), DELAYS, Trace::new(None));
        let listener = network.listen(1);
        let server = Process::start(0, async move {
            loop {
                let mut stream = listener.accept().await;
                tokio::spawn(async move {
                    let mut bytes = [0; 1000];
                    while let Ok(len) = stream.read(&mut bytes).await {
                        if len == 0 || stream.write_all(&bytes[..len]).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        let report = Arc::new(Mutex::new(Vec::new()));
        let (told, dialled) = (Arc::clone(&report), network.clone());
        let client = Process::start(0, async move {
            assert_eq!(dialled.connect(0, 2).await.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
            let (mut reader, mut writer) = tokio::io::split(dialled.connect(0, 1).await.unwrap());
            let sent: Vec<u8> = (0..300_000u32).map(|n| (n % 251) as u8).collect();
            let expected = sent.clone();
            let writing = async move {
                writer.write_all(&sent).await.unwrap();
                writer
            };
            let reading = async move {
                let mut back = vec![0; expected.len()];
                reader.read_exact(&mut back).await.unwrap();
                assert_eq!(back, expected);
                reader
            };
            let (_writer, mut reader) = tokio::join!(writing, reading);
            told.lock().push("echoed");
            assert_eq!(reader.read(&mut [0; 1]).await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
            told.lock().push("reset");
            assert!(dialled.connect(0, 1).await.is_err());
            told.lock().push("refused");
        });
        let processes = [server, client];
        run(&network, &processes, 0..20);
        network.set_cut(1, 0, true);
        run(&network, &processes, 20..3_000);
        assert!(report.lock().is_empty(), "one direction is cut");
        network.set_cut(1, 0, false);
        run(&network, &processes, 3_000..30_000);
        assert_eq!(*report.lock(), ["echoed"]);
        let [server, client] = processes;
        network.kill(1, false);
        server.kill();
        run(&network, &[client], 30_000..32_000);
        assert_eq!(*report.lock(), ["echoed", "reset", "refused"]);
    }
}
