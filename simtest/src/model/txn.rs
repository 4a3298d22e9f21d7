//! Transactions: what is refused of them, which way they go, and what they do.
//!
//! In this order: the request's form; keys written twice; every compare, also of transactions inside, against the
//! state before; what the chosen operations need; then the operations, each seeing those before it.

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::model::draft::Draft;
use crate::model::{check_put, range, refuse};
use crate::op::{Compare, Delete, KeyValue, OpAnswer, Operand, Refusal, Txn, TxnAnswer, TxnOp};

/// Most compares, and most operations of a branch; what is inside shares with what is around it.
pub const OPERATIONS_MAX: usize = 128;

/// Answers `txn`, writing to `draft`.
pub(crate) fn run(draft: &mut Draft<'_>, txn: &Txn) -> Result<TxnAnswer, Refusal> {
    check(txn, OPERATIONS_MAX)?;
    check_intervals(&txn.success)?;
    check_intervals(&txn.failure)?;
    let way = choose(draft, txn);
    admit(draft, &way)?;
    let mut answer = execute(draft, &way)?;
    answer.revision = draft.revision();
    Ok(answer)
}

/// What is refused of a transaction by its form alone. `budget` is how many operations it may have.
fn check(txn: &Txn, budget: usize) -> Result<(), Refusal> {
    let most = txn.compare.len().max(txn.success.len()).max(txn.failure.len());
    let Some(left) = budget.checked_sub(most) else { return Err(refuse::too_many_operations()) };
    if txn.compare.iter().any(|compare| compare.key.is_empty()) {
        return Err(refuse::empty_key());
    }
    for operation in txn.success.iter().chain(&txn.failure) {
        match operation {
            TxnOp::Range(range) => range::check(range)?,
            TxnOp::Put(put) => check_put(put)?,
            TxnOp::Delete(delete) if delete.key.is_empty() => return Err(refuse::empty_key()),
            TxnOp::Delete(_) => {}
            TxnOp::Txn(inner) => check(inner, left)?,
            TxnOp::Nothing => return Err(refuse::key_not_found()),
        }
    }
    Ok(())
}

/// Refuses a branch that puts a key twice, or puts one that it deletes at the same level or above. Both branches
/// of a transaction inside may put a key, as only one is done. Gives the keys put and the intervals deleted.
fn check_intervals(operations: &[TxnOp]) -> Result<(BTreeSet<Bytes>, Vec<Delete>), Refusal> {
    let mut deletes: Vec<Delete> = operations
        .iter()
        .filter_map(|operation| match operation {
            TxnOp::Delete(delete) => Some(delete.clone()),
            _ => None,
        })
        .collect();
    let mut puts = BTreeSet::new();
    let deleted = |deletes: &[Delete], key: &Bytes| {
        // The check does not know that a zero byte means all keys from there on.
        let covers = |delete: &Delete| match &delete.range_end[..] {
            [0] => false,
            _ => range::contains(&delete.key, &delete.range_end, key),
        };
        deletes.iter().any(covers)
    };
    for operation in operations {
        let TxnOp::Txn(inner) = operation else { continue };
        let (puts_then, deletes_then) = check_intervals(&inner.success)?;
        let (puts_else, deletes_else) = check_intervals(&inner.failure)?;
        let inside: BTreeSet<Bytes> = puts_then.union(&puts_else).cloned().collect();
        if inside.iter().any(|key| puts.contains(key) || deleted(&deletes, key)) {
            return Err(refuse::duplicate_key());
        }
        puts.extend(inside);
        deletes.extend(deletes_then);
        deletes.extend(deletes_else);
    }
    for operation in operations {
        let TxnOp::Put(put) = operation else { continue };
        if puts.contains(&put.key) || deleted(&deletes, &put.key) {
            return Err(refuse::duplicate_key());
        }
        puts.insert(put.key.clone());
    }
    Ok((puts, deletes))
}

