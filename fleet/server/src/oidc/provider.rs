//! Asks a provider: who it is, which keys it has, and what a code is worth. What it says of itself is kept for an hour.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fleet_wire::text;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::sync::Mutex;

use super::discovered::{self, Discovered};
use super::id_token::{Claims, Expected, IdToken};
use super::keys::ProviderKeys;
use super::settings::Oidc;
use crate::outbound::Outbound;
use crate::secret_file;

/// What the provider says of itself is asked for again after it: a key that it took back is then gone.
const FRESH: Duration = Duration::from_secs(60 * 60);
/// Between two questions for keys because a token was signed by none of those that are kept.
const KEYS_EVERY: Duration = Duration::from_secs(60);
/// After a question that failed: strangers cannot have the provider asked more often.
const AGAIN: Duration = Duration::from_secs(5);
/// Most bytes of a document or a set of keys.
const MAX_DOCUMENT: u64 = 256 << 10;
/// Most bytes of an answer with a token.
const MAX_TOKEN: u64 = 128 << 10;
/// Most characters of what it says of an error.
const MAX_ERROR: usize = 200;

/// A provider on the network.
pub(super) struct Provider {
    pub(super) oidc: Oidc,
    outbound: Outbound,
    discovered: Mutex<ProviderCache<Discovered>>,
    keys: Mutex<ProviderCache<ProviderKeys>>,
    /// When keys were asked for last because none had signed a token.
    missed: Mutex<Option<Instant>>,
}

/// What was asked for, and when.
#[derive(Default)]
struct ProviderCache<T> {
    value: Option<(Arc<T>, Instant)>,
    failed: Option<(String, Instant)>,
}

#[derive(Deserialize)]
struct ProviderReply {
    id_token: Option<String>,
    access_token: Option<String>,
    error: Option<String>,
    error_description: Option<String>,
}

/// Why there are no claims.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ProviderError {
    /// The provider does not answer as it should.
    Provider(String),
    /// What came is not good.
    Login(String),
}

impl Provider {
    pub(super) fn new(oidc: Oidc, outbound: Outbound) -> Self {
        Self { oidc, outbound, discovered: Mutex::default(), keys: Mutex::default(), missed: Mutex::default() }
    }

    /// What it says of itself. Whoever asks meanwhile waits for the same answer.
    ///
    /// # Errors
    /// It cannot be asked, or says what cannot be used: one line.
    pub(super) async fn discovered(&self) -> Result<Arc<Discovered>, String> {
        let (issuer, url) = (&self.oidc.issuer, discovered::address(&self.oidc.issuer));
        self.known(&self.discovered, &url, false, |text| Discovered::read(text, issuer)).await
    }

    /// What `url` says, as `read` reads it; what is kept of it as long as it is fresh. `is_too_little`: what is kept lacks something,
    /// so that it is asked for again.
    async fn known<T>(
        &self,
        known: &Mutex<ProviderCache<T>>,
        url: &str,
        is_too_little: bool,
        read: impl FnOnce(&[u8]) -> Result<T, String>,
    ) -> Result<Arc<T>, String> {
        let mut known = known.lock().await;
        match (&known.value, &known.failed) {
            (Some((value, at)), _) if !is_too_little && at.elapsed() < FRESH => return Ok(Arc::clone(value)),
            (_, Some((error, at))) if at.elapsed() < AGAIN => return Err(error.clone()),
            _ => {}
        }
        let text = self.outbound.get(url, MAX_DOCUMENT).await;
        match text.and_then(|text| read(&text)) {
            Ok(value) => {
                let value = Arc::new(value);
                *known = ProviderCache { value: Some((Arc::clone(&value), Instant::now())), failed: None };
                Ok(value)
            }
            Err(error) => {
                let error = format!("{url}: {error}");
                known.failed = Some((error.clone(), Instant::now()));
                Err(error)
            }
        }
    }

    /// What `code` is worth: the claims of the ID token that the provider gives for it, and of userinfo where the token says
    /// nothing of what somebody may do.
    pub(super) async fn claims(&self, code: &str, verifier: &str, nonce: &str) -> Result<Claims, ProviderError> {
        let discovered = self.discovered().await.map_err(ProviderError::Provider)?;
        let (token, access) = self.exchange(&discovered, code, verifier).await?;
        let mut claims = self.checked(&discovered, &token, nonce).await?;
        let claim = &self.oidc.claim;
        if claims.lack(claim)
            && let (Some(url), Some(access)) = (&discovered.userinfo_endpoint, access)
        {
            claims
                .add(self.userinfo(url, &access).await.map_err(ProviderError::Provider)?, claim)
                .map_err(ProviderError::Login)?;
        }
        Ok(claims)
    }

