//! A fan-out run: gather the watchers, write at a rate, wait until every event has arrived, report.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;

use super::crowd::{Crowd, Seen, Shape};
use super::report::Report;
use super::stamp::stamped;
use crate::client::wire::{Framer, PutRequest, path};
use crate::client::{Connection, Failure};
use crate::clock;
use crate::load::driver::{self, Plan};
use crate::load::payload::{Keys, Values, slot_random};
use crate::load::process::{Meter, sample};
use crate::load::work::Work;

/// A put of a value that says when it was sent.
struct StampedPut {
    /// Keys by prefix.
    keys: Rc<Vec<Keys>>,
    values: Values,
    random: StdRng,
    framer: Framer,
    seen: Rc<Seen>,
    /// The prefix whose turn it is, over all slots.
    turn: Rc<Cell<usize>>,
    /// Acknowledged puts by prefix.
    written: Rc<RefCell<Vec<u64>>>,
}

impl Work for StampedPut {
    async fn call(&mut self, connection: &mut Connection) -> Result<u64, Failure> {
        let prefix = self.turn.get();
        self.turn.set((prefix + 1) % self.keys.len());
        let keys = &self.keys[prefix];
        let key = keys.key(self.random.random_range(0..keys.count));
        let value = stamped(&self.values.pick(&mut self.random), self.seen.nanos());
        let answer = connection.unary(path::PUT, self.framer.frame(&PutRequest::new(key, value))).await?;
        self.written.borrow_mut()[prefix] += 1;
        Ok(answer.len() as u64)
    }
}

/// What to do.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// The watchers.
    pub(crate) shape: Shape,
    /// The writer: one connection, a rate.
    pub(crate) writer: Plan,
    /// Progress requests a second.
    pub(crate) progress: Option<f64>,
    /// Bytes of a key.
    pub(crate) key_bytes: usize,
    /// Bytes of a value.
    pub(crate) value_bytes: usize,
    /// Different keys over all prefixes.
    pub(crate) keys: u64,
    /// Seed of keys and values.
    pub(crate) seed: u64,
    /// Events still missing after this time without any are lost.
    pub(crate) lost_after: Duration,
    /// The server's process.
    pub(crate) server_pid: Option<u32>,
}

/// Runs it.
///
/// # Errors
/// [`Failure`] if it cannot begin. Lost events and failed puts are in the report.
pub(crate) async fn run(options: &Options) -> Result<Report, Failure> {
    let shape = &options.shape;
    let by_prefix = (options.keys / shape.prefixes.len() as u64).max(1);
    let keys = shape.prefixes.iter().map(|prefix| Keys::new(prefix, options.key_bytes, by_prefix));
    let keys = Rc::new(keys.collect::<Result<Vec<_>, _>>()?);
    let writers = driver::connect(&options.writer).await?;
    let pid = options.server_pid.map(|pid| pid.to_string());
    let empty = pid.as_deref().map(sample).transpose()?;
    let begun = clock::now();
    let mut crowd = Crowd::gather(shape).await?;
    let setup_nanos = clock::nanos_between(begun, clock::now());

    let values = Values::new(options.value_bytes, options.seed);
    let written = Rc::new(RefCell::new(vec![0; shape.prefixes.len()]));
    let turn = Rc::new(Cell::new(0));
    let seen = Rc::clone(&crowd.seen);
    let make = |slot| StampedPut {
        keys: Rc::clone(&keys),
        values: values.clone(),
        random: slot_random(options.seed, slot),
        framer: Framer::default(),
        seen: Rc::clone(&seen),
        turn: Rc::clone(&turn),
        written: Rc::clone(&written),
    };
    let meter = Meter::start(options.server_pid)?;
    let (begun, answers_before) = (clock::now(), seen.answers.get());
    let driving = driver::drive(&options.writer, &writers, make);
    let tally = match options.progress {
        None => driving.await?,
        Some(rate) => {
            let mut ticks = tokio::time::interval(Duration::from_secs_f64(1.0 / rate));
            tokio::pin!(driving);
            loop {
                tokio::select! {
                    tally = &mut driving => break tally?,
                    _ = ticks.tick() => crowd.ask_progress(),
                }
            }
        }
    };
    let expected = |written: &[u64]| -> u64 {
        written.iter().enumerate().map(|(prefix, puts)| puts * shape.receivers(prefix)).sum()
    };
    let expected = expected(&written.borrow());
    crowd.settle(|| seen.delivery.borrow().len() >= expected, options.lost_after).await;
    let seconds = clock::nanos_between(begun, seen.last_news.get()) as f64 / 1e9;
    let used = meter.stop()?;
    crowd.settle(|| crowd.owed() == 0, options.lost_after).await;

    let got = seen.delivery.borrow().len();
    if got != expected {
        let reason = if got < expected { "events lost" } else { "events too many" };
        seen.error(reason, expected.abs_diff(got));
    }
    if seen.unstamped.get() > 0 {
        seen.error("events that were not written here", seen.unstamped.get());
    }
    if crowd.owed() > 0 {
        seen.error("progress requests without an answer", crowd.owed());
    }
    let answers = seen.answers.get() - answers_before;
    Ok(Report::new(&crowd, shape, (setup_nanos, empty), &tally, seconds, answers, &used))
}
