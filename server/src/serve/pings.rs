//! Clients that ping too often are sent away, by grpc-go's rule: GOAWAY with ENHANCE_YOUR_CALM and `too_many_pings`.
//!
//! hyper answers pings by itself and tells nobody, so the frames' headers are read here, between the socket and hyper. The
//! third ping in a row that comes too early is one too many. Too early is within `--grpc-keepalive-min-time` of the one
//! before, or within two hours if no stream is open; whatever the server has sent of an answer since excuses the next ping.
//!
//! INVARIANTS
//! * Bytes pass unchanged, in both directions, until a client is sent away; then nothing follows the GOAWAY.
//! * The GOAWAY stands between two frames, after the answers to all pings.
//! * HTTP/1 passes unread.

use std::collections::BTreeSet;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// What an HTTP/2 client begins with.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Bytes of a frame's header: length, type, flags, stream.
const HEADER_BYTES: usize = 9;
/// Least time between pings while no stream is open.
const IDLE_MIN_TIME: Duration = Duration::from_secs(2 * 60 * 60);
/// Least time if none is set, which in gRPC does not mean none.
const DEFAULT_MIN_TIME: Duration = Duration::from_secs(5 * 60);
/// Early pings in a row that are let pass.
const STRIKES_MAX: u32 = 2;
const TOO_MANY_PINGS: &[u8] = b"too_many_pings";
const ENHANCE_YOUR_CALM: u32 = 0xb;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
/// Of DATA and HEADERS.
const END_STREAM: u8 = 1;
/// Of PING.
const ACK: u8 = 1;

/// A stream whose pings are counted.
pub(super) struct Guarded<S> {
    stream: S,
    speaks: Speaks,
    incoming: Frames,
    outgoing: Frames,
    pings: Pings,
    /// What is left to send before the end, once the client is sent away.
    farewell: Option<Vec<u8>>,
}

/// What the client speaks.
enum Speaks {
    /// So many bytes of the preface have come.
    Perhaps(usize),
    Http2,
    SomethingElse,
}

impl<S> Guarded<S> {
    pub(super) fn new(stream: S, min_time: Duration) -> Guarded<S> {
        Guarded {
            stream,
            speaks: Speaks::Perhaps(0),
            incoming: Frames::default(),
            outgoing: Frames::default(),
            pings: Pings::new(min_time),
            farewell: None,
        }
    }

    fn came(&mut self, mut bytes: &[u8]) {
        if let Speaks::Perhaps(matched) = self.speaks {
            let due = &PREFACE[matched..];
            let len = due.len().min(bytes.len());
            self.speaks = if due[..len] != bytes[..len] {
                Speaks::SomethingElse
            } else if len == due.len() {
                Speaks::Http2
            } else {
                Speaks::Perhaps(matched + len)
            };
            bytes = &bytes[len..];
        }
        if matches!(self.speaks, Speaks::Http2) && self.farewell.is_none() {
            let pings = &mut self.pings;
            let mut is_too_much = false;
            self.incoming.pass(bytes, |frame| is_too_much |= pings.incoming(frame, Instant::now));
            if is_too_much {
                self.farewell = Some(goaway(self.pings.newest));
            }
        }
    }

    fn went(&mut self, bytes: &[u8]) {
        if !matches!(self.speaks, Speaks::SomethingElse) {
            let pings = &mut self.pings;
            self.outgoing.pass(bytes, |frame| pings.outgoing(frame));
        }
    }

    /// Whether the GOAWAY is due, and can stand here.
    fn must_end(&self) -> bool {
        self.farewell.is_some() && self.pings.unanswered == 0 && self.outgoing.is_between()
    }
}

impl<S: AsyncWrite + Unpin> Guarded<S> {
    /// Sends what is left of the farewell, and closes; always ends in an error.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        while let Some(left) = self.farewell.as_mut().filter(|left| !left.is_empty()) {
            let sent = ready!(Pin::new(&mut self.stream).poll_write(context, left))?;
            left.drain(..sent);
            if sent == 0 {
                break;
            }
        }
        ready!(Pin::new(&mut self.stream).poll_shutdown(context))?;
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::ConnectionAborted,
            "got too many pings from the client",
        )))
    }
}

/// The frame that sends a client away whose newest stream is `newest`.
fn goaway(newest: u32) -> Vec<u8> {
    let mut frame = vec![0, 0];
    frame.push(u8::try_from(8 + TOO_MANY_PINGS.len()).expect("a short text"));
    frame.extend([GOAWAY, 0, 0, 0, 0, 0]);
    frame.extend(newest.to_be_bytes());
    frame.extend(ENHANCE_YOUR_CALM.to_be_bytes());
    frame.extend(TOO_MANY_PINGS);
    frame
}

