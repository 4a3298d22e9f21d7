//! The etcd messages that the tool sends and reads, as protobuf structs.
//!
//! Only the fields in use are declared; others are skipped when decoding. A protobuf `oneof` is written here as several
//! optional fields of which one is set: the bytes are the same.

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;

/// Paths of the methods called.
pub(crate) mod path {
    pub(crate) const PUT: &str = "/etcdserverpb.KV/Put";
    pub(crate) const RANGE: &str = "/etcdserverpb.KV/Range";
    pub(crate) const RANGE_STREAM: &str = "/etcdserverpb.KV/RangeStream";
    pub(crate) const DELETE_RANGE: &str = "/etcdserverpb.KV/DeleteRange";
    pub(crate) const TXN: &str = "/etcdserverpb.KV/Txn";
    pub(crate) const COMPACT: &str = "/etcdserverpb.KV/Compact";
    pub(crate) const LEASE_GRANT: &str = "/etcdserverpb.Lease/LeaseGrant";
    pub(crate) const LEASE_REVOKE: &str = "/etcdserverpb.Lease/LeaseRevoke";
    pub(crate) const DEFRAGMENT: &str = "/etcdserverpb.Maintenance/Defragment";
    pub(crate) const WATCH: &str = "/etcdserverpb.Watch/Watch";
}

/// `CompareTarget::MOD` of etcd.
pub(crate) const COMPARE_TARGET_MOD: i32 = 2;
/// `EventType::DELETE` of etcd.
pub(crate) const EVENT_DELETE: i32 = 1;

/// A message as one gRPC frame: a zero byte (not compressed), the length as four bytes big-endian, the message.
pub(crate) fn frame(message: &impl Message) -> Bytes {
    Framer::default().frame(message)
}

/// Frames one message after the other in the same memory, once the frame before has been sent and dropped.
#[derive(Debug, Default)]
pub(crate) struct Framer(BytesMut);

impl Framer {
    /// As [`frame`].
    pub(crate) fn frame(&mut self, message: &impl Message) -> Bytes {
        let len = message.encoded_len();
        self.0.reserve(5 + len);
        self.0.put_u8(0);
        self.0.put_u32(u32::try_from(len).expect("no request of the tool reaches 4 GiB"));
        message.encode(&mut self.0).expect("the buffer was sized for the message");
        self.0.split().freeze()
    }
}

/// The end of the range of all keys with `prefix`: the prefix with its last byte below 0xff raised by one.
/// `\0` (no end) if there is no such byte.
pub(crate) fn prefix_end(prefix: &[u8]) -> Bytes {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            return end.into();
        }
    }
    Bytes::from_static(b"\0")
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResponseHeader {
    #[prost(int64, tag = "3")]
    pub(crate) revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct KeyValue {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) key: Bytes,
    #[prost(int64, tag = "2")]
    pub(crate) create_revision: i64,
    #[prost(int64, tag = "3")]
    pub(crate) mod_revision: i64,
    #[prost(int64, tag = "4")]
    pub(crate) version: i64,
    #[prost(bytes = "bytes", tag = "5")]
    pub(crate) value: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RangeRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) range_end: Bytes,
    #[prost(int64, tag = "3")]
    pub(crate) limit: i64,
    #[prost(int64, tag = "4")]
    pub(crate) revision: i64,
    #[prost(bool, tag = "7")]
    pub(crate) serializable: bool,
    #[prost(bool, tag = "8")]
    pub(crate) keys_only: bool,
    #[prost(bool, tag = "9")]
    pub(crate) count_only: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RangeResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) kvs: Vec<KeyValue>,
    #[prost(bool, tag = "3")]
    pub(crate) more: bool,
    #[prost(int64, tag = "4")]
    pub(crate) count: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PutRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) value: Bytes,
    #[prost(int64, tag = "3")]
    pub(crate) lease: i64,
}

impl PutRequest {
    /// A put without a lease.
    pub(crate) fn new(key: Bytes, value: Bytes) -> Self {
        PutRequest { key, value, lease: 0 }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PutResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeleteRangeRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) range_end: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeleteRangeResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
    #[prost(int64, tag = "2")]
    pub(crate) deleted: i64,
}

/// A compare; `result` 0 is EQUAL.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Compare {
    #[prost(int32, tag = "1")]
    pub(crate) result: i32,
    #[prost(int32, tag = "2")]
    pub(crate) target: i32,
    #[prost(bytes = "bytes", tag = "3")]
    pub(crate) key: Bytes,
    #[prost(int64, optional, tag = "6")]
    pub(crate) mod_revision: Option<i64>,
}

/// One operation of a transaction; exactly one field is set.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RequestOp {
    #[prost(message, optional, tag = "1")]
    pub(crate) range: Option<RangeRequest>,
    #[prost(message, optional, tag = "2")]
    pub(crate) put: Option<PutRequest>,
    #[prost(message, optional, tag = "3")]
    pub(crate) delete_range: Option<DeleteRangeRequest>,
}

impl RequestOp {
    /// A put.
    pub(crate) fn put(put: PutRequest) -> Self {
        RequestOp { put: Some(put), ..Default::default() }
    }

    /// A read of one key.
    pub(crate) fn get(key: Bytes) -> Self {
        RequestOp { range: Some(RangeRequest { key, ..Default::default() }), ..Default::default() }
    }

