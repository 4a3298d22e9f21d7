//! Requests and answers in the few words that a line about a slow one has, as etcd writes them: keys are shown, values only
//! by their size, and no secret.

use std::fmt::Write as _;

use bytes::Bytes;
use prost::Message as _;

use crate::pb::etcdserverpb::{
    AlarmRequest, CompactionRequest, Compare, DeleteRangeRequest, DeleteRangeResponse, LeaseGrantRequest,
    LeaseRevokeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest, TxnResponse, compare, request_op,
    response_op,
};

/// A request that was understood.
#[derive(Debug)]
pub(super) enum Asked {
    Range(RangeRequest),
    Put(PutRequest),
    DeleteRange(DeleteRangeRequest),
    Txn(TxnRequest),
    Compact(CompactionRequest),
    LeaseGrant(LeaseGrantRequest),
    LeaseRevoke(LeaseRevokeRequest),
    Alarm(AlarmRequest),
}

/// The quantities of a line `request stats`; -1 where etcd counts nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stats {
    pub(super) request_count: i64,
    pub(super) request_bytes: i64,
    pub(super) response_count: i64,
    pub(super) response_bytes: i64,
}

/// What is known of an answer.
#[derive(Debug, Default)]
pub(super) struct Answered {
    /// It, unless it is too long to be kept.
    pub(super) message: Option<Bytes>,
    /// Its bytes; `None` if there is none.
    pub(super) bytes: Option<usize>,
    /// Of one to Range: rows that came, and how many there are.
    pub(super) rows: Option<(u64, u64)>,
}

impl Answered {
    /// The message if it is known and is a `T`.
    fn read<T: prost::Message + Default>(&self) -> Option<T> {
        T::decode(self.message.clone()?).ok()
    }
}

/// Whether what the method does is applied, or read, so that it may be slow at it. The rest answers from memory.
pub(super) fn is_applied(path: &str) -> bool {
    matches!(
        path,
        "/etcdserverpb.KV/Range"
            | "/etcdserverpb.KV/Put"
            | "/etcdserverpb.KV/DeleteRange"
            | "/etcdserverpb.KV/Txn"
            | "/etcdserverpb.KV/Compact"
            | "/etcdserverpb.Lease/LeaseGrant"
            | "/etcdserverpb.Lease/LeaseRevoke"
            | "/etcdserverpb.Maintenance/Alarm"
    )
}

impl Asked {
    /// Reads the request of the method at `path`; `None` if it is another's, or no request.
    pub(super) fn read(path: &str, message: Bytes) -> Option<Asked> {
        Some(match path {
            "/etcdserverpb.KV/Range" => Asked::Range(RangeRequest::decode(message).ok()?),
            "/etcdserverpb.KV/Put" => Asked::Put(PutRequest::decode(message).ok()?),
            "/etcdserverpb.KV/DeleteRange" => Asked::DeleteRange(DeleteRangeRequest::decode(message).ok()?),
            "/etcdserverpb.KV/Txn" => Asked::Txn(TxnRequest::decode(message).ok()?),
            "/etcdserverpb.KV/Compact" => Asked::Compact(CompactionRequest::decode(message).ok()?),
            "/etcdserverpb.Lease/LeaseGrant" => Asked::LeaseGrant(LeaseGrantRequest::decode(message).ok()?),
            "/etcdserverpb.Lease/LeaseRevoke" => {
                Asked::LeaseRevoke(LeaseRevokeRequest::decode(message).ok()?)
            }
            "/etcdserverpb.Maintenance/Alarm" => Asked::Alarm(AlarmRequest::decode(message).ok()?),
            _ => return None,
        })
    }

