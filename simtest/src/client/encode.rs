//! Plain data to protobuf.

use server::pb::etcdserverpb as pb;

use crate::op::{Compare, Delete, Operand, Put, Range, Txn, TxnOp, WatchCreate, WatchRequest};

pub(super) fn range(range: &Range) -> pb::RangeRequest {
    pb::RangeRequest {
        key: range.key.clone(),
        range_end: range.range_end.clone(),
        limit: range.limit,
        revision: range.revision,
        sort_order: range.sort_order,
        sort_target: range.sort_target,
        serializable: range.serializable,
        keys_only: range.keys_only,
        count_only: range.count_only,
        min_mod_revision: range.min_mod_revision,
        max_mod_revision: range.max_mod_revision,
        min_create_revision: range.min_create_revision,
        max_create_revision: range.max_create_revision,
    }
}

pub(super) fn put(put: &Put) -> pb::PutRequest {
    pb::PutRequest {
        key: put.key.clone(),
        value: put.value.clone(),
        lease: put.lease,
        prev_kv: put.prev_kv,
        ignore_value: put.ignore_value,
        ignore_lease: put.ignore_lease,
    }
}

pub(super) fn delete(delete: &Delete) -> pb::DeleteRangeRequest {
    pb::DeleteRangeRequest {
        key: delete.key.clone(),
        range_end: delete.range_end.clone(),
        prev_kv: delete.prev_kv,
    }
}

pub(super) fn txn(txn: &Txn) -> pb::TxnRequest {
    pb::TxnRequest {
        compare: txn.compare.iter().map(compare).collect(),
        success: txn.success.iter().map(operation).collect(),
        failure: txn.failure.iter().map(operation).collect(),
    }
}

fn compare(compare: &Compare) -> pb::Compare {
    use pb::compare::TargetUnion;
    pb::Compare {
        result: compare.result,
        target: compare.target,
        key: compare.key.clone(),
        range_end: compare.range_end.clone(),
        target_union: compare.operand.as_ref().map(|operand| match operand {
            Operand::Version(version) => TargetUnion::Version(*version),
            Operand::CreateRevision(revision) => TargetUnion::CreateRevision(*revision),
            Operand::ModRevision(revision) => TargetUnion::ModRevision(*revision),
            Operand::Value(value) => TargetUnion::Value(value.clone()),
            Operand::Lease(lease) => TargetUnion::Lease(*lease),
        }),
    }
}

fn operation(operation: &TxnOp) -> pb::RequestOp {
    use pb::request_op::Request;
    let request = match operation {
        TxnOp::Range(inner) => Some(Request::RequestRange(range(inner))),
        TxnOp::Put(inner) => Some(Request::RequestPut(put(inner))),
        TxnOp::Delete(inner) => Some(Request::RequestDeleteRange(delete(inner))),
        TxnOp::Txn(inner) => Some(Request::RequestTxn(txn(inner))),
        TxnOp::Nothing => None,
    };
    pb::RequestOp { request }
}

pub(super) fn watch(request: &WatchRequest) -> pb::WatchRequest {
    use pb::watch_request::RequestUnion;
    let request = match request {
        WatchRequest::Create(create) => RequestUnion::CreateRequest(watch_create(create)),
        WatchRequest::Cancel { watch_id } => {
            RequestUnion::CancelRequest(pb::WatchCancelRequest { watch_id: *watch_id })
        }
        WatchRequest::Progress => RequestUnion::ProgressRequest(pb::WatchProgressRequest {}),
    };
    pb::WatchRequest { request_union: Some(request) }
}

fn watch_create(create: &WatchCreate) -> pb::WatchCreateRequest {
    use pb::watch_create_request::FilterType;
    let filters = [(create.no_put, FilterType::Noput), (create.no_delete, FilterType::Nodelete)];
    pb::WatchCreateRequest {
        key: create.key.clone(),
        range_end: create.range_end.clone(),
        start_revision: create.start_revision,
        progress_notify: create.progress_notify,
        filters: filters.into_iter().filter(|(wanted, _)| *wanted).map(|(_, kind)| kind as i32).collect(),
        prev_kv: create.prev_kv,
        watch_id: create.watch_id,
        fragment: create.fragment,
    }
}
