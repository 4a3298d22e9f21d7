//! The home shard: opens the store, accepts connections for all shards, and ends everything in order.

use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use engine::disk::Disk;
use raft::Store;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use super::front::Surface;
use super::listener::Listener;
use super::member::{self, Member};
use super::settings::{ListenSettings, Settings};
use super::shard::{self, Arrival, Door};
use super::threads::{self, Bell};
use super::{ServeError, data_dir};
use crate::clock;
use crate::flag::{Flag, FlagPole};
use crate::http::metrics::Metrics;

/// Pause after a connection could not be accepted, most likely for want of files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

type Ended = oneshot::Receiver<Result<(), ServeError>>;

/// Runs a server until `stop` is raised or it fails; says so on `ready` once it serves.
///
/// # Errors
/// Any of [`ServeError`].
pub(super) fn run(
    settings: Settings,
    stop: FlagPole,
    ready: &mpsc::Sender<Vec<SocketAddr>>,
) -> Result<(), ServeError> {
    shard::runtime()?.block_on(serve(settings, stop, ready))
}

async fn serve(
    settings: Settings,
    stop: FlagPole,
    ready: &mpsc::Sender<Vec<SocketAddr>>,
) -> Result<(), ServeError> {
    if settings.signals {
        stop_on_signals(stop.clone())?;
    }
    look(&settings)?;
    // In this order a second server on the same directory and ports hears of the directory, and one that is refused for
    // its ports has made none.
    let taken = data_dir::take_existing(&settings.data_dir)?;
    let listeners = bind(&settings.listen)?;
    let disk: Arc<dyn Disk> = match taken {
        Some(disk) => Arc::new(disk),
        None => Arc::new(data_dir::make(&settings.data_dir)?),
    };
    let metrics = Metrics::with(settings.observation.metrics);
    let mut storage = Storage::new();
    let opening = storage.open(&settings, disk, &metrics);
    let mut stopping = stop.flag();
    let opened = tokio::select! {
        opened = opening => Some(opened),
        () = stopping.raised() => None,
    };
    let store = match opened {
        Some(Ok(store)) => store,
        Some(Err(error)) => {
            // Its own end may be for the same reason, or none.
            let _ = storage.end().await;
            return Err(error);
        }
        None => return storage.end().await,
    };

    let (cluster_id, member_id) = (store.cluster_id(), store.member_id());
    let member = Member::begin(store.clone(), &settings, metrics, stop.flag());
    let (home_door, arrivals) = shard::door();
    let mut doors = vec![home_door];
    let mut shards = Vec::new();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    for n in 1..cores.min(settings.shards_max) {
        let (door, ended) = start_shard(n, member.clone())?;
        doors.push(door);
        shards.push(ended);
    }
    let home = tokio::spawn(shard::serve(member.parts(), member.connections(), arrivals, stop.flag()));
    let addresses = listeners.iter().filter_map(Listener::socket_address).collect();
    for listener in listeners {
        announce(&listener);
        tokio::spawn(accept(listener, doors.clone(), stop.flag()));
    }
    drop(doors);
    tracing::info!(
        name = %settings.name,
        member_id = %format_args!("{member_id:x}"),
        cluster_id = %format_args!("{cluster_id:x}"),
        shards = shards.len() + 1,
        "ready to serve client requests"
    );
    // Whoever started the server may have given up on it.
    let _ = ready.send(addresses);

    let failed = tokio::select! {
        () = stopping.raised() => Ok(()),
        failed = storage.failed() => failed,
        reason = store.failed() => Err(reason.into()),
    };
    stop.set(true);
    member.retire().await;
    for ended in shards {
        // It ended, well or not; there is nothing more to wait for.
        let _ = ended.await;
    }
    let _ = home.await;
    store.shutdown().await;
    drop(store);
    failed.and(storage.end().await)
}

/// Raises `stop` on SIGTERM or SIGINT.
fn stop_on_signals(stop: FlagPole) -> Result<(), ServeError> {
    let listen =
        |kind| signal(kind).map_err(|source| ServeError::Thread { what: "signals".to_owned(), source });
    let mut terminate = listen(SignalKind::terminate())?;
    let mut interrupt = listen(SignalKind::interrupt())?;
    tokio::spawn(async move {
        let name = tokio::select! {
            _ = terminate.recv() => "terminated",
            _ = interrupt.recv() => "interrupt",
        };
        tracing::info!(signal = name, "received signal; shutting down");
        stop.set(true);
    });
    Ok(())
}

/// Refuses what can be refused without touching anything.
fn look(settings: &Settings) -> Result<(), ServeError> {
    data_dir::look(&settings.data_dir)?;
    match &settings.bootstrap {
        Err(reason) if !data_dir::has_member(&settings.data_dir) => Err(ServeError::Config(reason.clone())),
        _ => Ok(()),
    }
}

