//! Workload, model and checkers of etcd's API.
//!
//! READING ORDER
//! 1. [`op`]: requests and answers as plain data. [`history`]: what clients saw.
//! 2. [`model`]: etcd's semantics in plain maps.
//! 3. [`client`]: the wire. [`workload`]: what is asked, from a seed.
//! 4. [`checkers`]: what must hold of a history, one file a guarantee.
//! 5. [`endpoint`]: all of it against a running server.

pub mod checkers;
pub mod cli;
pub mod client;
pub mod endpoint;
pub mod history;
pub mod model;
pub mod op;
pub mod workload;