    /// What etcd puts before the request.
    pub(super) fn prefix(&self) -> &'static str {
        match self {
            Asked::Range(_) => "read-only range ",
            Asked::Txn(request) if is_read_only(request) => "read-only txn ",
            _ => "",
        }
    }

    /// The request as the line about a slow apply has it.
    pub(super) fn text(&self) -> String {
        match self {
            Asked::Range(request) => range(request),
            Asked::Txn(request) if is_read_only(request) => txn(request),
            Asked::Put(request) => format!("put:<{}>", put(request)),
            Asked::DeleteRange(request) => format!("delete_range:<{}>", delete_range(request)),
            Asked::Txn(request) => format!("txn:<{}>", txn(request)),
            Asked::Compact(request) => {
                let mut fields = Fields::default();
                fields.number("revision", request.revision).switch("physical", request.physical);
                format!("compaction:<{}>", fields.0)
            }
            Asked::LeaseGrant(request) => {
                format!("lease_grant:<ttl:{}-second id:{:016x}>", request.ttl, request.id)
            }
            Asked::LeaseRevoke(request) => format!("lease_revoke:<id:{:016x}>", request.id),
            Asked::Alarm(request) => {
                let mut fields = Fields::default();
                fields.number("action", request.action.into()).number("alarm", request.alarm.into());
                format!("alarm:<{}>", fields.0)
            }
        }
    }

    /// The request as the line about any slow call has it.
    pub(super) fn content(&self) -> String {
        match self {
            Asked::Range(request) => range(request),
            Asked::Put(request) => put(request),
            Asked::DeleteRange(request) => delete_range(request),
            Asked::Txn(request) => txn(request),
            Asked::Compact(_) | Asked::LeaseGrant(_) | Asked::LeaseRevoke(_) | Asked::Alarm(_) => {
                String::new()
            }
        }
    }

    /// The answer as the line about a slow apply has it.
    pub(super) fn answer(&self, answered: &Answered) -> String {
        let Some(bytes) = answered.bytes else { return String::new() };
        let of_ranges = match self {
            Asked::Range(_) => answered.rows.map(|(rows, _)| format!("range_response_count:{rows} ")),
            Asked::Txn(request) if is_read_only(request) => answered.read().map(|answer: TxnResponse| {
                let counts: Vec<String> = answer
                    .responses
                    .iter()
                    .filter_map(|op| match &op.response {
                        Some(response_op::Response::ResponseRange(read)) => {
                            Some(format!("range_response_count:{}", read.kvs.len()))
                        }
                        _ => None,
                    })
                    .collect();
                format!("responses:<{}> ", counts.join(" "))
            }),
            _ => None,
        };
        format!("{}size:{bytes}", of_ranges.unwrap_or_default())
    }

    /// What is counted of a call.
    pub(super) fn stats(&self, request_bytes: usize, answered: &Answered) -> Stats {
        let len = |bytes: usize| i64::try_from(bytes).unwrap_or(i64::MAX);
        let mut stats = Stats {
            request_count: 0,
            request_bytes: len(request_bytes),
            response_count: 0,
            response_bytes: answered.bytes.map_or(0, len),
        };
        match self {
            Asked::Range(_) => {
                stats.response_count =
                    answered.rows.map_or(0, |(_, count)| i64::try_from(count).unwrap_or(i64::MAX));
            }
            Asked::Put(_) => stats.request_count = 1,
            Asked::DeleteRange(_) => {
                stats.response_count =
                    answered.read().map_or(0, |answer: DeleteRangeResponse| answer.deleted);
            }
            Asked::Txn(request) => {
                let succeeded = answered.read().is_some_and(|answer: TxnResponse| answer.succeeded);
                let taken = if succeeded { &request.success } else { &request.failure };
                stats.request_count = len(taken.len());
                stats.request_bytes = len(taken.iter().map(prost::Message::encoded_len).sum());
            }
            Asked::Compact(_) | Asked::LeaseGrant(_) | Asked::LeaseRevoke(_) | Asked::Alarm(_) => {
                return Stats::NONE;
            }
        }
        stats
    }
}

impl Stats {
    /// Of calls that etcd counts nothing of.
    pub(super) const NONE: Stats =
        Stats { request_count: -1, request_bytes: -1, response_count: -1, response_bytes: -1 };
}

fn is_read_only(txn: &TxnRequest) -> bool {
    txn.success.iter().chain(&txn.failure).all(|op| match &op.request {
        Some(request_op::Request::RequestRange(_)) | None => true,
        Some(request_op::Request::RequestTxn(inner)) => is_read_only(inner),
        Some(_) => false,
    })
}

fn range(request: &RangeRequest) -> String {
    let mut fields = Fields::default();
    fields
        .bytes("key", &request.key)
        .bytes("range_end", &request.range_end)
        .number("limit", request.limit)
        .number("revision", request.revision)
        .number("sort_order", request.sort_order.into())
        .number("sort_target", request.sort_target.into())
        .switch("serializable", request.serializable)
        .switch("keys_only", request.keys_only)
        .switch("count_only", request.count_only)
        .number("min_mod_revision", request.min_mod_revision)
        .number("max_mod_revision", request.max_mod_revision)
        .number("min_create_revision", request.min_create_revision)
        .number("max_create_revision", request.max_create_revision);
    fields.0
}

fn put(request: &PutRequest) -> String {
    let mut fields = Fields::default();
    fields
        .bytes("key", &request.key)
        .size("value_size", request.value.len())
        .number("lease", request.lease)
        .switch("prev_kv", request.prev_kv)
        .switch("ignore_value", request.ignore_value)
        .switch("ignore_lease", request.ignore_lease);
    fields.0
}

