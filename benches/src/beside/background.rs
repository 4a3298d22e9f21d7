//! The background works: what each needs beforehand and what one piece of it is.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use prost::Message;

use crate::client::fields::watch_answer;
use crate::client::stream::watch;
use crate::client::wire::{self, WatchCreateRequest, frame, path, prefix_end};
use crate::client::{Connection, Endpoint, Failure};
use crate::load::driver::{self, Limit, Plan};
use crate::load::payload::{Keys, Values, slot_random};
use crate::load::work::Fill;
use crate::rounds::server::head_revision;

/// All keys of the background begin so.
const PREFIX: &str = "/beside/";
/// Bytes of a key.
const KEY_BYTES: usize = 60;
/// Keys of a transaction while preparing.
const KEYS_PER_TXN: u64 = 64;
/// Different keys of a history; more changes than that go over them again.
const HISTORY_KEYS: u64 = 100_000;
/// A piece of doing nothing.
const IDLE_PIECE: Duration = Duration::from_secs(1);
/// A lease that does not end by itself.
const TTL_SECONDS: i64 = 86_400;

/// A background work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// Revoke a lease that has --amount keys.
    Lease,
    /// A watcher reads --amount old changes.
    CatchUp,
    /// List --amount keys by one unary Range.
    List,
    /// List --amount keys by RangeStream.
    Stream,
    /// Compact --amount changes away, in as many steps as --pieces, each waiting until the space is free.
    Compact,
    /// Defragment, with --amount keys in the store.
    Defragment,
    /// Nothing: what the two windows differ by themselves.
    Nothing,
}

impl Kind {
    /// Its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Lease => "lease",
            Kind::CatchUp => "catch-up",
            Kind::List => "list",
            Kind::Stream => "stream",
            Kind::Compact => "compact",
            Kind::Defragment => "defragment",
            Kind::Nothing => "nothing",
        }
    }

    /// How much of it, if nothing is said.
    pub(crate) fn amount_default(self) -> u64 {
        if self == Kind::CatchUp { 500_000 } else { 100_000 }
    }
}

/// How a store is prepared.
#[derive(Debug, Clone)]
pub(crate) struct Amount {
    /// What for.
    pub(crate) kind: Kind,
    /// Keys or changes.
    pub(crate) amount: u64,
    /// Pieces of work wanted, of those kinds that use up what was prepared.
    pub(crate) pieces: u32,
    /// Bytes of a value.
    pub(crate) value_bytes: usize,
    /// Seed of values.
    pub(crate) seed: u64,
}

/// One piece of work.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Revoke { lease: i64 },
    CatchUp { from: i64, changes: u64 },
    Read { path: &'static str },
    Compact { revision: i64 },
    Defragment,
    Nothing,
}

/// A prepared background.
#[derive(Debug, Clone)]
pub(crate) struct Background {
    /// Used up from the end; the last one stays if `endless`.
    pieces: Vec<Piece>,
    endless: bool,
}

async fn write(
    endpoint: &Endpoint,
    amount: &Amount,
    prefix: &str,
    keys: u64,
    lease: i64,
) -> Result<(), Failure> {
    let keys = Keys::new(prefix, KEY_BYTES, keys)?;
    let limit = Limit::Operations(keys.count.div_ceil(KEYS_PER_TXN));
    let plan = Plan { endpoint: endpoint.clone(), connections: 2, calls: 4, limit, rate: None };
    let (values, next) = (Values::new(amount.value_bytes, amount.seed), Rc::new(Cell::new(0)));
    let make = |slot| Fill {
        keys: keys.clone(),
        values: values.clone(),
        random: slot_random(amount.seed, slot),
        keys_per_txn: KEYS_PER_TXN,
        lease,
        next: Rc::clone(&next),
    };
    let tally = driver::drive(&plan, &driver::connect(&plan).await?, make).await?;
    match tally.errors.iter().next() {
        None => Ok(()),
        Some((reason, times)) => {
            Err(Failure::Transport(format!("{times} writes of the preparation failed: {reason}")))
        }
    }
}

