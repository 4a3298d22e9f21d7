//! Every operation that exists, on few keys, most of them valid.

use bytes::Bytes;
use rand::Rng as _;
use rand::rngs::StdRng;

use crate::op::{Compare, Delete, Operand, Put, Range, Request, Txn, TxnOp, WatchCreate};
use crate::workload::chance::{permille, prefix_end, skewed, value, weighted};
use crate::workload::knowledge::Knowledge;

/// Keys of the plain kind.
const KEYS: usize = 64;

/// Kinds of requests, by how often.
const KINDS: [(u32, Kind); 11] = [
    (220, Kind::Put),
    (60, Kind::Delete),
    (240, Kind::Range),
    (50, Kind::RangeStream),
    (260, Kind::Txn),
    (8, Kind::Compact),
    (30, Kind::Grant),
    (25, Kind::Revoke),
    (40, Kind::KeepAlive),
    (50, Kind::TimeToLive),
    (10, Kind::Leases),
];

#[derive(Debug, Clone, Copy)]
enum Kind {
    Put,
    Delete,
    Range,
    RangeStream,
    Txn,
    Compact,
    Grant,
    Revoke,
    KeepAlive,
    TimeToLive,
    Leases,
}

/// The next request of a client.
pub(crate) fn next(random: &mut StdRng, known: &mut Knowledge) -> Request {
    match weighted(random, &KINDS) {
        Kind::Put => Request::Put(put(random, known, None)),
        Kind::Delete => Request::Delete(delete(random)),
        Kind::Range => Request::Range(range(random, known)),
        Kind::RangeStream => Request::RangeStream(stream(random, known)),
        Kind::Txn => Request::Txn(txn(random, known)),
        Kind::Compact => compact(random, known),
        Kind::Grant => grant(random, known),
        Kind::Revoke => Request::Revoke { id: lease(random, known) },
        Kind::KeepAlive => Request::KeepAlive { id: lease(random, known) },
        Kind::TimeToLive => Request::TimeToLive { id: lease(random, known), keys: random.random_bool(0.6) },
        Kind::Leases => Request::Leases,
    }
}

/// A key: mostly of the plain kind, in eight groups of a prefix; sometimes with bytes that sort oddly.
fn key(random: &mut StdRng) -> Bytes {
    const ODD: [&[u8]; 6] = [b"\0", b"\0\0", b"\xff", b"\xff\xff", b"m", b"m\0"];
    if permille(random, 40) {
        return Bytes::from_static(ODD[random.random_range(0..ODD.len())]);
    }
    plain_key(skewed(random, KEYS))
}

fn plain_key(index: usize) -> Bytes {
    Bytes::from(format!("{}/{index:02}", char::from(b'a' + (index % 8) as u8)))
}

/// A key and an end: one key, a group, a stretch, everything from a key on, everything, or the wrong way round.
fn interval(random: &mut StdRng) -> (Bytes, Bytes) {
    let start = key(random);
    match random.random_range(0..100) {
        0..45 => (start, Bytes::new()),
        45..65 => {
            let group = Bytes::copy_from_slice(&start[..1]);
            let end = prefix_end(&group);
            (group, end)
        }
        65..80 => {
            let other = key(random);
            (start.clone().min(other.clone()), start.max(other))
        }
        80..88 => (start, Bytes::from_static(b"\0")),
        88..97 => (Bytes::from_static(b"\0"), Bytes::from_static(b"\0")),
        _ => {
            let other = key(random);
            (start.clone().max(other.clone()), start.min(other))
        }
    }
}

/// A key that is not empty, but for one in 200.
fn given(random: &mut StdRng, key: Bytes) -> Bytes {
    if permille(random, 5) { Bytes::new() } else { key }
}

/// A value's length: mostly short, sometimes a few pages.
fn value_len(random: &mut StdRng) -> usize {
    match random.random_range(0..100) {
        0..80 => random.random_range(0..40),
        80..97 => random.random_range(40..400),
        _ => random.random_range(400..6000),
    }
}

fn put(random: &mut StdRng, known: &mut Knowledge, at: Option<Bytes>) -> Put {
    let key = match at {
        Some(key) => key,
        None => key(random),
    };
    let mut put = Put { key: given(random, key), prev_kv: random.random_bool(0.3), ..Put::default() };
    if !permille(random, 30) {
        put.value = value(known.number(), value_len(random));
    }
    if permille(random, 250) {
        put.lease = lease(random, known);
    }
    if permille(random, 60) {
        put.ignore_value = true;
        // One in eight keeps the value and brings one.
        if !permille(random, 125) {
            put.value = Bytes::new();
        }
    }
    if permille(random, 60) {
        put.ignore_lease = true;
        if !permille(random, 125) {
            put.lease = 0;
        }
    }
    put
}

fn delete(random: &mut StdRng) -> Delete {
    let (key, range_end) = match random.random_range(0..100) {
        0..70 => (key(random), Bytes::new()),
        70..97 => {
            let start = key(random);
            let end = prefix_end(&start[..1]);
            (start, end)
        }
        _ => interval(random),
    };
    Delete { key: given(random, key), range_end, prev_kv: random.random_bool(0.4) }
}

