//! Protobuf to plain data.

use server::pb::etcdserverpb as pb;
use server::pb::mvccpb;

use crate::op::{DeleteAnswer, Event, KeyValue, OpAnswer, PutAnswer, RangeAnswer, TxnAnswer, WatchMessage};

/// The header's revision; 0 without a header.
pub(super) fn revision(header: Option<pb::ResponseHeader>) -> i64 {
    header.map_or(0, |header| header.revision)
}

fn pair(pair: mvccpb::KeyValue) -> KeyValue {
    KeyValue {
        key: pair.key,
        create_revision: pair.create_revision,
        mod_revision: pair.mod_revision,
        version: pair.version,
        value: pair.value,
        lease: pair.lease,
    }
}

pub(super) fn range(answer: pb::RangeResponse) -> RangeAnswer {
    RangeAnswer {
        revision: revision(answer.header),
        kvs: answer.kvs.into_iter().map(pair).collect(),
        more: answer.more,
        count: answer.count,
        ties: Vec::new(),
    }
}

pub(super) fn put(answer: pb::PutResponse) -> PutAnswer {
    PutAnswer { revision: revision(answer.header), prev_kv: answer.prev_kv.map(pair) }
}

pub(super) fn delete(answer: pb::DeleteRangeResponse) -> DeleteAnswer {
    DeleteAnswer {
        revision: revision(answer.header),
        deleted: answer.deleted,
        prev_kvs: answer.prev_kvs.into_iter().map(pair).collect(),
    }
}

pub(super) fn txn(answer: pb::TxnResponse) -> TxnAnswer {
    TxnAnswer {
        revision: revision(answer.header),
        succeeded: answer.succeeded,
        responses: answer.responses.into_iter().map(operation).collect(),
    }
}

fn operation(answer: pb::ResponseOp) -> OpAnswer {
    use pb::response_op::Response;
    match answer.response {
        Some(Response::ResponseRange(inner)) => OpAnswer::Range(range(inner)),
        Some(Response::ResponsePut(inner)) => OpAnswer::Put(put(inner)),
        Some(Response::ResponseDeleteRange(inner)) => OpAnswer::Delete(delete(inner)),
        Some(Response::ResponseTxn(inner)) => OpAnswer::Txn(txn(inner)),
        None => OpAnswer::Nothing,
    }
}

pub(super) fn watch(message: pb::WatchResponse) -> WatchMessage {
    WatchMessage {
        revision: revision(message.header),
        watch_id: message.watch_id,
        created: message.created,
        canceled: message.canceled,
        compact_revision: message.compact_revision,
        cancel_reason: message.cancel_reason,
        fragment: message.fragment,
        events: message.events.into_iter().map(event).collect(),
    }
}

fn event(event: mvccpb::Event) -> Event {
    let deleted = event.r#type == mvccpb::event::EventType::Delete as i32;
    Event { deleted, kv: event.kv.map(pair).unwrap_or_default(), prev_kv: event.prev_kv.map(pair) }
}
