//! The model against facts that were seen on etcd 3.7.3.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{Model, View, refuse};
use crate::op::{
    Answer, Compare, Delete, OpAnswer, Operand, Put, Range, RangeAnswer, Refusal, Request, Txn, TxnOp,
};

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn put(key: &str, value: &str) -> Put {
    Put { key: bytes(key), value: bytes(value), ..Put::default() }
}

fn range(key: &str, range_end: &str) -> Range {
    Range { key: bytes(key), range_end: bytes(range_end), ..Range::default() }
}

fn delete(key: &str, range_end: &str) -> Delete {
    Delete { key: bytes(key), range_end: bytes(range_end), prev_kv: false }
}

/// A store that does what it is asked, one request after the other.
struct Store {
    model: Model,
    compacted: i64,
    leases: BTreeMap<i64, i64>,
}

impl Store {
    fn new() -> Store {
        Store { model: Model::new(1), compacted: -1, leases: BTreeMap::new() }
    }

    fn ask(&mut self, request: &Request) -> Result<Answer, Refusal> {
        let view =
            View { revision: self.model.revision(), compacted: self.compacted, leases: self.leases.clone() };
        let (answer, events) = self.model.ask(&view, request)?;
        if !events.is_empty() {
            self.model.apply(events);
        }
        match (request, &answer) {
            (Request::Compact { revision, .. }, _) => self.compacted = *revision,
            (_, Answer::Grant { id, ttl, .. }) => {
                self.leases.insert(*id, *ttl);
            }
            (Request::Revoke { id }, _) => {
                self.leases.remove(id);
            }
            _ => {}
        }
        Ok(answer)
    }

    fn put(&mut self, key: &str, value: &str) {
        self.ask(&Request::Put(put(key, value))).expect("it is well formed");
    }

    fn range(&mut self, range: Range) -> Result<RangeAnswer, Refusal> {
        match self.ask(&Request::Range(range))? {
            Answer::Range(answer) => Ok(answer),
            other => panic!("{other:?} is no range's answer"),
        }
    }

    fn keys(&mut self, range: Range) -> String {
        let answer = self.range(range).expect("it can be read");
        answer.kvs.iter().map(|pair| String::from_utf8_lossy(&pair.key).into_owned()).collect()
    }

    fn txn(&mut self, txn: Txn) -> Result<(bool, Vec<OpAnswer>), Refusal> {
        match self.ask(&Request::Txn(txn))? {
            Answer::Txn(answer) => Ok((answer.succeeded, answer.responses)),
            other => panic!("{other:?} is no transaction's answer"),
        }
    }
}

/// Keys a to e, written so that their mod revisions fall as the keys rise: e first.
fn falling() -> Store {
    let mut store = Store::new();
    for key in ["e", "d", "c", "b", "a"] {
        store.put(key, key);
    }
    store
}

#[test]
fn intervals() {
    let mut store = falling();
    for (key, end, want, why) in [
        ("b", "", "b", "one key"),
        ("b", "d", "bc", "half open"),
        ("b", "\0", "bcde", "a zero byte is everything from the key on"),
        ("\0", "\0", "abcde", "everything"),
        ("d", "b", "", "the wrong way round is empty, and no error"),
        ("b", "b", "", "empty"),
    ] {
        assert_eq!(store.keys(range(key, end)), want, "{key:?} {end:?}: {why}");
    }
}

#[test]
fn orders_limits_and_counts() {
    let mut store = falling();
    let all = || range("a", "f");
    for (asked, want, more, count, why) in [
        (Range { limit: 2, ..all() }, "ab", true, 5, "the count ignores the limit"),
        (Range { limit: -1, ..all() }, "abcde", false, 5, "a negative limit is none"),
        (Range { limit: 5, ..all() }, "abcde", false, 5, "all of them are no more"),
        (Range { sort_order: 2, limit: 2, ..all() }, "ed", true, 5, "sorted before it is cut"),
        (Range { sort_target: 3, sort_order: 1, limit: 2, ..all() }, "ed", true, 5, "the oldest first"),
        (
            Range { sort_target: 3, limit: 2, ..all() },
            "cb",
            true,
            5,
            "no order: one more than the limit is taken by key, then sorted, then cut",
        ),
        (Range { min_mod_revision: 5, ..all() }, "ab", false, 5, "the count ignores the filter"),
        (Range { max_mod_revision: 3, limit: 1, ..all() }, "d", true, 5, "filtered before it is cut"),
        (Range { count_only: true, min_mod_revision: 99, ..all() }, "", false, 5, "the count alone"),
        (Range { revision: 3, ..all() }, "de", false, 2, "as it was"),
    ] {
        let answer = store.range(asked.clone()).expect("it can be read");
        let keys: String = answer.kvs.iter().map(|pair| char::from(pair.key[0])).collect();
        assert_eq!((&keys[..], answer.more, answer.count), (want, more, count), "{asked:?}: {why}");
        assert_eq!(answer.revision, 6, "{asked:?}: the header has the newest revision");
    }
}

