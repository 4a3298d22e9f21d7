//! A good round passes; each way to break it is found under its rule.

use super::*;
use crate::rounds::record::Stored;

const BASE: i64 = 100;
const HEAD: i64 = 107;

fn put(revision: i64, key: KeyId, write: WriteId, create_revision: i64, version: i64) -> Event {
    Event { revision, key, put: Some(Stored { write, create_revision, version }) }
}

fn delete(revision: i64, key: KeyId) -> Event {
    Event { revision, key, put: None }
}

fn call(started_nanos: u64, ended_nanos: u64, action: Action, outcome: Outcome) -> Call {
    Call { started_nanos, ended_nanos, action, outcome }
}

fn wrote(revision: i64) -> Outcome {
    Outcome::Wrote { revision }
}

/// A round in which everything happens once: put, update, failed update, pair, delete, delete of nothing, get, and one
/// put, one delete and one more put in doubt of which the last has not happened.
fn good() -> (Vec<Event>, Vec<Call>) {
    let told = vec![
        put(101, 1, 1, 101, 1),
        put(102, 1, 2, 101, 2),
        put(103, 1, 3, 101, 3),
        put(103, 2, 3, 103, 1),
        delete(104, 1),
        put(105, 3, 4, 105, 1),
        put(106, 1, 5, 106, 1),
        delete(107, 3),
    ];
    let row = |mod_revision, write, create_revision, version| {
        Some(Row { mod_revision, stored: Stored { write, create_revision, version } })
    };
    let read = |revision, row| Outcome::Read { revision, row };
    let calls = vec![
        call(10, 20, Action::Put { key: 1, write: 1 }, wrote(101)),
        call(30, 40, Action::Update { key: 1, write: 2, expected: 101 }, wrote(102)),
        call(50, 60, Action::Update { key: 1, write: 9, expected: 101 }, read(102, row(102, 2, 101, 2))),
        call(50, 70, Action::Pair { keys: [2, 1], write: 3 }, wrote(103)),
        call(80, 90, Action::Delete { key: 1 }, wrote(104)),
        call(91, 95, Action::Delete { key: 1 }, read(104, None)),
        call(96, 97, Action::Get { key: 2 }, read(104, row(103, 3, 103, 1))),
        call(98, 0, Action::Put { key: 3, write: 4 }, Outcome::Unknown),
        call(98, 99, Action::Put { key: 1, write: 5 }, wrote(106)),
        call(100, 0, Action::Delete { key: 3 }, Outcome::Unknown),
        call(100, 0, Action::Put { key: 3, write: 6 }, Outcome::Unknown),
    ];
    (told, calls)
}

fn rules(told: &[Event], calls: &[Call]) -> Vec<&'static str> {
    let mut rules: Vec<_> =
        round(&mut History::new(BASE), HEAD, told, calls).0.into_iter().map(|finding| finding.rule).collect();
    rules.dedup();
    rules
}

#[test]
fn a_good_round_has_no_findings() {
    let (told, calls) = good();
    let mut history = History::new(BASE);
    let (findings, in_doubt) = round(&mut history, HEAD, &told, &calls);
    assert_eq!(findings, []);
    assert_eq!(in_doubt, InDoubt { applied: 2, lost: 1 });
    assert_eq!(history.head(), HEAD);
}

