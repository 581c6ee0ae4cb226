//! `/login/oidc` and the way back from the provider.

use std::time::Instant;

use crate::views::login::Entered;
use axum::extract::{RawQuery, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::Response;
use fleet_wire::api::{ApiError, Code, Role};

use super::access::from;
use super::login::{add_cookie, address, enter, path, too_many, with_error};
use super::page::{asked, frame, nothing, page, see};
use super::session::cookie;
use crate::app::App;
use crate::core::Actor;
use crate::dashboard::Dashboard;
use crate::oidc::{LoggedInUser, LoginRefusal, MAX_AGE, OidcLogin};
use crate::sessions::Holder;

/// When who was refused because too many log in may come again, seconds.
const BUSY: u32 = 5;

/// Leads a browser to the provider. It is a link: to be led there changes nothing.
pub(super) async fn depart(State(app): State<App>, uri: Uri) -> Response {
    let Some(login) = &app.dashboard.login else { return nothing(&app, None) };
    let next = path(asked(&uri, "next").as_deref());
    match login.depart(next.clone()).await {
        Ok((url, trip)) => {
            let mut response = see(&url);
            set_trip(&mut response, &app.dashboard, &trip, MAX_AGE);
            response
        }
        Err(refused) => refuse(&app, None, next, refused).await,
    }
}

/// Takes back who comes from the provider.
pub(super) async fn arrive(State(app): State<App>, RawQuery(query): RawQuery, parts: Parts) -> Response {
    let Some(login) = &app.dashboard.login else { return nothing(&app, None) };
    let query = query.unwrap_or_default();
    let trip = cookie(&parts.headers, trip_name(&app.dashboard)).map(str::to_owned);
    // Before the provider is asked: strangers cannot have it asked as often as they like.
    let wait = app.dashboard.provider_failures.wait(address(&parts), Instant::now());
    let Some(next) = OidcLogin::next(&query, trip.as_deref()) else {
        // The cookie may be of a login that goes on in another tab, which stays as it is.
        return refuse(&app, Some(&parts), path(None), LoginRefusal::NotBegun).await;
    };
    if let Some(wait) = wait {
        app.core.snapshot().strangers.add();
        return too_many(&app, next, wait);
    }
    let mut response = match login.arrive(query, trip).await {
        Ok(arrival) => let_in(&app, &parts, arrival).await,
        Err(refused) => refuse(&app, Some(&parts), path(Some(&next)), refused).await,
    };
    set_trip(&mut response, &app.dashboard, "", 0);
    response
}

/// On a page, not by a redirect: browsers send the session's cookie (`SameSite=Strict`) only where a page of ours leads on.
async fn let_in(app: &App, parts: &Parts, LoggedInUser { who, role, next }: LoggedInUser) -> Response {
    let entered = Entered { frame: frame(app, None), who: who.clone(), role, next: path(Some(&next)) };
    let mut response = page(StatusCode::OK, &entered);
    if let Ok(refresh) = HeaderValue::from_str(&format!("0; url={}", entered.next)) {
        response.headers_mut().insert(header::REFRESH, refresh);
    }
    let actor = Actor { who: who.clone(), from: from(parts), role };
    enter(app, Holder::Person { who, role }, actor, response).await
}

async fn refuse(app: &App, parts: Option<&Parts>, next: String, refused: LoginRefusal) -> Response {
    let provider = app.dashboard.provider();
    let failed = |status, error: &str| page(status, &with_error(app, next.clone(), error));
    let count = || {
        app.core.snapshot().strangers.add();
        let parts = parts?;
        app.dashboard.provider_failures.note(address(parts), Instant::now())
    };
    match refused {
        // Nobody was asked, and nothing was guessed: else any page that a browser is led to could have its user wait.
        LoginRefusal::NotBegun => {
            app.core.snapshot().strangers.add();
            let told = "the login was not begun in this browser, or took longer than ten minutes: log in again";
            failed(StatusCode::UNAUTHORIZED, told)
        }
        LoginRefusal::Login(told, why) => {
            tracing::warn!(provider, why, "a login by OpenID Connect was refused");
            count().map_or_else(|| failed(StatusCode::UNAUTHORIZED, &told), |wait| too_many(app, next.clone(), wait))
        }
        LoginRefusal::Provider(why) => {
            tracing::warn!(provider, why, "the OpenID Connect provider cannot be used");
            let told =
                format!("{provider} does not answer as it should: log in with a token; the server's log says more");
            count().map_or_else(|| failed(StatusCode::BAD_GATEWAY, &told), |wait| too_many(app, next.clone(), wait))
        }
        LoginRefusal::Denied(told) => failed(StatusCode::UNAUTHORIZED, &told),
        LoginRefusal::NoRole(who, why) => {
            tracing::warn!(provider, who, why, "somebody who logged in by OpenID Connect has no role");
            let wrong = ApiError::new(Code::Forbidden, format!("{who} has no role here: {why}"));
            let told = wrong.message.clone();
            let actor = Actor { who, from: parts.map(from).unwrap_or_default(), role: Role::Viewer };
            // It is refused also where the store cannot be written, which its own failure says.
            let _ = app.core.run(move |tx| Ok(tx.refuse(&actor, "login", "dashboard", wrong))).await;
            count().map_or_else(|| failed(StatusCode::FORBIDDEN, &told), |wait| too_many(app, next.clone(), wait))
        }
        LoginRefusal::Busy => {
            let mut response = failed(StatusCode::SERVICE_UNAVAILABLE, "too many log in at the same time: try again");
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(BUSY));
            response
        }
    }
}

/// The name of the cookie that is with a browser on its way.
fn trip_name(dashboard: &Dashboard) -> &'static str {
    if dashboard.is_secure { "__Host-fleet-login" } else { "fleet-login" }
}

/// `Lax`: the browser comes back from another site.
fn set_trip(response: &mut Response, dashboard: &Dashboard, value: &str, max_age: u32) {
    add_cookie(response, dashboard, (trip_name(dashboard), value), &format!("SameSite=Lax; Max-Age={max_age}"));
}
