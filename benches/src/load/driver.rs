//! Drives works: connections times calls in flight, as fast as answers come (closed loop) or at a rate (open loop).
//!
//! In an open loop the latency of an operation runs from when it was meant to start, so waiting for a free slot counts:
//! a server that stalls for a second is charged with every operation that should have run in that second.
//!
//! INVARIANTS
//! * With a total, exactly that many operations are attempted, unless every connection breaks.
//! * An operation that fails is counted and not put into the histogram.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::pace::{Pacer, intended_offset};
use super::work::Work;
use crate::client::{Connection, Endpoint, Failure};
use crate::clock;

/// Different error texts kept; further ones are counted together.
const ERROR_KINDS_MAX: usize = 16;
/// The longest latency told apart, in nanoseconds: two minutes.
const LATENCY_NANOS_MAX: u64 = 120_000_000_000;

/// When to stop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Limit {
    /// After so many operations.
    Operations(u64),
    /// After so much time.
    Time(Duration),
}

/// How to drive.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// The server.
    pub(crate) endpoint: Endpoint,
    /// TCP connections.
    pub(crate) connections: usize,
    /// Calls in flight on each connection.
    pub(crate) calls: usize,
    /// When to stop.
    pub(crate) limit: Limit,
    /// Operations per second of an open loop; `None` is a closed loop.
    pub(crate) rate: Option<f64>,
}

impl Plan {
    /// Calls in flight altogether.
    pub(crate) fn slots(&self) -> usize {
        self.connections * self.calls
    }
}

/// What came of it.
pub(crate) struct Tally {
    /// Latencies of the operations that succeeded, in nanoseconds.
    pub(crate) latency: Histogram<u64>,
    /// The same by kind, of works that tell kinds apart.
    pub(crate) by_kind: BTreeMap<&'static str, Histogram<u64>>,
    /// Failed operations by reason.
    pub(crate) errors: BTreeMap<String, u64>,
    /// Bytes of all answers.
    pub(crate) received_bytes: u64,
    /// From the first start to the last answer.
    pub(crate) elapsed: Duration,
}

/// An empty histogram of latencies in nanoseconds.
pub(crate) fn latencies() -> Histogram<u64> {
    Histogram::new_with_bounds(1_000, LATENCY_NANOS_MAX, 3).expect("constant bounds that are in order")
}

impl Tally {
    fn new() -> Self {
        Tally {
            latency: latencies(),
            by_kind: BTreeMap::new(),
            errors: BTreeMap::new(),
            received_bytes: 0,
            elapsed: Duration::ZERO,
        }
    }

    fn add(&mut self, nanos: u64, kind: Option<&'static str>, outcome: &Result<u64, Failure>) {
        match outcome {
            Ok(bytes) => {
                self.latency.saturating_record(nanos);
                if let Some(kind) = kind {
                    self.by_kind.entry(kind).or_insert_with(latencies).saturating_record(nanos);
                }
                self.received_bytes += bytes;
            }
            Err(failure) => {
                let text = failure.to_string();
                let known = self.errors.contains_key(&text) || self.errors.len() < ERROR_KINDS_MAX;
                let text = if known { text } else { "others".to_owned() };
                *self.errors.entry(text).or_default() += 1;
            }
        }
    }

    /// How many operations failed.
    pub(crate) fn failed(&self) -> u64 {
        self.errors.values().sum()
    }
}

/// Opens the connections of a plan.
///
/// # Errors
/// The first connection's that fails.
pub(crate) async fn connect(plan: &Plan) -> Result<Vec<Connection>, Failure> {
    let mut connections = Vec::with_capacity(plan.connections);
    for _ in 0..plan.connections {
        connections.push(Connection::open(&plan.endpoint).await?);
    }
    Ok(connections)
}

/// What the slots share.
struct Shared {
    start: Instant,
    /// Operations started.
    started: Cell<u64>,
    total: u64,
    until: Option<Instant>,
    rate: Option<f64>,
    tally: RefCell<Tally>,
}

