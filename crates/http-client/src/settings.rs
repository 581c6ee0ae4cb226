//! How servers are reached: roots, proxies, what a mirror asks for, and how long each phase may take.

use std::path::PathBuf;
use std::time::Duration;

use ureq::http::Uri;

use super::redirect::same_origin;
use super::resolve::Trace;
use super::retry::Retry;
use super::route::Proxies;

/// How to reach servers. Filled from the environment, the command line and `updates.yaml`.
#[derive(Clone, Default)]
pub struct HttpSettings {
    /// What servers see: `teleport-update/1.0.0`.
    pub user_agent: &'static str,
    /// Further trusted roots (`--ca-file`), one or more PEM certificates, by content.
    pub ca_pem: Option<String>,
    /// Where [`Self::ca_pem`] stands, for an error.
    pub ca_place: &'static str,
    /// `SSL_CERT_FILE`: replaces the system's roots.
    pub cert_file: Option<PathBuf>,
    /// `SSL_CERT_DIR`: replaces the system's roots.
    pub cert_dirs: Vec<PathBuf>,
    /// `--insecure`: certificates are not checked, `http://` is allowed.
    pub insecure: bool,
    /// HTTP proxies.
    pub proxies: Proxies,
    /// What a private mirror and a source ask for.
    pub credentials: Vec<Credentials>,
    /// Longest times of the phases of a request.
    pub timeouts: Timeouts,
    /// When a request is tried again.
    pub retry: Retry,
    /// Who is told which names were looked up.
    pub trace: Trace,
    /// Who is told what a request waits for, once there was no answer for [`Timeouts::silence`].
    pub waits: Trace,
}

impl HttpSettings {
    /// Proxies and roots as the environment names them. `var` gives its variables; an empty one must be none.
    pub fn from_env(user_agent: &'static str, var: &dyn Fn(&str) -> Option<String>) -> Self {
        Self {
            user_agent,
            cert_file: var("SSL_CERT_FILE").map(PathBuf::from),
            cert_dirs: var("SSL_CERT_DIR").map(|dirs| std::env::split_paths(&dirs).collect()).unwrap_or_default(),
            proxies: Proxies::from_env(var),
            ..Self::default()
        }
    }
}

/// An `Authorization` header for one mirror or source, sent to its own origin and below its own path only.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The mirror's base URL, or the source's origin.
    pub base_url: String,
    /// The header's value: `Bearer …` or `Basic …`.
    pub header: String,
}

impl Credentials {
    pub(super) fn fit(&self, url: &Uri) -> bool {
        let Ok(base) = self.base_url.parse::<Uri>() else { return false };
        let folder = base.path().trim_end_matches('/');
        let below = url.path().strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
        // Servers resolve dots: such a path may lead out of the mirror's folder.
        same_origin(&base, url) && below && !url.path().contains("/.")
    }
}

/// Longest times of the phases of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeouts {
    /// Looking up the name.
    pub resolve: Duration,
    /// Connecting, TLS and HTTP proxy included.
    pub connect: Duration,
    /// Sending the request.
    pub send: Duration,
    /// Until the answer's header is there.
    pub answer: Duration,
    /// Between two reads of a body.
    pub read: Duration,
    /// A whole small answer, tries and waits included: a dripping one must not hold a run for ever.
    pub question: Duration,
    /// Until it is said what is waited for.
    pub silence: Duration,
}

impl Default for Timeouts {
    /// Long enough for a bad mobile link, short enough for a timer's run.
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            resolve: seconds(10),
            connect: seconds(15),
            send: seconds(15),
            answer: seconds(30),
            read: seconds(30),
            question: seconds(120),
            silence: seconds(5),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing_client::{client, never};
    use super::super::{Client, Request};
    use super::*;
    use std::sync::{Arc, OnceLock};
    use testing::loopback::{Reply, Server};

    /// A client with credentials for what is below `/m` there.
    fn with_credentials(mirror: &Server) -> Client {
        let credentials = Credentials { base_url: mirror.url("/m"), header: "Bearer secret".into() };
        client(|settings| settings.credentials = vec![credentials])
    }

    /// Which requests had them.
    fn sent(mirror: &Server) -> Vec<bool> {
        mirror.requests().iter().map(|request| request.field("authorization").is_some()).collect()
    }

    #[test]
    fn credentials_stay_with_their_mirror() {
        let other = Server::start(|_| Reply::ok(b"other"));
        let target = other.url("/elsewhere");
        let mirror = Server::start(move |request| match request.path.as_str() {
            "/m/away" => Reply::status(302).header("Location", &target),
            "/m/near" => Reply::status(302).header("Location", "/m/file"),
            _ => Reply::ok(b"file"),
        });
        let client = with_credentials(&mirror);
        client.ask(&Request::get(mirror.url("/m/near")), &never).unwrap();
        client.ask(&Request::get(mirror.url("/m/away")), &never).unwrap();
        client.ask(&Request::get(mirror.url("/other/file")), &never).unwrap();
        client.ask(&Request::get(mirror.url("/m/../file")), &never).unwrap();
        assert_eq!(sent(&mirror), [true, true, true, false, false]);
        assert_eq!(other.requests()[0].field("authorization"), None);
    }

    #[test]
    fn a_strange_server_cannot_have_credentials_sent_by_pointing_back() {
        let home = Arc::new(OnceLock::new());
        let back: Arc<OnceLock<String>> = home.clone();
        let other = Server::start(move |_| Reply::status(302).header("Location", back.get().unwrap()));
        let target = other.url("/");
        let mirror = Server::start(move |request| match request.path.as_str() {
            "/m/away" => Reply::status(302).header("Location", &target),
            _ => Reply::ok(b"file"),
        });
        home.set(mirror.url("/m/file")).unwrap();
        let client = with_credentials(&mirror);
        assert_eq!(client.ask(&Request::get(mirror.url("/m/away")), &never).unwrap().body, b"file");
        assert_eq!(sent(&mirror), [true, false]);
    }
}