#[test]
fn keys_without_values() {
    let mut store = Store::new();
    store.ask(&Request::Grant { id: 7, ttl: 1 }).expect("granted");
    store.ask(&Request::Put(Put { lease: 7, ..put("k", "v") })).expect("written");
    for (target, lease, why) in [(0, 0, "the index has no lease"), (4, 7, "by value the pairs are read")] {
        let asked = Range { keys_only: true, sort_target: target, ..range("k", "") };
        let answer = store.range(asked).expect("it can be read");
        assert_eq!((answer.kvs[0].value.len(), answer.kvs[0].lease), (0, lease), "target {target}: {why}");
    }
}

#[test]
fn versions_of_a_key() {
    let mut store = Store::new();
    store.put("k", "1");
    store.put("k", "2");
    store.ask(&Request::Delete(delete("k", ""))).expect("deleted");
    store.put("k", "3");
    for (revision, want, why) in [
        (2, Some((2, 2, 1)), "created"),
        (3, Some((2, 3, 2)), "changed"),
        (4, None, "deleted"),
        (5, Some((5, 5, 1)), "created anew"),
    ] {
        let pair = store.model.pair(&bytes("k"), revision);
        let found = pair.map(|pair| (pair.create_revision, pair.mod_revision, pair.version));
        assert_eq!(found, want, "at {revision}: {why}");
    }
}

#[test]
fn puts_that_are_refused() {
    let mut store = falling();
    for (asked, want, why) in [
        (put("", "v"), refuse::empty_key(), "no key"),
        (
            Put { ignore_value: true, ..put("a", "v") },
            refuse::value_provided(),
            "keeps a value and brings one",
        ),
        (
            Put { ignore_lease: true, lease: 9, ..put("a", "v") },
            refuse::lease_provided(),
            "the same of a lease",
        ),
        (Put { ignore_value: true, ..put("x", "") }, refuse::key_not_found(), "nothing to keep"),
        (Put { ignore_lease: true, ..put("x", "v") }, refuse::key_not_found(), "nothing to keep"),
        (Put { lease: 9, ..put("a", "v") }, refuse::lease_not_found(), "no such lease"),
        (
            Put { lease: 9, ignore_value: true, ..put("x", "") },
            refuse::lease_not_found(),
            "the lease is looked up before the key",
        ),
    ] {
        assert_eq!(store.ask(&Request::Put(asked.clone())), Err(want), "{asked:?}: {why}");
    }
    assert_eq!(store.model.revision(), 6, "what is refused takes no revision");
}

#[test]
fn revisions_that_can_be_read() {
    let mut store = falling();
    let negative =
        Txn { success: vec![TxnOp::Range(Range { revision: -1, ..range("a", "") })], ..Txn::default() };
    assert!(store.txn(negative.clone()).is_ok(), "in a transaction too, before the first compaction");
    for (revision, want, why) in [
        (-1, Err(refuse::compacted()), "there is nothing before everything"),
        (0, Ok(()), "once, on a store that was never compacted"),
        (0, Err(refuse::compacted()), "but not twice"),
        (7, Err(refuse::future_revision()), "there is no 7 yet"),
        (4, Ok(()), "newer"),
        (4, Err(refuse::compacted()), "the same"),
    ] {
        let asked = Request::Compact { revision, physical: false };
        assert_eq!(store.ask(&asked).map(|_| ()), want, "compact {revision}: {why}");
    }
    store.model.forget(4);
    for (revision, want, why) in [
        (3, Err(refuse::compacted()), "below"),
        (4, Ok(3), "the compacted revision itself is readable"),
        (-1, Ok(5), "a negative one is the newest"),
        (7, Err(refuse::future_revision()), "there is no 7 yet"),
    ] {
        let asked = Range { revision, ..range("a", "f") };
        assert_eq!(store.range(asked).map(|answer| answer.count), want, "read {revision}: {why}");
    }
    assert_eq!(store.txn(negative), Err(refuse::compacted()), "in a transaction -1 is before the compaction");
}