fn delete_range(request: &DeleteRangeRequest) -> String {
    let mut fields = Fields::default();
    fields
        .bytes("key", &request.key)
        .bytes("range_end", &request.range_end)
        .switch("prev_kv", request.prev_kv);
    fields.0
}

fn txn(request: &TxnRequest) -> String {
    let joined = |texts: Vec<String>| texts.join(" ");
    format!(
        "compare:<{}> success:<{}> failure:<{}>",
        joined(request.compare.iter().map(comparison).collect()),
        joined(request.success.iter().map(op).collect()),
        joined(request.failure.iter().map(op).collect()),
    )
}

fn op(op: &RequestOp) -> String {
    match &op.request {
        Some(request_op::Request::RequestRange(request)) => format!("request_range:<{}>", range(request)),
        Some(request_op::Request::RequestPut(request)) => format!("request_put:<{}>", put(request)),
        Some(request_op::Request::RequestDeleteRange(request)) => {
            format!("request_delete_range:<{}>", delete_range(request))
        }
        Some(request_op::Request::RequestTxn(request)) => format!("request_txn:<{}>", txn(request)),
        None => String::new(),
    }
}

fn comparison(one: &Compare) -> String {
    let mut fields = Fields::default();
    if one.result != 0 {
        let name = compare::CompareResult::try_from(one.result).map(|result| result.as_str_name());
        fields.word("result", name.unwrap_or("?"));
    }
    if one.target != 0 {
        let name = compare::CompareTarget::try_from(one.target).map(|target| target.as_str_name());
        fields.word("target", name.unwrap_or("?"));
    }
    fields.bytes("key", &one.key);
    match &one.target_union {
        Some(compare::TargetUnion::Version(number)) => fields.always("version", *number),
        Some(compare::TargetUnion::CreateRevision(number)) => fields.always("create_revision", *number),
        Some(compare::TargetUnion::ModRevision(number)) => fields.always("mod_revision", *number),
        Some(compare::TargetUnion::Lease(number)) => fields.always("lease", *number),
        Some(compare::TargetUnion::Value(value)) => fields.size("value_size", value.len()),
        None => &mut fields,
    };
    fields.bytes("range_end", &one.range_end);
    fields.0
}

/// Fields in protobuf's text form; those with their zero are left out.
#[derive(Default)]
struct Fields(String);

impl Fields {
    fn word(&mut self, name: &str, value: &str) -> &mut Self {
        if !self.0.is_empty() {
            self.0.push(' ');
        }
        self.0.push_str(name);
        self.0.push(':');
        self.0.push_str(value);
        self
    }

    fn always(&mut self, name: &str, value: i64) -> &mut Self {
        self.word(name, &value.to_string())
    }

    fn number(&mut self, name: &str, value: i64) -> &mut Self {
        if value == 0 { self } else { self.always(name, value) }
    }

    fn size(&mut self, name: &str, value: usize) -> &mut Self {
        if value == 0 { self } else { self.word(name, &value.to_string()) }
    }

    fn switch(&mut self, name: &str, value: bool) -> &mut Self {
        if value { self.word(name, "true") } else { self }
    }

    fn bytes(&mut self, name: &str, value: &[u8]) -> &mut Self {
        if value.is_empty() { self } else { self.word(name, &quoted(value)) }
    }
}

/// Bytes between quotation marks; what is no text is escaped.
fn quoted(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() + 2);
    text.push('"');
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '"' => text.push_str("\\\""),
                '\\' => text.push_str("\\\\"),
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\t' => text.push_str("\\t"),
                control if control.is_ascii_control() => escape(&mut text, control as u8),
                other => text.push(other),
            }
        }
        for byte in chunk.invalid() {
            escape(&mut text, *byte);
        }
    }
    text.push('"');
    text
}

