//! Put, DeleteRange and Txn on a view: the ops to log, and the answer.
//!
//! A transaction is evaluated in two passes, as in etcd. First all compares, nested ones too, choose the
//! path on the state before it; along that path everything is checked that could refuse it. Then the
//! operations run in order, each seeing the writes before it. Nothing is written anywhere here: an error
//! leaves no trace.

use std::cmp::Ordering;

use engine::KeyRange;
use engine::batch::{Change, Op};

use super::overlay::{Layered, Overlay};
use super::range::{key_range, range};
use super::view::{Row, RowValue, View};
use crate::error::{Error, Result};
use crate::request::{
    Compare, CompareResult, CompareTarget, DeleteRange, DeleteRangeAnswer, Put, PutAnswer, Txn, TxnAnswer,
    TxnOp, TxnOpAnswer,
};

/// A request that may write keys.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the names say it")]
pub(crate) enum Write {
    Put(Put),
    DeleteRange(DeleteRange),
    Txn(Txn),
}

/// What a [`Write`] came to.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The effects, in order; empty if nothing changes, and then no revision is taken.
    pub(crate) ops: Vec<Op>,
    /// What each op leaves of its key.
    pub(crate) rows: Vec<Option<Row>>,
    /// The answer, as one of a transaction's operations would get it.
    pub(crate) answer: TxnOpAnswer,
}

/// What evaluation needs to know beside the keys.
pub(crate) struct Context<'a> {
    /// Newest compaction revision.
    pub(crate) compacted: i64,
    /// Whether a lease is there.
    pub(crate) lease_exists: &'a dyn Fn(i64) -> bool,
}

/// Evaluates `write` on `view`; what it writes gets the revision after the view's.
///
/// # Errors
/// Those of [`Error`] that depend on state.
pub(crate) fn evaluate(view: &impl View, write: &Write, context: &Context<'_>) -> Result<Outcome> {
    let mut run = Run { view, context, own: Overlay::default(), ops: Vec::new(), rows: Vec::new() };
    let answer = match write {
        Write::Put(put) => TxnOpAnswer::Put(run.put(put)?),
        Write::DeleteRange(delete) => TxnOpAnswer::DeleteRange(run.delete_range(delete)?),
        Write::Txn(txn) => {
            let path = choose(view, txn)?;
            check_path(view, txn, &path, context)?;
            TxnOpAnswer::Txn(run.txn(txn, &path)?)
        }
    };
    Ok(Outcome { ops: run.ops, rows: run.rows, answer })
}

/// Evaluates a transaction that has no write in it.
///
/// # Errors
/// Those of [`Error`] that depend on state.
pub(crate) fn evaluate_read_only(view: &impl View, txn: Txn, compacted: i64) -> Result<TxnAnswer> {
    let context = Context { compacted, lease_exists: &|_| false };
    let outcome = evaluate(view, &Write::Txn(txn), &context)?;
    assert!(outcome.ops.is_empty(), "a read-only transaction wrote");
    let TxnOpAnswer::Txn(answer) = outcome.answer else { unreachable!("a transaction answers as one") };
    Ok(answer)
}

/// Which branch runs, here and in the nested transactions of that branch.
struct Path {
    succeeded: bool,
    /// One for each nested transaction of the chosen branch, in order.
    nested: Vec<Path>,
}

fn branch(txn: &Txn, succeeded: bool) -> &[TxnOp] {
    if succeeded { &txn.success } else { &txn.failure }
}

fn choose(view: &impl View, txn: &Txn) -> Result<Path> {
    let mut succeeded = true;
    for compare in &txn.compare {
        if !holds(view, compare)? {
            succeeded = false;
            break;
        }
    }
    let nested = branch(txn, succeeded).iter().filter_map(|op| match op {
        TxnOp::Txn(nested) => Some(choose(view, nested)),
        _ => None,
    });
    Ok(Path { succeeded, nested: nested.collect::<Result<_>>()? })
}

