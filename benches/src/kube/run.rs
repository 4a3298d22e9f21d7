//! A run: fill the store, start the API servers' watches, let everything arrive, wait for the last event.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use rand::rngs::StdRng;

use super::calls::{Callers, REGISTRY};
use super::life::{EVENT_TTL_SECONDS, Places};
use super::objects::{Names, Object, Objects, RESOURCES, Resource, prefixes};
use super::rates::{Action, Arrivals, Cluster, EVENTS_BY_POD, OTHERS_BY_NODE, PODS_BY_NODE};
use super::report::Report;
use super::sizes::VALUE_BYTES_MAX;
use super::tally::Tally;
use crate::client::wire::{self, PutRequest, RequestOp, TxnRequest, frame, path, prefix_end};
use crate::client::{Connection, Endpoint, Failure};
use crate::clock;
use crate::load::payload::{Values, slot_random};
use crate::load::process::{Meter, device_written_bytes};
use crate::watch::crowd::{Crowd, Shape};

/// Objects of one transaction while filling; etcd allows 128.
const FILL_OBJECTS: usize = 64;
/// Bytes of one transaction while filling, unless one object has more.
const FILL_BYTES: usize = 512 << 10;
/// Filling transactions in flight.
const FILL_CALLS: usize = 8;
/// No more than this at once: a server that does not keep up gets errors counted, not memory filled.
const IN_FLIGHT_MAX: u64 = 20_000;
/// Events and answers still missing after this time without any are lost.
const LOST_AFTER: Duration = Duration::from_secs(10);
/// Events in the store when a run begins, at most.
const EVENTS_MAX: f64 = 100_000.0;
/// Seconds of events that a store holds.
const EVENT_SECONDS: f64 = 3600.0;
/// Pod updates by node that is lost.
const UPDATES_BY_LOST_NODE: usize = 30;

/// A storm at half of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Storm {
    /// None.
    Quiet,
    /// An API server starts: all lists and all watches at once.
    Restart,
    /// One node of a hundred is lost: 30 pod updates for each, at once.
    NotReady,
}

/// What to do.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// The server.
    pub(crate) endpoint: Endpoint,
    /// The cluster.
    pub(crate) cluster: Cluster,
    /// How long.
    pub(crate) seconds: f64,
    /// What happens at half of it.
    pub(crate) storm: Storm,
    /// Seed of names, sizes, values and arrivals.
    pub(crate) seed: u64,
    /// The server's process.
    pub(crate) server_pid: Option<u32>,
}

/// Makes the objects that exist when a run begins, by resource.
fn population(cluster: &Cluster, names: &Names, random: &mut StdRng) -> Vec<Objects> {
    let events = (EVENT_SECONDS * cluster.churn * EVENTS_BY_POD as f64).min(EVENTS_MAX) as usize;
    [
        (Resource::Leases, cluster.nodes + cluster.leaders),
        (Resource::Nodes, cluster.nodes),
        (Resource::Pods, cluster.nodes * PODS_BY_NODE),
        (Resource::Events, events),
        (Resource::Others, cluster.nodes * OTHERS_BY_NODE),
        (Resource::Masters, cluster.apiservers),
    ]
    .into_iter()
    .map(|(resource, count)| {
        let objects = Objects::default();
        (0..count).for_each(|_| objects.add(names.object(resource, random)));
        objects
    })
    .collect()
}

/// Cuts objects into transactions.
fn batches(objects: &Objects) -> Vec<Vec<Rc<Object>>> {
    let (mut batches, mut batch, mut bytes) = (Vec::new(), Vec::new(), 0);
    for place in 0..objects.len() {
        let object = objects.at(place);
        if batch.len() == FILL_OBJECTS || (bytes + object.value_bytes > FILL_BYTES && !batch.is_empty()) {
            batches.push(std::mem::take(&mut batch));
            bytes = 0;
        }
        bytes += object.value_bytes;
        batch.push(object);
    }
    batches.push(batch);
    batches.retain(|batch| !batch.is_empty());
    batches
}

