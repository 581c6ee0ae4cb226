//! `/events`: tells a page's script that something changed (server-sent events).

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use fleet_wire::api::{ApiError, Code};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;

use super::page::refuse;
use super::session::Session;
use crate::app::App;

/// What hosts do changes counts and is no event: the page is told so often.
const EVERY: Duration = Duration::from_secs(10);
/// Lines that a browser may be behind.
const BEHIND: usize = 4;
/// What the script listens for.
const CHANGED: &[u8] = b"event: changed\ndata: 1\n\n";
/// The session is over.
const ENDED: &[u8] = b"event: ended\ndata: 1\n\n";

/// A stream of events; it ends with the session.
pub(super) async fn events(session: Session, State(app): State<App>) -> Response {
    let Ok(place) = app.load.stream(&session.actor.who) else {
        return refuse(&app, Some(&session), ApiError::new(Code::Overloaded, "too many pages follow the server"), "/");
    };
    let mut to_come = app.core.events();
    let mut ending = app.ending.clone();
    let (lines, body) = mpsc::channel::<Result<Bytes, Infallible>>(BEHIND);
    tokio::spawn(async move {
        let _place = place;
        let mut ended = session.found.ended.clone();
        // A browser hears nothing before the first bytes.
        let mut line = Bytes::from_static(b": hello\n\n");
        loop {
            if !session.is_good(&app).await {
                // A browser would try again by itself, and be led to the login in vain.
                let _ = lines.send(Ok(Bytes::from_static(ENDED))).await;
                return;
            }
            if lines.send(Ok(line)).await.is_err() {
                return;
            }
            line = Bytes::from_static(CHANGED);
            tokio::select! {
                entry = to_come.recv() => if matches!(entry, Err(RecvError::Closed)) { return },
                () = tokio::time::sleep(EVERY) => {}
                // Closed: the session is looked for, and not found.
                _ = ended.changed() => {}
                () = lines.closed() => return,
                _ = ending.wait_for(|is_ending| *is_ending) => return,
            }
        }
    });
    let stream = tokio_stream::wrappers::ReceiverStream::new(body);
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(stream)).into_response()
}
