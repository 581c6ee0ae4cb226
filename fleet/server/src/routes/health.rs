//! For whoever watches the server.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use fleet_wire::api::{ApiError, Code};

use crate::app::App;
use crate::failure::ApiFailure;
use crate::metrics;

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
    let text = metrics::text(app.core.snapshot(), app.meter.as_deref());
    ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response()
}
