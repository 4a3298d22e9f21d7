//! `etcdserverpb.Watch`.
//!
//! A stream's requests and its answers share one state, [`Session`]: it waits for whichever comes first, a
//! request, an answer of the store, or the end. It is driven by the connection, when there is room to send.

use std::sync::Arc;

use futures_util::stream::{self, BoxStream, StreamExt as _};
use raft::{Event, WatchAnswer, WatchCreate, WatchStream};
use tonic::{Code, Request, Response, Status, Streaming};

use super::call::{Call, Endings};
use super::{Context, translate};
use crate::error::{Refusal, status, too_large};
use crate::http::metrics::grpc::Method;
use crate::pb::etcdserverpb::watch_create_request::FilterType;
use crate::pb::etcdserverpb::watch_request::RequestUnion;
use crate::pb::etcdserverpb::watch_server::Watch;
use crate::pb::etcdserverpb::{WatchCreateRequest, WatchRequest, WatchResponse};
use crate::pb::mvccpb;

/// The service.
#[derive(Debug, Clone)]
pub(crate) struct WatchApi(pub(super) Arc<Context>);

#[tonic::async_trait]
impl Watch for WatchApi {
    type WatchStream = BoxStream<'static, Result<WatchResponse, Status>>;

    async fn watch(
        &self,
        request: Request<Streaming<WatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let call = self.0.begin(Method::WatchWatch, request.metadata())?;
        let session = Session {
            endings: self.0.endings(call.needs_leader),
            context: Arc::clone(&self.0),
            call,
            requests: Some(request.into_inner()),
            watch: self.0.store.watch_stream(),
        };
        Ok(Response::new(stream::unfold(Some(session), Session::answer).boxed()))
    }
}

/// A stream under way.
struct Session {
    context: Arc<Context>,
    call: Call,
    /// `None` once the client has said that no more will come; its watches go on.
    requests: Option<Streaming<WatchRequest>>,
    watch: WatchStream,
    endings: Endings,
}

impl Session {
    /// The next answer, and what is left; nothing after an error.
    async fn answer(session: Option<Session>) -> Option<(Result<WatchResponse, Status>, Option<Session>)> {
        let mut session = session?;
        match session.next().await {
            Ok(answer) => {
                let header = session.context.header(answer.revision);
                Some((Ok(response(header, answer)), Some(session)))
            }
            Err(status) => {
                session.call.end(status.code());
                Some((Err(status), None))
            }
        }
    }

    async fn next(&mut self) -> Result<WatchAnswer, Status> {
        loop {
            let request = async {
                match &mut self.requests {
                    Some(requests) => requests.message().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                answer = self.watch.next() => return answer.map_err(|error| status(&error)),
                request = request => match request {
                    Ok(Some(request)) => self.take(request),
                    Ok(None) => self.requests = None,
                    Err(status) => return Err(broken(status)),
                },
                ending = self.endings.reached() => return Err(ending.into()),
            }
        }
    }

    /// Hands a request to the store. One of a kind that there is not is passed over, as in etcd.
    fn take(&mut self, request: WatchRequest) {
        match request.request_union {
            Some(RequestUnion::CreateRequest(request)) => self.watch.create(create(request)),
            Some(RequestUnion::CancelRequest(request)) => self.watch.cancel(request.watch_id),
            Some(RequestUnion::ProgressRequest(_)) => self.watch.progress(),
            None => tracing::debug!("watch request of an unknown kind"),
        }
    }
}

/// How a stream ends whose requests cannot be read.
fn broken(status: Status) -> Status {
    if status.code() == Code::Cancelled {
        return Refusal::WatchCanceled.into();
    }
    too_large(&status).map_or(status, Status::from)
}

fn create(request: WatchCreateRequest) -> WatchCreate {
    let filtered = |kind: FilterType| request.filters.contains(&(kind as i32));
    WatchCreate {
        no_put: filtered(FilterType::Noput),
        no_delete: filtered(FilterType::Nodelete),
        key: request.key,
        range_end: request.range_end,
        start_revision: request.start_revision,
        progress_notify: request.progress_notify,
        prev_kv: request.prev_kv,
        watch_id: request.watch_id,
        fragment: request.fragment,
    }
}

fn response(header: Option<crate::pb::etcdserverpb::ResponseHeader>, answer: WatchAnswer) -> WatchResponse {
    WatchResponse {
        header,
        watch_id: answer.watch_id,
        created: answer.created,
        canceled: answer.canceled,
        compact_revision: answer.compact_revision,
        cancel_reason: answer.cancel_reason.to_owned(),
        fragment: answer.fragment,
        events: answer.events.into_iter().map(event).collect(),
    }
}

fn event(event: Event) -> mvccpb::Event {
    let kind = if event.delete { mvccpb::event::EventType::Delete } else { mvccpb::event::EventType::Put };
    mvccpb::Event {
        r#type: kind as i32,
        kv: Some(translate::pair(event.kv)),
        prev_kv: event.prev_kv.map(translate::pair),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_that_there_are_not_filter_nothing() {
        for (filters, want, why) in [
            (vec![], (false, false), "none"),
            (vec![0], (true, false), "no puts"),
            (vec![1, 1], (false, true), "one twice"),
            (vec![0, 1], (true, true), "both"),
            (vec![7], (false, false), "an unknown one"),
        ] {
            let made = create(WatchCreateRequest { filters, ..Default::default() });
            assert_eq!((made.no_put, made.no_delete), want, "{why}");
        }
    }
}
