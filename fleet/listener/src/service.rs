//! Between hyper and the service: tells it who asks, and notes when a request begins and ends.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::service::{Service as HyperService, service_fn};
use hyper::{Request, Response};
use hyper_util::service::TowerToHyperService;
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::body::RequestBody;
use crate::caller::Caller;
use crate::phase::{Phase, PhaseCell};

/// The service of one connection. `limit`: the time for a body.
pub(crate) fn noted<S, B>(
    service: S,
    caller: Caller,
    state: Arc<PhaseCell>,
    limit: Duration,
) -> impl HyperService<Request<Incoming>, Response = Response<Answer<B>>, Error = Infallible, Future: Send>
where
    S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible, Future: Send> + Clone + Send,
    B: HttpBody,
{
    let service = TowerToHyperService::new(service);
    service_fn(move |request: Request<Incoming>| {
        let complete = HttpBody::is_end_stream(request.body());
        state.enter(if complete { Phase::Working } else { Phase::Receiving });
        let mut request = request.map(|body| RequestBody::new(body, Arc::clone(&state), limit));
        request.extensions_mut().insert(caller.clone());
        let (answer, end) = (service.call(request), End(Arc::clone(&state)));
        async move { answer.await.map(|response| response.map(|body| Answer { body, _end: end })) }
    })
}

/// The end of a request, whichever way it ends.
struct End(Arc<PhaseCell>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.enter(Phase::Idle);
    }
}

pin_project! {
    /// A response's body; when it is dropped, the request has ended.
    pub(crate) struct Answer<B> {
        #[pin]
        body: B,
        _end: End,
    }
}

impl<B: HttpBody> HttpBody for Answer<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        self.project().body.poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
