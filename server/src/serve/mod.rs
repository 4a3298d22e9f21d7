//! The process: sockets, shards, threads, start and end.
//!
//! READING ORDER
//! 1. `settings`: what a server is started with.
//! 2. `data_dir`: whose the directory is; `listener`: where it listens; `notify`: whom it tells that it is ready.
//! 3. `front`: one request of one connection: to a gRPC service or to HTTP; `slow`: whether it took too long, with `tap`,
//!    `rows` and `describe`: what passed, in words.
//! 4. `connection`: one connection; `pings`: whether its client pings too often; `shard`: all connections of one core.
//! 5. `threads`: the two threads that write and tidy the log and the tables.
//! 6. `compactor`: compaction by itself; `leader`: whether there is one. [`Member`]: opening the store, and what serves
//!    its connections; it needs no socket and no thread.
//! 7. `home`: the shard that opens the store, accepts for all and ends it all.
//! 8. [`Server`]: start and stop from outside; [`run`]: the whole life of the program.
//!
//! THREADS
//! * `keelson-shard-N`: one current-thread tokio runtime each, at most one per core. Shard 0 is the home shard.
//! * `keelson-log`: writes and syncs what the log has gathered, one frame for all that waits.
//! * `keelson-maintain`: flushes, merges, frees space, one bounded step at a time.
//!
//! ORDER OF THE END: no new connection; streams end; what is under way is answered, for a few seconds at most;
//! the store ends; the log is written out; the threads end.

mod compactor;
mod connection;
mod data_dir;
mod describe;
mod front;
mod home;
mod leader;
mod listener;
mod member;
mod notify;
mod pings;
mod rows;
mod settings;
mod shard;
mod slow;
mod socket;
mod tap;
mod threads;

use std::net::SocketAddr;

use crate::config::Config;
use crate::flag::FlagPole;

pub use member::{Member, Port, open_store};
pub use settings::{ListenSettings, Observation, Settings};
pub use slow::SlowLimits;

/// Why the server does not start, or ended by itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The configuration does not fit what is stored, or a first start.
    #[error("{0}")]
    Config(String),
    /// The data directory cannot be made.
    #[error("data directory {path}: {reason}")]
    DataDir {
        /// The directory.
        path: String,
        /// Why.
        reason: String,
    },
    /// What is in the data directory cannot be used.
    #[error("{0}")]
    Open(engine::Error),
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The system gives no thread or no runtime.
    #[error("cannot start {what}: {source}")]
    Thread {
        /// What was to start.
        what: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The store cannot open, or failed while it served.
    #[error("{0}")]
    Store(#[from] raft::Error),
    /// The disk failed while the server ran; nothing more can be promised.
    #[error("storage failed: {0}")]
    Storage(#[from] engine::Error),
}

/// A server that accepts and answers.
#[derive(Debug)]
pub struct Server {
    stop: FlagPole,
    home: std::thread::JoinHandle<Result<(), ServeError>>,
    addresses: Vec<SocketAddr>,
}

impl Server {
    /// Starts a server; it is ready when this returns.
    ///
    /// # Errors
    /// Any of [`ServeError`]; nothing runs on then.
    pub fn start(settings: Settings) -> Result<Server, ServeError> {
        let stop = FlagPole::new();
        let (ready, started) = std::sync::mpsc::channel();
        let home = {
            let stop = stop.clone();
            threads::start("keelson-shard-0", move || home::run(settings, stop, &ready))?
        };
        match started.recv() {
            Ok(addresses) => Ok(Server { stop, home, addresses }),
            // It ended before it was ready.
            Err(_) => match join(home) {
                Err(error) => Err(error),
                Ok(()) => Err(ServeError::Config("the server was stopped while it started".to_owned())),
            },
        }
    }

    /// TCP addresses that it listens on: for clients, HTTP clients, metrics, peers, each in the order given.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Asks it to end.
    pub fn stop(&self) {
        self.stop.set(true);
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// [`ServeError::Store`] or [`ServeError::Storage`] if it failed rather than being asked to end.
    pub fn wait(self) -> Result<(), ServeError> {
        join(self.home)
    }
}

fn join(thread: std::thread::JoinHandle<Result<(), ServeError>>) -> Result<(), ServeError> {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The whole life of the program: starts a server, tells the service manager, waits for SIGTERM or SIGINT.
///
/// # Errors
/// As [`Server::start`] and [`Server::wait`].
pub fn run(config: &Config) -> Result<(), ServeError> {
    let server = Server::start(Settings::from_config(config)?)?;
    notify::ready();
    server.wait()
}