impl<S: AsyncRead + Unpin> AsyncRead for Guarded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        self.came(&buffer.filled()[before..]);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Guarded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.must_end() {
            return self.poll_end(context);
        }
        let sent = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        self.went(&bytes[..sent]);
        Poll::Ready(Ok(sent))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.must_end() {
            return self.poll_end(context);
        }
        let sent = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, parts))?;
        let mut left = sent;
        for part in parts {
            let len = part.len().min(left);
            self.went(&part[..len]);
            left -= len;
        }
        Poll::Ready(Ok(sent))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.must_end() {
            return self.poll_end(context).map_ok(|_| ());
        }
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// A frame's header, as far as it matters.
#[derive(Debug, Clone, Copy)]
struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
}

/// Reads the headers of frames out of bytes that come in any pieces.
#[derive(Debug, Default)]
struct Frames {
    header: [u8; HEADER_BYTES],
    /// Bytes of the header that have come.
    have: usize,
    /// Bytes of the frame still to come.
    rest: usize,
}

impl Frames {
    fn is_between(&self) -> bool {
        self.have == 0 && self.rest == 0
    }

    fn pass(&mut self, mut bytes: &[u8], mut seen: impl FnMut(Frame)) {
        while !bytes.is_empty() {
            if self.rest > 0 {
                let skipped = self.rest.min(bytes.len());
                self.rest -= skipped;
                bytes = &bytes[skipped..];
                continue;
            }
            let taken = (HEADER_BYTES - self.have).min(bytes.len());
            self.header[self.have..self.have + taken].copy_from_slice(&bytes[..taken]);
            self.have += taken;
            bytes = &bytes[taken..];
            if self.have == HEADER_BYTES {
                let [a, b, c, kind, flags, stream @ ..] = self.header;
                (self.rest, self.have) = (u32::from_be_bytes([0, a, b, c]) as usize, 0);
                // The highest bit is reserved.
                seen(Frame { kind, flags, stream: u32::from_be_bytes(stream) & !(1 << 31) });
            }
        }
    }
}

/// The rule.
#[derive(Debug)]
struct Pings {
    min_time: Duration,
    open: BTreeSet<u32>,
    /// The newest stream that the client began.
    newest: u32,
    last: Option<Instant>,
    strikes: u32,
    /// Something of an answer was sent since the last ping.
    excused: bool,
    /// Pings whose answers have not been sent.
    unanswered: u32,
}

impl Pings {
    fn new(min_time: Duration) -> Pings {
        let min_time = if min_time.is_zero() { DEFAULT_MIN_TIME } else { min_time };
        Pings {
            min_time,
            open: BTreeSet::new(),
            newest: 0,
            last: None,
            strikes: 0,
            excused: false,
            unanswered: 0,
        }
    }

    /// Takes a frame of the client; whether it was one ping too many.
    fn incoming(&mut self, frame: Frame, now: impl FnOnce() -> Instant) -> bool {
        match frame.kind {
            HEADERS if frame.stream > self.newest => {
                self.newest = frame.stream;
                self.open.insert(frame.stream);
                false
            }
            RST_STREAM => {
                self.open.remove(&frame.stream);
                false
            }
            PING if frame.flags & ACK == 0 => {
                self.unanswered += 1;
                self.ping(now())
            }
            _ => false,
        }
    }

    /// Takes a frame of the server.
    fn outgoing(&mut self, frame: Frame) {
        match frame.kind {
            DATA | HEADERS => {
                self.excused = true;
                if frame.flags & END_STREAM != 0 {
                    self.open.remove(&frame.stream);
                }
            }
            RST_STREAM => {
                self.open.remove(&frame.stream);
            }
            PING if frame.flags & ACK != 0 => self.unanswered = self.unanswered.saturating_sub(1),
            _ => {}
        }
    }

