//! The two steps of a login: to the provider, and back from it.

use std::sync::Arc;

use fleet_wire::api::Role;
use tokio::sync::Semaphore;

use super::id_token::Claims;
use super::provider::{Provider, ProviderError, encoded, reason};
use super::settings::Oidc;
use super::trip::Trip;
use crate::clock;
use crate::outbound::Outbound;

/// Logins that may wait for the provider at the same time.
const WAITING: usize = 16;
/// Longest code that is passed on, bytes.
const LONGEST_CODE: usize = 4096;

/// Logs people in.
#[derive(Clone)]
pub(crate) struct OidcLogin(Arc<LoginState>);

struct LoginState {
    provider: Provider,
    places: Semaphore,
}

/// Who came back.
#[derive(Debug)]
pub(crate) struct LoggedInUser {
    /// `oidc SUBJECT (EMAIL)`.
    pub(crate) who: String,
    /// By the configuration.
    pub(crate) role: Role,
    /// The path that is shown.
    pub(crate) next: String,
}

/// Why nobody is logged in.
#[derive(Debug)]
pub(crate) enum LoginRefusal {
    /// What came back is no login that this server began in this browser.
    NotBegun,
    /// What came back is not good: what people read, and what the log says.
    Login(String, String),
    /// The provider does not answer as it should: what the log says.
    Provider(String),
    /// Whoever is at the provider did not agree: what people read.
    Denied(String),
    /// Somebody whom the configuration gives no role, and why.
    NoRole(String, String),
    /// Too many wait for the provider.
    Busy,
}

impl OidcLogin {
    /// By this provider.
    pub(crate) fn new(oidc: Oidc, outbound: Outbound) -> Self {
        Self(Arc::new(LoginState { provider: Provider::new(oidc, outbound), places: Semaphore::new(WAITING) }))
    }

    /// Host and port of the issuer, for people.
    pub(crate) fn host(&self) -> &str {
        self.0.provider.oidc.host()
    }

    /// Sends somebody to the provider, to be shown `next` afterwards: the address, and what the browser's cookie has.
    pub(crate) async fn depart(&self, next: String) -> Result<(String, String), LoginRefusal> {
        let own = self.clone();
        whole(async move { own.sent(&next).await }).await
    }

    /// Who comes back with this query and this cookie.
    pub(crate) async fn arrive(&self, query: String, cookie: Option<String>) -> Result<LoggedInUser, LoginRefusal> {
        let own = self.clone();
        whole(async move { own.come(&query, cookie.as_deref()).await }).await
    }

    /// What shall be shown after the login that was begun here, in the browser with this cookie, and to which the query belongs;
    /// `None`: there is none.
    pub(crate) fn next(query: &str, cookie: Option<&str>) -> Option<String> {
        resume(&CallbackQuery::read(query), cookie).map(|trip| trip.next)
    }

    async fn sent(&self, next: &str) -> Result<(String, String), LoginRefusal> {
        let _place = self.0.places.try_acquire().map_err(|_| LoginRefusal::Busy)?;
        let discovered = self.0.provider.discovered().await.map_err(LoginRefusal::Provider)?;
        let trip = Trip::begin(next, clock::now().as_second());
        let trip = trip.ok_or_else(|| LoginRefusal::Provider("this server has no random numbers".to_owned()))?;
        let oidc = &self.0.provider.oidc;
        let query = encoded(&[
            ("response_type", "code"),
            ("client_id", &oidc.client_id),
            ("redirect_uri", &oidc.redirect_uri),
            ("scope", &oidc.scopes),
            ("state", &trip.state),
            ("nonce", &trip.nonce),
            ("code_challenge", &trip.challenge()),
            ("code_challenge_method", "S256"),
        ]);
        let endpoint = &discovered.authorization_endpoint;
        let mark = if endpoint.contains('?') { '&' } else { '?' };
        Ok((format!("{endpoint}{mark}{query}"), trip.cookie))
    }

    async fn come(&self, query: &str, cookie: Option<&str>) -> Result<LoggedInUser, LoginRefusal> {
        let query = CallbackQuery::read(query);
        let trip = resume(&query, cookie).ok_or(LoginRefusal::NotBegun)?;
        // Who did not begin here takes no place of who did.
        let _place = self.0.places.try_acquire().map_err(|_| LoginRefusal::Busy)?;
        self.refused_there(&query).await?;
        let claims = self.claims(&query, &trip).await.map_err(|fault| match fault {
            ProviderError::Provider(why) => LoginRefusal::Provider(why),
            ProviderError::Login(why) => {
                let told =
                    format!("what {} says of you is not good: log in again; the server's log says more", self.host());
                LoginRefusal::Login(told, why)
            }
        })?;
        let (oidc, who) = (&self.0.provider.oidc, claims.who());
        match claims.role(&oidc.claim, &oidc.roles) {
            Ok(role) => Ok(LoggedInUser { who, role, next: trip.next }),
            Err(why) => Err(LoginRefusal::NoRole(who, why)),
        }
    }

    /// What the provider says in place of a code; and whether it was this provider (RFC 9207).
    async fn refused_there(&self, query: &CallbackQuery) -> Result<(), LoginRefusal> {
        let discovered = self.0.provider.discovered().await.map_err(LoginRefusal::Provider)?;
        let (said, issuer) = (query.get("iss"), &self.0.provider.oidc.issuer);
        if said != issuer && (discovered.names_itself || !said.is_empty()) {
            let told = "the login comes back from another provider: log in again";
            return Err(LoginRefusal::Login(told.to_owned(), "iss of another provider".to_owned()));
        }
        let error = query.get("error");
        if error.is_empty() {
            return Ok(());
        }
        let is_code = error.len() <= 64 && error.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        let error = if is_code { error } else { "an error" };
        let told = format!("{} did not log you in: {error}", self.host());
        // Who presses `Cancel` has not guessed anything.
        Err(if error == "access_denied" {
            LoginRefusal::Denied(told)
        } else {
            LoginRefusal::Login(told, format!("it says {}", reason(error, Some(query.get("error_description")))))
        })
    }

    async fn claims(&self, query: &CallbackQuery, trip: &Trip) -> Result<Claims, ProviderError> {
        let code = query.get("code");
        if code.is_empty() || code.len() > LONGEST_CODE {
            return Err(ProviderError::Login("it came back without a code".to_owned()));
        }
        self.0.provider.claims(code, &trip.verifier, &trip.nonce).await
    }
}

fn resume(query: &CallbackQuery, cookie: Option<&str>) -> Option<Trip> {
    Trip::resume(cookie?, query.get("state"), clock::now().as_second())
}

/// It goes on though the browser has left: else whoever asks and leaves could have the provider asked without end.
async fn whole<T: Send + 'static>(
    step: impl Future<Output = Result<T, LoginRefusal>> + Send + 'static,
) -> Result<T, LoginRefusal> {
    tokio::spawn(step).await.unwrap_or_else(|error| Err(LoginRefusal::Provider(error.to_string())))
}

/// The values of a query.
struct CallbackQuery(Vec<(String, String)>);

impl CallbackQuery {
    fn read(text: &str) -> Self {
        Self(form_urlencoded::parse(text.as_bytes()).into_owned().collect())
    }

    /// The only value of this name; else empty.
    fn get(&self, name: &str) -> &str {
        let mut found = self.0.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str());
        match (found.next(), found.next()) {
            (Some(only), None) => only,
            _ => "",
        }
    }
}