    /// A delete of one key.
    pub(crate) fn delete(key: Bytes) -> Self {
        let delete = DeleteRangeRequest { key, range_end: Bytes::new() };
        RequestOp { delete_range: Some(delete), ..Default::default() }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResponseOp {
    #[prost(message, optional, tag = "1")]
    pub(crate) range: Option<RangeResponse>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TxnRequest {
    #[prost(message, repeated, tag = "1")]
    pub(crate) compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) success: Vec<RequestOp>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) failure: Vec<RequestOp>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TxnResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
    #[prost(bool, tag = "2")]
    pub(crate) succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    pub(crate) responses: Vec<ResponseOp>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CompactionRequest {
    #[prost(int64, tag = "1")]
    pub(crate) revision: i64,
    #[prost(bool, tag = "2")]
    pub(crate) physical: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LeaseGrantRequest {
    #[prost(int64, tag = "1")]
    pub(crate) ttl_seconds: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LeaseGrantResponse {
    #[prost(int64, tag = "2")]
    pub(crate) id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LeaseRevokeRequest {
    #[prost(int64, tag = "1")]
    pub(crate) id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DefragmentRequest {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchCreateRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) range_end: Bytes,
    #[prost(int64, tag = "3")]
    pub(crate) start_revision: i64,
    #[prost(bool, tag = "6")]
    pub(crate) prev_kv: bool,
}

impl WatchCreateRequest {
    /// A watcher of all keys from `start_revision` on.
    pub(crate) fn all_keys(start_revision: i64) -> Self {
        let everything = Bytes::from_static(b"\0");
        let range_end = everything.clone();
        WatchCreateRequest { key: everything, range_end, start_revision, ..Default::default() }
    }

    /// A watcher of the keys that begin with `prefix`, from `start_revision` on; 0 is what is yet to come.
    pub(crate) fn prefix(prefix: &str, start_revision: i64) -> Self {
        let (key, range_end) = (Bytes::copy_from_slice(prefix.as_bytes()), prefix_end(prefix.as_bytes()));
        WatchCreateRequest { key, range_end, start_revision, ..Default::default() }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchProgressRequest {}

/// A request on a watch stream; exactly one field is set.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) create: Option<WatchCreateRequest>,
    #[prost(message, optional, tag = "3")]
    pub(crate) progress: Option<WatchProgressRequest>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Event {
    #[prost(int32, tag = "1")]
    pub(crate) kind: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) kv: Option<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
    #[prost(int64, tag = "2")]
    pub(crate) watch_id: i64,
    #[prost(bool, tag = "3")]
    pub(crate) created: bool,
    #[prost(bool, tag = "4")]
    pub(crate) canceled: bool,
    #[prost(int64, tag = "5")]
    pub(crate) compact_revision: i64,
    #[prost(string, tag = "6")]
    pub(crate) cancel_reason: String,
    #[prost(message, repeated, tag = "11")]
    pub(crate) events: Vec<Event>,
}

/// The revision in a header; 0 if there is none.
pub(crate) fn revision_of(header: &Option<ResponseHeader>) -> i64 {
    header.as_ref().map_or(0, |header| header.revision)
}

/// What all of kube-apiserver's writes are: `then` if the key's mod revision is `expected`, else read the key.
pub(crate) fn guarded(key: Bytes, expected: i64, then: RequestOp) -> TxnRequest {
    TxnRequest {
        compare: vec![Compare {
            result: 0,
            target: COMPARE_TARGET_MOD,
            key: key.clone(),
            mod_revision: Some(expected),
        }],
        success: vec![then],
        failure: vec![RequestOp::get(key)],
    }
}

/// The update that kube-apiserver writes: put if the key's mod revision is `expected`, else read the key.
pub(crate) fn update_request(key: Bytes, value: Bytes, expected: i64) -> TxnRequest {
    guarded(key.clone(), expected, RequestOp::put(PutRequest::new(key, value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_prefix_and_message() {
        let bytes = frame(&PutRequest::new(Bytes::from_static(b"a"), Bytes::from_static(b"xy")));
        assert_eq!(&bytes[..], b"\0\0\0\0\x07\x0a\x01a\x12\x02xy");
    }

    #[test]
    fn a_framer_uses_its_memory_again() {
        let mut framer = Framer::default();
        let put = |byte: u8| PutRequest::new(Bytes::from_static(b"a"), vec![byte; 1024].into());
        let first = framer.frame(&put(1));
        let second = framer.frame(&put(2));
        assert_ne!(first.as_ptr(), second.as_ptr(), "the first is still in use");
        assert_eq!((first[20], second[20]), (1, 2));
        let place = second.as_ptr();
        drop((first, second));
        assert_eq!(framer.frame(&put(3)).as_ptr(), place);
    }

    #[test]
    fn an_expected_revision_of_zero_is_on_the_wire() {
        let request = update_request(Bytes::from_static(b"k"), Bytes::new(), 0);
        assert!(
            request.compare[0].encode_to_vec().ends_with(&[0x30, 0x00]),
            "a missing oneof would compare nothing"
        );
    }

    #[test]
    fn prefix_ends() {
        for (prefix, want, why) in [
            (&b"a/"[..], &b"a0"[..], "last byte raised"),
            (b"a\xff", b"b", "0xff is dropped"),
            (b"\xff\xff", b"\0", "nothing to raise: no end"),
            (b"", b"\0", "everything"),
        ] {
            assert_eq!(&prefix_end(prefix)[..], want, "{why}");
        }
    }
}