    fn ping(&mut self, now: Instant) -> bool {
        let last = self.last.replace(now);
        if std::mem::take(&mut self.excused) {
            self.strikes = 0;
            return false;
        }
        let least = if self.open.is_empty() { IDLE_MIN_TIME } else { self.min_time };
        if last.is_some_and(|last| now.duration_since(last) < least) {
            self.strikes += 1;
        }
        self.strikes > STRIKES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn frame(kind: u8, flags: u8, stream: u32) -> Frame {
        Frame { kind, flags, stream }
    }

    /// Plays a story: `p` a ping, `s` a second passes, `m` a minute, `h` an hour, `o` a stream opens, `d` the server sends
    /// some of its answer, `c` it ends the newest stream, `r` the client resets it. Tells at which ping it was too much.
    fn too_much_at(story: &str, min_time: Duration) -> Option<usize> {
        let mut pings = Pings::new(min_time);
        let mut now = Instant::now();
        let mut count = 0;
        for step in story.chars() {
            let newest = pings.newest;
            match step {
                'p' => {
                    count += 1;
                    if pings.incoming(frame(PING, 0, 0), || now) {
                        return Some(count);
                    }
                }
                's' => now += SECOND,
                'm' => now += 60 * SECOND,
                'h' => now += 3600 * SECOND,
                'o' => drop(pings.incoming(frame(HEADERS, 0, newest + 2), || now)),
                'r' => drop(pings.incoming(frame(RST_STREAM, 0, newest), || now)),
                'd' => pings.outgoing(frame(DATA, 0, newest)),
                'c' => pings.outgoing(frame(HEADERS, END_STREAM, newest)),
                other => panic!("no such step: {other}"),
            }
        }
        None
    }

    #[test]
    fn pings_are_judged_as_grpc_go_judges_them() {
        for (story, min_time, want, why) in [
            ("pppp", 5, Some(4), "the first is free, the next two are let pass"),
            ("ppp", 5, None, "two strikes"),
            ("pmpmpmp", 5, Some(4), "without a stream two hours are the least"),
            ("phhphhphhp", 5, None, "which these keep"),
            ("opmpmpmpmp", 5, None, "with a stream, the time that is set"),
            ("opspspsp", 5, Some(4), "which these do not keep"),
            ("opspspsp", 1, None, "exactly that time is enough"),
            ("oppdppdppdpp", 5, None, "an answer excuses the ping after it, and all before"),
            ("odcppp", 5, None, "excused, then two strikes"),
            ("odcpppp", 5, Some(4), "and the third"),
            ("oprpmpmp", 5, Some(4), "a stream that was given up is none"),
            ("ocpspmpmp", 5, Some(4), "the end of an answer excuses one too, and then no stream is open"),
            ("opspspsp", 0, Some(4), "no time is gRPC's own five minutes"),
        ] {
            assert_eq!(too_much_at(story, min_time * SECOND), want, "{story}: {why}");
        }
        let mut pings = Pings::new(SECOND);
        for _ in 0..9 {
            assert!(!pings.incoming(frame(PING, ACK, 0), Instant::now), "answers to our own pings are none");
        }
    }

    #[test]
    fn headers_are_read_whatever_the_pieces() {
        let mut bytes = Vec::new();
        for (len, kind, stream) in [(0u8, PING, 0u32), (200, DATA, 1), (3, HEADERS, 1 << 31 | 5)] {
            bytes.extend([0, 0, len, kind, 0]);
            bytes.extend(stream.to_be_bytes());
            bytes.extend(vec![9; len.into()]);
        }
        for size in [1, 2, 8, 9, 10, 64, bytes.len()] {
            let mut frames = Frames::default();
            let mut seen = Vec::new();
            for piece in bytes.chunks(size) {
                frames.pass(piece, |frame| seen.push((frame.kind, frame.stream)));
            }
            assert_eq!(seen, [(PING, 0), (DATA, 1), (HEADERS, 5)], "pieces of {size}");
            assert!(frames.is_between(), "pieces of {size}");
        }
        let mut frames = Frames::default();
        frames.pass(&bytes[..12], |_| {});
        assert!(!frames.is_between(), "within the second header");
    }

    #[tokio::test]
    async fn the_goaway_stands_between_two_frames_and_ends_it() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let (mut client, server) = tokio::io::duplex(4096);
        let mut guarded = Guarded::new(server, SECOND);
        let ping = [0, 0, 8, PING, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
        client.write_all(&[PREFACE, &ping, &ping, &ping, &ping].concat()).await.expect("sent");
        let mut read = vec![0; PREFACE.len() + 4 * ping.len()];
        let pong = [&ping[..4], &[ACK], &ping[5..]].concat();
        guarded.read_exact(&mut read).await.expect("it passes");
        assert!(read.ends_with(&ping), "unchanged");
        for _ in 0..3 {
            guarded.write_all(&pong).await.expect("three are answered");
        }
        guarded.flush().await.expect("one is not");
        guarded.write_all(&pong[..7]).await.expect("half a frame");
        guarded.flush().await.expect("there is the other half");
        guarded.write_all(&pong[7..]).await.expect("that is it");
        let error = guarded.flush().await.expect_err("the end");
        assert_eq!(error.to_string(), "got too many pings from the client");
        drop(guarded);
        let mut sent = Vec::new();
        client.read_to_end(&mut sent).await.expect("closed");
        assert_eq!(sent, [pong.repeat(4), goaway(0)].concat());
        assert!(sent.ends_with(b"\0\0\0\x0btoo_many_pings"), "ENHANCE_YOUR_CALM");
    }

    #[tokio::test]
    async fn what_is_not_http2_passes() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let (mut client, server) = tokio::io::duplex(4096);
        let mut guarded = Guarded::new(server, SECOND);
        let ping = [0, 0, 0, PING, 0, 0, 0, 0, 0];
        let text = [b"PRI sm ", ping.repeat(9).as_slice()].concat();
        client.write_all(&text).await.expect("sent");
        let mut read = vec![0; text.len()];
        guarded.read_exact(&mut read).await.expect("it passes");
        guarded.write_all(b"answer").await.expect("it goes on");
    }
}
