//! What a request of the admin API brings: query, path and body, whose faults are told as all others are.

use crate::listener::BodyError;
use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use fleet_wire::api::{ApiError, Code};
use serde::de::DeserializeOwned;

use crate::app::App;
use crate::core::MAX_TEXT;
use crate::failure::ApiFailure;

/// Most bytes of a request's body: a text of resources, and what is around it.
pub(super) const MAX_BODY: usize = 2 * MAX_TEXT;

/// What a route of the admin API answers.
pub(super) type ApiResult<T> = Result<Json<T>, ApiFailure>;

/// A query, whose faults are told as all others are.
pub(super) struct ApiQuery<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequestParts<App> for ApiQuery<T> {
    type Rejection = ApiFailure;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, ApiFailure> {
        Query::try_from_uri(&parts.uri).map(|Query(query)| Self(query)).map_err(|rejected| bad(rejected.body_text()))
    }
}

/// What a path names, whose faults are told as all others are.
pub(super) struct ApiPath<T>(pub(super) T);

impl<T: DeserializeOwned + Send> FromRequestParts<App> for ApiPath<T> {
    type Rejection = ApiFailure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiFailure> {
        let path = Path::from_request_parts(parts, app).await;
        path.map(|Path(named)| Self(named)).map_err(|rejected| bad(rejected.body_text()))
    }
}

/// A whole body, at most [`MAX_BODY`] bytes.
pub(super) struct Whole(pub(super) Bytes);

impl FromRequest<App> for Whole {
    type Rejection = ApiFailure;

    async fn from_request(request: Request, _: &App) -> Result<Self, ApiFailure> {
        whole(request.into_body(), MAX_BODY).await.map(Self).map_err(ApiFailure::from)
    }
}

/// A whole body, of at most so many bytes.
pub(super) async fn whole(body: Body, most: usize) -> Result<Bytes, ApiError> {
    crate::listener::read_body(body, most).await.map_err(|error| match error {
        BodyError::TooLarge(_) => ApiError::new(Code::TooLarge, format!("the body is larger than {most} bytes")),
        BodyError::TooSlow => ApiError::new(Code::TooSlow, error.to_string()),
        BodyError::Broken(_) => ApiError::new(Code::BadRequest, error.to_string()),
    })
}

/// What a request got wrong.
pub(super) fn bad(message: impl std::fmt::Display) -> ApiFailure {
    ApiFailure::from(ApiError::new(Code::BadRequest, message.to_string()))
}

/// What a body says, as JSON.
///
/// # Errors
/// It is something else.
pub(super) fn read_json<T: DeserializeOwned>(body: &Bytes) -> Result<T, ApiFailure> {
    serde_json::from_slice(body).map_err(|error| bad(format!("the body is not what is expected here: {error}")))
}
