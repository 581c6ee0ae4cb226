//! For whoever watches the server.

use std::time::Duration;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use fleet_wire::api::{ApiError, Code};

use crate::app::App;
use crate::core::counts;
use crate::failure::ApiFailure;
use crate::metrics;
use crate::tuf_site::TufSite;

/// Longest wait for the number of hosts of each version: a scrape ends after ten seconds.
const COUNTED_WITHIN: Duration = Duration::from_secs(1);

/// The server answers.
pub(super) async fn alive() -> &'static str {
    "ok\n"
}

/// The server decides: its store has confirmed what it answers within half a minute.
pub(super) async fn ready(State(app): State<App>) -> Response {
    if app.core.snapshot().is_good() {
        let is_held = app.core.snapshot().public().rollouts.holds.all;
        return if is_held { "ready; everything is held until `run --all`\n" } else { "ready\n" }.into_response();
    }
    ApiFailure::from(ApiError::new(Code::StoreUnavailable, app.core.snapshot().unconfirmed())).into_response()
}

/// Numbers, as Prometheus reads them.
pub(super) async fn metrics(State(app): State<App>) -> Response {
    // A core that is busy for long has other numbers to show.
    let versions = tokio::time::timeout(COUNTED_WITHIN, app.core.run(|tx| Ok(counts::versions(tx)))).await;
    let versions = versions.ok().and_then(Result::ok).unwrap_or_default();
    let servers = app.servers.all();
    let tuf = app.tuf.site.as_ref().map(TufSite::ends).unwrap_or_default();
    let text = metrics::text(app.core.snapshot(), app.meter.as_deref(), &app.requests, &versions, &servers, &tuf);
    ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response()
}
