//! Who may do what: by the admin socket's peer, or by a token (FLEET §8).

use crate::listener::{Caller, Peer};
use axum::extract::FromRequestParts;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use fleet_wire::api::{ApiError, Code, Role};

use crate::app::App;
use crate::core::Actor;
use crate::failure::ApiFailure;
use crate::load::Share;

/// Somebody who may look, and his place among those who do.
pub(super) struct Viewer {
    /// Who.
    pub(super) actor: Actor,
    _share: Option<Share>,
}
/// Somebody who may change what the fleet does.
pub(super) struct Operator(pub(super) Actor);
/// Somebody who may change what others may do.
pub(super) struct Admin(pub(super) Actor);

impl FromRequestParts<App> for Viewer {
    type Rejection = ApiFailure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiFailure> {
        who(parts, app, Role::Viewer).await.map(|(actor, _share)| Self { actor, _share })
    }
}

impl FromRequestParts<App> for Operator {
    type Rejection = ApiFailure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiFailure> {
        who(parts, app, Role::Operator).await.map(|(actor, _)| Self(actor))
    }
}

impl FromRequestParts<App> for Admin {
    type Rejection = ApiFailure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiFailure> {
        who(parts, app, Role::Admin).await.map(|(actor, _)| Self(actor))
    }
}

/// Who asks, if he has at least this role. That he has not is on record, a few times; strangers are counted.
async fn who(parts: &Parts, app: &App, needed: Role) -> Result<(Actor, Option<Share>), ApiFailure> {
    let unknown = |message: &str| {
        app.core.snapshot().refuse_stranger();
        ApiFailure::from(ApiError::new(Code::Unauthenticated, message))
    };
    let Some(Caller { peer }) = parts.extensions.get::<Caller>() else {
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
    let only_looks = needed == Role::Viewer || known.role == Role::Viewer;
    let share = if only_looks { Some(app.load.look(&actor.who)?) } else { None };
    if known.role < needed {
        let message = format!("token {} has the role {}; this needs the role {needed}", known.name, known.role);
        let wrong = ApiError::new(Code::Forbidden, message);
        let (subject, refused) = (format!("{} {}", parts.method, parts.uri.path()), wrong.clone());
        let _ = app.core.run(move |keeper| keeper.note(&actor, "request", &subject, Some(&refused))).await;
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