/// The branch that a transaction takes, with the branches of those inside it.
struct Way<'a> {
    succeeded: bool,
    operations: Vec<Step<'a>>,
}

enum Step<'a> {
    Do(&'a TxnOp),
    Inner(Way<'a>),
}

fn choose<'a>(draft: &Draft<'_>, txn: &'a Txn) -> Way<'a> {
    let succeeded = txn.compare.iter().all(|compare| holds(draft, compare));
    let branch = if succeeded { &txn.success } else { &txn.failure };
    let step = |operation: &'a TxnOp| match operation {
        TxnOp::Txn(inner) => Step::Inner(choose(draft, inner)),
        other => Step::Do(other),
    };
    Way { succeeded, operations: branch.iter().map(step).collect() }
}

/// Whether every key of the range satisfies the compare. No key at all is compared as one of zeros, but has no
/// value that could be compared.
fn holds(draft: &Draft<'_>, compare: &Compare) -> bool {
    let pairs = draft.pairs(&compare.key, &compare.range_end, draft.revision());
    if pairs.is_empty() {
        return compare.target != VALUE && satisfies(compare, &KeyValue::default());
    }
    pairs.iter().all(|pair| satisfies(compare, pair))
}

const VERSION: i32 = 0;
const CREATE: i32 = 1;
const MOD: i32 = 2;
const VALUE: i32 = 3;
const LEASE: i32 = 4;

fn satisfies(compare: &Compare, pair: &KeyValue) -> bool {
    let operand = compare.operand.as_ref();
    let order = match compare.target {
        VERSION => pair.version.cmp(&match operand {
            Some(Operand::Version(version)) => *version,
            _ => 0,
        }),
        CREATE => pair.create_revision.cmp(&match operand {
            Some(Operand::CreateRevision(revision)) => *revision,
            _ => 0,
        }),
        MOD => pair.mod_revision.cmp(&match operand {
            Some(Operand::ModRevision(revision)) => *revision,
            _ => 0,
        }),
        VALUE => pair.value[..].cmp(match operand {
            Some(Operand::Value(value)) => value,
            _ => &[],
        }),
        LEASE => pair.lease.cmp(&match operand {
            Some(Operand::Lease(lease)) => *lease,
            _ => 0,
        }),
        // A target that there is not compares as equal.
        _ => std::cmp::Ordering::Equal,
    };
    match compare.result {
        0 => order.is_eq(),
        1 => order.is_gt(),
        2 => order.is_lt(),
        3 => order.is_ne(),
        _ => true,
    }
}

/// Refuses what the state before does not allow, in the order of the operations.
fn admit(draft: &Draft<'_>, way: &Way<'_>) -> Result<(), Refusal> {
    for step in &way.operations {
        match step {
            Step::Do(TxnOp::Range(range)) => draft.admit_range(range)?,
            Step::Do(TxnOp::Put(put)) => draft.admit_put(put)?,
            Step::Do(_) => {}
            Step::Inner(inner) => admit(draft, inner)?,
        }
    }
    Ok(())
}

fn execute(draft: &mut Draft<'_>, way: &Way<'_>) -> Result<TxnAnswer, Refusal> {
    let mut responses = Vec::with_capacity(way.operations.len());
    for step in &way.operations {
        responses.push(match step {
            Step::Do(TxnOp::Range(range)) => OpAnswer::Range(draft.range(range)?),
            Step::Do(TxnOp::Put(put)) => OpAnswer::Put(draft.put(put)),
            Step::Do(TxnOp::Delete(delete)) => OpAnswer::Delete(draft.delete(delete)),
            Step::Do(TxnOp::Txn(_) | TxnOp::Nothing) => OpAnswer::Nothing,
            Step::Inner(inner) => OpAnswer::Txn(execute(draft, inner)?),
        });
    }
    Ok(TxnAnswer { revision: 0, succeeded: way.succeeded, responses })
}
