//! The dashboard: pages for people with a browser (FLEET §6). What they say is made in `fleet_pages`.

mod access;
mod act;
mod live;
mod login;
mod look;
#[cfg(feature = "oidc")]
mod oidc;
mod simulate;
mod wanted;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use fleet_api::{Code, Wrong};
use fleet_pages::refused::Refused;
use fleet_pages::{Frame, Template, User, assets};
use tokio::sync::Semaphore;

use crate::clock;
#[cfg(feature = "oidc")]
use crate::oidc::{CALLBACK, Login, Oidc};
#[cfg(feature = "oidc")]
use crate::outbound::Outbound;
use crate::routes::App;
use crate::sessions::{Failures, Sessions};
use access::Session;

/// What a page may load, and where its forms may go: this server, nothing in the text of the page itself.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";
/// Browsers that are told what changes, at a time.
const STREAMS: usize = 256;
/// The first words of the paths of pages.
const FOLDERS: [&str; 11] =
    ["", "login", "logout", "groups", "hosts", "versions", "audit", "simulate", "confirm", "act", "events"];

/// What pages work with besides what the admin API does.
#[derive(Clone)]
pub(crate) struct Dashboard {
    /// Who is logged in.
    pub(crate) sessions: Sessions,
    /// Who tried in vain.
    pub(crate) failures: Failures,
    /// Whose logins by the provider failed; who guesses tokens keeps nobody from those.
    #[cfg(feature = "oidc")]
    pub(crate) provider_failures: Failures,
    /// Browsers reach it by TLS, ours or a proxy's.
    pub(crate) is_secure: bool,
    /// What links name; where a proxy changes the request's `Host`, forms are known by it.
    pub(crate) public_addr: Option<String>,
    /// Logs in people whom a provider names; `None`: tokens alone do.
    #[cfg(feature = "oidc")]
    pub(crate) login: Option<Login>,
    streams: Arc<AtomicUsize>,
    simulations: Arc<Semaphore>,
}

/// A place of a stream; dropping it gives it back.
struct Stream(Arc<AtomicUsize>);

impl Dashboard {
    /// Nobody is logged in.
    pub(crate) fn new(is_secure: bool, public_addr: Option<String>) -> Self {
        Self {
            sessions: Sessions::default(),
            failures: Failures::default(),
            #[cfg(feature = "oidc")]
            provider_failures: Failures::default(),
            is_secure,
            public_addr,
            #[cfg(feature = "oidc")]
            login: None,
            streams: Arc::default(),
            simulations: Arc::new(Semaphore::new(1)),
        }
    }

    /// The same, where people also log in by a provider. `None`: there are no random numbers.
    #[cfg(feature = "oidc")]
    pub(crate) fn with_login(self, oidc: Oidc, outbound: Outbound) -> Option<Self> {
        Some(Self { login: Some(Login::new(oidc, outbound)?), ..self })
    }

    /// The provider by which people log in, for the form; empty: there is none.
    fn provider(&self) -> &str {
        #[cfg(feature = "oidc")]
        if let Some(login) = &self.login {
            return login.host();
        }
        ""
    }

