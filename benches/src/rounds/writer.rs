//! Writers: each calls the server over and over with a random action and records the call before it is sent and what
//! came of it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use prost::Message;
use rand::Rng;
use rand::rngs::StdRng;

use super::names::{key_name, row, value_of};
use super::record::{Action, Call, Finding, KeyId, Outcome, Row, WriteId};
use crate::client::wire::{self, frame, path};
use crate::client::{Connection, Endpoint, Failure};
use crate::clock;

/// A call without an answer for so long is given up and stays in doubt.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after a failure.
const PAUSE: Duration = Duration::from_millis(20);

/// The calls of a round, shared by its writers.
pub(crate) struct Recorder {
    start: Instant,
    /// Set to end the writers after the call in flight.
    pub(crate) stop: Cell<bool>,
    calls: RefCell<Vec<Call>>,
    next_write: Cell<WriteId>,
    /// Each key's mod revision as last seen by any writer; 0 if it does not exist.
    known: RefCell<Vec<i64>>,
    value_bytes: usize,
    /// Failures by text.
    pub(crate) failures: RefCell<BTreeMap<String, u64>>,
    /// What is wrong with an answer in itself.
    pub(crate) findings: RefCell<Vec<Finding>>,
}

impl Recorder {
    /// A recorder for `keys` keys and values of `value_bytes`.
    pub(crate) fn new(keys: KeyId, value_bytes: usize) -> Self {
        Recorder {
            start: clock::now(),
            stop: Cell::new(false),
            calls: RefCell::default(),
            next_write: Cell::new(1),
            known: RefCell::new(vec![0; keys as usize]),
            value_bytes,
            failures: RefCell::default(),
            findings: RefCell::default(),
        }
    }

    /// Takes the calls recorded since the last time.
    pub(crate) fn take_calls(&self) -> Vec<Call> {
        self.calls.take()
    }

    fn nanos(&self) -> u64 {
        clock::nanos_between(self.start, clock::now())
    }

    /// Records that a call is about to be sent; returns its place.
    fn begin(&self, action: Action) -> usize {
        let call = Call { started_nanos: self.nanos(), ended_nanos: 0, action, outcome: Outcome::Unknown };
        self.calls.borrow_mut().push(call);
        self.calls.borrow().len() - 1
    }

    fn end(&self, place: usize, outcome: Outcome) {
        let ended_nanos = self.nanos();
        let mut calls = self.calls.borrow_mut();
        calls[place].ended_nanos = ended_nanos;
        calls[place].outcome = outcome;
    }

    fn fail(&self, failure: &Failure) {
        *self.failures.borrow_mut().entry(failure.to_string()).or_default() += 1;
    }

    /// Remembers what an answer says of the mod revision of the action's keys, for later updates.
    fn learn(&self, action: &Action, outcome: &Outcome) {
        let mut known = self.known.borrow_mut();
        let mut set = |key: KeyId, revision: i64| known[key as usize] = revision;
        match (*action, *outcome) {
            (Action::Put { key, .. } | Action::Update { key, .. }, Outcome::Wrote { revision }) => {
                set(key, revision)
            }
            (Action::Pair { keys, .. }, Outcome::Wrote { revision }) => {
                keys.into_iter().for_each(|key| set(key, revision))
            }
            (Action::Delete { key }, Outcome::Wrote { .. }) => set(key, 0),
            (
                Action::Get { key } | Action::Update { key, .. } | Action::Delete { key },
                Outcome::Read { row, .. },
            ) => set(key, row.map_or(0, |row| row.mod_revision)),
            _ => {}
        }
    }

    fn pick(&self, random: &mut StdRng) -> Action {
        let keys = self.known.borrow().len() as KeyId;
        let key = random.random_range(0..keys);
        let write = self.next_write.get();
        self.next_write.set(write + 1);
        match random.random_range(0..100) {
            0..40 => Action::Put { key, write },
            40..65 => Action::Update { key, write, expected: self.known.borrow()[key as usize] },
            65..75 if keys > 1 => {
                let other = (key + random.random_range(1..keys)) % keys;
                Action::Pair { keys: [key, other], write }
            }
            65..88 => Action::Delete { key },
            _ => Action::Get { key },
        }
    }
}

