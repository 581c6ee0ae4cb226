//! The dashboard: pages for people with a browser (FLEET §6). What they say is made in `views`.

mod access;
mod act;
mod directives;
mod live;
mod login;
mod look;
#[cfg(feature = "oidc")]
mod oidc;
mod page;
mod session;
mod simulate;
mod wanted;

use crate::views::assets;
use axum::Router;
use axum::http::{HeaderMap, header};
use axum::response::Response;
use axum::routing::get;

use crate::app::App;
#[cfg(feature = "oidc")]
use crate::oidc::CALLBACK;
use page::{asset, dress, nothing, see};

/// The first words of the paths of pages.
const FOLDERS: [&str; 13] = [
    "",
    "rollouts",
    "login",
    "logout",
    "groups",
    "hosts",
    "versions",
    "version-control",
    "audit",
    "simulate",
    "confirm",
    "act",
    "events",
];

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
        .route("/rollouts", get(look::rollouts))
        .route("/rollouts/{number}", get(look::past_rollout))
        .route("/groups/{*name}", get(look::group))
        .route("/hosts", get(look::hosts))
        .route("/hosts/{id}", get(look::host))
        .route("/versions", get(look::versions))
        .route("/version-control", get(directives::overview))
        .route("/version-control/{id}", get(directives::plan))
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

/// A form's address without its form: somebody reloaded, or went back.
async fn home() -> Response {
    see("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_what_has_a_route_here_and_nothing_of_hosts() {
        for page in ["/", "/hosts", "/hosts/x", "/groups/a/b", "/simulate", "/version-control", "/events"] {
            assert!(is_page(page), "{page}");
        }
        for other in ["/v1/webapi/find", "/webapi/ping", "/scripts/install.sh", "/healthz", "/style.css", "x", ""] {
            assert!(!is_page(other), "{other}");
        }
    }
}