/// Empties the registry and writes the population.
async fn fill(endpoint: &Endpoint, objects: &[Objects], values: &Values, seed: u64) -> Result<(), Failure> {
    let mut connection = Connection::open(endpoint).await?;
    let delete =
        wire::DeleteRangeRequest { key: REGISTRY.into(), range_end: prefix_end(REGISTRY.as_bytes()) };
    connection.unary(path::DELETE_RANGE, frame(&delete)).await?;
    let grant = frame(&wire::LeaseGrantRequest { ttl_seconds: EVENT_TTL_SECONDS });
    let event_lease = wire::LeaseGrantResponse::decode(connection.unary(path::LEASE_GRANT, grant).await?)?.id;
    let todo: Vec<_> = objects.iter().flat_map(batches).collect();
    let todo = Rc::new(RefCell::new(todo));
    let mut tasks = Vec::new();
    for slot in 0..FILL_CALLS {
        let (mut connection, values, todo) = (connection.clone(), values.clone(), Rc::clone(&todo));
        let mut random = slot_random(seed, slot);
        tasks.push(tokio::task::spawn_local(async move {
            loop {
                let Some(batch) = todo.borrow_mut().pop() else { return Ok::<_, Failure>(()) };
                let put = |object: &Rc<Object>| {
                    let value = values.pick_sized(&mut random, object.value_bytes);
                    let lease = if object.resource == Resource::Events { event_lease } else { 0 };
                    RequestOp::put(PutRequest { key: object.key.clone(), value, lease })
                };
                let success = batch.iter().map(put).collect();
                let request = TxnRequest { success, ..TxnRequest::default() };
                let answer = connection.unary(path::TXN, frame(&request)).await?;
                let revision = wire::revision_of(&wire::TxnResponse::decode(answer)?.header);
                batch.iter().for_each(|object| object.revision.set(revision));
            }
        }));
    }
    for task in tasks {
        task.await.map_err(|error| Failure::Transport(format!("a filling task ended: {error}")))??;
    }
    Ok(())
}

fn shape(endpoint: &Endpoint, apiservers: usize) -> Shape {
    let watchers = RESOURCES * apiservers;
    Shape {
        endpoint: endpoint.clone(),
        connections: watchers,
        streams: 1,
        watchers,
        prefixes: prefixes(),
        prev_kv: true,
    }
}

/// An API server starts; its watches stay open until the end.
async fn restart(endpoint: Endpoint, callers: Rc<Callers>) -> Result<Crowd, Failure> {
    let begun = clock::now();
    let crowd = Crowd::gather(&shape(&endpoint, 1)).await?;
    let list = |(place, connection): (usize, &Connection)| {
        let (callers, connection) = (Rc::clone(&callers), connection.clone());
        tokio::task::spawn_local(async move { callers.list("list, storm", connection, place).await })
    };
    let lists: Vec<_> = crowd.connections.iter().enumerate().map(list).collect();
    for list in lists {
        list.await.map_err(|error| Failure::Transport(format!("a list ended: {error}")))?;
    }
    callers.tally.call("api server start", false, clock::nanos_between(begun, clock::now()));
    Ok(crowd)
}

/// Lets everything arrive until the time is over.
async fn arrive(options: &Options, callers: &Rc<Callers>, crowd: &mut Crowd) -> Option<Crowd> {
    let cluster = &options.cluster;
    let busy = [Resource::Leases, Resource::Nodes, Resource::Pods, Resource::Events, Resource::Others];
    let busy = busy.map(Resource::place);
    let mut arrivals = Arrivals::new(cluster, &busy, slot_random(options.seed, 1));
    let places = Rc::new(Places {
        scan: (0..cluster.apiservers).map(|_| Cell::new(0)).collect(),
        compactor: Object {
            resource: Resource::Leases,
            key: Bytes::from_static(b"compact_rev_key"),
            revision: Cell::new(0),
            value_bytes: 20,
        },
    });
    let begun = clock::now();
    let end = Duration::from_secs_f64(options.seconds);
    let mut storm = None;
    let mut storm_due = options.storm != Storm::Quiet;
    while let Some(due) = arrivals.next_due()
        && due < end
    {
        tokio::time::sleep_until((begun + due).into()).await;
        if storm_due && due > end / 2 {
            storm_due = false;
            if options.storm == Storm::NotReady {
                callers.pods_at_once((cluster.nodes / 100).max(1) * UPDATES_BY_LOST_NODE);
            } else {
                let restart = restart(options.endpoint.clone(), Rc::clone(callers));
                storm = Some(tokio::task::spawn_local(restart));
            }
        }
        let action = arrivals.pop().expect("it is due");
        if let Action::Progress(apiserver, place) = action {
            crowd.ask_progress_of(apiserver * RESOURCES + place);
            continue;
        }
        callers.tally.late.borrow_mut().saturating_record(clock::nanos_between(begun + due, clock::now()));
        let in_flight = &callers.tally.in_flight;
        if in_flight.get() >= IN_FLIGHT_MAX {
            callers.tally.error("not sent", &Failure::Transport("too many calls in flight".to_owned()));
            continue;
        }
        in_flight.set(in_flight.get() + 1);
        let (callers, places) = (Rc::clone(callers), Rc::clone(&places));
        tokio::task::spawn_local(async move {
            callers.act(&places, action).await;
            callers.tally.in_flight.set(callers.tally.in_flight.get() - 1);
        });
    }
    callers.stop.set(true);
    match storm?.await {
        Ok(Ok(crowd)) => Some(crowd),
        Ok(Err(failure)) => {
            callers.tally.error("storm", &failure);
            None
        }
        Err(error) => {
            callers.tally.error("storm", &Failure::Transport(error.to_string()));
            None
        }
    }
}

