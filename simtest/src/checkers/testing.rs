//! A small history that is good, for the checkers' tests to spoil.

use std::time::Duration;

use bytes::Bytes;

use crate::checkers::{Options, check_all};
use crate::history::{History, Operation, Outcome, Resumed, Stamp, Stream, StreamEnd};
use crate::model::refuse;
use crate::op::{
    Answer, Compare, Delete, DeleteAnswer, Event, KeyValue, OpAnswer, Operand, Put, PutAnswer, Range,
    RangeAnswer, Refusal, Request, Txn, TxnAnswer, TxnOp, WatchCreate, WatchMessage, WatchRequest,
};

/// Asserts that `corrupt` makes the good history violate `guarantee`.
pub(crate) fn found(guarantee: &str, why: &str, corrupt: impl FnOnce(&mut History)) {
    let mut history = good();
    corrupt(&mut history);
    let violations = check_all(&history, &options());
    let found: Vec<_> =
        violations.iter().map(|violation| (violation.guarantee, &violation.message)).collect();
    assert!(
        found.iter().any(|(name, _)| *name == guarantee),
        "{why}: {guarantee} was not found, but {found:#?}"
    );
}

/// The lost answer was the last fault.
fn options() -> Options {
    Options { faults_end: at(12).time, recovery: Duration::ZERO, ..Options::default() }
}

#[test]
fn the_good_history_is_good() {
    let violations = check_all(&good(), &options());
    assert!(violations.is_empty(), "{violations:#?}");
}

/// The answer of the operation at `at`.
pub(crate) fn answer_of(history: &mut History, at: usize) -> &mut Answer {
    match &mut history.operations[at].outcome {
        Outcome::Answered(answer) => answer,
        other => panic!("operation {at} was not answered but {other:?}"),
    }
}

/// The create request of a stream's first watch.
pub(crate) fn watch_create(history: &mut History, stream: usize) -> &mut WatchCreate {
    match &mut history.streams[stream].requests[0].1 {
        WatchRequest::Create(create) => create,
        other => panic!("a stream begins with {other:?}"),
    }
}

/// A second, and ten places in the order, for each step, with room between.
fn at(step: u64) -> Stamp {
    Stamp { order: step * 10, time: Duration::from_secs(step) }
}

fn after(step: u64, places: u64) -> Stamp {
    Stamp { order: step * 10 + places, ..at(step) }
}

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

/// A pair by key, value, create revision, mod revision, version and lease.
pub(crate) fn pair(
    key: &'static str,
    value: &'static str,
    revisions: (i64, i64, i64),
    lease: i64,
) -> KeyValue {
    let (create_revision, mod_revision, version) = revisions;
    KeyValue { key: bytes(key), value: bytes(value), create_revision, mod_revision, version, lease }
}

fn written(kv: KeyValue, prev_kv: Option<KeyValue>) -> Event {
    Event { deleted: false, kv, prev_kv }
}

fn gone(mod_revision: i64, prev_kv: KeyValue) -> Event {
    let kv = KeyValue { key: prev_kv.key.clone(), mod_revision, ..KeyValue::default() };
    Event { deleted: true, kv, prev_kv: Some(prev_kv) }
}

/// What happened, by revision from 2 on.
fn events() -> [Vec<Event>; 6] {
    let (a, b) = (pair("a", "1", (2, 2, 1), 0), pair("b", "1", (3, 3, 1), 7));
    let again = pair("a", "2", (2, 4, 2), 0);
    [
        vec![written(a.clone(), None)],
        vec![written(b.clone(), None)],
        vec![written(again.clone(), Some(a)), written(pair("c", "1", (4, 4, 1), 0), None)],
        vec![gone(5, again)],
        vec![written(pair("d", "1", (6, 6, 1), 0), None)],
        vec![gone(7, b)],
    ]
}

/// The step at which each revision from 2 on was asked for; the last came by itself.
const STEPS: [u64; 6] = [2, 3, 5, 7, 11, 17];

