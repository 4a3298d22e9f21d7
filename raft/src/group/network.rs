//! How raft's messages reach other members.
//!
//! A cluster of one has no other member: openraft asks for no connection. Whatever is asked of one answers
//! that the peer cannot be reached, which raft treats as any peer that is down.

use std::future::Future;

use openraft::EmptyNode;
use openraft::error::{RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse,
};
use openraft::type_config::alias::{SnapshotOf, VoteOf};

use super::types::TypeConfig;

/// Makes connections to peers.
pub(super) struct Network;

/// A connection to a peer.
pub(super) struct Peer {
    id: u64,
}

impl Peer {
    fn unreachable(&self) -> Unreachable<TypeConfig> {
        Unreachable::new(&std::io::Error::new(
            std::io::ErrorKind::NotConnected,
            format!("no address is known of member {:x}", self.id),
        ))
    }
}

impl RaftNetworkFactory<TypeConfig> for Network {
    type Network = Peer;

    async fn new_client(&mut self, target: u64, _: &EmptyNode) -> Peer {
        Peer { id: target }
    }
}

impl RaftNetworkV2<TypeConfig> for Peer {
    type SnapshotData = ();

    async fn append_entries(
        &mut self,
        _: AppendEntriesRequest<TypeConfig>,
        _: RPCOption,
    ) -> Result<AppendEntriesResponse<TypeConfig>, RPCError<TypeConfig>> {
        Err(RPCError::Unreachable(self.unreachable()))
    }

    async fn vote(
        &mut self,
        _: VoteRequest<TypeConfig>,
        _: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        Err(RPCError::Unreachable(self.unreachable()))
    }

    async fn full_snapshot(
        &mut self,
        _: VoteOf<TypeConfig>,
        _: SnapshotOf<TypeConfig, ()>,
        _: impl Future<Output = ReplicationClosed> + Send + 'static,
        _: RPCOption,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        Err(StreamingError::Unreachable(self.unreachable()))
    }
}
