//! `etcdserverpb.Lease`.

use std::sync::Arc;

use futures_util::stream::{self, BoxStream, StreamExt as _};
use raft::request::LeaseGrant;
use tonic::{Code, Request, Response, Status, Streaming};

use super::Context;
use super::call::{Call, Endings};
use crate::error::{status, too_large};
use crate::http::metrics::grpc::Method;
use crate::pb::etcdserverpb::lease_server::Lease;
use crate::pb::etcdserverpb::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseLeasesRequest,
    LeaseLeasesResponse, LeaseRevokeRequest, LeaseRevokeResponse, LeaseStatus, LeaseTimeToLiveRequest,
    LeaseTimeToLiveResponse,
};

/// The service.
#[derive(Debug, Clone)]
pub(crate) struct LeaseApi(pub(super) Arc<Context>);

impl LeaseApi {
    async fn grant(&self, request: LeaseGrantRequest) -> Result<LeaseGrantResponse, Status> {
        let grant = LeaseGrant { id: request.id, ttl_seconds: request.ttl };
        let at = self.0.store.lease_grant(grant).await.map_err(|error| status(&error))?;
        Ok(LeaseGrantResponse {
            header: self.0.header(at.revision),
            id: at.answer.id,
            ttl: at.answer.granted_ttl_seconds,
            error: String::new(),
        })
    }

    async fn revoke(&self, request: LeaseRevokeRequest) -> Result<LeaseRevokeResponse, Status> {
        let at = self.0.store.lease_revoke(request.id).await.map_err(|error| status(&error))?;
        Ok(LeaseRevokeResponse { header: self.0.header(at.revision) })
    }

    async fn time_to_live(&self, request: LeaseTimeToLiveRequest) -> Result<LeaseTimeToLiveResponse, Status> {
        let asked = self.0.store.lease_time_to_live(request.id, request.keys);
        let at = asked.await.map_err(|error| status(&error))?;
        Ok(LeaseTimeToLiveResponse {
            header: self.0.header(at.revision),
            id: request.id,
            ttl: at.answer.ttl_seconds,
            granted_ttl: at.answer.granted_ttl_seconds,
            keys: at.answer.keys,
        })
    }

    async fn leases(&self) -> Result<LeaseLeasesResponse, Status> {
        let at = self.0.store.leases().await.map_err(|error| status(&error))?;
        let leases = at.answer.into_iter().map(|id| LeaseStatus { id }).collect();
        Ok(LeaseLeasesResponse { header: self.0.header(at.revision), leases })
    }
}

#[tonic::async_trait]
impl Lease for LeaseApi {
    async fn lease_grant(
        &self,
        request: Request<LeaseGrantRequest>,
    ) -> Result<Response<LeaseGrantResponse>, Status> {
        let call = self.0.begin(Method::LeaseGrant, request.metadata())?;
        call.answer(self.grant(request.into_inner()).await)
    }

    async fn lease_revoke(
        &self,
        request: Request<LeaseRevokeRequest>,
    ) -> Result<Response<LeaseRevokeResponse>, Status> {
        let call = self.0.begin(Method::LeaseRevoke, request.metadata())?;
        call.answer(self.revoke(request.into_inner()).await)
    }

    type LeaseKeepAliveStream = BoxStream<'static, Result<LeaseKeepAliveResponse, Status>>;

    async fn lease_keep_alive(
        &self,
        request: Request<Streaming<LeaseKeepAliveRequest>>,
    ) -> Result<Response<Self::LeaseKeepAliveStream>, Status> {
        let call = self.0.begin(Method::LeaseKeepAlive, request.metadata())?;
        let session = Session {
            endings: self.0.endings(call.needs_leader),
            context: Arc::clone(&self.0),
            call,
            requests: request.into_inner(),
        };
        Ok(Response::new(stream::unfold(Some(session), Session::answer).boxed()))
    }

    async fn lease_time_to_live(
        &self,
        request: Request<LeaseTimeToLiveRequest>,
    ) -> Result<Response<LeaseTimeToLiveResponse>, Status> {
        let call = self.0.begin(Method::LeaseTimeToLive, request.metadata())?;
        call.answer(self.time_to_live(request.into_inner()).await)
    }

    async fn lease_leases(
        &self,
        request: Request<LeaseLeasesRequest>,
    ) -> Result<Response<LeaseLeasesResponse>, Status> {
        let call = self.0.begin(Method::LeaseLeases, request.metadata())?;
        call.answer(self.leases().await)
    }
}

/// A stream of renewals under way.
struct Session {
    context: Arc<Context>,
    call: Call,
    requests: Streaming<LeaseKeepAliveRequest>,
    endings: Endings,
}

impl Session {
    /// The next answer, and what is left; nothing after the client's last request or an error.
    async fn answer(
        session: Option<Session>,
    ) -> Option<(Result<LeaseKeepAliveResponse, Status>, Option<Session>)> {
        let mut session = session?;
        match session.next().await {
            Ok(Some(answer)) => Some((Ok(answer), Some(session))),
            Ok(None) => {
                session.call.end(Code::Ok);
                None
            }
            Err(status) => {
                session.call.end(status.code());
                Some((Err(status), None))
            }
        }
    }

    async fn next(&mut self) -> Result<Option<LeaseKeepAliveResponse>, Status> {
        let context = &self.context;
        let requests = &mut self.requests;
        let renewed = async {
            let request =
                requests.message().await.map_err(|status| too_large(&status).map_or(status, Status::from))?;
            let Some(LeaseKeepAliveRequest { id }) = request else { return Ok(None) };
            // The header first: a renewal must never claim a revision at which the lease is already revoked.
            let header = context.header(context.store.revision());
            let at = context.store.lease_keep_alive(id).await.map_err(|error| status(&error))?;
            Ok(Some(LeaseKeepAliveResponse { header, id, ttl: at.answer }))
        };
        tokio::select! {
            renewed = renewed => renewed,
            ending = self.endings.reached() => Err(ending.into()),
        }
    }
}