/// A revision to read at: mostly the newest.
fn revision(random: &mut StdRng, known: &Knowledge) -> i64 {
    match random.random_range(0..100) {
        0..55 => 0,
        55..80 => known.newest - random.random_range(0..20),
        80..92 => random.random_range(known.compacted.min(known.newest)..=known.newest),
        92..95 => known.compacted - random.random_range(0..3),
        95..97 => known.compacted + 1,
        97..98 => -1,
        _ => known.newest + 1_000_000,
    }
}

fn range(random: &mut StdRng, known: &Knowledge) -> Range {
    let (key, range_end) = interval(random);
    let mut range = Range {
        key: given(random, key),
        range_end,
        revision: revision(random, known),
        serializable: permille(random, 150),
        keys_only: permille(random, 120),
        count_only: permille(random, 100),
        ..Range::default()
    };
    if permille(random, 400) {
        range.limit = random.random_range(-1..12);
    }
    if permille(random, 350) {
        range.sort_order = random.random_range(0..3);
        range.sort_target = random.random_range(0..5);
    }
    if permille(random, 5) {
        range.sort_order = 3;
    }
    if permille(random, 5) {
        range.sort_target = 5;
    }
    if permille(random, 150) {
        let near = |random: &mut StdRng| (known.newest - random.random_range(0..200)).max(0);
        match random.random_range(0..5) {
            0 => range.min_mod_revision = near(random),
            1 => range.max_mod_revision = near(random),
            2 => range.min_create_revision = near(random),
            3 => range.max_create_revision = near(random),
            _ => {
                (range.min_mod_revision, range.max_create_revision) = (near(random), near(random));
            }
        }
    }
    range
}

/// A streamed range. One sorted by another target than the key is sorted within each piece, which is no order at
/// all, so it is asked only in ways that are refused.
fn stream(random: &mut StdRng, known: &Knowledge) -> Range {
    let mut range = range(random, known);
    if range.sort_order == 0 && (0..=4).contains(&range.sort_target) {
        range.sort_target = 0;
    }
    if permille(random, 800) {
        (range.sort_order, range.sort_target) = (0, 0);
        (range.min_mod_revision, range.max_mod_revision) = (0, 0);
        (range.min_create_revision, range.max_create_revision) = (0, 0);
    }
    range
}

fn compact(random: &mut StdRng, known: &Knowledge) -> Request {
    let top = known.witnessed;
    let revision = match random.random_range(0..100) {
        0..60 => top - random.random_range(0..200),
        60..75 => random.random_range(known.compacted.min(top)..=top),
        75..85 => top,
        85..92 => known.compacted,
        92..95 => random.random_range(-1..=1),
        _ => known.newest + 1_000_000,
    };
    Request::Compact { revision, physical: random.random_bool(0.2) }
}

/// A lease that should be there; sometimes one that never was.
fn lease(random: &mut StdRng, known: &Knowledge) -> i64 {
    if known.leases.is_empty() || permille(random, 40) {
        return 999;
    }
    known.leases[random.random_range(0..known.leases.len())]
}

/// Ids that the workload chooses are above this, and each is asked for once, so that a lease has one life.
const LEASE_IDS: i64 = 0x1000;

fn grant(random: &mut StdRng, known: &mut Knowledge) -> Request {
    let number = i64::try_from(known.number()).expect("a run is shorter");
    let id = match random.random_range(0..100) {
        0..30 => 0,
        30..90 => LEASE_IDS + number,
        _ => -(LEASE_IDS + number),
    };
    let ttl = match random.random_range(0..100) {
        0..20 => random.random_range(2..5),
        20..25 => random.random_range(-5..2),
        25..27 => 9_000_000_001,
        27..30 => 9_000_000_000,
        _ => random.random_range(60..4000),
    };
    Request::Grant { id, ttl }
}

/// What a transaction does, so that nothing is put and deleted in one revision by ways that the server's check
/// of overlaps does not see; there etcd's own answer is not meant.
#[derive(Debug, Clone, Copy)]
enum Shape {
    /// Reads only.
    Read,
    /// Puts on even keys, deletes of single odd ones.
    Write,
    /// Deletes of intervals.
    Clear,
    /// Anything that is refused by its form.
    Wrong,
}

fn txn(random: &mut StdRng, known: &mut Knowledge) -> Txn {
    let shapes = [(150, Shape::Read), (700, Shape::Write), (110, Shape::Clear), (40, Shape::Wrong)];
    let shape = weighted(random, &shapes);
    let mut used = Vec::new();
    let mut txn = branch_pair(random, known, shape, 0, &mut used);
    if matches!(shape, Shape::Wrong) {
        spoil(random, known, &mut txn);
    }
    txn
}

