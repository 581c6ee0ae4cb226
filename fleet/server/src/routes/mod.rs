//! What the server answers over HTTP.

mod admin;
mod caller;
mod directives;
mod document;
mod health;
mod public;
mod reply;
mod report;
mod request;

use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Request, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use fleet_wire::api::{ApiError, Code};
use protocol::report::MAX_BODY;

use crate::app::App;
use crate::failure::ApiFailure;
use crate::load::RequestKind;
use crate::pages;
use reply::{HttpReply, not_found};

/// Longest path in the log, characters: none of ours is longer, and a stranger may send any.
const LONGEST_PATH: usize = 256;

/// Everything.
pub(crate) fn all(app: App) -> Router {
    Router::new()
        .merge(public::routes())
        .merge(report::routes())
        .merge(admin::routes())
        .merge(directives::routes())
        .merge(pages::routes())
        .route("/v1/openapi.json", get(document::document))
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .fallback(nothing)
        .method_not_allowed_fallback(other_methods)
        .layer(axum::middleware::from_fn_with_state(app.clone(), note))
        .with_state(app)
}

/// What numbers the metrics listener shows.
pub(crate) fn metrics(app: App) -> Router {
    Router::new()
        .route("/metrics", get(health::metrics))
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .fallback(async || HttpReply(not_found()))
        .method_not_allowed_fallback(other_methods)
        .layer(axum::middleware::from_fn(async |request: Request<Body>, next: Next| match hosted(&request) {
            Ok(()) => next.run(request).await,
            Err(refused) => refused.into_response(),
        }))
        .with_state(app)
}

/// Refuses a request that names no host, or two: a proxy may have read another one than this server (RFC 9112 §3.2). Before HTTP/1.1
/// none was needed.
fn hosted(request: &Request<Body>) -> Result<(), ApiFailure> {
    let hosts = request.headers().get_all(header::HOST).iter().count();
    let is_old = request.version() < Version::HTTP_11;
    if hosts == 1 || (hosts == 0 && is_old) {
        return Ok(());
    }
    let what = format!("the request has {hosts} headers `Host`: send one");
    Err(ApiError::new(Code::BadRequest, what).into())
}

/// A page for browsers, JSON for others.
async fn nothing(State(app): State<App>, headers: HeaderMap) -> Response {
    pages::not_found(&app, &headers).unwrap_or_else(|| HttpReply(not_found()).into_response())
}

async fn other_methods() -> ApiFailure {
    ApiFailure::from(ApiError::new(Code::MethodNotAllowed, "this path has other methods: see the header Allow"))
}

/// The request with its whole body, or with one that says why it did not come: who sends slowly takes no place from others.
async fn gathered(request: Request<Body>) -> Request<Body> {
    let (parts, body) = request.into_parts();
    let body = match crate::listener::read_body(body, MAX_BODY).await {
        Ok(body) => Body::from(body),
        Err(error) => Body::from_stream(tokio_stream::once(Err::<Vec<u8>, _>(error))),
    };
    Request::from_parts(parts, body)
}

/// Counts each request that names its host, and how long its answer took.
async fn note(State(app): State<App>, request: Request<Body>, next: Next) -> Response {
    if let Err(refused) = hosted(&request) {
        return refused.into_response();
    }
    let (kind, begun) = (kind(request.uri().path()), Instant::now());
    // Its own memory: a host's question is not to be moved about with room for all that other requests need.
    let request = if kind.waits_for_its_body() { Box::pin(gathered(request)).await } else { request };
    let response = placed(&app, kind, request, next).await;
    app.requests.note(kind, response.status(), begun.elapsed());
    response
}

/// Gives a request its place, or refuses it.
async fn placed(app: &App, kind: RequestKind, mut request: Request<Body>, next: Next) -> Response {
    if app.is_behind_proxy {
        caller::see_through(&mut request);
    }
    let _place = match app.load.enter(kind) {
        Ok(place) => place,
        Err(overloaded) => return overloaded.into_response(),
    };
    if kind.is_of_operators() { Box::pin(named(kind, request, next)).await } else { next.run(request).await }
}

/// Gives a request of an operator an id, which answer and log have. Of hosts' questions there are too many for the log.
async fn named(kind: RequestKind, mut request: Request<Body>, next: Next) -> Response {
    const ID: &str = "x-request-id";
    let id = uuid::Uuid::new_v4().to_string();
    let (method, path) = (request.method().clone(), shown(request.uri().path()));
    if kind == RequestKind::Admin {
        // A browser adds it to whatever it sends: it is good for pages and their forms alone.
        request.headers_mut().remove(header::COOKIE);
    }
    let mut response = next.run(request).await;
    tracing::info!(request = id, %method, path, status = response.status().as_u16(), "{kind}");
    if let Ok(id) = id.parse() {
        response.headers_mut().insert(ID, id);
    }
    response.headers_mut().insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    response
}

/// What a request is, by its path.
fn kind(path: &str) -> RequestKind {
    match path {
        "/healthz" | "/readyz" => RequestKind::Health,
        protocol::report::PATH => RequestKind::Report,
        path if path.starts_with("/v1/fleet/") => RequestKind::Admin,
        // Most of all requests: hosts ask.
        path if path.starts_with("/v1/") || path.starts_with("/webapi/") => RequestKind::Public,
        path if pages::is_page(path) => RequestKind::Page,
        _ => RequestKind::Public,
    }
}

/// A path as the log has it.
fn shown(path: &str) -> String {
    match path.char_indices().nth(LONGEST_PATH) {
        Some((end, _)) => format!("{}…", path.get(..end).unwrap_or_default()),
        None => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_says_what_a_request_is() {
        for (path, kind) in [
            ("/healthz", RequestKind::Health),
            ("/readyz", RequestKind::Health),
            ("/v1/fleet/commands", RequestKind::Admin),
            ("/v1/fleet", RequestKind::Public),
            ("/v1/webapi/find", RequestKind::Public),
            ("/v1/webapi/agents/report", RequestKind::Report),
            ("/", RequestKind::Page),
            ("/login", RequestKind::Page),
            ("/hosts/x", RequestKind::Page),
            ("/style.css", RequestKind::Public),
            ("/scripts/install.sh", RequestKind::Public),
        ] {
            assert_eq!(super::kind(path), kind, "{path}");
            assert_eq!(kind.waits_for_its_body(), matches!(kind, RequestKind::Report | RequestKind::Page), "{path}");
        }
    }
}