fn operations() -> Vec<(u64, Request, Outcome)> {
    let answered = Outcome::Answered;
    let put = |key, value, lease| Put { key: bytes(key), value: bytes(value), lease, ..Put::default() };
    let range = |key, range_end| Range { key: bytes(key), range_end: bytes(range_end), ..Range::default() };
    let compare = Compare {
        key: bytes("a"),
        range_end: Bytes::new(),
        result: 0,
        target: 2,
        operand: Some(Operand::ModRevision(2)),
    };
    let txn = Txn {
        compare: vec![compare],
        success: vec![TxnOp::Put(put("a", "2", 0)), TxnOp::Put(put("c", "1", 0))],
        failure: Vec::new(),
    };
    let put_answer = |revision| PutAnswer { revision, prev_kv: None };
    let list = |revision, kvs: Vec<KeyValue>| {
        let count = i64::try_from(kvs.len()).expect("a few");
        Answer::Range(RangeAnswer { revision, kvs, more: false, count, ties: Vec::new() })
    };
    let (a, b) = (pair("a", "1", (2, 2, 1), 0), pair("b", "1", (3, 3, 1), 7));
    let lost = Refusal { code: 4, text: "no answer".to_owned() };
    vec![
        (1, Request::Grant { id: 7, ttl: 10 }, answered(Answer::Grant { revision: 1, id: 7, ttl: 10 })),
        (2, Request::Put(put("a", "1", 0)), answered(Answer::Put(put_answer(2)))),
        (3, Request::Put(put("b", "1", 7)), answered(Answer::Put(put_answer(3)))),
        (4, Request::Range(range("a", "c")), answered(list(3, vec![a, b]))),
        (
            5,
            Request::Txn(txn),
            answered(Answer::Txn(TxnAnswer {
                revision: 4,
                succeeded: true,
                responses: vec![OpAnswer::Put(put_answer(4)), OpAnswer::Put(put_answer(4))],
            })),
        ),
        (6, Request::KeepAlive { id: 7 }, answered(Answer::KeepAlive { revision: 4, ttl: 10 })),
        (
            7,
            Request::Delete(Delete { key: bytes("a"), ..Delete::default() }),
            answered(Answer::Delete(DeleteAnswer { revision: 5, deleted: 1, prev_kvs: Vec::new() })),
        ),
        (8, Request::Compact { revision: 3, physical: false }, answered(Answer::Compact { revision: 5 })),
        (9, Request::Range(Range { revision: 2, ..range("a", "") }), Outcome::Refused(refuse::compacted())),
        (
            10,
            Request::Range(Range { revision: 4, ..range("a", "") }),
            answered(list(5, vec![pair("a", "2", (2, 4, 2), 0)])),
        ),
        (11, Request::Put(put("d", "1", 0)), Outcome::Unknown(lost)),
        (
            12,
            Request::TimeToLive { id: 7, keys: true },
            answered(Answer::TimeToLive { revision: 6, ttl: 3, granted_ttl: 10, keys: vec![bytes("b")] }),
        ),
        (18, Request::Leases, answered(Answer::Leases { revision: 7, ids: Vec::new() })),
        (19, Request::Range(range("\0", "\0")), answered(list(7, final_pairs()))),
    ]
}

fn final_pairs() -> Vec<KeyValue> {
    vec![pair("c", "1", (4, 4, 1), 0), pair("d", "1", (6, 6, 1), 0)]
}

/// A stream of one watch over all keys, that brings the pairs as they were, from `first` up to `last`, and then
/// says how far it is.
fn stream(client: u32, step: u64, first: i64, last: i64) -> Stream {
    let create = WatchCreate {
        key: bytes("\0"),
        range_end: bytes("\0"),
        start_revision: first,
        prev_kv: true,
        ..WatchCreate::default()
    };
    let created = WatchMessage { revision: 1.max(first - 1), created: true, ..WatchMessage::default() };
    let mut messages = vec![(after(step, 6), created)];
    for (events, told) in events().into_iter().zip(STEPS) {
        let revision = events[0].kv.mod_revision;
        if (first..=last).contains(&revision) {
            let message = WatchMessage { revision, events, ..WatchMessage::default() };
            messages.push((after(told.max(step), 7), message));
        }
    }
    let told = messages[messages.len() - 1].0;
    let end = Stamp { order: told.order + 1, ..told };
    messages.push((end, WatchMessage { revision: last, watch_id: -1, ..WatchMessage::default() }));
    let requests = vec![(after(step, 5), WatchRequest::Create(create)), (told, WatchRequest::Progress)];
    Stream { client, requests, messages, end: (end, StreamEnd::Left), drained: last == 7 }
}

/// Two keys on a lease and three others, a compaction, a write whose answer was lost, a lease that ends, and a watch
/// that goes on twice.
pub(crate) fn good() -> History {
    let operations = operations().into_iter().map(|(step, request, outcome)| Operation {
        client: 0,
        invoked: at(step),
        completed: after(step, 4),
        request,
        outcome,
    });
    let resumed = |from, to, bookmark| Resumed { from: (from, 0), to: (to, 0), bookmark };
    let mut witness = stream(2, 0, 2, 7);
    witness.messages[0].1.revision = 1;
    for event in witness.messages.iter_mut().flat_map(|(_, message)| &mut message.events) {
        event.prev_kv = None;
    }
    if let WatchRequest::Create(create) = &mut witness.requests[0].1 {
        create.prev_kv = false;
    }
    History {
        operations: operations.collect(),
        streams: vec![stream(1, 1, 2, 4), stream(1, 6, 5, 5), stream(1, 9, 6, 7)],
        resumed: vec![resumed(0, 1, false), resumed(1, 2, true)],
        unsettled: Vec::new(),
        witness: vec![witness],
        first_revision: 1,
        first_compacted: -1,
        final_revision: Some(7),
        final_pairs: final_pairs(),
        final_read: at(19),
        ended: at(20),
    }
}
