//! What a request of the admin API brings: who sends it (by the admin socket's peer, or by a token, FLEET §8), query, path and body.

use std::pin::Pin;

use crate::listener::{BodyError, Peer};
use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use fleet_wire::api::{ApiError, Code, Role};
use serde::de::DeserializeOwned;

use crate::app::App;
use crate::core::resources::MAX_TEXT;
use crate::core::{Actor, Tx};
use crate::failure::ApiFailure;
use crate::load::Share;

/// Most bytes of a request's body: a text of resources, and what is around it.
pub(super) const MAX_BODY: usize = 2 * MAX_TEXT;

/// What a route of the admin API answers.
pub(super) type ApiResult<T> = Result<Json<T>, ApiFailure>;

impl App {
    /// What the core answers, as JSON.
    pub(super) async fn answer<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Tx<'_>) -> Result<T, ApiError> + Send + 'static,
    ) -> ApiResult<T> {
        Ok(Json(self.core.run(job).await?))
    }
}

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

/// A body of at most [`MAX_BODY`] bytes, as JSON.
pub(super) struct ApiBody<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<App> for ApiBody<T> {
    type Rejection = ApiFailure;

    async fn from_request(request: Request, _: &App) -> Result<Self, ApiFailure> {
        let body = whole(request.into_body(), MAX_BODY).await?;
        let read = serde_json::from_slice(&body).map(Self);
        read.map_err(|error| bad(format!("the body is not what is expected here: {error}")))
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

/// A role, as a handler's type names it.
pub(super) const LISTER: usize = Role::Controller as usize;
/// See [`LISTER`].
pub(super) const VIEWER: usize = Role::Viewer as usize;
/// See [`LISTER`].
pub(super) const OPERATOR: usize = Role::Operator as usize;
/// See [`LISTER`].
pub(super) const ADMIN: usize = Role::Admin as usize;

/// Somebody who has at least this role; his place among those who look lasts as long as his question.
pub(super) struct Asker<const ROLE: usize> {
    /// Who.
    pub(super) actor: Actor,
    _share: Option<Share>,
}

/// Somebody who may list drafts and hosts: a viewer, or a controller.
pub(super) type Lister = Asker<LISTER>;
/// Somebody who may look.
pub(super) type Viewer = Asker<VIEWER>;
/// Somebody who may change what the fleet does.
pub(super) type Operator = Asker<OPERATOR>;
/// Somebody who may change what others may do.
pub(super) type Admin = Asker<ADMIN>;
/// Somebody who may write drafts: an operator, or a controller its own.
pub(super) struct Drafter(pub(super) Actor);

impl<const ROLE: usize> FromRequestParts<App> for Asker<ROLE> {
    type Rejection = ApiFailure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiFailure> {
        let (actor, _share) = who_of(parts, app, const { Role::ALL[ROLE] }, &[]).await?;
        Ok(Self { actor, _share })
    }
}

impl FromRequestParts<App> for Drafter {
    type Rejection = ApiFailure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiFailure> {
        let (actor, _share) = who_of(parts, app, Role::Operator, &[Role::Controller]).await?;
        Ok(Self(actor))
    }
}

/// What a handler answers in time.
pub(super) type Answering<T> = Pin<Box<dyn Future<Output = ApiResult<T>> + Send>>;

/// Answers who has this role what the core knows.
pub(super) fn look<const ROLE: usize, T: Send + 'static>(
    look: fn(&Tx<'_>) -> Result<T, ApiError>,
) -> impl Fn(Asker<ROLE>, State<App>) -> Answering<T> + Clone {
    move |asker, State(app)| {
        Box::pin(async move {
            let _asker = asker;
            app.answer(move |tx| look(tx)).await
        })
    }
}

/// Has the core do what the body says, for who has this role.
pub(super) fn change<const ROLE: usize, B: Send + 'static, T: Send + 'static>(
    change: fn(&mut Tx<'_>, &Actor, &B) -> Result<T, ApiError>,
) -> impl Fn(Asker<ROLE>, State<App>, ApiBody<B>) -> Answering<T> + Clone {
    move |asker, State(app), ApiBody(body)| {
        Box::pin(async move {
            let Asker { actor, _share } = asker;
            app.answer(move |tx| change(tx, &actor, &body)).await
        })
    }
}

/// The same to what the path names.
pub(super) fn change_of<const ROLE: usize, B: Send + 'static, T: Send + 'static>(
    change: fn(&mut Tx<'_>, &Actor, &str, &B) -> Result<T, ApiError>,
) -> impl Fn(Asker<ROLE>, State<App>, ApiPath<String>, ApiBody<B>) -> Answering<T> + Clone {
    move |asker, State(app), ApiPath(name), ApiBody(body)| {
        Box::pin(async move {
            let Asker { actor, _share } = asker;
            app.answer(move |tx| change(tx, &actor, &name, &body)).await
        })
    }
}

/// Who asks, if he has at least this role or one of `others`. That he has not is on record, a few times; strangers are counted.
async fn who_of(parts: &Parts, app: &App, needed: Role, others: &[Role]) -> Result<(Actor, Option<Share>), ApiFailure> {
    let unknown = |message: &str| {
        app.core.snapshot().strangers.add();
        ApiFailure::from(ApiError::new(Code::Unauthenticated, message))
    };
    let Some(peer) = parts.extensions.get::<Peer>() else {
        return Err(unknown("the caller is not known"));
    };
    let address = match peer {
        // The socket's mode lets root and the server's group in, and nobody else.
        Peer::Local { uid, .. } => {
            let who = crate::users::name(*uid);
            return Ok((Actor { who, from: "admin socket".to_owned(), role: Role::Admin }, None));
        }
        Peer::Tcp(address) => address,
    };
    let header = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let Some(token) = header.and_then(bearer) else {
        return Err(unknown("this needs a token: `Authorization: Bearer …`, or `--token-file` on the command line"));
    };
    let Some(known) = app.tokens.find(token, crate::clock::now()) else {
        return Err(unknown("the token is not known, or has expired"));
    };
    let actor = Actor { who: format!("token {}", known.name), from: address.ip().to_string(), role: known.role };
    let only_looks = needed <= Role::Viewer || known.role <= Role::Viewer;
    let share = if only_looks { Some(app.load.look(&actor.who)?) } else { None };
    if known.role < needed && !others.contains(&known.role) {
        let message = format!("token {} has the role {}; this needs the role {needed}", known.name, known.role);
        let wrong = ApiError::new(Code::Forbidden, message);
        let (subject, refused) = (format!("{} {}", parts.method, parts.uri.path()), wrong.clone());
        let _ = app.core.run(move |tx| tx.note(&actor, "request", &subject, Some(&refused))).await;
        return Err(ApiFailure::from(wrong));
    }
    Ok((actor, share))
}

/// The token of an `Authorization`; the scheme is written in any case (RFC 9110 §11.1).
fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.trim_start().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_is_written_in_any_case_and_no_other_is_taken() {
        for header in ["Bearer t", "bearer t", "BEARER t", "bEaReR   t "] {
            assert_eq!(bearer(header), Some("t"), "{header:?}");
        }
        for header in ["", "t", "Bearer", "Bearert", "Basic t", "Bearers t", "\u{0412}earer t"] {
            assert_eq!(bearer(header), None, "{header:?}");
        }
    }
}
