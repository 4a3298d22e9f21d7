//! The calls of API servers: their shapes, sent on the connection of the resource, timed and counted.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytes::Bytes;
use prost::Message;
use rand::rngs::StdRng;

use super::objects::{Names, Object, Objects, RESOURCES, Resource};
use super::tally::{Tally, add};
use crate::client::fields::{Fields, range_answer};
use crate::client::stream::answers;
use crate::client::wire::{self, RangeRequest, RequestOp, frame, path, prefix_end};
use crate::client::{Connection, Failure};
use crate::clock;
use crate::load::payload::Values;
use crate::watch::crowd::Seen;
use crate::watch::stamp::stamped;

/// Everything that is watched begins so.
pub(crate) const REGISTRY: &str = "/registry/";
/// Rows that an API server asks for at once.
const LIST_ROWS: i64 = 10_000;

/// API servers and what they know.
pub(crate) struct Callers {
    /// By API server, then by resource.
    pub(crate) connections: Vec<Connection>,
    /// The API server whose turn it is.
    pub(crate) turn: Cell<usize>,
    /// The prefixes of all resources.
    pub(crate) prefixes: Vec<String>,
    /// Objects by resource.
    pub(crate) objects: Vec<Objects>,
    /// Makes names.
    pub(crate) names: Names,
    /// Values, cut to size.
    pub(crate) values: Values,
    /// All chance but that of the arrivals.
    pub(crate) random: RefCell<StdRng>,
    /// The watchers' clock, which stamps values.
    pub(crate) seen: Rc<Seen>,
    /// What is counted.
    pub(crate) tally: Tally,
    /// The lease of new events.
    pub(crate) event_lease: Cell<i64>,
    /// The highest revision in an answer.
    pub(crate) head: Cell<i64>,
    /// The revision at the last compaction.
    pub(crate) compact_next: Cell<i64>,
    /// Set once nothing more shall begin.
    pub(crate) stop: Cell<bool>,
}

impl Callers {
    /// The objects of a resource.
    pub(crate) fn of(&self, resource: Resource) -> &Objects {
        &self.objects[resource.place()]
    }

    /// The connection of a resource, of the API servers in turn.
    fn connection(&self, place: usize) -> Connection {
        let turn = self.turn.get();
        self.turn.set(turn + RESOURCES);
        self.connections[(turn + place) % self.connections.len()].clone()
    }

    /// Sends a call and times it; `None` if it failed.
    async fn call(
        &self,
        kind: &'static str,
        is_write: bool,
        place: usize,
        path: &'static str,
        request: Bytes,
    ) -> Option<Bytes> {
        let mut connection = self.connection(place);
        let begun = clock::now();
        match connection.unary(path, request).await {
            Ok(answer) => {
                self.tally.call(kind, is_write, clock::nanos_between(begun, clock::now()));
                Some(answer)
            }
            Err(failure) => {
                self.tally.error(kind, &failure);
                None
            }
        }
    }

    /// A guarded write; whether the guard held. The object's revision is what the answer says.
    async fn write(&self, kind: &'static str, object: &Object, expected: i64, then: RequestOp) -> bool {
        let request = frame(&wire::guarded(object.key.clone(), expected, then));
        let Some(answer) = self.call(kind, true, object.resource.place(), path::TXN, request).await else {
            return false;
        };
        let answer = match wire::TxnResponse::decode(answer) {
            Ok(answer) => answer,
            Err(error) => {
                self.tally.error(kind, &error.into());
                return false;
            }
        };
        let revision = wire::revision_of(&answer.header);
        self.head.set(self.head.get().max(revision));
        if answer.succeeded {
            object.revision.set(revision);
        } else {
            add(&self.tally.conflicts, 1);
            let read = answer.responses.first().and_then(|response| response.range.as_ref());
            object.revision.set(read.and_then(|range| range.kvs.first()).map_or(0, |kv| kv.mod_revision));
        }
        answer.succeeded
    }