fn compare(key: &str, target: i32, result: i32, operand: Option<Operand>) -> Compare {
    Compare { key: bytes(key), range_end: Bytes::new(), result, target, operand }
}

#[test]
fn compares() {
    let mut store = falling();
    let value = |text: &str| Some(Operand::Value(bytes(text)));
    let whole = Compare { range_end: bytes("f"), ..compare("a", 3, 1, value("Z")) };
    for (asked, want, why) in [
        (compare("a", 2, 0, Some(Operand::ModRevision(6))), true, "the mod revision"),
        (compare("a", 2, 1, Some(Operand::ModRevision(6))), false, "is not greater than itself"),
        (compare("x", 2, 0, Some(Operand::ModRevision(0))), true, "nothing has revision 0"),
        (compare("x", 3, 3, value("v")), false, "nothing has no value, also not another one"),
        (compare("a", 0, 9, None), true, "a result that there is not holds"),
        (compare("x", 0, 0, None), true, "without an operand it is 0"),
        (compare("x", 0, 0, Some(Operand::Lease(5))), true, "and with one of another kind"),
        (whole.clone(), true, "all of a range"),
        (Compare { operand: value("a"), ..whole }, false, "one of a range does not"),
    ] {
        let txn = Txn { compare: vec![asked.clone()], ..Txn::default() };
        assert_eq!(store.txn(txn).expect("well formed").0, want, "{asked:?}: {why}");
    }
}

#[test]
fn a_transaction_inside_compares_with_what_was_before() {
    let mut store = Store::new();
    let inner = Txn {
        compare: vec![compare("k", 0, 0, Some(Operand::Version(0)))],
        success: vec![TxnOp::Range(range("k", ""))],
        ..Txn::default()
    };
    let outer = Txn { success: vec![TxnOp::Put(put("k", "v")), TxnOp::Txn(inner)], ..Txn::default() };
    let (_, responses) = store.txn(outer).expect("well formed");
    let OpAnswer::Txn(inner) = &responses[1] else { panic!("{responses:?}") };
    assert!(inner.succeeded, "k was not there before");
    let OpAnswer::Range(read) = &inner.responses[0] else { panic!("{inner:?}") };
    assert_eq!((read.count, read.revision, inner.revision), (1, 2, 0), "but what is read is as it is now");
}

#[test]
fn transactions_that_are_refused() {
    let read = || TxnOp::Range(range("r", ""));
    let inside = |success| TxnOp::Txn(Txn { success, ..Txn::default() });
    let either = |then, or_else| TxnOp::Txn(Txn { success: then, failure: or_else, ..Txn::default() });
    let (put_k, delete_k) = (|| TxnOp::Put(put("k", "v")), || TxnOp::Delete(delete("k", "")));
    for (operations, want, why) in [
        (vec![read(); 128], None, "as many as there may be"),
        (vec![read(); 129], Some(refuse::too_many_operations()), "one more"),
        (vec![inside(vec![read(); 127])], None, "what is inside shares with what is around"),
        (vec![inside(vec![read(); 128])], Some(refuse::too_many_operations()), "one more"),
        (vec![TxnOp::Nothing], Some(refuse::key_not_found()), "no operation"),
        (vec![put_k(), put_k()], Some(refuse::duplicate_key()), "put twice"),
        (vec![delete_k(), put_k()], Some(refuse::duplicate_key()), "deleted and put"),
        (vec![delete_k(), delete_k()], None, "deleted twice"),
        (vec![put_k(), inside(vec![put_k()])], Some(refuse::duplicate_key()), "put again inside"),
        (vec![inside(vec![put_k()]), inside(vec![put_k()])], Some(refuse::duplicate_key()), "put in both"),
        (vec![either(vec![put_k()], vec![put_k()])], None, "one or the other"),
        (
            vec![delete_k(), inside(vec![put_k()])],
            Some(refuse::duplicate_key()),
            "put inside what is deleted",
        ),
        (
            vec![TxnOp::Delete(delete("a", "z")), put_k()],
            Some(refuse::duplicate_key()),
            "put into an interval",
        ),
        (
            vec![TxnOp::Range(Range { revision: 9, ..range("k", "") }), put_k()],
            Some(refuse::future_revision()),
            "9",
        ),
        (
            vec![put_k(), TxnOp::Put(Put { lease: 9, ..put("l", "") })],
            Some(refuse::lease_not_found()),
            "no lease 9",
        ),
    ] {
        let mut store = Store::new();
        let txn = Txn { success: operations, ..Txn::default() };
        assert_eq!(store.txn(txn).err(), want, "{why}");
        if want.is_some() {
            assert_eq!(store.model.revision(), 1, "{why}: nothing of it was done");
        }
    }
}

