//! How a page is answered: what is around it, its headers, and what is said where it is refused.

use crate::views::assets;
use crate::views::frame::{Frame, User};
use crate::views::refused::RefusedPage;
use crate::views::version_control::banner;
use askama::Template;
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use fleet_wire::api::{ApiError, Code};
use fleet_wire::lenient::word;

use super::session::Session;
use crate::app::App;
use crate::clock;
use crate::failure;

/// What a page may load, and where its forms may go: this server, nothing in the text of the page itself.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// A page, or the one that says why not.
pub(super) type PageResult = Result<Response, Response>;

/// The first value of this name in the query of an address.
pub(super) fn asked(uri: &Uri, name: &str) -> Option<String> {
    let mut query = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    query.find(|(known, _)| known == name).map(|(_, value)| value.into_owned())
}

/// Leads a browser on, by a GET.
pub(super) fn see(path: &str) -> Response {
    let Ok(path) = HeaderValue::from_str(path) else { return StatusCode::BAD_REQUEST.into_response() };
    (StatusCode::SEE_OTHER, [(header::LOCATION, path)]).into_response()
}

/// With what every page has: it is for this browser alone, and loads nothing from elsewhere.
pub(super) fn dress(mut response: Response) -> Response {
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

/// A file that pages load.
pub(super) fn asset(kind: &'static str, text: &'static str) -> Response {
    let always = [
        (header::CONTENT_TYPE, kind),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "public, max-age=3600"),
    ];
    (always, text).into_response()
}

/// What is around a page.
pub(super) fn frame(app: &App, session: Option<&Session>) -> Frame {
    let snapshot = app.core.snapshot();
    let mut warnings = Vec::new();
    if !snapshot.is_good() {
        warnings.push(snapshot.unconfirmed());
    }
    // Who is not logged in learns nothing of the fleet.
    warnings.extend(session.map(|_| banner(&snapshot.public().alerts)).unwrap_or_default());
    let tuf = session.map(|_| app.tuf.alerts(clock::now())).unwrap_or_default();
    warnings.extend(tuf.into_iter().map(|alert| alert.what));
    let user = |session: &Session| User {
        name: session.actor.who.clone(),
        role: session.actor.role,
        csrf: session.csrf.clone(),
    };
    Frame { user: session.map(user), build: build().to_owned(), at: clock::now(), summary: None, warnings }
}

/// Names this build's style and script, so that a browser does not take another one's.
fn build() -> &'static str {
    static BUILD: std::sync::LazyLock<String> =
        std::sync::LazyLock::new(|| crate::tokens::digest(&format!("{}{}", assets::STYLE, assets::SCRIPT)));
    BUILD.get(..16).unwrap_or_default()
}

/// A page.
pub(super) fn page(status: StatusCode, template: &impl Template) -> Response {
    match template.render() {
        Ok(html) => (status, [(header::CONTENT_TYPE, "text/html; charset=utf-8")], html).into_response(),
        Err(error) => {
            tracing::error!(%error, "a page cannot be written");
            (StatusCode::INTERNAL_SERVER_ERROR, "internal error (please report)\n").into_response()
        }
    }
}

/// What was refused, on a page, with the API's code and status.
pub(super) fn refuse(app: &App, session: Option<&Session>, wrong: ApiError, back: &str) -> Response {
    let status = failure::status(wrong.code);
    let refused = RefusedPage {
        frame: frame(app, session),
        code: word(&wrong.code),
        message: wrong.message,
        back: back.to_owned(),
    };
    page(status, &refused)
}

/// That there is nothing at a path, for a browser.
pub(super) fn nothing(app: &App, session: Option<&Session>) -> Response {
    refuse(app, session, ApiError::new(Code::NotFound, "there is nothing at this path"), "/")
}
