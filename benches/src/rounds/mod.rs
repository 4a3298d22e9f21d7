//! Rounds of load and kill -9 against one server that this tool starts itself, and the checker of what it promised.
//!
//! In each round writers put, update, delete and read, watchers follow; the server is killed at a random moment and
//! started again; then every promise is checked against the history that a watch from the round's first revision tells.
//! The order of writes is given by their revisions, so checking is a replay and a few sorted sweeps, not a search.
//! A kill leaves the page cache, so what is proven is recovery from any point of the log, not the disk's syncs.
//!
//! Reading order: [`record`] (what was called and seen), [`names`] (keys and values that can be told apart),
//! [`history`], [`check`] (the rules), [`writer`], [`follower`] (watching), [`server`] (the process), [`run`].

pub(crate) mod check;
pub(crate) mod follower;
pub(crate) mod history;
pub(crate) mod names;
pub(crate) mod record;
pub(crate) mod run;
pub(crate) mod server;
pub(crate) mod writer;