#[test]
fn streams_that_are_refused() {
    let mut store = falling();
    for (asked, want, why) in [
        (Range { sort_order: 1, ..range("a", "f") }, None, "the stored order"),
        (Range { sort_order: 2, ..range("a", "f") }, Some(refuse::stream_sort_order()), "another"),
        (
            Range { max_mod_revision: 9, ..range("a", "f") },
            Some(refuse::stream_revision_filters()),
            "a filter",
        ),
        (Range { sort_order: 3, ..range("a", "f") }, Some(refuse::invalid_sort_option()), "no order at all"),
    ] {
        assert_eq!(store.ask(&Request::RangeStream(asked.clone())).err(), want, "{asked:?}: {why}");
    }
}

#[test]
fn leases() {
    let mut store = Store::new();
    for (id, ttl, want, why) in [
        (7, 100, Ok(100), "as asked for"),
        (7, 100, Err(refuse::lease_exists()), "there is one already"),
        (8, -10, Ok(2), "not less than the least"),
        (9, 9_000_000_001, Err(refuse::lease_ttl_too_large()), "too long"),
    ] {
        let granted = store.ask(&Request::Grant { id, ttl }).map(|answer| match answer {
            Answer::Grant { ttl, .. } => ttl,
            other => panic!("{other:?} is no grant"),
        });
        assert_eq!(granted, want, "{id} for {ttl} s: {why}");
    }
    for key in ["b", "a", "c"] {
        store.ask(&Request::Put(Put { lease: 7, ..put(key, "v") })).expect("written");
    }
    store.put("c", "without a lease");
    assert_eq!(store.model.attached(7, 4), vec![bytes("a"), bytes("b"), bytes("c")], "by key");
    assert_eq!(store.ask(&Request::Revoke { id: 7 }), Ok(Answer::Revoke { revision: 6 }), "one revision");
    let gone: Vec<_> = store.model.events(6).iter().map(|event| event.kv.key.clone()).collect();
    assert_eq!(gone, vec![bytes("a"), bytes("b")], "what hangs on it goes, by key; c was taken off");
    assert_eq!(store.ask(&Request::Revoke { id: 7 }), Err(refuse::lease_not_found()), "it is gone");
    let empty = store.ask(&Request::Revoke { id: 8 });
    assert_eq!(empty, Ok(Answer::Revoke { revision: 6 }), "without keys nothing changes");
}

#[test]
fn what_is_forgotten_is_not_missed() {
    let mut store = Store::new();
    for round in 0..40 {
        store.put(&format!("k{}", round % 7), &format!("{round}"));
        if round % 3 == 0 {
            store.ask(&Request::Delete(delete(&format!("k{}", round % 5), ""))).expect("deleted");
        }
    }
    let whole = store.model.clone();
    for compacted in [5, 20, store.model.revision()] {
        store.model.forget(compacted);
        for revision in compacted..=whole.revision() {
            assert_eq!(store.model.all(revision), whole.all(revision), "{revision} after {compacted}");
            assert_eq!(store.model.events(revision), whole.events(revision), "{revision} after {compacted}");
        }
    }
}
