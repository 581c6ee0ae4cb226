//! Hosts' reports (FLEET §5).

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use fleet_wire::api::{ApiError, Code, ErrorAnswer};
use protocol::report::{GoOn, MAX_BODY};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::oneshot;

use super::request::whole;
use crate::app::App;
use crate::core::{self, NotTaken, Verdict, reports};
use crate::failure;
use crate::report::ReportBody;

/// When a host that reports too often may come again, seconds.
const TOO_OFTEN: u16 = 10;

/// The route.
pub(super) fn routes() -> Router<App> {
    // `protocol::report::PATH`, as a text: a test reads all routes.
    Router::new().route("/v1/webapi/agents/report", post(report))
}

/// A report that came.
#[derive(Serialize, JsonSchema)]
pub(super) struct ReportTaken {
    /// `taken`: it is durable; `waiting`: an admin must accept the host.
    #[schemars(extend("enum" = ["taken", "waiting"]))]
    state: &'static str,
}

/// Why a report was not taken; of `other_epoch` and `old_sequence` with the numbers to go on from.
#[derive(Serialize, JsonSchema)]
pub(super) struct ReportRefused {
    #[serde(flatten)]
    refused: ErrorAnswer,
    #[serde(flatten)]
    go_on: Option<GoOn>,
}

impl IntoResponse for NotTaken {
    fn into_response(self) -> Response {
        let Self(error, go_on) = self;
        let code = error.code;
        let status = failure::status(code);
        let mut response = (status, Json(ReportRefused { refused: ErrorAnswer { error }, go_on })).into_response();
        if code == Code::TooOften {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(TOO_OFTEN));
        }
        no_store(response)
    }
}

async fn report(State(app): State<App>, headers: HeaderMap, request: Request) -> Result<Response, NotTaken> {
    if !app.core.snapshot().is_wanting() {
        return Err(ApiError::new(Code::NotWanted, "this server takes no reports").into());
    }
    let body = whole(request.into_body(), MAX_BODY).await?;
    let header = |name: &str| only(&headers, name);
    let signed = ReportBody::read(header, &body)?;
    let ending = || ApiError::new(Code::StoreUnavailable, "the server is ending");
    let (answer, answered) = oneshot::channel();
    let hear = move |tx: &mut core::Tx<'_>| {
        reports::hear(tx, signed, answer);
        Ok(())
    };
    app.core.run(hear).await?;
    let (verdict, durable) = answered.await.unwrap_or_else(|_| Err(ending()))??;
    durable.await.unwrap_or_else(|_| Err(ending()))?;
    let (status, state) = match verdict {
        Verdict::Taken => (StatusCode::OK, "taken"),
        Verdict::Waits => (StatusCode::ACCEPTED, "waiting"),
    };
    Ok(no_store((status, Json(ReportTaken { state })).into_response()))
}

/// A header that is there once: of two, others on the way may see the other one.
pub(super) fn only<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut all = headers.get_all(name).iter();
    let value = all.next().filter(|_| all.next().is_none())?;
    value.to_str().ok()
}

fn no_store(mut response: Response) -> Response {
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
