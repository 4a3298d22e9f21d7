//! The simulated member: the real engine, store and services, on the world's disk and network.
//!
//! Where the process has threads here are two tasks, which wait as long as the disk takes before each step.

use std::sync::Arc;
use std::time::Duration;

use engine::Work;
use engine::disk::Disk;
use parking_lot::Mutex;
use raft::{Committer, Store};
use server::flag::FlagPole;
use server::http::metrics::Metrics;
use server::serve::{Member, ServeError, Settings, open_store};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;

use super::dice::Dice;
use super::network::{Host, Network};

/// Pause of upkeep when there is nothing to do, as in the process.
const IDLE_PAUSE: Duration = Duration::from_millis(100);
/// Pause of upkeep when the disk is full, as in the process.
const FULL_PAUSE: Duration = Duration::from_secs(1);
/// Time that connections have to end in at a clean stop, as in the process.
const DRAIN: Duration = Duration::from_secs(3);

/// How long the disk takes for a step, milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct DiskTimes {
    /// At least.
    pub min_ms: u64,
    /// At most.
    pub max_ms: u64,
}

/// What the world and the process tell each other.
#[derive(Debug)]
pub(super) struct Wire {
    /// How long the disk takes now.
    pub(super) times: Mutex<DiskTimes>,
    /// Raised to stop the process cleanly.
    pub(super) stop: FlagPole,
    /// Set once it serves.
    pub(super) serving: Mutex<Option<Store>>,
    /// Entries that the log had beyond what the tables held, when the process opened it.
    pub(super) ended: Mutex<Option<Result<(), ServeError>>>,
}

impl Wire {
    pub(super) fn new(times: DiskTimes) -> Arc<Wire> {
        Arc::new(Wire {
            times: Mutex::new(times),
            stop: FlagPole::new(),
            serving: Mutex::default(),
            ended: Mutex::default(),
        })
    }

    async fn disk_time(&self, dice: &mut Dice) {
        let DiskTimes { min_ms, max_ms } = *self.times.lock();
        tokio::time::sleep(Duration::from_millis(dice.between(min_ms, max_ms))).await;
    }
}

/// What a process is started with.
pub(super) struct Start {
    pub(super) settings: Settings,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) network: Network,
    pub(super) host: Host,
    pub(super) seed: u64,
    /// Bytes that one step of upkeep may move.
    pub(super) step_bytes: u64,
    pub(super) wire: Arc<Wire>,
}

/// The whole life of a process; its end is put on the wire.
pub(super) async fn run(start: Start) {
    let wire = Arc::clone(&start.wire);
    let ended = live(start).await;
    *wire.serving.lock() = None;
    *wire.ended.lock() = Some(ended);
}

async fn live(start: Start) -> Result<(), ServeError> {
    let Start { settings, disk, network, host, seed, step_bytes, wire } = start;
    let dice = Dice::new(seed);
    let bell = Arc::new(Notify::new());
    let (fail, mut failed) = mpsc::unbounded_channel::<engine::Error>();
    let (end, ending) = watch::channel(false);
    let (log_ended, mut log_end) = mpsc::unbounded_channel::<()>();

    let wake = Arc::clone(&bell);
    let store = open_store(&settings, disk, seed, Arc::new(move || wake.notify_one()), |committer| {
        let keep = keep_log(committer, bell, ending.clone(), Arc::clone(&wire), dice.apart(1));
        let fail = fail.clone();
        tokio::spawn(async move {
            if let Err(error) = keep.await {
                // The member listens as long as it lives.
                let _ = fail.send(error);
            }
            drop(log_ended);
        });
    });
    let store = tokio::select! {
        biased;
        Some(error) = failed.recv() => return Err(error.into()),
        store = store => store?,
    };
    let keep = keep_engine(store.clone(), ending, Arc::clone(&wire), dice.apart(2), step_bytes);
    tokio::spawn(async move {
        if let Err(error) = keep.await {
            let _ = fail.send(error);
        }
    });
    let member = Member::begin(store.clone(), &settings, Metrics::new(), wire.stop.flag());
    let port = member.client_port();
    let listener = network.listen(host);
    *wire.serving.lock() = Some(store.clone());

    let mut connections = JoinSet::new();
    let mut stop = wire.stop.flag();
    let result = loop {
        tokio::select! {
            biased;
            Some(error) = failed.recv() => break Err(error.into()),
            reason = store.failed() => break Err(reason.into()),
            () = stop.raised() => break Ok(()),
            Some(_) = connections.join_next() => {}
            stream = listener.accept() => {
                connections.spawn(port.clone().serve(stream));
            }
        }
    };
    wire.stop.set(true);
    member.retire().await;
    // Those that do not end in time are cut.
    let _ = tokio::time::timeout(DRAIN, async { while connections.join_next().await.is_some() {} }).await;
    store.shutdown().await;
    // Whoever commits looks once more and ends.
    let _ = end.send(true);
    let _ = log_end.recv().await;
    result
}

/// Writes and syncs the log whenever `bell` rings, until the end, and then what waits.
async fn keep_log(
    committer: Arc<Committer>,
    bell: Arc<Notify>,
    mut ending: watch::Receiver<bool>,
    wire: Arc<Wire>,
    mut dice: Dice,
) -> engine::Result<()> {
    loop {
        let ended = *ending.borrow_and_update();
        wire.disk_time(&mut dice).await;
        if committer.step()? {
            continue;
        }
        if ended {
            return Ok(());
        }
        tokio::select! {
            () = bell.notified() => {}
            _ = ending.changed() => {}
        }
    }
}

/// Does the engine's upkeep until the end.
async fn keep_engine(
    store: Store,
    ending: watch::Receiver<bool>,
    wire: Arc<Wire>,
    mut dice: Dice,
    step_bytes: u64,
) -> engine::Result<()> {
    while !*ending.borrow() {
        wire.disk_time(&mut dice).await;
        match store.maintain_step(step_bytes) {
            Ok(Work::Idle) => tokio::time::sleep(IDLE_PAUSE).await,
            Ok(_) => {}
            Err(engine::Error::Full(_)) => tokio::time::sleep(FULL_PAUSE).await,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
