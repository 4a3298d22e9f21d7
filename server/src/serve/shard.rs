//! All connections of one core.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::ServeError;
use super::connection::Connections;
use super::front::{Front, Parts, Surface};
use super::socket::Socket;
use crate::flag::Flag;

/// Time that what is under way has to be answered once the server ends.
const DRAIN: Duration = Duration::from_secs(3);

/// A connection for a shard.
pub(super) struct Arrival {
    pub(super) socket: Socket,
    pub(super) surface: Surface,
}

/// Where a shard is given its connections. What waits in the queue is bounded by the files that the process may
/// open.
#[derive(Debug, Clone)]
pub(super) struct Door {
    arrivals: mpsc::UnboundedSender<Arrival>,
    /// Connections given and not yet ended.
    open: Arc<AtomicUsize>,
}

/// The shard's side of its [`Door`].
pub(super) struct Arrivals {
    queue: mpsc::UnboundedReceiver<Arrival>,
    open: Arc<AtomicUsize>,
}

/// A new door.
pub(super) fn door() -> (Door, Arrivals) {
    let (arrivals, queue) = mpsc::unbounded_channel();
    let open = Arc::new(AtomicUsize::new(0));
    (Door { arrivals, open: Arc::clone(&open) }, Arrivals { queue, open })
}

/// Gives a connection to the shard that has fewest. On a tie it is the first, the home shard, where a request has
/// the shortest way.
pub(super) fn give(doors: &[Door], arrival: Arrival) {
    let emptiest = doors.iter().min_by_key(|door| door.open.load(Ordering::Relaxed));
    if let Some(door) = emptiest {
        door.open.fetch_add(1, Ordering::Relaxed);
        // A shard that is gone serves nobody: the connection closes.
        let _ = door.arrivals.send(arrival);
    }
}

/// The runtime of a shard.
///
/// # Errors
/// [`ServeError::Thread`].
pub(super) fn runtime() -> Result<Runtime, ServeError> {
    let built = Builder::new_current_thread().enable_all().build();
    built.map_err(|source| ServeError::Thread { what: "a runtime".to_owned(), source })
}

/// Serves what arrives until `stopping` is raised, and then what is under way, for a few seconds at most.
pub(super) async fn serve(
    parts: Arc<Parts>,
    connections: Connections,
    mut arrivals: Arrivals,
    mut stopping: Flag,
) {
    let mut served = JoinSet::new();
    loop {
        tokio::select! {
            arrival = arrivals.queue.recv() => {
                let Some(Arrival { socket, surface }) = arrival else { break };
                let front = Front { parts: Arc::clone(&parts), surface, remote: socket.remote() };
                let connection = connections.clone().serve(socket, front, stopping.clone());
                let open = Arc::clone(&arrivals.open);
                served.spawn(async move {
                    connection.await;
                    open.fetch_sub(1, Ordering::Relaxed);
                });
            }
            // Ended ones are taken out, so that they are not kept.
            Some(_) = served.join_next() => {}
            () = stopping.raised() => break,
        }
    }
    let drained = async { while served.join_next().await.is_some() {} };
    if tokio::time::timeout(DRAIN, drained).await.is_err() {
        tracing::warn!("connections that did not end in time are cut");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_emptiest_shard_is_given_the_next() {
        let (doors, queues): (Vec<_>, Vec<_>) = (0..3).map(|_| door()).unzip();
        let open = || doors.iter().map(|door| door.open.load(Ordering::Relaxed)).collect::<Vec<_>>();
        let connect = || {
            let (socket, _) = std::os::unix::net::UnixStream::pair().expect("a pair");
            give(&doors, Arrival { socket: Socket::Unix(socket), surface: Surface::Client });
        };
        connect();
        assert_eq!(open(), [1, 0, 0], "the home shard on a tie");
        for _ in 0..3 {
            connect();
        }
        assert_eq!(open(), [2, 1, 1]);
        queues[2].open.fetch_sub(1, Ordering::Relaxed);
        connect();
        assert_eq!(open(), [2, 1, 1], "one ended on the last shard, so it is given the next");
    }
}
