//! What the clients of a run have learnt, so that their next requests hit: which keys there are and at which
//! revisions, which leases, how far the store is. It may be out of date; requests that miss are wanted too.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use crate::history::Outcome;
use crate::op::{Answer, KeyValue, OpAnswer, Put, Request, Txn, TxnOp};

/// Leases that the clients remember; the oldest is forgotten for a new one.
const LEASES_MAX: usize = 64;

/// Keys that the clients remember; others are not learnt when there are so many.
const PAIRS_MAX: usize = 4096;

/// Shared by the clients of a run.
#[derive(Debug, Default)]
pub(crate) struct Knowledge {
    /// Newest revision that any answer named.
    pub(crate) newest: i64,
    /// Newest revision that the witness has seen. No client compacts beyond it, or what happened could not be
    /// told any more.
    pub(crate) witnessed: i64,
    /// Newest compaction that was acknowledged.
    pub(crate) compacted: i64,
    /// The last that was heard of each key; `None` if it was gone.
    pairs: BTreeMap<Bytes, Option<KeyValue>>,
    /// Leases that were granted and not known to be gone, oldest first.
    pub(crate) leases: Vec<i64>,
    /// Numbers given to values and leases so far; each is given once.
    given: u64,
    /// Operations left to do.
    pub(crate) remaining: u64,
    /// When the clients end, in the history's time.
    pub(crate) until: Duration,
}

impl Knowledge {
    /// A number that was not given before.
    pub(crate) fn number(&mut self) -> u64 {
        self.given += 1;
        self.given
    }

    /// The last that was heard of `key`.
    pub(crate) fn pair(&self, key: &Bytes) -> Option<&KeyValue> {
        self.pairs.get(key)?.as_ref()
    }

    /// The mod revision that `key` was last heard to have; 0 for none.
    pub(crate) fn mod_revision(&self, key: &Bytes) -> i64 {
        self.pair(key).map_or(0, |pair| pair.mod_revision)
    }

    /// Takes in what came of `request`.
    pub(crate) fn learn(&mut self, request: &Request, outcome: &Outcome) {
        match outcome {
            Outcome::Answered(answer) => {
                self.newest = self.newest.max(answer.revision());
                self.learn_answer(request, answer);
            }
            Outcome::Refused(_) | Outcome::Unknown(_) => {
                if let Request::KeepAlive { id } | Request::Revoke { id } = request {
                    self.leases.retain(|known| known != id);
                }
            }
        }
    }

    fn learn_answer(&mut self, request: &Request, answer: &Answer) {
        match (request, answer) {
            (Request::Range(asked) | Request::RangeStream(asked), Answer::Range(answer))
                if asked.revision == 0 && !asked.keys_only =>
            {
                self.heard_all(&answer.kvs);
                if asked.range_end.is_empty() && answer.count == 0 {
                    self.gone(&asked.key);
                }
            }
            (Request::Put(put), Answer::Put(answer)) => self.written(put, answer.revision),
            (Request::Delete(delete), Answer::Delete(answer)) => {
                if delete.range_end.is_empty() {
                    self.gone(&delete.key);
                }
                for pair in &answer.prev_kvs {
                    self.gone(&pair.key);
                }
            }
            (Request::Txn(txn), Answer::Txn(answer)) => {
                self.learn_txn(txn, answer.succeeded, &answer.responses, answer.revision);
            }
            (Request::Compact { revision, .. }, Answer::Compact { .. }) => {
                self.compacted = self.compacted.max(*revision);
            }
            (_, Answer::Grant { id, .. }) => {
                self.leases.push(*id);
                if self.leases.len() > LEASES_MAX {
                    self.leases.remove(0);
                }
            }
            (Request::Revoke { id }, _)
            | (Request::KeepAlive { id }, Answer::KeepAlive { ttl: 0, .. })
            | (Request::TimeToLive { id, .. }, Answer::TimeToLive { ttl: ..0, .. }) => {
                self.leases.retain(|known| known != id);
            }
            _ => {}
        }
    }

    fn learn_txn(&mut self, txn: &Txn, succeeded: bool, responses: &[OpAnswer], revision: i64) {
        let branch = if succeeded { &txn.success } else { &txn.failure };
        for (operation, answer) in branch.iter().zip(responses) {
            match (operation, answer) {
                (TxnOp::Put(put), _) => self.written(put, revision),
                (TxnOp::Delete(delete), _) if delete.range_end.is_empty() => self.gone(&delete.key),
                (TxnOp::Range(range), OpAnswer::Range(answer)) if range.revision == 0 && !range.keys_only => {
                    self.heard_all(&answer.kvs);
                    if range.range_end.is_empty() && answer.count == 0 {
                        self.gone(&range.key);
                    }
                }
                (TxnOp::Txn(inner), OpAnswer::Txn(answer)) => {
                    self.learn_txn(inner, answer.succeeded, &answer.responses, revision);
                }
                _ => {}
            }
        }
    }

    fn heard_all(&mut self, pairs: &[KeyValue]) {
        for pair in pairs {
            let Some(known) = self.place(&pair.key) else { continue };
            if known.as_ref().is_none_or(|known| known.mod_revision <= pair.mod_revision) {
                *known = Some(pair.clone());
            }
        }
    }

    fn written(&mut self, put: &Put, revision: i64) {
        let Some(known) = self.place(&put.key) else { return };
        let before = known.take().filter(|before| before.mod_revision < revision);
        let mut pair = KeyValue { key: put.key.clone(), mod_revision: revision, ..KeyValue::default() };
        pair.create_revision = before.as_ref().map_or(revision, |before| before.create_revision);
        pair.version = before.as_ref().map_or(1, |before| before.version + 1);
        pair.value = put.value.clone();
        pair.lease = put.lease;
        *known = Some(pair);
    }

    fn gone(&mut self, key: &Bytes) {
        // The place stays: a key that was there comes back.
        if let Some(known) = self.pairs.get_mut(key) {
            *known = None;
        }
    }

    fn place(&mut self, key: &Bytes) -> Option<&mut Option<KeyValue>> {
        if self.pairs.len() >= PAIRS_MAX && !self.pairs.contains_key(key) {
            return None;
        }
        Some(self.pairs.entry(key.clone()).or_default())
    }
}
