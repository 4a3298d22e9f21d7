//! Bodies that are looked at on their way: what a call asked for, what it was answered, how many messages passed.
//!
//! Nothing is copied: frames are kept by reference, and only so much of them. Does not know: what is done with it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use parking_lot::Mutex;
use prometheus::IntCounter;
use smallvec::SmallVec;
use tonic::Status;

/// Bytes of a message that are kept; of a longer one only its length is known.
const KEPT_BYTES_MAX: usize = 64 * 1024;
/// What comes before a message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// The first message of a body, as far as it is kept.
#[derive(Debug, Default)]
pub(super) struct Kept {
    frames: SmallVec<[Bytes; 1]>,
    /// Bytes in `frames`.
    bytes: usize,
}

impl Kept {
    pub(super) fn push(&mut self, frame: &Bytes) {
        // The first frame has the length, whatever its own.
        if self.frames.is_empty() || self.bytes < KEPT_BYTES_MAX {
            self.bytes += frame.len();
            self.frames.push(frame.clone());
        }
    }

    /// Bytes of the message; `None` before any came.
    pub(super) fn len(&self) -> Option<usize> {
        let prefix = self.frames.first()?.get(1..PREFIX_BYTES)?;
        Some(prefix.iter().fold(0, |len, &byte| len << 8 | usize::from(byte)))
    }

    /// The message, if all of it is kept and it is not compressed.
    pub(super) fn message(&self) -> Option<Bytes> {
        let len = self.len()?;
        if self.bytes < PREFIX_BYTES + len || self.frames.first()?.first() != Some(&0) {
            return None;
        }
        let mut all =
            if self.frames.len() == 1 { self.frames[0].clone() } else { self.frames.concat().into() };
        all.advance(PREFIX_BYTES);
        all.truncate(len);
        Some(all)
    }
}

/// The body of a request, whose first message is kept for whoever holds the other end.
#[derive(Debug)]
pub(super) struct Noted {
    body: Incoming,
    kept: Option<Arc<Mutex<Kept>>>,
    counted: Option<Counted>,
}

impl Noted {
    pub(super) fn new(body: Incoming, kept: Option<Arc<Mutex<Kept>>>, counted: Option<Counted>) -> Noted {
        Noted { body, kept, counted }
    }
}

impl Body for Noted {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(data) = frame.data_ref()
        {
            if let Some(kept) = &self.kept {
                kept.lock().push(data);
            }
            if let Some(counted) = &mut self.counted {
                counted.pass(data);
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of an answer, which somebody watches pass and is told the end of.
pub(super) struct Watched<W: Watcher> {
    body: tonic::body::Body,
    watcher: W,
}

/// See [`Watched`]. It is dropped when the body has ended, or the client has gone.
pub(super) trait Watcher: Unpin {
    fn pass(&mut self, data: &Bytes);
}

impl<W: Watcher> Watched<W> {
    pub(super) fn new(body: tonic::body::Body, watcher: W) -> Watched<W> {
        Watched { body, watcher }
    }
}

impl<W: Watcher> Body for Watched<W> {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(data) = frame.data_ref()
        {
            self.watcher.pass(data);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Counts messages by their prefixes, wherever frames cut them.
#[derive(Debug)]
pub(super) struct Counted {
    counter: IntCounter,
    /// Bytes of the prefix that have come, and the length that they say so far.
    prefix: usize,
    len: u64,
    /// Bytes of the message still to come.
    rest: u64,
}

impl Counted {
    pub(super) fn new(counter: IntCounter) -> Counted {
        Counted { counter, prefix: 0, len: 0, rest: 0 }
    }
}

impl Watcher for Counted {
    fn pass(&mut self, data: &Bytes) {
        let mut data = &data[..];
        while !data.is_empty() {
            if self.rest > 0 {
                let skipped = usize::try_from(self.rest).map_or(data.len(), |rest| rest.min(data.len()));
                self.rest -= skipped as u64;
                data = &data[skipped..];
            } else {
                if self.prefix > 0 {
                    self.len = self.len << 8 | u64::from(data[0]);
                }
                self.prefix += 1;
                data = &data[1..];
                if self.prefix < PREFIX_BYTES {
                    continue;
                }
                (self.rest, self.len, self.prefix) = (self.len, 0, 0);
            }
            if self.rest == 0 {
                self.counter.inc();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(len: usize) -> Vec<u8> {
        let mut message = vec![0];
        message.extend(u32::try_from(len).expect("short").to_be_bytes());
        message.extend(std::iter::repeat_n(7, len));
        message
    }

    #[test]
    fn messages_are_counted_wherever_frames_cut_them() {
        let all: Vec<u8> = [message(0), message(3), message(300), message(0), message(1)].concat();
        for size in [1, 2, 3, 5, 7, 64, all.len()] {
            let counter = IntCounter::new("a", "b").expect("a name");
            let mut counted = Counted::new(counter.clone());
            for frame in all.chunks(size) {
                counted.pass(&Bytes::copy_from_slice(frame));
            }
            assert_eq!(counter.get(), 5, "frames of {size}");
        }
        let counter = IntCounter::new("a", "b").expect("a name");
        Counted::new(counter.clone()).pass(&Bytes::from(message(9)[..10].to_vec()));
        assert_eq!(counter.get(), 0, "one that has not all come is not counted");
    }

    #[test]
    fn what_is_kept_of_a_message() {
        let kept = |frames: &[&[u8]]| {
            let mut kept = Kept::default();
            for frame in frames {
                kept.push(&Bytes::copy_from_slice(frame));
            }
            (kept.len(), kept.message().map(|message| message.len()))
        };
        let (small, large) = (message(10), message(KEPT_BYTES_MAX * 2));
        let compressed: Vec<u8> = [&[1], &small[1..]].concat();
        for (frames, want, why) in [
            (vec![], (None, None), "nothing came"),
            (vec![&small[..]], (Some(10), Some(10)), "in one frame"),
            (vec![&small[..7], &small[7..]], (Some(10), Some(10)), "in two"),
            (vec![&small[..7]], (Some(10), None), "not all came"),
            (vec![&compressed[..]], (Some(10), None), "compressed"),
            (large.chunks(16_384).collect(), (Some(KEPT_BYTES_MAX * 2), None), "too long to be kept"),
        ] {
            assert_eq!(kept(&frames), want, "{why}");
        }
    }
}
