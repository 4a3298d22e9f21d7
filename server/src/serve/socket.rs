//! A connection that was accepted, on its way from the thread that accepts to the shard that serves.

use std::io;

use tokio::net::{TcpStream, UnixStream};

use super::slow::Remote;

/// See the module's text. It belongs to no runtime.
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

impl Socket {
    /// Takes a TCP stream out of its runtime, and sets what every connection has: no delay for small packets,
    /// and probes for clients that vanished.
    pub(super) fn tcp(stream: TcpStream) -> io::Result<Socket> {
        stream.set_nodelay(true)?;
        socket2::SockRef::from(&stream).set_keepalive(true)?;
        stream.into_std().map(Socket::Tcp)
    }

    /// Takes a Unix stream out of its runtime.
    pub(super) fn unix(stream: UnixStream) -> io::Result<Socket> {
        stream.into_std().map(Socket::Unix)
    }

    /// Who is at the other end.
    pub(super) fn remote(&self) -> Remote {
        match self {
            // It may have gone already.
            Socket::Tcp(stream) => stream.peer_addr().map_or(Remote::Unknown, Remote::Tcp),
            Socket::Unix(_) => Remote::Unix,
        }
    }
}
