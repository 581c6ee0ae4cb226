//! Between hyper and the service: tells it who asks, and notes when a request begins and ends.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Bytes, Incoming};
use hyper::service::{Service as HyperService, service_fn};
use hyper::{Request, Response};
use hyper_util::service::TowerToHyperService;

use super::body::RequestBody;
use super::caller::Peer;
use super::phase::{Phase, PhaseCell};

/// The service of one connection. `limit`: the time for a body.
pub(crate) fn noted(
    service: Router,
    peer: Peer,
    state: Arc<PhaseCell>,
    limit: Duration,
) -> impl HyperService<
    Request<Incoming>,
    Response = Response<impl HttpBody<Data = Bytes, Error = axum::Error>>,
    Error = Infallible,
    Future: Send,
> {
    let service = TowerToHyperService::new(service);
    service_fn(move |request: Request<Incoming>| {
        let complete = HttpBody::is_end_stream(request.body());
        state.enter(if complete { Phase::Working } else { Phase::Receiving });
        let mut request = request.map(|body| RequestBody::new(body, Arc::clone(&state), limit));
        request.extensions_mut().insert(peer.clone());
        let (answer, end) = (service.call(request), End(Arc::clone(&state)));
        // When the answer's body is dropped, the request has ended.
        async move {
            answer.await.map(|response| {
                response.map(|body| {
                    body.map_err(move |error| {
                        let _held = &end;
                        error
                    })
                })
            })
        }
    })
}

/// The end of a request, whichever way it ends.
struct End(Arc<PhaseCell>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.enter(Phase::Idle);
    }
}
