//! Protobuf ↔ typed, field by field. Keys and values are moved, not copied.

use bytes::Bytes;
use raft::request::{
    At, Compare, CompareResult, CompareTarget, DeleteRange, DeleteRangeAnswer, KeyValue, Member, Put,
    PutAnswer, Range, RangeAnswer, SortOrder, SortTarget, Txn, TxnAnswer, TxnOp, TxnOpAnswer,
};

use crate::error::Refusal;
use crate::pb::etcdserverpb::{self as pb, compare, range_request, request_op, response_op};
use crate::pb::mvccpb;

/// # Errors
/// [`Refusal::InvalidSortOption`].
pub(super) fn range(request: pb::RangeRequest) -> Result<Range, Refusal> {
    let sort_order = match range_request::SortOrder::try_from(request.sort_order) {
        Ok(range_request::SortOrder::None) => SortOrder::None,
        Ok(range_request::SortOrder::Ascend) => SortOrder::Ascend,
        Ok(range_request::SortOrder::Descend) => SortOrder::Descend,
        Err(_) => return Err(Refusal::InvalidSortOption),
    };
    let sort_target = match range_request::SortTarget::try_from(request.sort_target) {
        Ok(range_request::SortTarget::Key) => SortTarget::Key,
        Ok(range_request::SortTarget::Version) => SortTarget::Version,
        Ok(range_request::SortTarget::Create) => SortTarget::Create,
        Ok(range_request::SortTarget::Mod) => SortTarget::Mod,
        Ok(range_request::SortTarget::Value) => SortTarget::Value,
        Err(_) => return Err(Refusal::InvalidSortOption),
    };
    Ok(Range {
        key: request.key,
        range_end: request.range_end,
        limit: request.limit,
        revision: request.revision,
        sort_order,
        sort_target,
        serializable: request.serializable,
        keys_only: request.keys_only,
        count_only: request.count_only,
        min_mod_revision: request.min_mod_revision,
        max_mod_revision: request.max_mod_revision,
        min_create_revision: request.min_create_revision,
        max_create_revision: request.max_create_revision,
    })
}

pub(super) fn put(request: pb::PutRequest) -> Put {
    let pb::PutRequest { key, value, lease, prev_kv, ignore_value, ignore_lease } = request;
    Put { key, value, lease, prev_kv, ignore_value, ignore_lease }
}

pub(super) fn delete_range(request: pb::DeleteRangeRequest) -> DeleteRange {
    let pb::DeleteRangeRequest { key, range_end, prev_kv } = request;
    DeleteRange { key, range_end, prev_kv }
}

/// # Errors
/// [`Refusal::InvalidSortOption`], [`Refusal::EmptyOperation`].
pub(super) fn txn(request: pb::TxnRequest) -> Result<Txn, Refusal> {
    let operations =
        |list: Vec<pb::RequestOp>| list.into_iter().map(operation).collect::<Result<Vec<_>, _>>();
    Ok(Txn {
        compare: request.compare.into_iter().map(condition).collect(),
        success: operations(request.success)?,
        failure: operations(request.failure)?,
    })
}

fn operation(operation: pb::RequestOp) -> Result<TxnOp, Refusal> {
    match operation.request {
        Some(request_op::Request::RequestRange(request)) => range(request).map(TxnOp::Range),
        Some(request_op::Request::RequestPut(request)) => Ok(TxnOp::Put(put(request))),
        Some(request_op::Request::RequestDeleteRange(request)) => {
            Ok(TxnOp::DeleteRange(delete_range(request)))
        }
        Some(request_op::Request::RequestTxn(request)) => txn(request).map(TxnOp::Txn),
        None => Err(Refusal::EmptyOperation),
    }
}

