//! `kubemix`: what a cluster of N nodes does to its store, from the store's side, without a kube-apiserver.
//!
//! Every call has the shape that kube-apiserver gives it: each write is a transaction on one key guarded by its mod
//! revision, each API server has one connection and one watch stream by resource, its lists are RangeStreams at a
//! revision, its consistent reads ask for a key that does not exist, its events hang on shared leases that run out.
//! Arrivals are an open loop: node leases at fixed phases, everything else Poisson; what follows within the life of a pod
//! waits for the call before it. Latency counts from when a call is sent; how late the tool itself was is reported apart.
//!
//! Reading order: [`sizes`], [`objects`] (the key space), [`rates`] (what arrives how often), [`tally`], [`calls`] (the
//! shapes), [`life`] (pods and the other actions), [`run`], [`report`].

pub(crate) mod calls;
pub(crate) mod life;
pub(crate) mod objects;
pub(crate) mod rates;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod sizes;
pub(crate) mod tally;
