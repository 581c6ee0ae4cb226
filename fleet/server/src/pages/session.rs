//! A browser's session, as pages know it.

use axum::http::{HeaderMap, header};
use fleet_wire::api::Role;

use crate::app::App;
use crate::core::Actor;
use crate::dashboard::Dashboard;
use crate::sessions::{self, Holder, LiveSession};

/// A session, by its cookie. Who has none is led to the login.
#[derive(Clone)]
pub(super) struct Session {
    /// Who: the token or the person that logged in, and what may be done now.
    pub(super) actor: Actor,
    /// What forms carry.
    pub(super) csrf: String,
    /// What the cookie holds.
    pub(super) secret: String,
    /// How it ends.
    pub(super) found: LiveSession,
}

impl Session {
    /// The session of a cookie, if it is good, and its token still is.
    pub(super) async fn find(app: &App, headers: &HeaderMap, from: &str, is_use: bool) -> Option<Self> {
        let secret = cookie(headers, cookie_name(&app.dashboard))?;
        let found = app.dashboard.sessions.find(secret, is_use).await?;
        let (who, role) = holder(app, &found.holder)?;
        let actor = Actor { who, from: from.to_owned(), role };
        Some(Self { actor, csrf: sessions::csrf(secret), secret: secret.to_owned(), found })
    }

    /// Whether it is still good.
    pub(super) async fn is_good(&self, app: &App) -> bool {
        let found = app.dashboard.sessions.find(&self.secret, false).await;
        found.is_some_and(|found| holder(app, &found.holder).is_some())
    }
}

/// Who has a session, and what he may do now; `None`: his token is gone, or a program's, for which no page is.
fn holder(app: &App, holder: &Holder) -> Option<(String, Role)> {
    match holder {
        Holder::Token(digest) => {
            let found = app.tokens.with_digest(digest, crate::clock::now());
            let token = found.filter(|token| token.role >= Role::Viewer)?;
            Some((format!("token {}", token.name), token.role))
        }
        Holder::Person { who, role } => Some((who.clone(), *role)),
    }
}

/// The name of the session's cookie. Browsers take `__Host-` from its own server by TLS alone.
pub(super) fn cookie_name(dashboard: &Dashboard) -> &'static str {
    if dashboard.is_secure { "__Host-fleet" } else { "fleet" }
}

/// The value of a cookie.
pub(super) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(known, _)| *known == name).map(|(_, value)| value)
}
