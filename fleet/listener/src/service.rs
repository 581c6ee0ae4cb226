//! Between hyper and the service: tells it who asks, and notes when a request begins and ends.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::service::Service as HyperService;
use hyper::{Request, Response};
use hyper_util::service::TowerToHyperService;
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::body::Body;
use crate::caller::Caller;
use crate::phase::{Phase, State};

/// The service of one connection.
pub(crate) struct Noted<S> {
    service: TowerToHyperService<S>,
    caller: Caller,
    state: Arc<State>,
    /// The time for a body.
    body: Duration,
}

impl<S: Clone> Noted<S> {
    pub(crate) fn new(service: S, caller: Caller, state: Arc<State>, body: Duration) -> Self {
        Self { service: TowerToHyperService::new(service), caller, state, body }
    }
}

impl<S, B> HyperService<Request<Incoming>> for Noted<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error = Infallible> + Clone,
{
    type Response = Response<Answer<B>>;
    type Error = Infallible;
    type Future = Answering<<TowerToHyperService<S> as HyperService<Request<Body>>>::Future>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let complete = HttpBody::is_end_stream(request.body());
        self.state.enter(if complete { Phase::Working } else { Phase::Receiving });
        let mut request = request.map(|body| Body::new(body, Arc::clone(&self.state), self.body));
        request.extensions_mut().insert(self.caller.clone());
        Answering { future: self.service.call(request), end: Some(End(Arc::clone(&self.state))) }
    }
}

/// The end of a request, whichever way it ends.
struct End(Arc<State>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.enter(Phase::Idle);
    }
}

pin_project! {
    /// A request that is being answered.
    pub(crate) struct Answering<F> {
        #[pin]
        future: F,
        end: Option<End>,
    }
}

impl<F, B> Future for Answering<F>
where
    F: Future<Output = Result<Response<B>, Infallible>>,
{
    type Output = Result<Response<Answer<B>>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let Ok(response) = ready!(this.future.poll(cx));
        let end = this.end.take();
        Poll::Ready(Ok(response.map(|body| Answer { body, _end: end })))
    }
}

pin_project! {
    /// A response's body; when it is dropped, the request has ended.
    pub(crate) struct Answer<B> {
        #[pin]
        body: B,
        _end: Option<End>,
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
