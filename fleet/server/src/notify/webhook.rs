//! A webhook: messages as JSON, signed as Standard Webhooks has it (<https://www.standardwebhooks.com>).

use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fleet_engine::resource;
use fleet_store::Finding;
use jiff::Timestamp;
use ring::hmac;

use super::event::WebhookEvent;
use crate::outbound::Outbound;
use crate::secret_file;

/// For a whole delivery. A receiver that has more to do than to take the message does it afterwards.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Fewest bytes of a secret (Standard Webhooks).
const SHORTEST: usize = 24;
/// Of a secret that is written in base64.
const PREFIX: &str = "whsec_";

/// The receiver's name: of its thread, its file, its lines in the log, and its metrics.
pub(crate) const WEBHOOK: &str = "webhook";

/// Who is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Receiver {
    /// Where messages are posted.
    pub(super) url: String,
    /// The file with the secret that signs them.
    pub(super) secret_file: PathBuf,
}

impl Receiver {
    /// Of the settings `webhook_url` and `webhook_secret_file`; `None`: nobody is told.
    ///
    /// # Errors
    /// One line: which of them is wrong, and what is allowed. It does not show the address, which may have a key in it.
    pub(crate) fn of(url: Option<String>, secret_file: Option<PathBuf>) -> Result<Option<Self>, String> {
        match (url, secret_file) {
            (Some(url), Some(secret_file)) => {
                resource::check_url(&url).map_err(|what| format!("webhook_url: {what}"))?;
                Ok(Some(Self { url, secret_file }))
            }
            (None, None) => Ok(None),
            (Some(_), None) => Err("webhook_url needs webhook_secret_file: messages are signed".to_owned()),
            (None, Some(_)) => Err("webhook_secret_file needs webhook_url".to_owned()),
        }
    }
}

/// Whether a server that runs as `user` can use it, as far as can be seen without telling anybody anything.
pub(crate) fn doctor(receiver: &Receiver, user: u32) -> Finding {
    let Receiver { url, secret_file } = receiver;
    match Secret::read(secret_file, user) {
        Ok(_) => Finding::ok(format!("webhook {}, signed with {}", origin(url), secret_file.display())),
        Err(error) => Finding::problem(format!("the webhook gets nothing: {error}"), ADVICE),
    }
}

/// What helps against a bad secret file.
const ADVICE: &str = "write 24 random bytes or more into it, for instance with `openssl rand -hex 32`, of mode 0600, and give it \
                      to the server's user";

/// A receiver behind an address.
pub(super) struct Webhook {
    pub(super) receiver: Receiver,
    pub(super) outbound: Outbound,
}

impl Webhook {
    /// Tells an event, signed with what the secret's file has at that time; it may take seconds.
    ///
    /// # Errors
    /// Why the receiver did not take it: one line.
    pub(super) fn tell(&self, event: &WebhookEvent) -> Result<(), String> {
        let secret = Secret::read(&self.receiver.secret_file, rustix::process::geteuid().as_raw())?;
        let (body, at) = (event.body(), crate::clock::now());
        let (timestamp, signature) = (at.as_second().to_string(), secret.sign(&event.id, at, &body));
        let request = self.outbound.agent.post(&self.receiver.url).header("content-type", "application/json");
        let request = request.header("webhook-id", &event.id).header("webhook-timestamp", timestamp);
        let request = request.header("webhook-signature", signature).config();
        let request = request.timeout_global(Some(TIMEOUT)).http_status_as_error(false).build();
        let status = request.send(body).map_err(|error| error.to_string())?.status().as_u16();
        match status {
            200..=299 => Ok(()),
            300..=399 => Err(format!("it answers {status}: redirects are not followed")),
            _ => Err(format!("it answers {status}")),
        }
    }
}

/// Scheme, host and port: what follows may be a key.
pub(super) fn origin(url: &str) -> &str {
    let host = url.find("://").map_or(0, |at| at + 3);
    let end = url.get(host..).and_then(|rest| rest.find(['/', '?'])).map_or(url.len(), |length| host + length);
    url.get(..end).unwrap_or_default()
}

/// What signs messages. It is never shown.
pub(super) struct Secret(Vec<u8>);

impl Secret {
    /// The secret in `file`: a line of text, or `whsec_` and base64. Nobody but its owner may have any right to the file, and that is
    /// root or `user`, as whom the server runs.
    ///
    /// # Errors
    /// Why there is none: one line.
    pub(super) fn read(file: &Path, user: u32) -> Result<Self, String> {
        let text = secret_file::read(file, user)?;
        Self::of(&text).map_err(|what| format!("the secret {} {what}", file.display()))
    }

    fn of(text: &str) -> Result<Self, &'static str> {
        let bytes = match text.strip_prefix(PREFIX) {
            Some(encoded) => STANDARD.decode(encoded).map_err(|_| "is not whsec_ and base64")?,
            None => text.as_bytes().to_vec(),
        };
        if bytes.len() < SHORTEST { Err("is shorter than 24 bytes") } else { Ok(Self(bytes)) }
    }

    /// The signature of a message that is sent at `at`.
    fn sign(&self, id: &str, at: Timestamp, body: &str) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.0);
        let signed = format!("{id}.{}.{body}", at.as_second());
        format!("v1,{}", STANDARD.encode(hmac::sign(&key, signed.as_bytes())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sample of the Standard Webhooks' own libraries.
    #[test]
    fn a_message_is_signed_as_standard_webhooks_has_it() {
        let secret = Secret::of("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap_or_else(|what| panic!("{what}"));
        let at = Timestamp::from_second(1_614_265_330).unwrap();
        let signature = secret.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", at, "{\"test\": 2432232314}");
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_short_secret_is_none_and_of_an_address_only_the_origin_is_shown() {
        assert!(Secret::of("").is_err() && Secret::of(&"x".repeat(23)).is_err() && Secret::of("whsec_ä").is_err());
        assert!(Secret::of(&"x".repeat(24)).is_ok());
        assert_eq!(origin("https://a.example:8443/hooks/KEY?x=1"), "https://a.example:8443");
        assert_eq!(origin("https://a.example?KEY"), "https://a.example");
    }

    #[test]
    fn what_does_not_go_together_is_refused_and_the_address_is_not_shown() {
        let of = |url: Option<&str>, file: Option<&str>| Receiver::of(url.map(str::to_owned), file.map(PathBuf::from));
        assert_eq!(of(None, None), Ok(None));
        assert!(of(Some("https://example.com/key"), Some("/s")).is_ok_and(|receiver| receiver.is_some()));
        assert!(of(Some("http://127.0.0.1:1/"), Some("/s")).is_ok());
        for (url, file) in [
            (Some("https://example.com/key"), None),
            (None, Some("/s")),
            (Some("http://example.com/key"), Some("/s")),
            (Some("ftp://example.com/key"), Some("/s")),
        ] {
            let error = of(url, file).unwrap_err();
            assert!(!error.contains("key"), "{error}");
        }
    }
}