/// Calls until told to stop. Connects again when the connection breaks.
pub(crate) async fn write(recorder: Rc<Recorder>, endpoint: Endpoint, mut random: StdRng) {
    let mut connection = None;
    while !recorder.stop.get() {
        let Some(open) = &mut connection else {
            match Connection::open(&endpoint).await {
                Ok(open) => connection = Some(open),
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
            continue;
        };
        let action = recorder.pick(&mut random);
        let place = recorder.begin(action);
        let answer = tokio::time::timeout(CALL_TIMEOUT, call(open, &action, recorder.value_bytes)).await;
        match answer {
            Ok(Ok(Ok(outcome))) => {
                recorder.end(place, outcome);
                recorder.learn(&action, &outcome);
            }
            Ok(Ok(Err(finding))) => recorder.findings.borrow_mut().push(finding),
            Ok(Err(failure)) => {
                recorder.fail(&failure);
                if !matches!(failure, Failure::Status { .. }) {
                    connection = None;
                }
                // A server that refuses at once must not be called in a tight loop.
                tokio::time::sleep(PAUSE).await;
            }
            Err(_) => {
                recorder.fail(&Failure::Transport(format!("no answer for {} s", CALL_TIMEOUT.as_secs())));
                connection = None;
            }
        }
    }
}

/// Sends an action; an answer that is wrong in itself is the inner error.
async fn call(
    connection: &mut Connection,
    action: &Action,
    size: usize,
) -> Result<Result<Outcome, Finding>, Failure> {
    Ok(match *action {
        Action::Put { key, write } => {
            let request = wire::PutRequest::new(key_name(key), value_of(write, size));
            let answer = wire::PutResponse::decode(connection.unary(path::PUT, frame(&request)).await?)?;
            Ok(Outcome::Wrote { revision: wire::revision_of(&answer.header) })
        }
        Action::Update { key, write, expected } => {
            let request = wire::update_request(key_name(key), value_of(write, size), expected);
            let answer = wire::TxnResponse::decode(connection.unary(path::TXN, frame(&request)).await?)?;
            let revision = wire::revision_of(&answer.header);
            if answer.succeeded {
                return Ok(Ok(Outcome::Wrote { revision }));
            }
            match answer.responses.first().and_then(|response| response.range.as_ref()) {
                Some(range) => single_row(key, range).map(|row| Outcome::Read { revision, row }),
                None => Err(Finding::new("answer", format!("{action:?}: a failed compare has no read"))),
            }
        }
        Action::Pair { keys, write } => {
            let put = |key| wire::PutRequest::new(key_name(key), value_of(write, size));
            let success = keys.map(|key| wire::RequestOp::put(put(key))).to_vec();
            let request = wire::TxnRequest { success, ..Default::default() };
            let answer = wire::TxnResponse::decode(connection.unary(path::TXN, frame(&request)).await?)?;
            Ok(Outcome::Wrote { revision: wire::revision_of(&answer.header) })
        }
        Action::Delete { key } => {
            let request = wire::DeleteRangeRequest { key: key_name(key), ..Default::default() };
            let answer = connection.unary(path::DELETE_RANGE, frame(&request)).await?;
            let answer = wire::DeleteRangeResponse::decode(answer)?;
            let revision = wire::revision_of(&answer.header);
            match answer.deleted {
                0 => Ok(Outcome::Read { revision, row: None }),
                1 => Ok(Outcome::Wrote { revision }),
                many => Err(Finding::new("answer", format!("{action:?} deleted {many} keys"))),
            }
        }
        Action::Get { key } => {
            let request = wire::RangeRequest { key: key_name(key), ..Default::default() };
            let answer = wire::RangeResponse::decode(connection.unary(path::RANGE, frame(&request)).await?)?;
            single_row(key, &answer)
                .map(|row| Outcome::Read { revision: wire::revision_of(&answer.header), row })
        }
    })
}

/// The row of a read of `key` alone.
fn single_row(key: KeyId, answer: &wire::RangeResponse) -> Result<Option<Row>, Finding> {
    match &answer.kvs[..] {
        [] => Ok(None),
        [kv] => match row(kv)? {
            (found, row) if found == key => Ok(Some(row)),
            (found, _) => Err(Finding::new("answer", format!("a read of key {key} answered key {found}"))),
        },
        many => Err(Finding::new("answer", format!("a read of key {key} answered {} rows", many.len()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::payload::slot_random;

    #[test]
    fn all_actions_are_picked_and_no_write_number_twice() {
        let recorder = Recorder::new(8, 32);
        let mut random = slot_random(1, 0);
        let mut kinds = BTreeMap::new();
        let mut writes = std::collections::BTreeSet::new();
        for _ in 0..1000 {
            let (kind, write) = match recorder.pick(&mut random) {
                Action::Put { write, .. } => ("put", Some(write)),
                Action::Update { write, .. } => ("update", Some(write)),
                Action::Pair { keys, write } => {
                    assert_ne!(keys[0], keys[1], "etcd refuses to put a key twice in a transaction");
                    ("pair", Some(write))
                }
                Action::Delete { .. } => ("delete", None),
                Action::Get { .. } => ("get", None),
            };
            *kinds.entry(kind).or_insert(0) += 1;
            assert!(write.is_none_or(|write| writes.insert(write)));
        }
        assert_eq!(kinds.len(), 5, "{kinds:?}");
    }

    #[test]
    fn a_call_is_in_doubt_until_its_end() {
        let recorder = Recorder::new(2, 32);
        let action = Action::Update { key: 1, write: 1, expected: 0 };
        let place = recorder.begin(action);
        assert_eq!(recorder.calls.borrow()[place].outcome, Outcome::Unknown);
        let outcome = Outcome::Wrote { revision: 7 };
        recorder.end(place, outcome);
        recorder.learn(&action, &outcome);
        assert_eq!(*recorder.known.borrow(), [0, 7]);
        assert_eq!(recorder.take_calls().len(), 1);
        assert!(recorder.take_calls().is_empty());
    }
}