    /// Creates or updates an object; `expected` is the revision sent.
    pub(crate) async fn put(&self, kind: &'static str, object: &Object, expected: i64, lease: i64) -> bool {
        let value = self.values.pick_sized(&mut self.random.borrow_mut(), object.value_bytes);
        let value = stamped(&value, self.seen.nanos());
        let bytes = object.key.len() + value.len();
        let put = wire::PutRequest { key: object.key.clone(), value, lease };
        let done = self.write(kind, object, expected, RequestOp::put(put)).await;
        if done {
            if object.key.starts_with(REGISTRY.as_bytes()) {
                add(&self.tally.puts, 1);
            }
            add(&self.tally.user_bytes, bytes as u64);
        }
        done
    }

    /// Deletes an object; `expected` is the revision sent.
    pub(crate) async fn delete(&self, kind: &'static str, object: &Object, expected: i64) -> bool {
        self.write(kind, object, expected, RequestOp::delete(object.key.clone())).await
    }

    /// Reads a key as kube-apiserver does.
    pub(crate) async fn get(&self, kind: &'static str, place: usize, key: Bytes) {
        let request = RangeRequest { key, limit: 1, ..RangeRequest::default() };
        if let Some(answer) = self.call(kind, false, place, path::RANGE, frame(&request)).await {
            match range_answer(&answer) {
                Ok(page) => self.head.set(self.head.get().max(page.revision)),
                Err(failure) => self.tally.error(kind, &failure),
            }
        }
    }

    /// Grants a lease; `None` if that failed.
    pub(crate) async fn grant(&self, resource: Resource, ttl_seconds: i64) -> Option<i64> {
        const KIND: &str = "lease grant";
        let request = frame(&wire::LeaseGrantRequest { ttl_seconds });
        let answer = self.call(KIND, true, resource.place(), path::LEASE_GRANT, request).await?;
        match wire::LeaseGrantResponse::decode(answer) {
            Ok(answer) => Some(answer.id),
            Err(error) => {
                self.tally.error(KIND, &error.into());
                None
            }
        }
    }

    /// Compacts history up to `revision`.
    pub(crate) async fn compact(&self, revision: i64) {
        let request = wire::CompactionRequest { revision, physical: false };
        self.call("compact", false, 0, path::COMPACT, frame(&request)).await;
    }

    /// Lists a resource as kube-apiserver's consistency check does: RangeStreams of 10,000 rows at one revision.
    pub(crate) async fn list(&self, kind: &'static str, mut connection: Connection, place: usize) {
        let prefix = &self.prefixes[place];
        let mut request = RangeRequest {
            key: Bytes::copy_from_slice(prefix.as_bytes()),
            range_end: prefix_end(prefix.as_bytes()),
            limit: LIST_ROWS,
            ..RangeRequest::default()
        };
        let begun = clock::now();
        loop {
            match self.stream(&mut connection, &request).await {
                Ok(Some((behind, revision))) => {
                    request.key = behind;
                    request.revision = if request.revision == 0 { revision } else { request.revision };
                }
                Ok(None) => break,
                Err(failure) => {
                    self.tally.error(kind, &failure);
                    return;
                }
            }
        }
        self.tally.call(kind, false, clock::nanos_between(begun, clock::now()));
    }

    /// One RangeStream; where the next one begins and at which revision, if there is more.
    async fn stream(
        &self,
        connection: &mut Connection,
        request: &RangeRequest,
    ) -> Result<Option<(Bytes, i64)>, Failure> {
        const RANGE_RESPONSE: u64 = 1;
        let mut chunks = answers(connection, path::RANGE_STREAM, frame(request)).await?;
        let (mut behind, mut revision, mut more) = (Vec::new(), 0, false);
        while let Some(chunk) = chunks.next_bytes().await? {
            add(&self.tally.listed_bytes, chunk.len() as u64);
            let page = range_answer(Fields(&chunk).bytes(RANGE_RESPONSE)?)?;
            add(&self.tally.rows, page.rows);
            if page.rows > 0 {
                behind = page.last_key.to_vec();
            }
            (revision, more) = (revision.max(page.revision), page.more);
        }
        behind.push(0);
        Ok(more.then(|| (behind.into(), revision)))
    }

    /// The connection of an API server for a resource.
    pub(crate) fn connection_of(&self, apiserver: usize, place: usize) -> Connection {
        self.connections[apiserver * RESOURCES + place].clone()
    }
}
