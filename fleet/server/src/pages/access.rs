//! Who looks at a page, and whether a form is one of ours.

use crate::listener::{BodyError, Peer, read_body};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri, header};
use axum::response::Response;
use fleet_wire::api::{ApiError, Code, Role};
use protocol::report::MAX_BODY;

use super::page::{refuse, see};
use super::session::Session;
use crate::app::App;
use crate::dashboard::Dashboard;

/// Set by the script: that it looks is no use of the session.
const LIVE: &str = "x-live";

impl Session {
    /// Refuses who has not at least this role; that is on record.
    pub(super) async fn needs(&self, app: &App, needed: Role, what: &str) -> Result<(), Response> {
        if self.actor.role >= needed {
            return Ok(());
        }
        let message = format!("{} has the role {}; this needs the role {needed}", self.actor.who, self.actor.role);
        let wrong = ApiError::new(Code::Forbidden, message);
        let (actor, subject, refused) = (self.actor.clone(), what.to_owned(), wrong.clone());
        let _ = app.core.run(move |tx| tx.note(&actor, "request", &subject, Some(&refused))).await;
        Err(refuse(app, Some(self), wrong, "/"))
    }
}

impl FromRequestParts<App> for Session {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Response> {
        let is_use = !parts.headers.contains_key(LIVE);
        Self::find(app, &parts.headers, &from(parts), is_use).await.ok_or_else(|| {
            let next = parts.uri.path_and_query().map_or("/", |path| path.as_str());
            let is_look = parts.method.is_safe() && next != "/" && !next.starts_with("/events");
            let next = form_urlencoded::byte_serialize(next.as_bytes()).collect::<String>();
            if is_look { see(&format!("/login?next={next}")) } else { see("/login") }
        })
    }
}

/// From where a request comes, as the audit log says it.
pub(super) fn from(parts: &Parts) -> String {
    match parts.extensions.get() {
        Some(Peer::Tcp(address)) => address.ip().to_string(),
        Some(Peer::Local { .. }) => "admin socket".to_owned(),
        None => String::new(),
    }
}

/// The values of a form.
pub(super) struct FormFields(pub(super) Vec<(String, String)>);

impl FormFields {
    /// The first value of this name; empty: there is none.
    pub(super) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }
}

/// A form that was sent from one of our own pages, by whoever it may be.
pub(super) struct Own {
    pub(super) parts: Parts,
    pub(super) fields: FormFields,
}

impl FromRequest<App> for Own {
    type Rejection = Response;

    async fn from_request(request: Request, app: &App) -> Result<Self, Response> {
        let (parts, body) = request.into_parts();
        let refused = |code, message: String| refuse(app, None, ApiError::new(code, message), "/");
        if !is_own(&app.dashboard, &parts.headers, &parts.uri) {
            app.core.snapshot().strangers.add();
            return Err(refused(Code::Forbidden, "the form was sent from a page of another server".to_owned()));
        }
        let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !kind.starts_with("application/x-www-form-urlencoded") {
            return Err(refused(Code::BadRequest, "this takes a form".to_owned()));
        }
        let body = read_body(body, MAX_BODY).await.map_err(|error| match error {
            BodyError::TooLarge(_) => refused(Code::TooLarge, format!("the form is larger than {MAX_BODY} bytes")),
            error @ BodyError::TooSlow => refused(Code::TooSlow, error.to_string()),
            error @ BodyError::Broken(_) => refused(Code::BadRequest, error.to_string()),
        })?;
        let fields = form_urlencoded::parse(&body).map(|(name, value)| (name.into_owned(), value.into_owned()));
        Ok(Self { fields: FormFields(fields.collect()), parts })
    }
}

/// A form of a session, with the session's token in it.
pub(super) struct Posted {
    pub(super) session: Session,
    pub(super) fields: FormFields,
}

impl FromRequest<App> for Posted {
    type Rejection = Response;

    async fn from_request(request: Request, app: &App) -> Result<Self, Response> {
        let (mut parts, body) = request.into_parts();
        // Who is not logged in is led to the login before the body is read.
        let session = Session::from_request_parts(&mut parts, app).await?;
        let Own { fields, .. } = Own::from_request(Request::from_parts(parts, body), app).await?;
        // Digests are compared: how far a guess is right cannot be timed.
        if crate::tokens::digest(fields.get("csrf")) != crate::tokens::digest(&session.csrf) {
            app.core.snapshot().strangers.add();
            let message = "the form is not of this session: go back, reload the page and send it again";
            return Err(refuse(app, Some(&session), ApiError::new(Code::Forbidden, message), "/"));
        }
        Ok(Self { session, fields })
    }
}

/// Whether a form comes from a page of this server, as far as its headers say: browsers send at least one of them.
fn is_own(dashboard: &Dashboard, headers: &HeaderMap, uri: &Uri) -> bool {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    if text("sec-fetch-site").is_some_and(|site| !matches!(site, "same-origin" | "none")) {
        return false;
    }
    let Some(origin) = text("origin") else { return true };
    let authority = |address: &str| address.split_once("://").map(|(_, rest)| rest.trim_end_matches('/').to_owned());
    let Some(origin) = authority(origin) else { return false };
    let host = text("host").map(str::to_owned).or_else(|| uri.authority().map(ToString::to_string));
    let public = dashboard.public_addr.as_deref();
    let public = public.map(|address| authority(address).unwrap_or_else(|| address.to_owned()));
    [host, public].into_iter().flatten().any(|ours| ours.eq_ignore_ascii_case(&origin))
}