fn bind(listen: &ListenSettings) -> Result<Vec<Listener>, ServeError> {
    let client = if listen.client_http.is_empty() { Surface::Client } else { Surface::Grpc };
    let all = [
        (&listen.client, client),
        (&listen.client_http, Surface::Http),
        (&listen.metrics, Surface::Metrics),
        (&listen.peer, Surface::Peer),
    ];
    let urls = all.into_iter().flat_map(|(urls, surface)| urls.iter().map(move |url| (url, surface)));
    urls.map(|(url, surface)| Listener::bind(url, surface, listen.reuse_port)).collect()
}

fn announce(listener: &Listener) {
    let (traffic, address) = (listener.surface.traffic(), &listener.address);
    match listener.surface {
        Surface::Metrics => tracing::info!(address, "serving metrics"),
        Surface::Peer => tracing::info!(address, "serving peer traffic"),
        Surface::Client | Surface::Grpc | Surface::Http => tracing::info!(
            traffic,
            address,
            "serving client traffic insecurely; this is strongly discouraged!"
        ),
    }
}

/// Accepts connections and gives them to the shards, until `stopping` is raised.
async fn accept(listener: Listener, doors: Vec<Door>, mut stopping: Flag) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stopping.raised() => return,
        };
        match accepted {
            Ok(socket) => shard::give(&doors, Arrival { socket, surface: listener.surface }),
            Err(error) => {
                tracing::warn!(address = listener.address, %error, "failed to accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Starts shard `n`.
fn start_shard(n: usize, member: Member) -> Result<(Door, oneshot::Receiver<()>), ServeError> {
    let runtime: Runtime = shard::runtime()?;
    let (door, arrivals) = shard::door();
    let (end, ended) = oneshot::channel();
    // Its end is told by `ended`, also if it panics; nobody joins it.
    let _detached = threads::start(&format!("keelson-shard-{n}"), move || {
        runtime.block_on(async {
            let member = member.on_this_shard();
            shard::serve(member.parts(), member.connections(), arrivals, member.stopping()).await;
        });
        drop(end);
    })?;
    Ok((door, ended))
}

/// The threads of the storage.
struct Storage {
    log_bell: Arc<Bell>,
    engine_bell: Arc<Bell>,
    log: Option<Ended>,
    engine: Option<Ended>,
}

impl Storage {
    fn new() -> Self {
        Storage { log_bell: Arc::default(), engine_bell: Arc::default(), log: None, engine: None }
    }

    /// Opens engine and store, and starts the threads that keep them going.
    async fn open(
        &mut self,
        settings: &Settings,
        disk: Arc<dyn Disk>,
        metrics: &Arc<Metrics>,
    ) -> Result<Store, ServeError> {
        let bell = Arc::clone(&self.log_bell);
        let wake = Arc::new(move || bell.ring());
        let mut started = Ok(());
        // What is drawn must differ from one opening to the next.
        let store = member::open_store(settings, disk, clock::seed(), wake, |committer| {
            let (bell, metrics) = (Arc::clone(&self.log_bell), Arc::clone(&metrics.disk));
            let keep = move || threads::keep_log(&bell, &committer, &metrics);
            started = keeper("keelson-log", keep).map(|ended| self.log = Some(ended));
        });
        let store = store.await;
        started?;
        let store = store?;
        let (bell, metrics) = (Arc::clone(&self.engine_bell), Arc::clone(&metrics.disk));
        let maintained = store.clone();
        let keep = move || threads::keep_engine(&bell, &maintained, &metrics);
        self.engine = Some(keeper("keelson-maintain", keep)?);
        Ok(store)
    }

    /// Waits until a thread ends that should not; gives the reason. Safe to drop and call again until it returns.
    async fn failed(&mut self) -> Result<(), ServeError> {
        tokio::select! {
            result = ended(&mut self.log) => result,
            result = ended(&mut self.engine) => result,
        }
    }

    /// Writes out what waits, and ends the threads.
    async fn end(&mut self) -> Result<(), ServeError> {
        self.log_bell.end();
        self.engine_bell.end();
        let log = if self.log.is_some() { ended(&mut self.log).await } else { Ok(()) };
        let engine = if self.engine.is_some() { ended(&mut self.engine).await } else { Ok(()) };
        log.and(engine)
    }
}

/// Waits for the end of a thread, for ever if it has not started or its end was told. A panic ends it as a failure.
async fn ended(thread: &mut Option<Ended>) -> Result<(), ServeError> {
    let Some(running) = thread else { return std::future::pending().await };
    let result = running.await;
    *thread = None;
    result.unwrap_or_else(|_| Err(raft::Error::Storage("a thread of the storage panicked".to_owned()).into()))
}

fn keeper(
    name: &str,
    keep: impl FnOnce() -> Result<(), ServeError> + Send + 'static,
) -> Result<Ended, ServeError> {
    let (end, ended) = oneshot::channel();
    // Its end is told by `ended`, also if it panics; nobody joins it.
    let _detached = threads::start(name, move || drop(end.send(keep())))?;
    Ok(ended)
}
