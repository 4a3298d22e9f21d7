//! From a request to effects.
//!
//! * `view`: what a read sees: the engine, and on top of it what is in flight.
//! * `range`: etcd's Range on a view.
//! * `check`: what is wrong with a request whatever the state.
//! * `write`: Put, DeleteRange and Txn on a view: the ops to log and the answer.
//! * `evaluator`: the one sequential task that does this for the home group, in batches.
//!
//! Everything but `evaluator` is plain functions: no task, no clock, no lock.

mod check;
mod evaluator;
mod overlay;
mod range;
mod view;
mod write;

pub(crate) use check::{check_delete_range, check_put, check_range, check_txn};
pub(crate) use evaluator::{Ask, Evaluator, Reply, Settled, WriteAnswer, attached_keys};
pub(crate) use range::{RowFilter, comes_in_pieces, key_alone, key_range, range, read_revision};
pub(crate) use view::{EngineView, Row, View, after};
pub(crate) use write::{Write, evaluate_read_only};
