//! One server, asked step by step; what it answers with is made comparable.
//!
//! Who answered (cluster, member, raft term) is taken out of headers, and what hangs on the clock or on chance is
//! made coarse: the seconds that a lease has left, ids that the server picked, the order of leases.

use std::net::SocketAddr;

use server::pb::etcdserverpb::{self as pb, response_op};
use tokio_stream::StreamExt as _;
use tonic::Status;

use crate::common::Connection;
use crate::common::clients::etcdserverpb::kv_client::KvClient;
use crate::common::clients::etcdserverpb::lease_client::LeaseClient;
use crate::common::clients::etcdserverpb::maintenance_client::MaintenanceClient;
use crate::step::{Outcome, Step};
use crate::watches::Watches;

/// Leases shorter than this may end while a test runs, seconds.
const SHORT_LEASE_SECONDS: i64 = 60;
/// No test runs so long, seconds.
const RUN_SECONDS_MAX: i64 = 600;

/// See the module's text.
pub(crate) struct Peer {
    kv: KvClient<Connection>,
    lease: LeaseClient<Connection>,
    maintenance: MaintenanceClient<Connection>,
    watches: Watches,
    /// Newest revision that an answer told.
    revision: i64,
}

impl Peer {
    pub(crate) async fn connect(address: SocketAddr) -> Peer {
        let connection = Connection::new(address).await;
        Peer {
            kv: KvClient::new(connection.clone()).max_decoding_message_size(usize::MAX),
            lease: LeaseClient::new(connection.clone()),
            maintenance: MaintenanceClient::new(connection.clone()),
            watches: Watches::new(connection),
            revision: 1,
        }
    }

    /// Does one step.
    pub(crate) async fn take(&mut self, step: &Step) -> Outcome {
        match step {
            Step::Range(request) => {
                let mut result = self.kv.range(request.clone()).await.map(tonic::Response::into_inner);
                self.clean(&mut result, |answer| &mut answer.header);
                Outcome::of(result)
            }
            Step::RangeStream(request) => self.range_stream(request.clone()).await,
            Step::Put(request) => {
                let mut result = self.kv.put(request.clone()).await.map(tonic::Response::into_inner);
                self.clean(&mut result, |answer| &mut answer.header);
                Outcome::of(result)
            }
            Step::DeleteRange(request) => {
                let mut result = self.kv.delete_range(request.clone()).await.map(tonic::Response::into_inner);
                self.clean(&mut result, |answer| &mut answer.header);
                Outcome::of(result)
            }
            Step::Txn(request) => {
                let mut result = self.kv.txn(request.clone()).await.map(tonic::Response::into_inner);
                self.clean(&mut result, |answer| &mut answer.header);
                if let Ok(answer) = &result {
                    assert_inner_headers(answer);
                }
                Outcome::of(result)
            }
            Step::Compact(request) => {
                let mut result = self.kv.compact(*request).await.map(tonic::Response::into_inner);
                self.clean(&mut result, |answer| &mut answer.header);
                Outcome::of(result)
            }
            Step::LeaseGrant(request) => self.lease_grant(*request).await,
            Step::LeaseRevoke(request) => {
                let mut result = self.lease.lease_revoke(*request).await.map(tonic::Response::into_inner);
                self.clean(&mut result, |answer| &mut answer.header);
                Outcome::of(result)
            }
            Step::LeaseKeepAlive(request) => self.keep_alive(*request).await,
            Step::LeaseTimeToLive(request) => {
                let mut result =
                    self.lease.lease_time_to_live(*request).await.map(tonic::Response::into_inner);
                self.clean(&mut result, |answer| &mut answer.header);
                if let Ok(answer) = &mut result
                    && answer.ttl > 0
                {
                    let spent = answer.granted_ttl - answer.ttl;
                    assert!((0..RUN_SECONDS_MAX).contains(&spent), "{answer:?} has lost its time");
                    answer.ttl = answer.granted_ttl;
                    // etcd keeps them in a map; they have no order.
                    answer.keys.sort();
                }
                Outcome::of(result)
            }
            Step::LeaseLeases(request) => {
                let mut result = self.lease.lease_leases(*request).await.map(tonic::Response::into_inner);
                self.clean(&mut result, |answer| &mut answer.header);
                if let Ok(answer) = &mut result {
                    answer.leases.sort_by_key(|lease| lease.id);
                }
                Outcome::of(result)
            }
            Step::Alarm(request) => {
                let mut result = self.maintenance.alarm(*request).await.map(tonic::Response::into_inner);
                self.clean(&mut result, |answer| &mut answer.header);
                if let Ok(answer) = &mut result {
                    answer.alarms.sort_by_key(|alarm| (alarm.member_id, alarm.alarm));
                }
                Outcome::of(result)
            }
            Step::HashKv(request) => {
                let mut result = self.maintenance.hash_kv(*request).await.map(tonic::Response::into_inner);
                self.clean(&mut result, |answer| &mut answer.header);
                Outcome::of(result)
            }
            Step::WatchCreate(on) => self.watches.create(on, &mut self.revision).await,
            Step::WatchCancel(on) => self.watches.cancel(on, &mut self.revision).await,
            Step::Settle => self.watches.settle(self.revision).await,
        }
    }