/// Runs it.
///
/// # Errors
/// [`Failure`] if it cannot begin. What fails later is in the report.
pub(crate) async fn run(options: &Options) -> Result<Report, Failure> {
    let cluster = &options.cluster;
    let mut random = slot_random(options.seed, 0);
    let names = Names::new();
    let objects = population(cluster, &names, &mut random);
    let values = Values::new(VALUE_BYTES_MAX, options.seed);
    let begun = clock::now();
    fill(&options.endpoint, &objects, &values, options.seed).await?;
    let fill_nanos = clock::nanos_between(begun, clock::now());

    let mut crowd = Crowd::gather(&shape(&options.endpoint, cluster.apiservers)).await?;
    let callers = Rc::new(Callers {
        connections: crowd.connections.clone(),
        turn: Cell::new(0),
        prefixes: prefixes(),
        objects,
        names,
        values,
        random: RefCell::new(random),
        seen: Rc::clone(&crowd.seen),
        tally: Tally::new(),
        event_lease: Cell::new(0),
        head: Cell::new(0),
        compact_next: Cell::new(0),
        stop: Cell::new(false),
    });
    let lease = callers.grant(Resource::Events, EVENT_TTL_SECONDS).await;
    callers.event_lease.set(lease.ok_or(Failure::Transport("no lease for events".to_owned()))?);

    let meter = Meter::start(options.server_pid)?;
    let (begun, device_before) = (clock::now(), device_written_bytes());
    let newcomer = arrive(options, &callers, &mut crowd).await;
    let tally = &callers.tally;
    crowd.settle(|| tally.in_flight.get() == 0, LOST_AFTER).await;
    let expected = || tally.puts.get() * cluster.apiservers as u64;
    let stamped = || crowd.seen.delivery.borrow().len();
    crowd.settle(|| stamped() >= expected() && crowd.owed() == 0, LOST_AFTER).await;
    let seconds = clock::nanos_between(begun, clock::now()) as f64 / 1e9;
    let (used, device_after) = (meter.stop()?, device_written_bytes());

    for (counted, reason) in [
        (tally.in_flight.get(), "calls without an answer"),
        (expected().saturating_sub(stamped()), "events lost"),
        (stamped().saturating_sub(expected()), "events too many"),
        (crowd.owed(), "progress requests without an answer"),
    ] {
        if counted > 0 {
            crowd.seen.error(reason, counted);
        }
    }
    for (reason, times) in newcomer.iter().flat_map(|crowd| crowd.seen.errors.borrow().clone()) {
        crowd.seen.error(format!("storm: {reason}"), times);
    }
    let device = device_before.zip(device_after).map(|(before, after)| after.saturating_sub(before));
    Ok(Report::new(options, tally, &crowd, fill_nanos, seconds, device, &used))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fills_are_cut_by_objects_and_by_bytes() {
        let object = |value_bytes| {
            Rc::new(Object {
                resource: Resource::Pods,
                key: Bytes::from_static(b"/registry/pods/a"),
                revision: Cell::new(0),
                value_bytes,
            })
        };
        for (sizes, want, why) in [
            (vec![], vec![], "nothing"),
            (vec![100; 65], vec![64, 1], "by objects"),
            (vec![FILL_BYTES / 2; 3], vec![2, 1], "by bytes"),
            (vec![10, VALUE_BYTES_MAX, 10], vec![1, 1, 1], "one larger than all"),
        ] {
            let objects = Objects::default();
            sizes.into_iter().for_each(|size| objects.add(object(size)));
            assert_eq!(batches(&objects).iter().map(Vec::len).collect::<Vec<_>>(), want, "{why}");
        }
    }
}