#[test]
fn each_broken_promise_is_found_under_its_rule() {
    type Break = fn(&mut Vec<Event>, &mut Vec<Call>);
    let cases: &[(&'static str, Break, &'static str)] = &[
        ("gap", |told, _| told.retain(|event| event.revision != 105), "a revision is told by nobody"),
        ("gap", |told, _| told.truncate(7), "the last revision is missing"),
        ("order", |told, _| told.swap(0, 1), "two revisions swapped"),
        ("order", |told, _| told.insert(0, put(100, 9, 1, 100, 1)), "the base is told again"),
        ("overrun", |told, _| told.push(delete(108, 1)), "told beyond the head"),
        ("counters", |told, _| told[1] = put(102, 1, 2, 101, 3), "version skips"),
        ("counters", |told, _| told[6] = put(106, 1, 5, 101, 4), "a delete does not start the key anew"),
        ("counters", |told, _| told[4] = delete(104, 7), "deletes what is not there"),
        ("phantom", |told, _| told[5] = put(105, 3, 999, 105, 1), "nobody's write"),
        ("phantom", |told, _| told.retain(|event| event.key != 2), "half of a pair"),
        ("phantom", |told, _| told[3] = put(103, 5, 3, 103, 1), "a pair on the wrong key"),
        ("phantom", |told, _| told[5] = put(105, 4, 4, 105, 1), "a put on the wrong key"),
        ("phantom", |told, _| told[6] = put(106, 3, 4, 105, 2), "a write that happens twice"),
        ("phantom", |told, _| told[7] = delete(107, 2), "a delete that nobody asked for"),
        ("lost", |_, calls| calls[9].outcome = wrote(108), "an acknowledged delete is told nowhere"),
        ("reused", |_, calls| calls[10].outcome = wrote(106), "two acknowledgements of one revision"),
        (
            "reused",
            |told, calls| {
                told[0] = put(101, 1, 7, 101, 1);
                calls.push(call(10, 0, Action::Put { key: 1, write: 7 }, Outcome::Unknown));
            },
            "an acknowledged revision tells a write in doubt",
        ),
        ("moved", |_, calls| calls[8].outcome = wrote(108), "told at another revision"),
        (
            "refused",
            |_, calls| calls[7].outcome = Outcome::Read { revision: 104, row: None },
            "read, yet written",
        ),
        (
            "back",
            |_, calls| calls[8] = call(5, 9, calls[8].action, calls[8].outcome),
            "106 was there before 101 began",
        ),
        ("back", |_, calls| calls[7].started_nanos = 200, "a call in doubt below an answer before it"),
        (
            "back",
            |_, calls| calls[6].outcome = Outcome::Read { revision: 99, row: None },
            "a read below the base",
        ),
        (
            "read",
            |_, calls| calls[6].outcome = Outcome::Read { revision: 104, row: None },
            "a key is not seen",
        ),
        (
            "read",
            |_, calls| calls[5].outcome = Outcome::Read { revision: 103, row: None },
            "deletes nothing, yet the key was there",
        ),
        (
            "ahead",
            |_, calls| calls[6].outcome = Outcome::Read { revision: 108, row: None },
            "a revision that was lost",
        ),
        (
            "compare",
            |_, calls| calls[1].action = Action::Update { key: 1, write: 2, expected: 7 },
            "wrote though the compare was false",
        ),
        (
            "compare",
            |_, calls| calls[2].action = Action::Update { key: 1, write: 9, expected: 102 },
            "did not write though the compare was true",
        ),
    ];
    for (rule, break_it, why) in cases {
        let (mut told, mut calls) = good();
        break_it(&mut told, &mut calls);
        let found = rules(&told, &calls);
        assert!(found.contains(rule), "{why}: `{rule}` expected, found {found:?}");
    }
}

#[test]
fn a_delete_in_doubt_is_used_once() {
    let (mut told, mut calls) = good();
    told.push(put(108, 3, 6, 108, 1));
    told.push(delete(109, 3));
    calls[10].started_nanos = 101;
    let (findings, _) = round(&mut History::new(BASE), 109, &told, &calls);
    assert_eq!(findings.iter().map(|finding| finding.rule).collect::<Vec<_>>(), ["phantom"]);
}

#[test]
fn a_write_of_an_earlier_round_is_a_phantom_in_a_later_one() {
    let (told, calls) = good();
    let mut history = History::new(BASE);
    round(&mut history, HEAD, &told, &calls);
    let late = [put(108, 3, 6, 108, 1)];
    assert_eq!(round(&mut history, 108, &late, &[]).0[0].rule, "phantom");
}

#[test]
fn a_followed_watch_must_be_the_history() {
    let (told, calls) = good();
    let mut history = History::new(BASE);
    round(&mut history, HEAD, &told, &calls);
    assert_eq!(followed(&history, 101, HEAD, &told), None);
    assert_eq!(followed(&history, 104, HEAD, &told[4..]), None);
    let mut twice = told.clone();
    twice.insert(2, told[1]);
    let mut swapped = told.clone();
    swapped.swap(2, 3);
    for (seen, why) in [
        (&told[1..], "one missing at the start"),
        (&told[..7], "one missing at the end"),
        (&twice[..], "one told twice"),
        (&swapped[..], "order within a revision"),
    ] {
        assert!(followed(&history, 101, HEAD, seen).is_some(), "{why}");
    }
}

#[test]
fn a_list_must_be_the_rows_of_its_revision() {
    let (told, calls) = good();
    let mut history = History::new(BASE);
    round(&mut history, HEAD, &told, &calls);
    let at_103 = history.rows_at(103);
    assert_eq!(listed(&history, 103, &at_103), None);
    assert!(listed(&history, 104, &at_103).is_some(), "key 1 is deleted at 104");
    assert!(listed(&history, 103, &at_103[1..]).is_some(), "a row is missing");
}
