//! `etcdserverpb.Maintenance`.

use std::sync::Arc;

use futures_util::stream::BoxStream;
use raft::request::{Alarm, AlarmKind};
use tonic::{Request, Response, Status};

use super::Context;
use crate::error::{Refusal, status};
use crate::http::metrics::grpc::Method;
use crate::http::version;
use crate::pb::etcdserverpb::alarm_request::AlarmAction;
use crate::pb::etcdserverpb::maintenance_server::Maintenance;
use crate::pb::etcdserverpb::{
    AlarmMember, AlarmRequest, AlarmResponse, AlarmType, DefragmentRequest, DefragmentResponse,
    DowngradeInfo, DowngradeRequest, DowngradeResponse, HashKvRequest, HashKvResponse, HashRequest,
    HashResponse, MoveLeaderRequest, MoveLeaderResponse, SnapshotRequest, SnapshotResponse, StatusRequest,
    StatusResponse,
};

/// etcd's quota where none is configured, bytes.
const DEFAULT_QUOTA_BYTES: i64 = 2 * 1024 * 1024 * 1024;

/// The service.
#[derive(Debug, Clone)]
pub(crate) struct MaintenanceApi(pub(super) Arc<Context>);

impl MaintenanceApi {
    async fn alarm(&self, request: AlarmRequest) -> Result<AlarmResponse, Status> {
        let kind = match AlarmType::try_from(request.alarm) {
            Ok(AlarmType::Nospace) => Some(AlarmKind::NoSpace),
            Ok(AlarmType::Corrupt) => Some(AlarmKind::Corrupt),
            Ok(AlarmType::None) | Err(_) => None,
        };
        let member = request.member_id;
        let alarms = match (AlarmAction::try_from(request.action), kind) {
            (Ok(AlarmAction::Get), kind) => {
                let wanted = |alarm: &Alarm| kind.is_none_or(|kind| kind == alarm.kind);
                self.0.store.alarms().into_iter().filter(wanted).collect()
            }
            (Ok(AlarmAction::Activate), Some(kind)) => {
                self.0.store.alarm_raise(Alarm { member, kind }).await.map_err(|error| status(&error))?
            }
            (Ok(AlarmAction::Deactivate), Some(kind)) => {
                self.0.store.alarm_clear(Alarm { member, kind }).await.map_err(|error| status(&error))?
            }
            // Neither an action without a kind nor an action that there is not does anything in etcd.
            (Ok(AlarmAction::Activate | AlarmAction::Deactivate), None) | (Err(_), _) => Vec::new(),
        };
        Ok(AlarmResponse {
            header: self.0.header(self.0.store.revision()),
            alarms: alarms.into_iter().map(alarm_member).collect(),
        })
    }

    fn status(&self) -> StatusResponse {
        let status = self.0.store.status();
        let mut errors = Vec::new();
        if status.leader == 0 {
            errors.push("etcdserver: no leader".to_owned());
        }
        errors.extend(status.alarms.iter().map(|alarm| alarm_text(*alarm)));
        let quota = self.0.limits.quota_bytes;
        StatusResponse {
            header: self.0.header(status.revision),
            version: version::ETCD.to_owned(),
            db_size: status.db_size,
            leader: status.leader,
            raft_index: status.raft_index,
            raft_term: status.raft_term,
            raft_applied_index: status.raft_applied_index,
            errors,
            db_size_in_use: status.db_size_in_use,
            is_learner: status.is_learner,
            storage_version: version::STORAGE.to_owned(),
            db_size_quota: if quota == 0 { DEFAULT_QUOTA_BYTES } else { quota },
            downgrade_info: Some(DowngradeInfo::default()),
        }
    }
}

#[tonic::async_trait]
impl Maintenance for MaintenanceApi {
    async fn alarm(&self, request: Request<AlarmRequest>) -> Result<Response<AlarmResponse>, Status> {
        let call = self.0.begin(Method::MaintenanceAlarm, request.metadata())?;
        call.answer(self.alarm(request.into_inner()).await)
    }

    async fn status(&self, request: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        let call = self.0.begin(Method::MaintenanceStatus, request.metadata())?;
        call.answer(Ok(self.status()))
    }

    async fn defragment(
        &self,
        request: Request<DefragmentRequest>,
    ) -> Result<Response<DefragmentResponse>, Status> {
        let call = self.0.begin(Method::MaintenanceDefragment, request.metadata())?;
        // There is nothing to defragment: merges give space back all the time. etcd's answer has no header.
        call.answer(Ok(DefragmentResponse { header: None }))
    }

    async fn hash(&self, _: Request<HashRequest>) -> Result<Response<HashResponse>, Status> {
        Err(Refusal::NotImplemented("Hash").into())
    }

    async fn hash_kv(&self, _: Request<HashKvRequest>) -> Result<Response<HashKvResponse>, Status> {
        Err(Refusal::NotImplemented("HashKV").into())
    }

    type SnapshotStream = BoxStream<'static, Result<SnapshotResponse, Status>>;

    async fn snapshot(&self, _: Request<SnapshotRequest>) -> Result<Response<Self::SnapshotStream>, Status> {
        Err(Refusal::NotImplemented("Snapshot").into())
    }

    async fn move_leader(
        &self,
        _: Request<MoveLeaderRequest>,
    ) -> Result<Response<MoveLeaderResponse>, Status> {
        Err(Refusal::NotImplemented("MoveLeader").into())
    }

    async fn downgrade(&self, _: Request<DowngradeRequest>) -> Result<Response<DowngradeResponse>, Status> {
        Err(Refusal::NotImplemented("Downgrade").into())
    }
}

fn alarm_member(alarm: Alarm) -> AlarmMember {
    let kind = match alarm.kind {
        AlarmKind::NoSpace => AlarmType::Nospace,
        AlarmKind::Corrupt => AlarmType::Corrupt,
    };
    AlarmMember { member_id: alarm.member, alarm: kind as i32 }
}

/// An alarm as Go prints the message; a member 0 is not printed.
fn alarm_text(alarm: Alarm) -> String {
    let kind = match alarm.kind {
        AlarmKind::NoSpace => "NOSPACE",
        AlarmKind::Corrupt => "CORRUPT",
    };
    if alarm.member == 0 {
        format!("alarm:{kind}")
    } else {
        format!("memberID:{} alarm:{kind}", alarm.member)
    }
}
