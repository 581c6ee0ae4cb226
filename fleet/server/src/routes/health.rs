//! For whoever watches the server.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::App;
use crate::metrics;

/// The server answers.
pub(super) async fn alive() -> &'static str {
    "ok\n"
}

/// The server decides: its store has confirmed what it answers within half a minute.
pub(super) async fn ready(State(app): State<App>) -> Response {
    if app.core.board().is_good() {
        return "ready\n".into_response();
    }
    let since = app.core.board().confirmed();
    (StatusCode::SERVICE_UNAVAILABLE, format!("store_unavailable since {since}\n")).into_response()
}

/// Numbers, as Prometheus reads them.
pub(super) async fn metrics(State(app): State<App>) -> Response {
    let board = app.core.board();
    let text = metrics::text(&board.public(), board.hosts().by_id.len(), board.lost(), board.is_good());
    ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response()
}
