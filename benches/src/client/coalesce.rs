//! A TCP stream that gathers what h2 writes and sends it when asked, so that a batch of requests costs one system call.
//!
//! h2 writes each DATA frame above 256 bytes on its own. Under load that is a system call a put, and the largest part of
//! a client's CPU. Here a write only fills a buffer; whoever polls the connection calls [`Gathered::send`] afterwards.
//!
//! INVARIANTS
//! * Bytes leave in the order written.
//! * The buffer stays below [`BUFFER_BYTES_MAX`] plus one write; above it, a write waits for the socket.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Bytes gathered before a write waits for the socket.
const BUFFER_BYTES_MAX: usize = 1 << 20;

struct Inner {
    stream: TcpStream,
    waiting: BytesMut,
}

impl Inner {
    /// Writes out what waits. `Ready` once nothing does.
    fn send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.waiting.is_empty() {
            let sent = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.waiting))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.waiting.advance(sent);
        }
        Poll::Ready(Ok(()))
    }
}

/// One handle of the stream: h2 holds one, the task that polls h2 another.
#[derive(Clone)]
pub(crate) struct Gathered(Rc<RefCell<Inner>>);

impl Gathered {
    /// Gathers writes to `stream`.
    pub(crate) fn new(stream: TcpStream) -> Self {
        Gathered(Rc::new(RefCell::new(Inner { stream, waiting: BytesMut::with_capacity(64 << 10) })))
    }

    /// Writes out what waits; `Pending` registers the task for the rest.
    pub(crate) fn send(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.borrow_mut().send(cx)
    }
}

impl AsyncRead for Gathered {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.borrow_mut().stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Gathered {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut inner = self.0.borrow_mut();
        if inner.waiting.len() >= BUFFER_BYTES_MAX {
            ready!(inner.send(cx))?;
        }
        inner.waiting.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut inner = self.0.borrow_mut();
        if inner.waiting.len() >= BUFFER_BYTES_MAX {
            ready!(inner.send(cx))?;
        }
        for part in parts {
            inner.waiting.extend_from_slice(part);
        }
        Poll::Ready(Ok(parts.iter().map(|part| part.len()).sum()))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Does nothing: h2 flushes after every large frame, the sending is done by [`Gathered::send`].
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut inner = self.0.borrow_mut();
        ready!(inner.send(cx))?;
        Pin::new(&mut inner.stream).poll_shutdown(cx)
    }
}