    fn stream(&self) -> Option<Stream> {
        let place = Stream(Arc::clone(&self.streams));
        (self.streams.fetch_add(1, Ordering::Relaxed) < STREAMS).then_some(place)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether this is the path of a page.
pub(crate) fn is_page(path: &str) -> bool {
    path.split('/').nth(1).is_some_and(|folder| FOLDERS.contains(&folder))
}

/// The routes.
pub(crate) fn routes() -> Router<App> {
    let routes = Router::new();
    #[cfg(feature = "oidc")]
    let routes = routes.route("/login/oidc", get(oidc::depart)).route(CALLBACK, get(oidc::arrive));
    routes
        .route("/", get(look::rollout))
        .route("/groups/{*name}", get(look::group))
        .route("/hosts", get(look::hosts))
        .route("/hosts/{id}", get(look::host))
        .route("/versions", get(look::versions))
        .route("/audit", get(look::audit))
        .route("/simulate", get(simulate::simulate))
        .route("/login", get(login::form).post(login::begin))
        .route("/logout", get(home).post(login::end))
        .route("/confirm", get(home).post(act::confirm))
        .route("/act", get(home).post(act::act))
        .route("/events", get(live::events))
        .layer(axum::middleware::map_response(async |response: Response| dress(response)))
        .route("/style.css", get(async || asset("text/css; charset=utf-8", assets::STYLE)))
        .route("/live.js", get(async || asset("text/javascript; charset=utf-8", assets::SCRIPT)))
}

/// What is at no path, for a browser; for others as the API says it.
pub(crate) fn not_found(app: &App, headers: &HeaderMap) -> Option<Response> {
    let accept = headers.get(header::ACCEPT)?.to_str().ok()?;
    accept.contains("text/html").then(|| dress(nothing(app, None)))
}

fn nothing(app: &App, session: Option<&Session>) -> Response {
    refuse(app, session, Wrong::new(Code::NotFound, "there is nothing at this path"), "/")
}

/// A form's address without its form: somebody reloaded, or went back.
async fn home() -> Response {
    see("/")
}

/// Leads a browser on, by a GET.
fn see(path: &str) -> Response {
    let Ok(path) = HeaderValue::from_str(path) else { return StatusCode::BAD_REQUEST.into_response() };
    (StatusCode::SEE_OTHER, [(header::LOCATION, path)]).into_response()
}

/// With what every page has: it is for this browser alone, and loads nothing from elsewhere.
fn dress(mut response: Response) -> Response {
    let always = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        // `no-referrer` would make the Origin of our own forms `null`.
        (header::REFERRER_POLICY, "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in always {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn asset(kind: &'static str, text: &'static str) -> Response {
    let always = [
        (header::CONTENT_TYPE, kind),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "public, max-age=3600"),
    ];
    (always, text).into_response()
}

/// What is around a page.
fn frame(app: &App, session: Option<&Session>) -> Frame {
    let board = app.core.board();
    let mut warnings = Vec::new();
    if !board.is_good() {
        warnings.push(board.unconfirmed());
    }
    let user = |session: &Session| User {
        name: session.actor.who.clone(),
        role: session.actor.role,
        csrf: session.csrf.clone(),
    };
    Frame { user: session.map(user), build: build().to_owned(), at: clock::now(), warnings }
}

/// Names this build's style and script, so that a browser does not take another one's.
fn build() -> &'static str {
    static BUILD: std::sync::LazyLock<String> =
        std::sync::LazyLock::new(|| crate::tokens::digest(&format!("{}{}", assets::STYLE, assets::SCRIPT)));
    BUILD.get(..16).unwrap_or_default()
}

/// A page.
fn page(status: StatusCode, template: &impl Template) -> Response {
    match template.render() {
        Ok(html) => (status, [(header::CONTENT_TYPE, "text/html; charset=utf-8")], html).into_response(),
        Err(error) => {
            tracing::error!(%error, "a page cannot be written");
            (StatusCode::INTERNAL_SERVER_ERROR, "internal error (please report)\n").into_response()
        }
    }
}

/// What was refused, on a page, with the API's code and status.
fn refuse(app: &App, session: Option<&Session>, wrong: Wrong, back: &str) -> Response {
    let status = StatusCode::from_u16(wrong.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let code = serde_json::to_value(wrong.code).ok().and_then(|code| code.as_str().map(str::to_owned));
    let refused = Refused {
        frame: frame(app, session),
        code: code.unwrap_or_default(),
        message: wrong.message,
        back: back.to_owned(),
    };
    page(status, &refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_pages_follow_the_server_and_one_that_ends_makes_place() {
        let dashboard = Dashboard::new(false, None);
        let mut streams: Vec<_> = (0..STREAMS).map(|_| dashboard.stream().unwrap()).collect();
        assert!((0..100).all(|_| dashboard.stream().is_none()));
        streams.pop();
        assert!(dashboard.stream().is_some());
    }

    #[test]
    fn pages_are_what_has_a_route_here_and_nothing_of_hosts() {
        for page in ["/", "/hosts", "/hosts/x", "/groups/a/b", "/simulate", "/events"] {
            assert!(is_page(page), "{page}");
        }
        for other in ["/v1/webapi/find", "/webapi/ping", "/scripts/install.sh", "/healthz", "/style.css", "x", ""] {
            assert!(!is_page(other), "{other}");
        }
    }
}
