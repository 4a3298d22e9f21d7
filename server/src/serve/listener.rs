//! Where the server listens.
//!
//! SO_REUSEADDR is always set, so that a server that comes back gets its port although connections of the one
//! before linger. A Unix socket's file of a server that is gone is removed before, and the own one at the end;
//! whatever else is in its place stays, and binding fails.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use socket2::{Domain, Protocol, Type};
use tokio::net::{TcpListener, UnixListener};

use super::ServeError;
use super::front::Surface;
use super::socket::Socket;
use crate::config::ListenUrl;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4096;

/// A bound socket, and what is served there.
#[derive(Debug)]
pub(super) struct Listener {
    bound: Bound,
    /// What is served.
    pub(super) surface: Surface,
    /// As a log line shows it.
    pub(super) address: String,
}

#[derive(Debug)]
enum Bound {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl Listener {
    /// Binds. Must run within a runtime.
    ///
    /// # Errors
    /// [`ServeError::Listen`].
    pub(super) fn bind(url: &ListenUrl, surface: Surface, reuse_port: bool) -> Result<Listener, ServeError> {
        let bound = match url {
            ListenUrl::Tcp { .. } => {
                let address = url.socket_address().expect("a TCP URL has an address");
                tcp(address, reuse_port).map(Bound::Tcp)
            }
            ListenUrl::Unix { path } => unix(path).map(|listener| Bound::Unix(listener, path.clone())),
        };
        let bound = bound.map_err(|source| ServeError::Listen { address: url.to_string(), source })?;
        let address = match &bound {
            Bound::Tcp(listener) => listener.local_addr().map_or_else(|_| url.to_string(), |a| a.to_string()),
            Bound::Unix(_, path) => path.display().to_string(),
        };
        Ok(Listener { bound, surface, address })
    }

    /// The TCP address; `None` for a Unix socket.
    pub(super) fn socket_address(&self) -> Option<SocketAddr> {
        match &self.bound {
            Bound::Tcp(listener) => listener.local_addr().ok(),
            Bound::Unix(..) => None,
        }
    }

    /// Waits for the next connection. Safe to drop and call again.
    ///
    /// # Errors
    /// The system's; the next call may well succeed.
    pub(super) async fn accept(&self) -> io::Result<Socket> {
        match &self.bound {
            Bound::Tcp(listener) => Socket::tcp(listener.accept().await?.0),
            Bound::Unix(listener, _) => Socket::unix(listener.accept().await?.0),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Bound::Unix(_, path) = &self.bound
            && let Err(error) = std::fs::remove_file(path)
        {
            tracing::warn!(path = %path.display(), %error, "the socket's file stays");
        }
    }
}

fn tcp(address: SocketAddr, reuse_port: bool) -> io::Result<TcpListener> {
    let socket = socket2::Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(reuse_port)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

fn unix(path: &Path) -> io::Result<UnixListener> {
    if let Ok(found) = std::fs::symlink_metadata(path)
        && found.file_type().is_socket()
    {
        // One that answers is somebody's; one that does not was left behind.
        if std::os::unix::net::UnixStream::connect(path).is_ok() {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        std::fs::remove_file(path)?;
    }
    UnixListener::bind(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_port_is_free_again_at_once() {
        let any = ListenUrl::Tcp { host: "127.0.0.1".to_owned(), port: 0 };
        let first = Listener::bind(&any, Surface::Client, false).expect("some port is free");
        let address = first.socket_address().expect("TCP");
        let client = tokio::net::TcpStream::connect(address).await.expect("it listens");
        let served = first.accept().await.expect("a client waits");
        // The server's side closes first, so its side of the connection lingers in TIME_WAIT.
        drop(served);
        drop(first);
        let again = ListenUrl::Tcp { host: "127.0.0.1".to_owned(), port: address.port() };
        Listener::bind(&again, Surface::Client, false).expect("the port is bound again");
        drop(client);
    }

    #[tokio::test]
    async fn a_unix_socket_replaces_only_a_socket() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("localhost:2379");
        let url = ListenUrl::Unix { path: path.clone() };
        let left = std::os::unix::net::UnixListener::bind(&path).expect("one that will be killed");
        let listener = Listener::bind(&url, Surface::Client, false);
        assert!(listener.is_err(), "it still answers");
        drop(left);
        let listener = Listener::bind(&url, Surface::Client, false).expect("a stale socket is replaced");
        drop(listener);
        assert!(!path.exists(), "its file is gone with it");
        std::fs::write(&path, "precious").expect("a file");
        assert!(Listener::bind(&url, Surface::Client, false).is_err(), "a file is not a socket");
        assert_eq!(std::fs::read_to_string(&path).expect("still there"), "precious");
    }
}
