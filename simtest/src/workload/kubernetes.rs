//! What a Kubernetes API server asks, with its kinds of requests in their proportions, on a small cluster whose
//! time runs faster: objects are smaller and fewer, leases of events end within seconds.
//!
//! Every write is a transaction on one key that compares its mod revision; what is compared with is what the
//! writer last heard, so a few fail. Pages go on at the revision of the first; a compaction goes to the revision
//! of the round before.

use bytes::Bytes;
use rand::Rng as _;
use rand::rngs::StdRng;

use crate::history::Outcome;
use crate::op::{Answer, Compare, Delete, Operand, Put, Range, Request, Txn, TxnOp, WatchCreate};
use crate::workload::chance::{permille, prefix_end, skewed, value, weighted};
use crate::workload::knowledge::Knowledge;

const NODES: usize = 200;
const PODS: usize = 300;
const OBJECTS: usize = 200;
const NAMESPACES: usize = 20;
const PAGE: i64 = 50;

/// Prefixes that are listed and watched.
const RESOURCES: [&str; 8] = [
    "/registry/leases/",
    "/registry/minions/",
    "/registry/pods/",
    "/registry/events/",
    "/registry/replicasets/",
    "/registry/configmaps/",
    "/registry/services/endpoints/",
    "/registry/masterleases/",
];

/// The key by which API servers agree who compacts.
const COMPACT_KEY: &[u8] = b"compact_rev_key";

/// Kinds of requests, by how often.
const KINDS: [(u32, Kind); 14] = [
    (430, Kind::RenewLease),
    (20, Kind::NodeStatus),
    (180, Kind::Pod),
    (110, Kind::Event),
    (90, Kind::Object),
    (20, Kind::MasterLease),
    (70, Kind::Get),
    (30, Kind::CurrentRevision),
    (8, Kind::Stream),
    (4, Kind::Page),
    (4, Kind::Count),
    (2, Kind::KeysOnly),
    (12, Kind::Grant),
    (1, Kind::Compact),
];

#[derive(Debug, Clone, Copy)]
enum Kind {
    RenewLease,
    NodeStatus,
    Pod,
    Event,
    Object,
    MasterLease,
    Get,
    CurrentRevision,
    Stream,
    Page,
    Count,
    KeysOnly,
    Grant,
    Compact,
}

/// What one client is in the middle of.
#[derive(Debug, Default)]
pub(crate) struct Habits {
    /// The next page of a list.
    page: Option<Range>,
    /// The revision of its last round of compaction; 0 before the first.
    round: i64,
    /// A compaction that it has won the right to.
    compact: Option<i64>,
}

impl Habits {
    /// The next request of a client.
    pub(crate) fn next(&mut self, random: &mut StdRng, known: &mut Knowledge) -> Request {
        if let Some(revision) = self.compact.take() {
            return Request::Compact { revision: revision.min(known.witnessed), physical: false };
        }
        if let Some(page) = self.page.take() {
            return Request::Range(page);
        }
        match weighted(random, &KINDS) {
            Kind::RenewLease => {
                let node = random.random_range(0..NODES);
                let key = Bytes::from(format!("/registry/leases/kube-node-lease/node-{node:04}"));
                update(random, known, key, 300, 0)
            }
            Kind::NodeStatus => {
                let node = random.random_range(0..NODES);
                update(random, known, Bytes::from(format!("/registry/minions/node-{node:04}")), 2000, 0)
            }
            Kind::Pod => pod(random, known),
            Kind::Event => event(random, known),
            Kind::Object => {
                let kinds = ["replicasets", "configmaps", "services/endpoints"];
                let (kind, at) = (kinds[random.random_range(0..3)], skewed(random, OBJECTS));
                let key = Bytes::from(format!("/registry/{kind}/ns-{:02}/object-{at:04}", at % NAMESPACES));
                update(random, known, key, 600, 10)
            }
            Kind::MasterLease => {
                let Some(&lease) = known.leases.last() else { return grant(random) };
                let key = Bytes::from(format!("/registry/masterleases/10.0.0.{}", random.random_range(1..4)));
                let found = known.mod_revision(&key);
                Request::Txn(replace(random, known, key, found, 60, lease))
            }
            Kind::Get => {
                let key = if permille(random, 500) { absent_key(random) } else { pod_key(random) };
                Request::Range(Range { key, limit: 1, ..Range::default() })
            }
            Kind::CurrentRevision => {
                let key = Bytes::from_static(resource(random).as_bytes());
                Request::Range(Range { key, limit: 1, ..Range::default() })
            }
            Kind::Stream => {
                let mut range = list(random);
                if permille(random, 300) {
                    range.limit = 10_000;
                    range.revision = known.newest;
                }
                Request::RangeStream(range)
            }
            Kind::Page => Request::Range(Range { limit: PAGE, ..list(random) }),
            Kind::Count => Request::Range(Range { count_only: true, ..list(random) }),
            Kind::KeysOnly => Request::Range(Range { keys_only: true, ..list(random) }),
            Kind::Grant => grant(random),
            Kind::Compact => round(random, known),
        }
    }

