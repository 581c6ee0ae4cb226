//! `/login` and `/logout`.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use crate::listener::Peer;
use crate::views::login::LoginPage;
use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::Response;

use super::access::{Own, Posted, from};
use super::page::{asked, frame, page, see};
use super::session::cookie_name;
use crate::app::App;
use crate::core::Actor;
use crate::dashboard::Dashboard;
use crate::sessions::Holder;
use fleet_wire::api::Role;

/// As long as a session can be good, seconds.
const MAX_AGE: u32 = 12 * 60 * 60;

/// The form.
pub(super) async fn form(State(app): State<App>, uri: Uri) -> Response {
    page(StatusCode::OK, &with_error(&app, path(asked(&uri, "next").as_deref()), ""))
}

/// A path of ours, where `next` is one.
pub(super) fn path(next: Option<&str>) -> String {
    let is_ours = |next: &&str| {
        next.starts_with('/') && !next.starts_with("//") && !next.contains('\\') && !next.contains(char::is_control)
    };
    next.filter(is_ours).unwrap_or("/").to_owned()
}

/// Takes a token, and gives a session for it.
pub(super) async fn begin(State(app): State<App>, own: Own) -> Response {
    let next = path(Some(own.fields.get("next")));
    let found = app.tokens.find(own.fields.get("token").trim(), crate::clock::now());
    let Some(token) = found.filter(|token| token.role >= Role::Viewer) else {
        return refused(&app, &own, next);
    };
    let actor = Actor { who: format!("token {}", token.name), from: from(&own.parts), role: token.role };
    enter(&app, Holder::Token(token.digest), actor, see(&next)).await
}

/// Begins a session, which `response` gives to the browser.
pub(super) async fn enter(app: &App, holder: Holder, actor: Actor, mut response: Response) -> Response {
    let Some(secret) = app.dashboard.sessions.begin(holder).await else {
        let error = "the server has no random numbers";
        return page(StatusCode::INTERNAL_SERVER_ERROR, &with_error(app, "/".to_owned(), error));
    };
    let _ = app.core.run(move |tx| tx.note(&actor, "login", "dashboard", None)).await;
    set_cookie(&mut response, &app.dashboard, &secret, MAX_AGE);
    response
}

/// A token that is right is let in, however often others failed: it has too many bits to be guessed.
fn refused(app: &App, own: &Own, next: String) -> Response {
    app.core.snapshot().strangers.add();
    match app.dashboard.failures.note(address(&own.parts), Instant::now()) {
        None => page(StatusCode::UNAUTHORIZED, &with_error(app, next, "the token is not known, or has expired")),
        Some(wait) => too_many(app, next, wait),
    }
}

/// From where logins are counted.
pub(super) fn address(parts: &Parts) -> IpAddr {
    match parts.extensions.get() {
        Some(Peer::Tcp(address)) => address.ip(),
        _ => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    }
}

/// Refuses a login because too many failed.
pub(super) fn too_many(app: &App, next: String, wait: Duration) -> Response {
    let seconds = wait.as_secs() + 1;
    let error = format!("too many logins failed: come again in {seconds} s");
    let mut response = page(StatusCode::TOO_MANY_REQUESTS, &with_error(app, next, &error));
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    response
}

/// The form, with why the last try failed.
pub(super) fn with_error(app: &App, next: String, error: &str) -> LoginPage {
    let provider = app.dashboard.provider().to_owned();
    LoginPage { frame: frame(app, None), next, error: error.to_owned(), provider }
}

/// Ends the session.
pub(super) async fn end(State(app): State<App>, Posted { session, .. }: Posted) -> Response {
    let has_ended = app.dashboard.sessions.end(&session.secret).await;
    let actor = session.actor;
    let _ = app.core.run(move |tx| tx.note(&actor, "logout", "dashboard", None)).await;
    let here = "you are logged out here; on other servers as soon as the database answers";
    let unended = || page(StatusCode::OK, &with_error(&app, "/".to_owned(), here));
    let mut response = if has_ended { see("/login") } else { unended() };
    set_cookie(&mut response, &app.dashboard, "", 0);
    response
}

fn set_cookie(response: &mut Response, dashboard: &Dashboard, value: &str, max_age: u32) {
    let attributes = format!("SameSite=Strict; Max-Age={max_age}");
    add_cookie(response, dashboard, (cookie_name(dashboard), value), &attributes);
}

/// Adds a cookie, by name and value, that no script reads and that TLS keeps where there is TLS.
pub(super) fn add_cookie(response: &mut Response, dashboard: &Dashboard, cookie: (&str, &str), attributes: &str) {
    let secure = if dashboard.is_secure { "; Secure" } else { "" };
    let (name, value) = cookie;
    if let Ok(cookie) = HeaderValue::from_str(&format!("{name}={value}; Path=/; HttpOnly; {attributes}{secure}")) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_leads_to_paths_of_this_server_alone() {
        for (next, leads) in [
            (Some("/hosts?state=failed"), "/hosts?state=failed"),
            (Some("//evil.example/"), "/"),
            (Some("/\\evil.example/"), "/"),
            (Some("https://evil.example/"), "/"),
            (Some("/a\r\nset-cookie: x"), "/"),
            (Some(""), "/"),
            (None, "/"),
        ] {
            assert_eq!(path(next), leads, "{next:?}");
        }
    }
}