/// Runs one work in each slot of `connections` until the plan's limit; `make` builds the work of a slot.
///
/// # Errors
/// [`Failure::Transport`] if the machine starts no thread for an open loop. Failures of calls are in the tally.
pub(crate) async fn drive<W: Work + 'static>(
    plan: &Plan,
    connections: &[Connection],
    mut make: impl FnMut(usize) -> W,
) -> Result<Tally, Failure> {
    let start = clock::now();
    let (total, until) = match (plan.limit, plan.rate) {
        (Limit::Operations(total), _) => (total, None),
        (Limit::Time(time), Some(rate)) => ((time.as_secs_f64() * rate).ceil() as u64, None),
        (Limit::Time(time), None) => (u64::MAX, Some(start + time)),
    };
    let tally = RefCell::new(Tally::new());
    let shared = Rc::new(Shared { start, started: Cell::new(0), total, until, rate: plan.rate, tally });
    let pacer = match plan.rate {
        Some(rate) => Some(Rc::new(Pacer::start(start, rate, total, plan.slots() as u64)?)),
        None => None,
    };
    let mut slots = Vec::with_capacity(plan.slots());
    // Round robin, so that the first operations spread over all connections.
    for slot in 0..plan.slots() {
        let connection = connections[slot % connections.len()].clone();
        let work = make(slot);
        slots.push(tokio::task::spawn_local(run_slot(Rc::clone(&shared), pacer.clone(), connection, work)));
    }
    for slot in slots {
        slot.await.map_err(|error| Failure::Transport(format!("a slot ended: {error}")))?;
    }
    let mut tally = shared.tally.replace(Tally::new());
    tally.elapsed = clock::now().saturating_duration_since(start);
    Ok(tally)
}

async fn run_slot<W: Work>(
    shared: Rc<Shared>,
    pacer: Option<Rc<Pacer>>,
    mut connection: Connection,
    mut work: W,
) {
    loop {
        if let Some(pacer) = &pacer {
            pacer.permits.acquire().await.expect("the semaphore is never closed").forget();
        }
        let index = shared.started.get();
        if index >= shared.total {
            return;
        }
        let now = clock::now();
        if shared.until.is_some_and(|until| now >= until) {
            return;
        }
        shared.started.set(index + 1);
        let from = shared.rate.map_or(now, |rate| shared.start + intended_offset(index, rate));
        let outcome = work.call(&mut connection).await;
        let nanos = clock::nanos_between(from, clock::now());
        shared.tally.borrow_mut().add(nanos, work.kind(from), &outcome);
        if matches!(outcome, Err(Failure::Transport(_))) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::client::scripted::{Answer, serve};
    use crate::client::wire::path;

    /// The smallest call.
    struct Ping;

    impl Work for Ping {
        async fn call(&mut self, connection: &mut Connection) -> Result<u64, Failure> {
            Ok(connection.unary(path::PUT, Bytes::from_static(b"\0\0\0\0\0")).await?.len() as u64)
        }
    }

    /// Drives pings against a server that stalls for 300 ms at call number `stall_at`.
    async fn pinged(limit: Limit, rate: Option<f64>, stall_at: u64) -> Tally {
        let endpoint = serve(move |number, _| {
            let stall = Duration::from_millis(if number == stall_at { 300 } else { 0 });
            Answer { stall, ..Answer::body(vec![Bytes::from_static(b"\0\0\0\0\0")]) }
        })
        .await;
        let plan = Plan { endpoint, connections: 1, calls: 2, limit, rate };
        let connections = connect(&plan).await.expect("the server listens");
        drive(&plan, &connections, |_| Ping).await.expect("a pacer")
    }

    #[tokio::test(flavor = "local")]
    async fn a_total_is_kept_exactly() {
        for rate in [None, Some(5_000.0)] {
            let tally = pinged(Limit::Operations(101), rate, u64::MAX).await;
            assert_eq!((tally.latency.len(), tally.failed()), (101, 0), "rate {rate:?}");
        }
    }

    #[tokio::test(flavor = "local")]
    async fn an_open_loop_charges_a_stall_to_all_that_should_have_run() {
        let slow = |tally: &Tally| tally.latency.count_between(100_000_000, u64::MAX);
        let closed = pinged(Limit::Operations(200), None, 20).await;
        assert!(slow(&closed) < 20, "a closed loop hides the stall: {}", slow(&closed));
        let open = pinged(Limit::Operations(200), Some(500.0), 20).await;
        // 100 ms of the stall's 300 at 500 a second: some 100 operations waited at least that long.
        assert!(slow(&open) >= 90, "{} operations waited", slow(&open));
    }

    #[test]
    fn failures_are_counted_apart_from_latencies() {
        let mut tally = Tally::new();
        tally.add(5_000, Some("fast"), &Ok(7));
        tally.add(6_000, Some("slow"), &Ok(0));
        for number in 0..40 {
            tally.add(1, Some("fast"), &Err(Failure::Transport(number.to_string())));
        }
        assert_eq!((tally.latency.len(), tally.received_bytes, tally.failed()), (2, 7, 40));
        assert_eq!(tally.by_kind.values().map(Histogram::len).collect::<Vec<_>>(), [1, 1], "by kind");
        assert_eq!(tally.errors.len(), ERROR_KINDS_MAX + 1, "a flood of texts is bounded");
    }
}
