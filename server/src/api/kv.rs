//! `etcdserverpb.KV`, but for Range.

use std::sync::Arc;

use futures_util::stream::{self, BoxStream, StreamExt as _};
use raft::RangeStream;
use raft::request::{Range, SortOrder, SortTarget};
use tonic::{Code, Request, Response, Status};

use super::call::Call;
use super::{Context, translate};
use crate::error::{Refusal, status};
use crate::http::metrics::grpc::Method;
use crate::pb::etcdserverpb::kv_server::Kv;
use crate::pb::etcdserverpb::{
    CompactionRequest, CompactionResponse, DeleteRangeRequest, DeleteRangeResponse, PutRequest, PutResponse,
    RangeRequest, RangeStreamResponse, TxnRequest, TxnResponse,
};

/// The service.
#[derive(Debug, Clone)]
pub(crate) struct KvApi(pub(super) Arc<Context>);

impl KvApi {
    async fn put(&self, request: PutRequest) -> Result<PutResponse, Status> {
        let at = self.0.store.put(translate::put(request)).await.map_err(|error| status(&error))?;
        Ok(translate::put_answer(self.0.header(at.revision), at.answer))
    }

    async fn delete_range(&self, request: DeleteRangeRequest) -> Result<DeleteRangeResponse, Status> {
        let request = translate::delete_range(request);
        let at = self.0.store.delete_range(request).await.map_err(|error| status(&error))?;
        Ok(translate::delete_range_answer(self.0.header(at.revision), at.answer))
    }

    async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, Status> {
        let at = self.0.store.txn(translate::txn(request)?).await.map_err(|error| status(&error))?;
        Ok(translate::txn_answer(self.0.header(at.revision), at.answer))
    }

    async fn compact(&self, request: CompactionRequest) -> Result<CompactionResponse, Status> {
        // Versions below the revision cannot be read from the moment this answers; what they took on disk
        // comes back as tables merge, so `physical` has nothing to wait for.
        let at = self.0.store.compact(request.revision).await.map_err(|error| status(&error))?;
        Ok(CompactionResponse { header: self.0.header(at.revision) })
    }

    async fn open_stream(&self, request: RangeRequest) -> Result<RangeStream, Status> {
        let range = translate::range(request)?;
        refuse_to_stream(&range)?;
        self.0.store.range_stream(range).await.map_err(|error| status(&error))
    }
}

#[tonic::async_trait]
impl Kv for KvApi {
    type RangeStreamStream = BoxStream<'static, Result<RangeStreamResponse, Status>>;

    async fn range_stream(
        &self,
        request: Request<RangeRequest>,
    ) -> Result<Response<Self::RangeStreamStream>, Status> {
        let call = self.0.begin(Method::KvRangeStream, request.metadata())?;
        match self.open_stream(request.into_inner()).await {
            Ok(stream) => {
                let chunks = Chunks { context: Arc::clone(&self.0), call, stream };
                Ok(Response::new(stream::unfold(Some(chunks), Chunks::next).boxed()))
            }
            Err(refused) => {
                call.end(refused.code());
                Err(refused)
            }
        }
    }

    async fn put(&self, request: Request<PutRequest>) -> Result<Response<PutResponse>, Status> {
        let call = self.0.begin(Method::KvPut, request.metadata())?;
        call.answer(self.put(request.into_inner()).await)
    }

    async fn delete_range(
        &self,
        request: Request<DeleteRangeRequest>,
    ) -> Result<Response<DeleteRangeResponse>, Status> {
        let call = self.0.begin(Method::KvDeleteRange, request.metadata())?;
        call.answer(self.delete_range(request.into_inner()).await)
    }

    async fn txn(&self, request: Request<TxnRequest>) -> Result<Response<TxnResponse>, Status> {
        let call = self.0.begin(Method::KvTxn, request.metadata())?;
        call.answer(self.txn(request.into_inner()).await)
    }

    async fn compact(
        &self,
        request: Request<CompactionRequest>,
    ) -> Result<Response<CompactionResponse>, Status> {
        let call = self.0.begin(Method::KvCompact, request.metadata())?;
        call.answer(self.compact(request.into_inner()).await)
    }
}

/// A streamed range under way.
struct Chunks {
    context: Arc<Context>,
    call: Call,
    stream: RangeStream,
}

impl Chunks {
    /// The next chunk, and what is left; nothing after the last or an error.
    async fn next(chunks: Option<Chunks>) -> Option<(Result<RangeStreamResponse, Status>, Option<Chunks>)> {
        let mut chunks = chunks?;
        match chunks.stream.next_chunk() {
            Ok(Some(chunk)) => {
                let answer =
                    translate::chunk(chunk.kvs, chunk.last, |revision| chunks.context.header(revision));
                Some((Ok(answer), Some(chunks)))
            }
            Ok(None) => {
                chunks.call.end(Code::Ok);
                None
            }
            Err(error) => {
                let status = status(&error);
                chunks.call.end(status.code());
                Some((Err(status), None))
            }
        }
    }
}

/// What etcd does not stream: another order than the stored one, and what only a whole range can filter. A
/// target without an order passes.
fn refuse_to_stream(range: &Range) -> Result<(), Refusal> {
    let by_key = range.sort_target == SortTarget::Key && range.sort_order == SortOrder::Ascend;
    if range.sort_order != SortOrder::None && !by_key {
        return Err(Refusal::StreamSortOrder);
    }
    let bounds = [
        range.min_mod_revision,
        range.max_mod_revision,
        range.min_create_revision,
        range.max_create_revision,
    ];
    if bounds.iter().any(|bound| *bound != 0) { Err(Refusal::StreamRevisionFilters) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_ranges_are_streamed() {
        let range = |sort_target, sort_order| Range { sort_target, sort_order, ..Range::default() };
        for (range, want, why) in [
            (range(SortTarget::Key, SortOrder::None), Ok(()), "the default"),
            (range(SortTarget::Key, SortOrder::Ascend), Ok(()), "the same, in words"),
            (range(SortTarget::Mod, SortOrder::None), Ok(()), "no order, so the target is not looked at"),
            (range(SortTarget::Key, SortOrder::Descend), Err(Refusal::StreamSortOrder), "backwards"),
            (range(SortTarget::Mod, SortOrder::Ascend), Err(Refusal::StreamSortOrder), "not by key"),
            (
                Range { min_create_revision: 1, ..Range::default() },
                Err(Refusal::StreamRevisionFilters),
                "a filter",
            ),
        ] {
            assert_eq!(refuse_to_stream(&range), want, "{why}");
        }
    }
}
