//! `etcdserverpb.Cluster`. Membership is one member for now: it is listed, not changed.

use std::sync::Arc;

use tonic::{Request, Response, Status};

use super::{Context, translate};
use crate::error::{Refusal, status};
use crate::http::metrics::grpc::Method;
use crate::pb::etcdserverpb::cluster_server::Cluster;
use crate::pb::etcdserverpb::{
    MemberAddRequest, MemberAddResponse, MemberListRequest, MemberListResponse, MemberPromoteRequest,
    MemberPromoteResponse, MemberRemoveRequest, MemberRemoveResponse, MemberUpdateRequest,
    MemberUpdateResponse,
};

/// The service.
#[derive(Debug, Clone)]
pub(crate) struct ClusterApi(pub(super) Arc<Context>);

impl ClusterApi {
    async fn list(&self, request: MemberListRequest) -> Result<MemberListResponse, Status> {
        if request.linearizable {
            self.0.store.linearizable_barrier().await.map_err(|error| status(&error))?;
        }
        // Membership has no revision.
        let header = self.0.header(0);
        let members = self.0.store.members().into_iter().map(translate::member).collect();
        Ok(MemberListResponse { header, members })
    }
}

#[tonic::async_trait]
impl Cluster for ClusterApi {
    async fn member_list(
        &self,
        request: Request<MemberListRequest>,
    ) -> Result<Response<MemberListResponse>, Status> {
        let call = self.0.begin(Method::ClusterMemberList, request.metadata())?;
        call.answer(self.list(request.into_inner()).await)
    }

    async fn member_add(&self, _: Request<MemberAddRequest>) -> Result<Response<MemberAddResponse>, Status> {
        Err(Refusal::NotImplemented("MemberAdd").into())
    }

    async fn member_remove(
        &self,
        _: Request<MemberRemoveRequest>,
    ) -> Result<Response<MemberRemoveResponse>, Status> {
        Err(Refusal::NotImplemented("MemberRemove").into())
    }

    async fn member_update(
        &self,
        _: Request<MemberUpdateRequest>,
    ) -> Result<Response<MemberUpdateResponse>, Status> {
        Err(Refusal::NotImplemented("MemberUpdate").into())
    }

    async fn member_promote(
        &self,
        _: Request<MemberPromoteRequest>,
    ) -> Result<Response<MemberPromoteResponse>, Status> {
        Err(Refusal::NotImplemented("MemberPromote").into())
    }
}
