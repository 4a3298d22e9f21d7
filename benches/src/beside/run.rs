//! A run: prepare, then puts through an idle window and a window with the background at work.

use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::background::{Amount, Background, prepare};
use super::report::Report;
use super::spans::Spans;
use crate::client::wire::Framer;
use crate::client::{Connection, Endpoint, Failure};
use crate::clock;
use crate::load::driver::{self, Limit, Plan};
use crate::load::payload::{Keys, Values, slot_random};
use crate::load::process::Meter;
use crate::load::work::{Put, Work};

/// Puts before the idle window, not counted.
const WARM_UP: Duration = Duration::from_secs(1);
/// Between preparing and the first put: what the server still does for the preparation should not meet the idle window.
const SETTLE: Duration = Duration::from_secs(2);
/// Between two pieces of background work.
const PAUSE: Duration = Duration::from_millis(200);
/// How often the end of the background is looked for.
const GLANCE: Duration = Duration::from_millis(5);

/// What to do.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// The puts; its limit is replaced by the windows.
    pub(crate) puts: Plan,
    /// Length of each window.
    pub(crate) window: Duration,
    /// The background.
    pub(crate) amount: Amount,
    /// Keys of the puts.
    pub(crate) keys: Keys,
    /// Values of the puts.
    pub(crate) values: Values,
    /// Seed of keys and values.
    pub(crate) seed: u64,
    /// The server's process.
    pub(crate) server_pid: Option<u32>,
}

/// A put that knows whether the background was at work.
struct WatchedPut {
    put: Put,
    spans: Arc<Spans>,
}

impl Work for WatchedPut {
    async fn call(&mut self, connection: &mut Connection) -> Result<u64, Failure> {
        self.put.call(connection).await
    }

    fn kind(&self, from: Instant) -> Option<&'static str> {
        Some(self.spans.kind(from))
    }
}

/// What a background thread gives back: the seconds of each piece, or why it ended.
type Pieces = Result<Vec<f64>, Failure>;

/// Starts the background's thread; it begins after the idle window and starts no piece after `until`.
fn start(
    spans: Arc<Spans>,
    endpoint: Endpoint,
    mut background: Background,
    until: Duration,
) -> std::io::Result<JoinHandle<Pieces>> {
    std::thread::Builder::new().name("background".to_owned()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let mut connection = Connection::open(&endpoint).await?;
            tokio::time::sleep_until((spans.epoch + spans.idle_until).into()).await;
            let mut pieces = Vec::new();
            while clock::now() < spans.epoch + until {
                spans.begin();
                let done = background.step(&mut connection).await;
                let took = spans.end();
                if !done? {
                    break;
                }
                pieces.push(took.as_secs_f64());
                tokio::time::sleep(PAUSE).await;
            }
            Ok(pieces)
        })
    })
}

/// Runs it.
///
/// # Errors
/// [`Failure`] if it cannot be prepared or the background fails. Failed puts are in the report.
pub(crate) async fn run(options: &Options) -> Result<Report, Failure> {
    let endpoint = &options.puts.endpoint;
    let background = prepare(endpoint, &options.amount).await?;
    let whole = WARM_UP + options.window * 2;
    let plan = Plan { limit: Limit::Time(whole), ..options.puts.clone() };
    let connections = driver::connect(&plan).await?;
    tokio::time::sleep(SETTLE).await;

    let meter = Meter::start(options.server_pid)?;
    let spans = Arc::new(Spans::new(clock::now(), WARM_UP, options.window));
    let thread = start(Arc::clone(&spans), endpoint.clone(), background, whole)?;
    let values = Rc::new(options.values.clone());
    let make = |slot| WatchedPut {
        put: Put {
            keys: options.keys.clone(),
            values: (*values).clone(),
            random: slot_random(options.seed, slot),
            framer: Framer::default(),
        },
        spans: Arc::clone(&spans),
    };
    let tally = driver::drive(&plan, &connections, make).await?;
    while !thread.is_finished() {
        tokio::time::sleep(GLANCE).await;
    }
    let used = meter.stop()?;
    let pieces =
        thread.join().map_err(|_| Failure::Transport("the background's thread panicked".to_owned()))??;
    Ok(Report::new(&options.amount, &plan, &tally, pieces, &used))
}
