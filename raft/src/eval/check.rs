//! What is wrong with a request whatever the state: etcd's checks at its API.

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::request::{DeleteRange, Put, Range, Txn, TxnOp};

/// # Errors
/// [`Error::EmptyKey`].
pub(crate) fn check_range(range: &Range) -> Result<()> {
    if range.key.is_empty() { Err(Error::EmptyKey) } else { Ok(()) }
}

/// # Errors
/// [`Error::EmptyKey`], [`Error::ValueProvided`], [`Error::LeaseProvided`].
pub(crate) fn check_put(put: &Put) -> Result<()> {
    if put.key.is_empty() {
        return Err(Error::EmptyKey);
    }
    if put.ignore_value && !put.value.is_empty() {
        return Err(Error::ValueProvided);
    }
    if put.ignore_lease && put.lease != 0 {
        return Err(Error::LeaseProvided);
    }
    Ok(())
}

/// # Errors
/// [`Error::EmptyKey`].
pub(crate) fn check_delete_range(delete: &DeleteRange) -> Result<()> {
    if delete.key.is_empty() { Err(Error::EmptyKey) } else { Ok(()) }
}

/// Checks a transaction and all in it; `ops_max` is the budget of its lists, from which nested ones live.
///
/// # Errors
/// [`Error::TooManyOps`], [`Error::DuplicateKey`] and those of its operations.
pub(crate) fn check_txn(txn: &Txn, ops_max: usize) -> Result<()> {
    check_ops(txn, ops_max)?;
    writes_of(&txn.success)?;
    writes_of(&txn.failure)?;
    Ok(())
}

fn check_ops(txn: &Txn, ops_max: usize) -> Result<()> {
    let longest = txn.compare.len().max(txn.success.len()).max(txn.failure.len());
    if longest > ops_max {
        return Err(Error::TooManyOps);
    }
    if txn.compare.iter().any(|compare| compare.key.is_empty()) {
        return Err(Error::EmptyKey);
    }
    for op in txn.success.iter().chain(&txn.failure) {
        match op {
            TxnOp::Range(range) => check_range(range)?,
            TxnOp::Put(put) => check_put(put)?,
            TxnOp::DeleteRange(delete) => check_delete_range(delete)?,
            TxnOp::Txn(nested) => check_ops(nested, ops_max - longest)?,
        }
    }
    Ok(())
}

/// The keys put and the intervals deleted by a branch, nested ones included.
#[derive(Default)]
struct Writes<'a> {
    puts: BTreeSet<&'a Bytes>,
    deletes: Vec<(&'a Bytes, &'a Bytes)>,
}

impl Writes<'_> {
    fn deletes_key(&self, key: &Bytes) -> bool {
        // A delete from a key on (end `\0`) escapes this check in etcd, and so here; its effect is defined.
        self.deletes
            .iter()
            .any(|(start, end)| if end.is_empty() { key == *start } else { key >= *start && key < *end })
    }
}

/// # Errors
/// [`Error::DuplicateKey`] if one branch puts a key twice, or puts a key that it deletes.
fn writes_of(ops: &[TxnOp]) -> Result<Writes<'_>> {
    let mut writes = Writes::default();
    for op in ops {
        if let TxnOp::DeleteRange(delete) = op {
            writes.deletes.push((&delete.key, &delete.range_end));
        }
    }
    for op in ops {
        let TxnOp::Txn(nested) = op else { continue };
        let (success, failure) = (writes_of(&nested.success)?, writes_of(&nested.failure)?);
        // Only one of the two branches runs: what both put is put once.
        let nested_puts: BTreeSet<&Bytes> = success.puts.union(&failure.puts).copied().collect();
        for key in nested_puts {
            if writes.deletes_key(key) || !writes.puts.insert(key) {
                return Err(Error::DuplicateKey);
            }
        }
        writes.deletes.extend(success.deletes);
        writes.deletes.extend(failure.deletes);
    }
    for op in ops {
        if let TxnOp::Put(put) = op
            && (writes.deletes_key(&put.key) || !writes.puts.insert(&put.key))
        {
            return Err(Error::DuplicateKey);
        }
    }
    Ok(writes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &'static str) -> TxnOp {
        TxnOp::Put(Put { key: Bytes::from(key), ..Put::default() })
    }

    fn delete(key: &'static str, end: &'static str) -> TxnOp {
        TxnOp::DeleteRange(DeleteRange { key: Bytes::from(key), range_end: Bytes::from(end), prev_kv: false })
    }

    fn nested(success: Vec<TxnOp>, failure: Vec<TxnOp>) -> TxnOp {
        TxnOp::Txn(Txn { compare: Vec::new(), success, failure })
    }

    #[test]
    fn a_branch_writes_each_key_once() {
        for (ops, want, why) in [
            (vec![put("a"), put("b")], Ok(()), "different keys"),
            (vec![put("a"), put("a")], Err(Error::DuplicateKey), "one key twice"),
            (vec![delete("a", ""), put("a")], Err(Error::DuplicateKey), "a key deleted and put"),
            (vec![delete("a", "c"), put("b")], Err(Error::DuplicateKey), "a key inside a deleted range"),
            (vec![delete("a", "b"), put("b")], Ok(()), "the end of a range is not in it"),
            (vec![delete("a", "c"), delete("b", "d")], Ok(()), "deletes may overlap"),
            (vec![delete("a", "\0"), put("b")], Ok(()), "a delete from a key on is not seen"),
            (vec![nested(vec![put("a")], vec![put("a")])], Ok(()), "only one branch runs"),
            (vec![nested(vec![put("a")], vec![]), put("a")], Err(Error::DuplicateKey), "above and below"),
            (
                vec![delete("a", ""), nested(vec![put("a")], vec![])],
                Err(Error::DuplicateKey),
                "deleted above",
            ),
            (
                vec![nested(vec![delete("a", "")], vec![]), put("a")],
                Err(Error::DuplicateKey),
                "deleted below",
            ),
            (
                vec![nested(vec![put("a")], vec![]), nested(vec![], vec![put("a")])],
                Err(Error::DuplicateKey),
                "two nested transactions may both run",
            ),
        ] {
            let txn = Txn { compare: Vec::new(), success: ops.clone(), failure: Vec::new() };
            assert_eq!(check_txn(&txn, 128), want, "success: {why}");
            let txn = Txn { compare: Vec::new(), success: Vec::new(), failure: ops };
            assert_eq!(check_txn(&txn, 128), want, "failure: {why}");
        }
    }

    #[test]
    fn nested_transactions_live_from_what_their_parent_leaves() {
        let ops = |n: usize| vec![delete("a", ""); n];
        for (outer, inner, want, why) in [
            (128, 0, Ok(()), "the whole budget"),
            (129, 0, Err(Error::TooManyOps), "one more"),
            (0, 127, Ok(()), "1 + 127"),
            (0, 128, Err(Error::TooManyOps), "1 + 128"),
        ] {
            let mut success = ops(outer);
            if inner > 0 {
                success.push(nested(ops(inner), Vec::new()));
            }
            let txn = Txn { compare: Vec::new(), success, failure: Vec::new() };
            assert_eq!(check_txn(&txn, 128), want, "{why}");
        }
    }
}