/// What the union holds counts only if it is of the target's kind; else it is 0 or empty, as in etcd.
fn condition(condition: pb::Compare) -> Compare {
    use compare::{CompareTarget as Target, TargetUnion as Union};
    let pb::Compare { result, target, key, range_end, target_union } = condition;
    let target = match (Target::try_from(target), target_union) {
        (Ok(Target::Version), Some(Union::Version(n))) => CompareTarget::Version(n),
        (Ok(Target::Version), _) => CompareTarget::Version(0),
        (Ok(Target::Create), Some(Union::CreateRevision(n))) => CompareTarget::Create(n),
        (Ok(Target::Create), _) => CompareTarget::Create(0),
        (Ok(Target::Mod), Some(Union::ModRevision(n))) => CompareTarget::Mod(n),
        (Ok(Target::Mod), _) => CompareTarget::Mod(0),
        (Ok(Target::Value), Some(Union::Value(value))) => CompareTarget::Value(value),
        (Ok(Target::Value), _) => CompareTarget::Value(Bytes::new()),
        (Ok(Target::Lease), Some(Union::Lease(n))) => CompareTarget::Lease(n),
        (Ok(Target::Lease), _) => CompareTarget::Lease(0),
        (Err(_), _) => CompareTarget::Unknown,
    };
    let result = match compare::CompareResult::try_from(result) {
        Ok(compare::CompareResult::Equal) => CompareResult::Equal,
        Ok(compare::CompareResult::Greater) => CompareResult::Greater,
        Ok(compare::CompareResult::Less) => CompareResult::Less,
        Ok(compare::CompareResult::NotEqual) => CompareResult::NotEqual,
        Err(_) => CompareResult::Unknown,
    };
    Compare { key, range_end, result, target }
}

pub(super) fn pair(pair: KeyValue) -> mvccpb::KeyValue {
    let KeyValue { key, create_revision, mod_revision, version, value, lease } = pair;
    mvccpb::KeyValue { key, create_revision, mod_revision, version, value, lease }
}

pub(super) fn pairs(pairs: Vec<KeyValue>) -> Vec<mvccpb::KeyValue> {
    pairs.into_iter().map(pair).collect()
}

type Header = Option<pb::ResponseHeader>;

pub(super) fn range_answer(header: Header, answer: RangeAnswer) -> pb::RangeResponse {
    pb::RangeResponse { header, kvs: pairs(answer.kvs), more: answer.more, count: answer.count }
}

pub(super) fn put_answer(header: Header, answer: PutAnswer) -> pb::PutResponse {
    pb::PutResponse { header, prev_kv: answer.prev_kv.map(pair) }
}

pub(super) fn delete_range_answer(header: Header, answer: DeleteRangeAnswer) -> pb::DeleteRangeResponse {
    pb::DeleteRangeResponse { header, deleted: answer.deleted, prev_kvs: pairs(answer.prev_kvs) }
}

/// Answers of operations have a header with nothing but a revision; that of a nested transaction is empty.
pub(super) fn txn_answer(header: Header, answer: TxnAnswer) -> pb::TxnResponse {
    let TxnAnswer { succeeded, answers, revisions } = answer;
    let operation = |(answer, revision)| {
        let header = Some(pb::ResponseHeader { revision, ..pb::ResponseHeader::default() });
        let response = match answer {
            TxnOpAnswer::Range(answer) => response_op::Response::ResponseRange(range_answer(header, answer)),
            TxnOpAnswer::Put(answer) => response_op::Response::ResponsePut(put_answer(header, answer)),
            TxnOpAnswer::DeleteRange(answer) => {
                response_op::Response::ResponseDeleteRange(delete_range_answer(header, answer))
            }
            TxnOpAnswer::Txn(answer) => {
                response_op::Response::ResponseTxn(txn_answer(Some(pb::ResponseHeader::default()), answer))
            }
        };
        pb::ResponseOp { response: Some(response) }
    };
    pb::TxnResponse {
        header,
        succeeded,
        responses: answers.into_iter().zip(revisions).map(operation).collect(),
    }
}

pub(super) fn member(member: Member) -> pb::Member {
    let Member { id, name, peer_urls, client_urls, is_learner } = member;
    pb::Member { id, name, peer_ur_ls: peer_urls, client_ur_ls: client_urls, is_learner }
}

