//! A lean gRPC client for any etcd endpoint, straight on `h2`: one connection is one TCP stream and one task.
//!
//! It knows gRPC framing and the few etcd messages that the tool sends, and nothing of load or checking. It does not
//! reconnect, retry or time out: whoever measures wants to see each failure. Plain text only.
//!
//! Reading order: [`wire`] (messages), [`failure`], [`coalesce`] (one write system call for a batch of frames),
//! [`connection`] (unary calls), [`stream`] (watch), [`fields`] (answers read in place).

pub(crate) mod coalesce;
pub(crate) mod connection;
pub(crate) mod failure;
pub(crate) mod fields;
#[cfg(test)]
pub(crate) mod scripted;
pub(crate) mod stream;
pub(crate) mod wire;

pub(crate) use connection::{Connection, Endpoint};
pub(crate) use failure::Failure;