    /// Takes in what came of `request`.
    pub(crate) fn answered(&mut self, request: &Request, outcome: &Outcome) {
        let Outcome::Answered(answer) = outcome else { return };
        match (request, answer) {
            (Request::Range(asked), Answer::Range(answer)) if answer.more && asked.limit == PAGE => {
                let Some(last) = answer.kvs.last() else { return };
                let mut key = last.key.to_vec();
                key.push(0);
                let revision = if asked.revision == 0 { answer.revision } else { asked.revision };
                self.page = Some(Range { key: Bytes::from(key), revision, ..asked.clone() });
            }
            (Request::Txn(asked), Answer::Txn(answer))
                if asked.compare.first().is_some_and(|compare| compare.key == COMPACT_KEY) =>
            {
                if answer.succeeded && self.round > 0 {
                    self.compact = Some(self.round);
                }
                self.round = answer.revision;
            }
            _ => {}
        }
    }
}

fn resource(random: &mut StdRng) -> &'static str {
    RESOURCES[random.random_range(0..RESOURCES.len())]
}

fn list(random: &mut StdRng) -> Range {
    let prefix = resource(random).as_bytes();
    Range { key: Bytes::from_static(prefix), range_end: prefix_end(prefix), ..Range::default() }
}

fn pod_key(random: &mut StdRng) -> Bytes {
    let at = skewed(random, PODS);
    Bytes::from(format!("/registry/pods/ns-{:02}/pod-{at:04}-x7k2p", at % NAMESPACES))
}

fn absent_key(random: &mut StdRng) -> Bytes {
    Bytes::from(format!("/registry/pods/ns-00/absent-{}", random.random_range(0..1000)))
}

/// One condition on the mod revision, one put, and on failure a read.
fn replace(
    random: &mut StdRng,
    known: &mut Knowledge,
    key: Bytes,
    found: i64,
    len: usize,
    lease: i64,
) -> Txn {
    let len = random.random_range(len / 2..len * 3 / 2);
    let put = Put { key: key.clone(), value: value(known.number(), len), lease, ..Put::default() };
    let otherwise = Range { key: key.clone(), ..Range::default() };
    Txn {
        compare: vec![unchanged(key, found)],
        success: vec![TxnOp::Put(put)],
        // A create asks for nothing back.
        failure: if found == 0 { Vec::new() } else { vec![TxnOp::Range(otherwise)] },
    }
}

fn unchanged(key: Bytes, found: i64) -> Compare {
    Compare { key, range_end: Bytes::new(), result: 0, target: 2, operand: Some(Operand::ModRevision(found)) }
}

/// Creates the object or updates it; `stale` times in a thousand from an old state.
fn update(random: &mut StdRng, known: &mut Knowledge, key: Bytes, len: usize, stale: u32) -> Request {
    let mut found = known.mod_revision(&key);
    if found > 0 && permille(random, stale) {
        found -= 1;
    }
    Request::Txn(replace(random, known, key, found, len, 0))
}

fn pod(random: &mut StdRng, known: &mut Knowledge) -> Request {
    let key = pod_key(random);
    let found = known.mod_revision(&key);
    if found == 0 || permille(random, 800) {
        return update(random, known, key, 1200, 5);
    }
    let otherwise = Range { key: key.clone(), ..Range::default() };
    Request::Txn(Txn {
        compare: vec![unchanged(key.clone(), found)],
        success: vec![TxnOp::Delete(Delete { key, ..Delete::default() })],
        failure: vec![TxnOp::Range(otherwise)],
    })
}

/// Creates an event on one of the newest leases.
fn event(random: &mut StdRng, known: &mut Knowledge) -> Request {
    let newest = known.leases.iter().rev().take(3).copied().collect::<Vec<_>>();
    if newest.is_empty() {
        return grant(random);
    }
    let lease = newest[random.random_range(0..newest.len())];
    let key = Bytes::from(format!(
        "/registry/events/ns-{:02}/event-{:06x}",
        random.random_range(0..NAMESPACES),
        known.number()
    ));
    Request::Txn(replace(random, known, key, 0, 400, lease))
}

fn grant(random: &mut StdRng) -> Request {
    Request::Grant { id: 0, ttl: random.random_range(3..8) }
}

/// Asks for the right to compact: whoever changes the version of the key first has it.
fn round(random: &mut StdRng, known: &mut Knowledge) -> Request {
    let key = Bytes::from_static(COMPACT_KEY);
    let version = known.pair(&key).map_or(0, |pair| pair.version);
    let compare = Compare {
        key: key.clone(),
        range_end: Bytes::new(),
        result: 0,
        target: 0,
        operand: Some(Operand::Version(version)),
    };
    let put =
        Put { key: key.clone(), value: value(known.number(), random.random_range(4..8)), ..Put::default() };
    let otherwise = Range { key, ..Range::default() };
    Request::Txn(Txn {
        compare: vec![compare],
        success: vec![TxnOp::Put(put)],
        failure: vec![TxnOp::Range(otherwise)],
    })
}

/// A watch cache's watch: a resource from the revision of a list on.
pub(crate) fn watch(random: &mut StdRng, known: &Knowledge) -> WatchCreate {
    if permille(random, 60) {
        let key = Bytes::from_static(COMPACT_KEY);
        return WatchCreate { key, start_revision: known.newest.max(1), ..WatchCreate::default() };
    }
    let prefix = resource(random).as_bytes();
    WatchCreate {
        key: Bytes::from_static(prefix),
        range_end: prefix_end(prefix),
        start_revision: known.newest + 1,
        progress_notify: true,
        prev_kv: true,
        ..WatchCreate::default()
    }
}