fn branch_pair(
    random: &mut StdRng,
    known: &mut Knowledge,
    shape: Shape,
    depth: u32,
    used: &mut Vec<Bytes>,
) -> Txn {
    let compares = random.random_range(0..3);
    let compare = (0..compares).map(|_| compare(random, known)).collect();
    // Only one branch is done, so both may put the same keys.
    let mut used_else = used.clone();
    let success = branch(random, known, shape, depth, used);
    let failure = branch(random, known, shape, depth, &mut used_else);
    used.extend(used_else);
    Txn { compare, success, failure }
}

fn branch(
    random: &mut StdRng,
    known: &mut Knowledge,
    shape: Shape,
    depth: u32,
    used: &mut Vec<Bytes>,
) -> Vec<TxnOp> {
    let len = if permille(random, 8) { random.random_range(4..60) } else { random.random_range(0..4) };
    let mut operations = Vec::new();
    for _ in 0..len {
        if depth < 2 && permille(random, 120) {
            operations.push(TxnOp::Txn(branch_pair(random, known, shape, depth + 1, used)));
            continue;
        }
        operations.push(match (shape, random.random_range(0..10)) {
            (Shape::Write | Shape::Wrong, 0..5) => {
                let key = plain_key(skewed(random, KEYS / 2) * 2);
                // Else it is refused: now and then it shall be.
                if used.contains(&key) && !permille(random, 20) {
                    TxnOp::Range(range(random, known))
                } else {
                    used.push(key.clone());
                    TxnOp::Put(put(random, known, Some(key)))
                }
            }
            (Shape::Write | Shape::Wrong, 5..7) => {
                let key = plain_key(skewed(random, KEYS / 2) * 2 + 1);
                TxnOp::Delete(Delete { key, range_end: Bytes::new(), prev_kv: random.random_bool(0.4) })
            }
            (Shape::Clear, 0..5) => TxnOp::Delete(delete(random)),
            _ => TxnOp::Range(range(random, known)),
        });
    }
    operations
}

fn compare(random: &mut StdRng, known: &Knowledge) -> Compare {
    let (key, range_end) = if permille(random, 800) { (key(random), Bytes::new()) } else { interval(random) };
    let target = random.random_range(0..5);
    let pair = known.pair(&key);
    let hit = permille(random, 750);
    let near = |random: &mut StdRng, number: i64| {
        if hit { number } else { number + random.random_range(-2..3) }
    };
    let operand = match target {
        0 => Operand::Version(near(random, pair.map_or(0, |pair| pair.version))),
        1 => Operand::CreateRevision(near(random, pair.map_or(0, |pair| pair.create_revision))),
        2 => Operand::ModRevision(near(random, pair.map_or(0, |pair| pair.mod_revision))),
        3 => Operand::Value(match pair {
            Some(pair) if hit => pair.value.clone(),
            _ => value(random.random_range(0..100), 0),
        }),
        _ => Operand::Lease(near(random, pair.map_or(0, |pair| pair.lease))),
    };
    Compare {
        key: given(random, key),
        range_end,
        result: if permille(random, 5) { 7 } else { random.random_range(0..4) },
        target,
        operand: (!permille(random, 20)).then_some(operand),
    }
}

/// Makes a transaction that is refused, in one of the ways there are.
fn spoil(random: &mut StdRng, known: &mut Knowledge, txn: &mut Txn) {
    let key = plain_key(2);
    match random.random_range(0..5) {
        0 => txn.success.push(TxnOp::Nothing),
        1 => {
            let many = random.random_range(126..131);
            txn.failure = vec![TxnOp::Range(Range { key, ..Range::default() }); many];
        }
        2 => {
            txn.success.push(TxnOp::Put(put(random, known, Some(key.clone()))));
            txn.success.push(TxnOp::Put(put(random, known, Some(key))));
        }
        3 => {
            txn.success.push(TxnOp::Put(put(random, known, Some(key.clone()))));
            txn.success.push(TxnOp::Delete(Delete { key, ..Delete::default() }));
        }
        _ => {
            let inner = vec![TxnOp::Range(Range { key, ..Range::default() }); random.random_range(122..130)];
            txn.success = vec![TxnOp::Txn(Txn { success: inner, ..Txn::default() }); 2];
        }
    }
}

/// A watch: of any interval, from any revision, with any option.
pub(crate) fn watch(random: &mut StdRng, known: &Knowledge) -> WatchCreate {
    let (key, range_end) = interval(random);
    let start_revision = match random.random_range(0..100) {
        0..40 => 0,
        40..70 => (known.newest - random.random_range(0..100)).max(1),
        70..85 => random.random_range(known.compacted.min(known.newest)..=known.newest).max(1),
        85..90 => (known.compacted - random.random_range(0..3)).max(1),
        90..97 => known.newest + random.random_range(1..50),
        97..98 => -1,
        _ => known.newest + 1_000_000,
    };
    WatchCreate {
        key: given(random, key),
        range_end,
        start_revision,
        progress_notify: random.random_bool(0.3),
        no_put: permille(random, 120),
        no_delete: permille(random, 120),
        prev_kv: random.random_bool(0.5),
        watch_id: if permille(random, 150) { random.random_range(1..6) } else { 0 },
        fragment: permille(random, 150),
    }
}