    /// Takes out of an answer's header who gave it.
    fn clean<T>(
        &mut self,
        result: &mut Result<T, Status>,
        header: impl Fn(&mut T) -> &mut Option<pb::ResponseHeader>,
    ) {
        if let Ok(answer) = result {
            clean(header(answer), &mut self.revision);
        }
    }

    async fn range_stream(&mut self, request: pb::RangeRequest) -> Outcome {
        let mut chunks = match self.kv.range_stream(request).await {
            Ok(chunks) => chunks.into_inner(),
            Err(status) => return Outcome::refused(&status),
        };
        let mut messages = Vec::new();
        while let Some(chunk) = chunks.next().await {
            match chunk {
                Ok(mut chunk) => {
                    if let Some(response) = &mut chunk.range_response
                        && response.header.is_some()
                    {
                        clean(&mut response.header, &mut self.revision);
                    }
                    messages.push(prost::Message::encode_to_vec(&chunk));
                }
                Err(status) => return Outcome::refused(&status),
            }
        }
        Outcome::Answered(messages)
    }

    async fn lease_grant(&mut self, request: pb::LeaseGrantRequest) -> Outcome {
        let mut result = self.lease.lease_grant(request).await.map(tonic::Response::into_inner);
        self.clean(&mut result, |answer| &mut answer.header);
        if let Ok(answer) = &mut result
            && (request.id == 0 || answer.ttl < SHORT_LEASE_SECONDS)
        {
            let revoked = self.lease.lease_revoke(pb::LeaseRevokeRequest { id: answer.id }).await;
            revoked.expect("what was granted can be revoked");
            if request.id == 0 {
                assert!(answer.id > 0, "an id of the server's own is above zero");
                answer.id = 0;
            }
        }
        Outcome::of(result)
    }

    async fn keep_alive(&mut self, request: pb::LeaseKeepAliveRequest) -> Outcome {
        let answers = self.lease.lease_keep_alive(tokio_stream::once(request)).await;
        let mut result = match answers {
            Ok(answers) => {
                answers.into_inner().next().await.unwrap_or_else(|| Err(Status::unknown("no answer")))
            }
            Err(status) => Err(status),
        };
        self.clean(&mut result, |answer| &mut answer.header);
        Outcome::of(result)
    }
}

/// Takes out of a header who answered; keeps the newest revision.
pub(crate) fn clean(header: &mut Option<pb::ResponseHeader>, newest: &mut i64) {
    let header = header.as_mut().expect("answers have a header");
    assert!(header.cluster_id != 0 && header.member_id != 0 && header.raft_term != 0, "{header:?}");
    assert!(header.revision == 0 || header.revision >= *newest, "{header:?} after {newest}");
    *newest = header.revision.max(*newest);
    *header = pb::ResponseHeader { revision: header.revision, ..Default::default() };
}

/// Headers inside a transaction say nothing of who answered.
fn assert_inner_headers(answer: &pb::TxnResponse) {
    for response in &answer.responses {
        let header = match &response.response {
            Some(response_op::Response::ResponseRange(answer)) => answer.header,
            Some(response_op::Response::ResponsePut(answer)) => answer.header,
            Some(response_op::Response::ResponseDeleteRange(answer)) => answer.header,
            Some(response_op::Response::ResponseTxn(answer)) => {
                assert_inner_headers(answer);
                answer.header
            }
            None => panic!("an operation without an answer"),
        };
        let header = header.expect("operations are answered with a header");
        assert_eq!((header.cluster_id, header.member_id, header.raft_term), (0, 0, 0));
    }
}