    /// What the ID token `token` says, once it is known to be the provider's and of this login.
    async fn checked(&self, discovered: &Discovered, token: &str, nonce: &str) -> Result<Claims, ProviderError> {
        let token = IdToken::read(token).map_err(ProviderError::Login)?;
        let now = crate::clock::now().as_second();
        let expected = Expected { issuer: &self.oidc.issuer, client_id: &self.oidc.client_id, nonce, now };
        // Again where those that are kept lack the one that signed the token.
        for are_too_few in [false, true] {
            if are_too_few && !self.may_miss().await {
                break;
            }
            let keys = self.known(&self.keys, &discovered.jwks_uri, are_too_few, ProviderKeys::read).await;
            let keys = keys.map_err(ProviderError::Provider)?;
            if let Some(claims) = token.check(&keys, expected).map_err(ProviderError::Login)? {
                return Ok(claims);
            }
        }
        Err(ProviderError::Login(format!(
            "none of the provider's keys has signed the ID token, which names {:?}",
            token.key_id()
        )))
    }

    /// Whether keys may be asked for again because one is missing, which then counts.
    async fn may_miss(&self) -> bool {
        let mut missed = self.missed.lock().await;
        let may = missed.is_none_or(|at| at.elapsed() >= KEYS_EVERY);
        if may {
            *missed = Some(Instant::now());
        }
        may
    }

    async fn userinfo(&self, url: &str, access: &str) -> Result<Map<String, Value>, String> {
        // What a header cannot hold is no token (RFC 6750 §2.1).
        if !access.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("its access token cannot be sent".to_owned());
        }
        let (address, authorization) = (url.to_owned(), format!("Bearer {access}"));
        let asked = self.outbound.ask(MAX_DOCUMENT, move |agent| {
            let request =
                agent.get(&address).header("accept", "application/json").header("authorization", authorization);
            request.config().http_status_as_error(false).build().call()
        });
        let (status, body) = asked.await.map_err(|error| format!("{url}: {error}"))?;
        let read = || serde_json::from_slice(&body).map_err(|error| format!("{url}: {error}"));
        if status == 200 { read() } else { Err(format!("{url} answers {status}")) }
    }

    /// The ID token, and what opens userinfo.
    async fn exchange(
        &self,
        discovered: &Discovered,
        code: &str,
        verifier: &str,
    ) -> Result<(String, Option<String>), ProviderError> {
        let oidc = &self.oidc;
        let (file, user) = (oidc.client_secret_file.clone(), rustix::process::geteuid().as_raw());
        let secret = tokio::task::spawn_blocking(move || secret_file::read(&file, user)).await;
        let secret = secret.map_err(|error| error.to_string()).flatten().map_err(ProviderError::Provider)?;
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &oidc.redirect_uri),
            ("code_verifier", verifier),
        ];
        let mut authorization = None;
        if discovered.takes_basic() {
            authorization = Some(basic(&oidc.client_id, &secret));
        } else {
            form.extend([("client_id", oidc.client_id.as_str()), ("client_secret", &secret)]);
        }
        let (url, form) = (&discovered.token_endpoint, encoded(&form));
        let address = url.clone();
        let sent = self.outbound.ask(MAX_TOKEN, move |agent| {
            let request = agent.post(&address).header("content-type", "application/x-www-form-urlencoded");
            let request = request.header("accept", "application/json");
            let request = authorization.iter().fold(request, |request, value| request.header("authorization", value));
            request.config().http_status_as_error(false).build().send(form)
        });
        let (status, body) = sent.await.map_err(|error| ProviderError::Provider(format!("{url}: {error}")))?;
        let answer: Result<ProviderReply, _> = serde_json::from_slice(&body);
        match (status, answer) {
            (200, Ok(ProviderReply { id_token: Some(token), access_token, error: None, .. })) => {
                Ok((token, access_token))
            }
            (_, Ok(ProviderReply { error: Some(error), error_description, .. })) => {
                let what = reason(&error, error_description.as_deref());
                // Of all errors this one is about the code (RFC 6749 §5.2).
                Err(if status == 400 && error == "invalid_grant" {
                    ProviderError::Login(format!("the provider does not take the code: {what}"))
                } else {
                    ProviderError::Provider(format!("{url} answers {status}: {what}"))
                })
            }
            _ => Err(ProviderError::Provider(format!("{url} answers {status} without an ID token"))),
        }
    }
}

/// An error and what is said of it, for the log.
pub(super) fn reason(error: &str, description: Option<&str>) -> String {
    let words = [Some(error), description].into_iter().flatten().collect::<Vec<_>>().join(": ");
    text::clean(&words.chars().take(MAX_ERROR).collect::<String>()).into_owned()
}

/// As a form or a query is sent.
pub(super) fn encoded(pairs: &[(&str, &str)]) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
}

/// Name and secret are encoded as in a form before they are joined (RFC 6749 §2.3.1).
fn basic(client_id: &str, secret: &str) -> String {
    let encode = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    format!("Basic {}", STANDARD.encode(format!("{}:{}", encode(client_id), encode(secret))))
}