fn escape(text: &mut String, byte: u8) {
    // Writing to a String cannot fail.
    let _ = write!(text, "\\x{byte:02x}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put_of(key: &'static str, value: &'static str) -> PutRequest {
        PutRequest { key: Bytes::from(key), value: Bytes::from(value), ..PutRequest::default() }
    }

    fn range_of(key: &'static [u8]) -> RangeRequest {
        RangeRequest { key: Bytes::from_static(key), ..RangeRequest::default() }
    }

    fn op_of(request: request_op::Request) -> RequestOp {
        RequestOp { request: Some(request) }
    }

    #[test]
    fn requests_are_shown_without_values() {
        let reads = TxnRequest {
            success: vec![op_of(request_op::Request::RequestRange(range_of(b"a")))],
            ..TxnRequest::default()
        };
        let writes = TxnRequest {
            compare: vec![
                Compare {
                    target: compare::CompareTarget::Mod as i32,
                    key: Bytes::from("a"),
                    target_union: Some(compare::TargetUnion::ModRevision(0)),
                    ..Compare::default()
                },
                Compare {
                    result: compare::CompareResult::Less as i32,
                    target: compare::CompareTarget::Value as i32,
                    key: Bytes::from("a"),
                    target_union: Some(compare::TargetUnion::Value(Bytes::from("secret"))),
                    ..Compare::default()
                },
            ],
            success: vec![op_of(request_op::Request::RequestPut(put_of("a", "secret")))],
            failure: vec![op_of(request_op::Request::RequestTxn(reads.clone()))],
        };
        for (path, message, prefix, text) in [
            (
                "/etcdserverpb.KV/Range",
                RangeRequest { limit: 5, keys_only: true, ..range_of(b"a\0\xff\"\n") }.encode_to_vec(),
                "read-only range ",
                r#"key:"a\x00\xff\"\n" limit:5 keys_only:true"#,
            ),
            (
                "/etcdserverpb.KV/Put",
                PutRequest { lease: 7, ..put_of("é", "secret") }.encode_to_vec(),
                "",
                r#"put:<key:"é" value_size:6 lease:7>"#,
            ),
            (
                "/etcdserverpb.KV/DeleteRange",
                DeleteRangeRequest { key: Bytes::from("a"), range_end: Bytes::from("b"), prev_kv: true }
                    .encode_to_vec(),
                "",
                r#"delete_range:<key:"a" range_end:"b" prev_kv:true>"#,
            ),
            (
                "/etcdserverpb.KV/Txn",
                reads.encode_to_vec(),
                "read-only txn ",
                r#"compare:<> success:<request_range:<key:"a">> failure:<>"#,
            ),
            (
                "/etcdserverpb.KV/Txn",
                writes.encode_to_vec(),
                "",
                r#"txn:<compare:<target:MOD key:"a" mod_revision:0 result:LESS target:VALUE key:"a" value_size:6> success:<request_put:<key:"a" value_size:6>> failure:<request_txn:<compare:<> success:<request_range:<key:"a">> failure:<>>>>"#,
            ),
            (
                "/etcdserverpb.Lease/LeaseGrant",
                LeaseGrantRequest { ttl: 10, id: 255 }.encode_to_vec(),
                "",
                "lease_grant:<ttl:10-second id:00000000000000ff>",
            ),
        ] {
            let asked = Asked::read(path, Bytes::from(message)).expect("a request");
            assert!(is_applied(path), "{path}");
            assert_eq!((asked.prefix(), asked.text().as_str()), (prefix, text), "{path}");
        }
        assert!(
            Asked::read("/etcdserverpb.Cluster/MemberList", Bytes::new()).is_none(),
            "nothing is shown of it"
        );
        assert!(Asked::read("/etcdserverpb.KV/Put", Bytes::from_static(&[0xff])).is_none(), "no request");
    }

    #[test]
    fn answers_are_counted() {
        let read = |count| crate::pb::etcdserverpb::RangeResponse {
            kvs: vec![Default::default(); count],
            count: 9,
            ..Default::default()
        };
        let range = Asked::Range(range_of(b"a"));
        let answered = Answered { bytes: Some(40), rows: Some((2, 9)), ..Answered::default() };
        assert_eq!(range.answer(&answered), "range_response_count:2 size:40");
        let want = Stats { request_count: 0, request_bytes: 3, response_count: 9, response_bytes: 40 };
        assert_eq!(range.stats(3, &answered), want);
        assert_eq!(range.answer(&Answered::default()), "", "it failed");

        let txn = TxnRequest {
            success: vec![op_of(request_op::Request::RequestRange(range_of(b"a")))],
            ..TxnRequest::default()
        };
        let answer = TxnResponse {
            succeeded: true,
            responses: vec![crate::pb::etcdserverpb::ResponseOp {
                response: Some(response_op::Response::ResponseRange(read(3))),
            }],
            ..TxnResponse::default()
        };
        let message = Some(Bytes::from(answer.encode_to_vec()));
        let answered = Answered { message, bytes: Some(8), rows: None };
        let asked = Asked::Txn(txn);
        assert_eq!(asked.answer(&answered), "responses:<range_response_count:3> size:8");
        let unknown = Answered { bytes: Some(100_000), ..Answered::default() };
        assert_eq!(asked.answer(&unknown), "size:100000", "too long to be kept");
        let stats = asked.stats(99, &answered);
        assert_eq!((stats.request_count, stats.request_bytes), (1, 5), "of the branch that was taken");
        let grant = Asked::LeaseGrant(LeaseGrantRequest::default());
        assert_eq!(grant.stats(1, &answered), Stats::NONE);
    }
}
