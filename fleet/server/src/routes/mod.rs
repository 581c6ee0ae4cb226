//! What the server answers over HTTP.

mod access;
mod admin;
mod caller;
mod health;
mod load;
mod public;
mod report;
mod tokens;

use std::ops::Deref;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Request, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use fleet_answers::Reply;
use fleet_answers::install_script::InstallScript;

use crate::core::Core;
use crate::forwards::Forwards;
use crate::notify::Meters;
use crate::pages::{self, Dashboard};
use crate::tokens::Tokens;

use fleet_api::{Code, Wrong};
use protocol::report::MAX_BODY;

pub(crate) use admin::{past, with_history};

use admin::Failure;
use load::Kind;
pub(crate) use load::{Load, Overloaded};
use public::Sent;

/// Longest path in the log, characters: none of ours is longer, and a stranger may send any.
const LONGEST_PATH: usize = 256;

/// What the routes work with. One pointer, since each request has several copies of it.
#[derive(Clone)]
pub(crate) struct App(Arc<Means>);

/// See [`App`].
#[derive(Clone)]
pub(crate) struct Means {
    /// Decides.
    pub(crate) core: Core,
    /// Where the data is.
    pub(crate) data: std::path::PathBuf,
    /// The script for new hosts; `None`: the server's own address is not known.
    pub(crate) install_script: Option<Arc<InstallScript>>,
    /// Other servers' channels.
    pub(crate) forwards: Forwards,
    /// What the listener has in work.
    pub(crate) load: Load,
    /// The server is ending.
    pub(crate) ending: tokio::sync::watch::Receiver<bool>,
    /// How far receivers of notifications were told.
    pub(crate) meters: Meters,
    /// Who may use the admin API from elsewhere.
    pub(crate) tokens: Tokens,
    /// For people with a browser.
    pub(crate) dashboard: Dashboard,
    /// A reverse proxy is in front, and says who asks.
    pub(crate) is_behind_proxy: bool,
}

impl App {
    /// Shares them.
    pub(crate) fn new(means: Means) -> Self {
        Self(Arc::new(means))
    }
}

impl Deref for App {
    type Target = Means;

    fn deref(&self) -> &Means {
        &self.0
    }
}

/// Everything.
pub(crate) fn all(app: App) -> Router {
    Router::new()
        .merge(public::routes())
        .merge(report::routes())
        .merge(admin::routes())
        .merge(tokens::routes())
        .merge(pages::routes())
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
        .fallback(async || Sent(not_found()))
        .method_not_allowed_fallback(other_methods)
        .with_state(app)
}

/// A page for browsers, JSON for others.
async fn nothing(State(app): State<App>, headers: HeaderMap) -> Response {
    pages::not_found(&app, &headers).unwrap_or_else(|| Sent(not_found()).into_response())
}

async fn other_methods() -> Failure {
    Failure::from(Wrong::new(Code::MethodNotAllowed, "this path has other methods: see the header Allow"))
}

fn not_found() -> Reply {
    Reply::error(404, "not_found", "there is nothing at this path")
}

/// The request with its whole body, or with one that says why it did not come: who sends slowly takes no place from others.
async fn gathered(request: Request<Body>) -> Request<Body> {
    let (parts, body) = request.into_parts();
    let body = match fleet_listener::read_body(body, MAX_BODY).await {
        Ok(body) => Body::from(body),
        Err(error) => Body::from_stream(tokio_stream::once(Err::<Vec<u8>, _>(error))),
    };
    Request::from_parts(parts, body)
}

/// Gives each request its place, or refuses it; those of the admin API also an id, which answer and log have. Of hosts' questions
/// there are too many for the log.
async fn note(State(app): State<App>, request: Request<Body>, next: axum::middleware::Next) -> Response {
    const ID: &str = "x-request-id";
    let kind = Kind::of(request.uri().path());
    let mut request = if kind.waits_for_its_body() { gathered(request).await } else { request };
    if app.is_behind_proxy {
        caller::see_through(&mut request);
    }
    let _place = match app.load.enter(kind) {
        Ok(place) => place,
        Err(overloaded) => return overloaded.into_response(),
    };
    if !kind.is_of_operators() {
        return next.run(request).await;
    }
    let id = uuid::Uuid::new_v4().to_string();
    let (method, path) = (request.method().clone(), shown(request.uri().path()));
    if kind == Kind::Admin {
        // A browser adds it to whatever it sends: it is good for pages and their forms alone.
        request.headers_mut().remove(header::COOKIE);
    }
    let mut response = next.run(request).await;
    tracing::info!(request = id, %method, path, status = response.status().as_u16(), "{kind}");
    if let Ok(id) = id.parse() {
        response.headers_mut().insert(ID, id);
    }
    response.headers_mut().insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    response.into_response()
}

/// A path as the log has it.
fn shown(path: &str) -> String {
    match path.char_indices().nth(LONGEST_PATH) {
        Some((end, _)) => format!("{}…", path.get(..end).unwrap_or_default()),
        None => path.to_owned(),
    }
}
