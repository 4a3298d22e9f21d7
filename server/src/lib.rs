//! The `keelson` program: etcd's API on Keelson's store.
//!
//! READING ORDER
//! 1. [`config`]: flags, environment and file; [`logging`]: log lines.
//! 2. [`pb`]: what is generated from `proto/`.
//! 3. [`error`]: the one table of codes and texts.
//! 4. [`api`]: the gRPC services. [`http`]: health, version, metrics.
//! 5. [`flag`]: telling many tasks that something ends; `clock`: the calendar.
//! 6. [`serve`]: sockets, shards, threads; start and end.
//!
//! A request walks: socket → `serve::connection` → `serve::front` → `api` → [`raft::Store`], and back.
//!
//! WHAT IT DOES NOT KNOW: what a key is worth. Every rule of etcd about keys, revisions, leases and watches is
//! behind [`raft::Store`]; here is only how it is asked and answered.

pub mod api;
mod clock;
pub mod config;
pub mod error;
pub mod flag;
pub mod http;
pub mod logging;
pub mod pb;
pub mod serve;