/// Writes what the work needs.
///
/// # Errors
/// As the calls'.
pub(crate) async fn prepare(endpoint: &Endpoint, amount: &Amount) -> Result<Background, Failure> {
    let mut connection = Connection::open(endpoint).await?;
    let before = head_revision(endpoint).await?;
    let all = format!("{PREFIX}keys/");
    let history = async || {
        let mut left = amount.amount;
        while left > 0 {
            let keys = left.min(HISTORY_KEYS);
            write(endpoint, amount, &all, keys, 0).await?;
            left -= keys;
        }
        head_revision(endpoint).await
    };
    let (pieces, endless) = match amount.kind {
        Kind::Nothing => (vec![Piece::Nothing], true),
        Kind::Lease => {
            let mut pieces = Vec::new();
            for number in 0..amount.pieces {
                let request = frame(&wire::LeaseGrantRequest { ttl_seconds: TTL_SECONDS });
                let answer = connection.unary(path::LEASE_GRANT, request).await?;
                let lease = wire::LeaseGrantResponse::decode(answer)?.id;
                write(endpoint, amount, &format!("{PREFIX}lease{number}/"), amount.amount, lease).await?;
                pieces.push(Piece::Revoke { lease });
            }
            (pieces, false)
        }
        Kind::CatchUp => {
            history().await?;
            (vec![Piece::CatchUp { from: before + 1, changes: amount.amount }], true)
        }
        Kind::Compact => {
            let span = history().await? - before;
            let steps = i64::from(amount.pieces);
            let piece = |step| Piece::Compact { revision: before + span * step / steps };
            ((1..=steps).rev().map(piece).collect(), false)
        }
        Kind::List | Kind::Stream | Kind::Defragment => {
            write(endpoint, amount, &all, amount.amount, 0).await?;
            let piece = match amount.kind {
                Kind::List => Piece::Read { path: path::RANGE },
                Kind::Stream => Piece::Read { path: path::RANGE_STREAM },
                _ => Piece::Defragment,
            };
            (vec![piece], true)
        }
    };
    Ok(Background { pieces, endless })
}

impl Background {
    /// Does the next piece of work; whether there was one.
    ///
    /// # Errors
    /// As the calls'.
    pub(crate) async fn step(&mut self, connection: &mut Connection) -> Result<bool, Failure> {
        let Some(piece) = (if self.endless { self.pieces.last().cloned() } else { self.pieces.pop() }) else {
            return Ok(false);
        };
        match piece {
            Piece::Revoke { lease } => {
                let request = frame(&wire::LeaseRevokeRequest { id: lease });
                connection.unary(path::LEASE_REVOKE, request).await?;
            }
            Piece::CatchUp { from, changes } => catch_up(connection, from, changes).await?,
            Piece::Read { path } => {
                let (key, range_end) = (PREFIX.into(), prefix_end(PREFIX.as_bytes()));
                let request = wire::RangeRequest { key, range_end, ..Default::default() };
                connection.drain(path, frame(&request)).await?;
            }
            Piece::Compact { revision } => {
                let request = wire::CompactionRequest { revision, physical: true };
                connection.unary(path::COMPACT, frame(&request)).await?;
            }
            Piece::Defragment => {
                connection.unary(path::DEFRAGMENT, frame(&wire::DefragmentRequest {})).await?;
            }
            Piece::Nothing => tokio::time::sleep(IDLE_PIECE).await,
        }
        Ok(true)
    }
}

/// Watches from revision `from` on until `changes` have come.
async fn catch_up(connection: &mut Connection, from: i64, changes: u64) -> Result<(), Failure> {
    let (_requests, mut answers) = watch(connection, WatchCreateRequest::prefix(PREFIX, from)).await?;
    let mut told = 0;
    while told < changes {
        let Some(message) = answers.next_bytes().await? else {
            return Err(Failure::Transport(format!("the watch ended after {told} changes of {changes}")));
        };
        let head = watch_answer(&message, |_| {})?;
        if head.canceled {
            return Err(Failure::Transport(format!(
                "the watch was canceled after {told} changes of {changes}"
            )));
        }
        told += head.events;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::scripted::{Answer, serve};
    use bytes::Bytes;

    #[tokio::test(flavor = "local")]
    async fn what_is_used_up_ends_and_what_is_not_goes_on() {
        let endpoint = serve(|_, _| Answer::body(vec![Bytes::from_static(b"\0\0\0\0\0")])).await;
        let mut connection = Connection::open(&endpoint).await.expect("it listens");
        let compact = |revision| Piece::Compact { revision };
        for (pieces, endless, steps, why) in [
            (vec![], false, 0, "nothing to do"),
            (vec![compact(9), compact(5)], false, 2, "two compactions and no more"),
            (vec![Piece::Defragment], true, 4, "again and again"),
        ] {
            let mut background = Background { pieces, endless };
            let mut done = 0;
            while done < 4 && background.step(&mut connection).await.expect("an answer") {
                done += 1;
            }
            assert_eq!(done, steps, "{why}");
        }
    }
}