/// A chunk of a streamed range; the last has what the others have not.
pub(super) fn chunk(
    kvs: Vec<KeyValue>,
    last: Option<At<(bool, i64)>>,
    header: impl FnOnce(i64) -> Header,
) -> pb::RangeStreamResponse {
    let mut response = pb::RangeResponse { kvs: pairs(kvs), ..pb::RangeResponse::default() };
    if let Some(At { revision, answer: (more, count) }) = last {
        response.header = header(revision);
        response.more = more;
        response.count = count;
    }
    pb::RangeStreamResponse { range_response: Some(response) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_no_enum_has_are_refused_or_kept_as_etcd_does() {
        for (sort_order, sort_target, well, why) in [
            (0, 0, true, "the default"),
            (2, 4, true, "the largest of each"),
            (3, 0, false, "no such order"),
            (0, 5, false, "no such target"),
            (-1, 0, false, "below zero"),
        ] {
            let request = pb::RangeRequest { sort_order, sort_target, ..pb::RangeRequest::default() };
            assert_eq!(range(request).is_ok(), well, "{sort_order} {sort_target}: {why}");
        }
        let unknown = pb::Compare { result: 9, target: 9, ..pb::Compare::default() };
        assert_eq!(condition(unknown.clone()).result, CompareResult::Unknown);
        assert_eq!(condition(unknown).target, CompareTarget::Unknown);
    }

    #[test]
    fn the_union_counts_only_if_it_is_of_the_targets_kind() {
        use compare::TargetUnion as Union;
        for (target, union, want, why) in [
            (0, Some(Union::Version(3)), CompareTarget::Version(3), "its own kind"),
            (0, Some(Union::ModRevision(3)), CompareTarget::Version(0), "another kind"),
            (3, None, CompareTarget::Value(Bytes::new()), "none"),
            (4, Some(Union::Lease(-1)), CompareTarget::Lease(-1), "below zero"),
        ] {
            let given = pb::Compare { target, target_union: union, ..pb::Compare::default() };
            assert_eq!(condition(given).target, want, "{why}");
        }
    }

    #[test]
    fn an_operation_without_a_kind_is_refused_at_any_depth() {
        let empty = pb::TxnRequest { success: vec![pb::RequestOp { request: None }], ..Default::default() };
        let nested = pb::RequestOp { request: Some(request_op::Request::RequestTxn(empty.clone())) };
        let outer = pb::TxnRequest { failure: vec![nested], ..Default::default() };
        assert_eq!(txn(empty), Err(Refusal::EmptyOperation));
        assert_eq!(txn(outer), Err(Refusal::EmptyOperation));
    }

    #[test]
    fn only_the_outer_header_says_who_answered() {
        let nested = TxnAnswer { succeeded: true, ..TxnAnswer::default() };
        let answer = TxnAnswer {
            succeeded: true,
            answers: vec![TxnOpAnswer::Put(PutAnswer::default()), TxnOpAnswer::Txn(nested)],
            revisions: vec![7, 7],
        };
        let outer = pb::ResponseHeader { cluster_id: 1, member_id: 2, revision: 7, raft_term: 3 };
        let got = txn_answer(Some(outer), answer);
        let headers = [0, 1].map(|n: usize| match &got.responses[n].response {
            Some(response_op::Response::ResponsePut(put)) => put.header,
            Some(response_op::Response::ResponseTxn(txn)) => txn.header,
            other => panic!("unexpected {other:?}"),
        });
        let only_revision = pb::ResponseHeader { revision: 7, ..Default::default() };
        assert_eq!(headers, [Some(only_revision), Some(pb::ResponseHeader::default())]);
        assert_eq!(got.header, Some(outer));
    }

    #[test]
    fn only_the_last_chunk_has_a_header() {
        let header = |revision| Some(pb::ResponseHeader { revision, ..Default::default() });
        let first = chunk(vec![KeyValue::default()], None, header).range_response.expect("always there");
        assert_eq!((first.header, first.more, first.count, first.kvs.len()), (None, false, 0, 1));
        let last = At { revision: 9, answer: (true, 5) };
        let last = chunk(Vec::new(), Some(last), header).range_response.expect("always there");
        assert_eq!((last.header.map(|header| header.revision), last.more, last.count), (Some(9), true, 5));
    }
}
