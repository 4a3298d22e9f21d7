//! What one call is: puts, kube's update, reads, lists, filling.
//!
//! Each slot of the driver owns one work. Works share what must be shared through `Rc`: all run on one thread.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;
use prost::Message;
use rand::Rng;
use rand::rngs::StdRng;

use super::payload::{Keys, Values};
use crate::client::wire::{self, Framer, frame, path};
use crate::client::{Connection, Failure};

/// Something to be called over and over by one slot.
pub(crate) trait Work {
    /// One operation; returns the bytes of the answer.
    ///
    /// # Errors
    /// As the connection's call.
    async fn call(&mut self, connection: &mut Connection) -> Result<u64, Failure>;

    /// What the last call was, where a report tells kinds apart; `from` is when it was meant to start.
    fn kind(&self, _from: Instant) -> Option<&'static str> {
        None
    }
}

/// A put of a random value to a random key.
pub(crate) struct Put {
    pub(crate) keys: Keys,
    pub(crate) values: Values,
    pub(crate) random: StdRng,
    pub(crate) framer: Framer,
}

impl Work for Put {
    async fn call(&mut self, connection: &mut Connection) -> Result<u64, Failure> {
        let key = self.keys.key(self.random.random_range(0..self.keys.count));
        let value = self.values.pick(&mut self.random);
        let answer =
            connection.unary(path::PUT, self.framer.frame(&wire::PutRequest::new(key, value))).await?;
        Ok(answer.len() as u64)
    }
}

/// The mod revisions that the updates of all slots know, and how often one was out of date.
pub(crate) struct KnownRevisions {
    /// By key index; 0 is "does not exist", as far as known.
    revisions: RefCell<Vec<i64>>,
    /// Updates whose compare failed, so that they only read.
    pub(crate) compares_failed: Cell<u64>,
}

impl KnownRevisions {
    /// Nothing known of `count` keys.
    pub(crate) fn new(count: u64) -> Self {
        let count = usize::try_from(count).expect("a vector of that many keys fits the memory");
        KnownRevisions { revisions: RefCell::new(vec![0; count]), compares_failed: Cell::new(0) }
    }
}

/// kube-apiserver's update: if the mod revision is the one known, put, else read. Each slot has keys of its own, so a
/// compare fails only where the key was written before this run.
pub(crate) struct Update {
    pub(crate) keys: Keys,
    pub(crate) values: Values,
    pub(crate) random: StdRng,
    pub(crate) known: Rc<KnownRevisions>,
    pub(crate) slot: u64,
    pub(crate) slots: u64,
    pub(crate) framer: Framer,
}

impl Work for Update {
    async fn call(&mut self, connection: &mut Connection) -> Result<u64, Failure> {
        let own = (self.keys.count - self.slot).div_ceil(self.slots);
        let index = self.slot + self.slots * self.random.random_range(0..own);
        let at = usize::try_from(index).expect("the index of a vector");
        let expected = self.known.revisions.borrow()[at];
        let value = self.values.pick(&mut self.random);
        let request = wire::update_request(self.keys.key(index), value, expected);
        let answer = connection.unary(path::TXN, self.framer.frame(&request)).await?;
        let bytes = answer.len() as u64;
        let answer = wire::TxnResponse::decode(answer)?;
        let revision = if answer.succeeded {
            wire::revision_of(&answer.header)
        } else {
            self.known.compares_failed.set(self.known.compares_failed.get() + 1);
            let read = answer.responses.first().and_then(|response| response.range.as_ref());
            read.and_then(|range| range.kvs.first()).map_or(0, |kv| kv.mod_revision)
        };
        self.known.revisions.borrow_mut()[at] = revision;
        Ok(bytes)
    }
}

/// A read of one random key.
pub(crate) struct Get {
    pub(crate) keys: Keys,
    pub(crate) random: StdRng,
    pub(crate) serializable: bool,
    pub(crate) framer: Framer,
}

impl Work for Get {
    async fn call(&mut self, connection: &mut Connection) -> Result<u64, Failure> {
        let key = self.keys.key(self.random.random_range(0..self.keys.count));
        let request = wire::RangeRequest { key, serializable: self.serializable, ..Default::default() };
        Ok(connection.unary(path::RANGE, self.framer.frame(&request)).await?.len() as u64)
    }
}

/// A list. Its answer is only counted in bytes: decoding would cost the client more than serving costs the server.
pub(crate) struct List {
    pub(crate) request: wire::RangeRequest,
    /// [`path::RANGE`] or [`path::RANGE_STREAM`].
    pub(crate) path: &'static str,
    /// Start each list at a random key instead of the first one.
    pub(crate) random_start: Option<(Keys, StdRng)>,
    /// The request framed, if it is always the same.
    pub(crate) framed: Bytes,
}

impl List {
    /// Lists as `request` says.
    pub(crate) fn new(
        request: wire::RangeRequest,
        path: &'static str,
        random_start: Option<(Keys, StdRng)>,
    ) -> Self {
        let framed = frame(&request);
        List { request, path, random_start, framed }
    }
}

impl Work for List {
    async fn call(&mut self, connection: &mut Connection) -> Result<u64, Failure> {
        let framed = match &mut self.random_start {
            None => self.framed.clone(),
            Some((keys, random)) => {
                self.request.key = keys.key(random.random_range(0..keys.count));
                frame(&self.request)
            }
        };
        connection.drain(self.path, framed).await
    }
}

/// A count of the keys of a range.
pub(crate) struct Count {
    pub(crate) framed: Bytes,
    /// The last count answered.
    pub(crate) last: Rc<Cell<i64>>,
}

impl Work for Count {
    async fn call(&mut self, connection: &mut Connection) -> Result<u64, Failure> {
        let answer = connection.unary(path::RANGE, self.framed.clone()).await?;
        let bytes = answer.len() as u64;
        self.last.set(wire::RangeResponse::decode(answer)?.count);
        Ok(bytes)
    }
}

/// Writes every key once, several in a transaction.
pub(crate) struct Fill {
    pub(crate) keys: Keys,
    pub(crate) values: Values,
    pub(crate) random: StdRng,
    /// Keys of one transaction.
    pub(crate) keys_per_txn: u64,
    /// The lease of the keys; 0 is none.
    pub(crate) lease: i64,
    /// The first key not yet taken by any slot.
    pub(crate) next: Rc<Cell<u64>>,
}

impl Work for Fill {
    async fn call(&mut self, connection: &mut Connection) -> Result<u64, Failure> {
        let from = self.next.get();
        let to = (from + self.keys_per_txn).min(self.keys.count);
        self.next.set(to);
        let mut put = |index| {
            let value = self.values.pick(&mut self.random);
            wire::RequestOp::put(wire::PutRequest { key: self.keys.key(index), value, lease: self.lease })
        };
        let success = (from..to).map(&mut put).collect();
        let request = wire::TxnRequest { compare: Vec::new(), success, failure: Vec::new() };
        Ok(connection.unary(path::TXN, frame(&request)).await?.len() as u64)
    }
}