fn holds(view: &impl View, compare: &Compare) -> Result<bool> {
    let mut rows = Vec::new();
    if compare.range_end.is_empty() {
        rows.extend(view.get(&compare.key, view.revision())?);
    } else {
        let keys = key_range(&compare.key, &compare.range_end);
        view.rows(&keys, view.revision(), usize::MAX, &mut rows)?;
    }
    if rows.is_empty() {
        // An absent key has no value to compare; its numbers are 0.
        return Ok(match &compare.target {
            CompareTarget::Value(_) => false,
            target => relation_holds(compare.result, number_of(None, target)),
        });
    }
    for row in &rows {
        let ordering = match &compare.target {
            CompareTarget::Value(want) => view.load(&row.value)?.cmp(want),
            target => number_of(Some(row), target),
        };
        if !relation_holds(compare.result, ordering) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// How the number that `target` speaks of compares with what it wants.
fn number_of(row: Option<&Row>, target: &CompareTarget) -> Ordering {
    let (stored, want) = match target {
        CompareTarget::Version(want) => (row.map(|row| row.version), want),
        CompareTarget::Create(want) => (row.map(|row| row.create), want),
        CompareTarget::Mod(want) => (row.map(|row| row.modified), want),
        CompareTarget::Lease(want) => (row.map(|row| row.lease), want),
        CompareTarget::Value(_) | CompareTarget::Unknown => return Ordering::Equal,
    };
    stored.unwrap_or(0).cmp(want)
}

fn relation_holds(relation: CompareResult, ordering: Ordering) -> bool {
    match relation {
        CompareResult::Equal => ordering.is_eq(),
        CompareResult::NotEqual => ordering.is_ne(),
        CompareResult::Greater => ordering.is_gt(),
        CompareResult::Less => ordering.is_lt(),
        CompareResult::Unknown => true,
    }
}

/// Refuses, before anything is written, what cannot be done along the chosen path.
fn check_path(view: &impl View, txn: &Txn, path: &Path, context: &Context<'_>) -> Result<()> {
    let mut nested = path.nested.iter();
    for op in branch(txn, path.succeeded) {
        match op {
            TxnOp::Range(range) => {
                if range.revision > view.revision() {
                    return Err(Error::FutureRevision);
                }
                // Any revision but 0 is compared as it is, so −1 is refused once there was a compaction.
                if range.revision != 0 && range.revision < context.compacted {
                    return Err(Error::Compacted);
                }
            }
            TxnOp::Put(put) => {
                if (put.ignore_value || put.ignore_lease) && view.get(&put.key, view.revision())?.is_none() {
                    return Err(Error::KeyNotFound);
                }
                if put.lease != 0 && !(context.lease_exists)(put.lease) {
                    return Err(Error::LeaseNotFound);
                }
            }
            TxnOp::DeleteRange(_) => {}
            TxnOp::Txn(inner) => {
                let path = nested.next().expect("a path for each nested transaction");
                check_path(view, inner, path, context)?;
            }
        }
    }
    Ok(())
}

/// A transaction that runs.
struct Run<'a, V> {
    view: &'a V,
    context: &'a Context<'a>,
    /// Its own writes so far.
    own: Overlay,
    ops: Vec<Op>,
    rows: Vec<Option<Row>>,
}

impl<V: View> Run<'_, V> {
    /// The revision of its writes.
    fn own_revision(&self) -> i64 {
        self.view.revision() + 1
    }

    /// The revision that an operation's header shows now.
    fn revision(&self) -> i64 {
        self.view.revision() + i64::from(!self.ops.is_empty())
    }

    fn get(&self, key: &[u8]) -> Result<Option<Row>> {
        Layered::new(self.view, &self.own, self.revision()).get(key, self.revision())
    }

    fn record(&mut self, op: Op, row: Option<Row>) {
        self.own.put(&op.key, self.own_revision(), row.clone());
        self.ops.push(op);
        self.rows.push(row);
    }

    fn put(&mut self, put: &Put) -> Result<PutAnswer> {
        let previous = self.get(&put.key)?;
        if (put.ignore_value || put.ignore_lease) && previous.is_none() {
            return Err(Error::KeyNotFound);
        }
        let old_lease = previous.as_ref().map_or(0, |row| row.lease);
        let lease = if put.ignore_lease { old_lease } else { put.lease };
        if put.lease != 0 && !(self.context.lease_exists)(put.lease) {
            return Err(Error::LeaseNotFound);
        }
        let mut answer = PutAnswer::default();
        if let Some(row) = previous.as_ref().filter(|_| put.prev_kv) {
            answer.prev_kv = Some(self.view.pair(row)?);
        }
        let value = match &previous {
            Some(row) if put.ignore_value => self.view.load(&row.value)?,
            _ => put.value.clone(),
        };
        let modified = self.own_revision();
        let (create, version) = previous.map_or((modified, 1), |row| (row.create, row.version + 1));
        let row = Row {
            key: put.key.clone(),
            create,
            modified,
            version,
            lease,
            value: RowValue::Memory(value.clone()),
        };
        let change = Change::Put {
            create: (create != modified || version != 1).then_some(create),
            version,
            lease,
            value_crc: crc32fast::hash(&value),
            value,
            value_at: 0,
        };
        self.record(Op { key: put.key.clone(), old_lease, change }, Some(row));
        Ok(answer)
    }

    fn delete_range(&mut self, delete: &DeleteRange) -> Result<DeleteRangeAnswer> {
        let keys: KeyRange = key_range(&delete.key, &delete.range_end);
        let mut rows = Vec::new();
        let now = self.revision();
        if delete.range_end.is_empty() {
            rows.extend(self.get(&delete.key)?);
        } else {
            Layered::new(self.view, &self.own, now).rows(&keys, now, usize::MAX, &mut rows)?;
        }
        let mut answer = DeleteRangeAnswer { deleted: rows.len() as i64, prev_kvs: Vec::new() };
        for row in rows {
            if delete.prev_kv {
                answer.prev_kvs.push(self.view.pair(&row)?);
            }
            self.record(Op { key: row.key, old_lease: row.lease, change: Change::Delete }, None);
        }
        Ok(answer)
    }

    fn txn(&mut self, txn: &Txn, path: &Path) -> Result<TxnAnswer> {
        let mut answer = TxnAnswer { succeeded: path.succeeded, ..TxnAnswer::default() };
        let mut nested = path.nested.iter();
        for op in branch(txn, path.succeeded) {
            let one = match op {
                TxnOp::Range(request) => {
                    let layered = Layered::new(self.view, &self.own, self.revision());
                    TxnOpAnswer::Range(range(&layered, request, self.context.compacted)?)
                }
                TxnOp::Put(put) => TxnOpAnswer::Put(self.put(put)?),
                TxnOp::DeleteRange(delete) => TxnOpAnswer::DeleteRange(self.delete_range(delete)?),
                TxnOp::Txn(inner) => {
                    let path = nested.next().expect("a path for each nested transaction");
                    TxnOpAnswer::Txn(self.txn(inner, path)?)
                }
            };
            answer.answers.push(one);
            answer.revisions.push(self.revision());
        }
        Ok(answer)
    }
}
