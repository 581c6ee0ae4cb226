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

use axum::Router;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use fleet_api::{Code, Wrong};
use fleet_pages::refused::Refused;
use fleet_pages::{Frame, Template, User, assets};

use crate::app::App;
use crate::clock;
#[cfg(feature = "oidc")]
use crate::oidc::CALLBACK;
use access::Session;

/// What a page may load, and where its forms may go: this server, nothing in the text of the page itself.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";
/// The first words of the paths of pages.
const FOLDERS: [&str; 11] =
    ["", "login", "logout", "groups", "hosts", "versions", "audit", "simulate", "confirm", "act", "events"];

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
    fn pages_are_what_has_a_route_here_and_nothing_of_hosts() {
        for page in ["/", "/hosts", "/hosts/x", "/groups/a/b", "/simulate", "/events"] {
            assert!(is_page(page), "{page}");
        }
        for other in ["/v1/webapi/find", "/webapi/ping", "/scripts/install.sh", "/healthz", "/style.css", "x", ""] {
            assert!(!is_page(other), "{other}");
        }
    }
}
