//! HTTP for the find question and for archives (SPEC §3, §4): time-outs per phase, few redirects, few retries, proxies.
//!
//! Bodies are never decoded: what is hashed is what arrived. Nothing secret gets into an error: URLs are shown without
//! userinfo and query.

mod route;
#[cfg(test)]
pub(crate) mod test_server;
mod trust;

use std::fmt;
use std::io::Read;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, mpsc};
use std::time::{Duration, Instant};

use ureq::Agent;
use ureq::http::{HeaderMap, Uri, header};
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use crate::host::Host;
use crate::report::{Code, Error, Result};
pub(crate) use route::Proxies;
use trust::Places;

/// Most bytes of a small answer (SPEC §3): a find answer has a few hundred.
pub(crate) const SMALL_BODY: u64 = 1 << 20;
/// Most redirects followed (SPEC §3).
const MAX_REDIRECTS: usize = 3;
/// How often a wait looks whether it was cancelled: an operator's Ctrl-C should feel immediate.
const SLICE: Duration = Duration::from_millis(100);
/// What servers see.
const USER_AGENT: &str = concat!("teleport-update/", env!("CARGO_PKG_VERSION"));

/// How to reach servers. Filled from the environment, the command line and `updates.yaml`.
#[derive(Debug, Clone, Default)]
pub(crate) struct HttpSettings {
    /// Further trusted roots (`--ca-file`), one or more PEM certificates, by content.
    pub ca_pem: Option<String>,
    /// `SSL_CERT_FILE`: replaces the system's roots.
    pub cert_file: Option<PathBuf>,
    /// `SSL_CERT_DIR`: replaces the system's roots.
    pub cert_dirs: Vec<PathBuf>,
    /// `--insecure`: certificates are not checked, `http://` is allowed.
    pub insecure: bool,
    /// HTTP proxies.
    pub proxies: Proxies,
    /// What a private mirror asks for.
    pub credentials: Option<Credentials>,
    /// Longest times of the phases of a request.
    pub timeouts: Timeouts,
    /// When a request is tried again.
    pub retry: Retry,
}

impl HttpSettings {
    /// Proxies and roots as the environment names them.
    pub(crate) fn from_env(host: &Host) -> Self {
        Self {
            cert_file: host.var("SSL_CERT_FILE").map(PathBuf::from),
            cert_dirs: host.var("SSL_CERT_DIR").map(|dirs| std::env::split_paths(dirs).collect()).unwrap_or_default(),
            proxies: Proxies::from_env(host),
            ..Self::default()
        }
    }
}

/// An `Authorization` header for one mirror, sent to its own origin and below its own path only.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Credentials {
    /// The mirror's base URL.
    pub base_url: String,
    /// The header's value: `Bearer …` or `Basic …`.
    pub header: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("base_url", &redact(&self.base_url)).finish_non_exhaustive()
    }
}

impl Credentials {
    fn fit(&self, url: &Uri) -> bool {
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
        }
    }
}

/// When a request is tried again: connection errors, 5xx, 429.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// Tries in all, at least 1.
    pub tries: u32,
    /// The first wait; it doubles.
    pub first_wait: Duration,
    /// Longest single wait; a `Retry-After` beyond it ends the tries.
    pub longest_wait: Duration,
    /// No new try starts later than this after the first.
    pub total: Duration,
}

impl Default for Retry {
    /// Over in about a minute: the timer comes again anyway.
    fn default() -> Self {
        Self {
            tries: 4,
            first_wait: Duration::from_millis(500),
            longest_wait: Duration::from_secs(30),
            total: Duration::from_secs(60),
        }
    }
}

/// A request without a body.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// The whole URL, query included.
    pub url: String,
    /// HEAD in place of GET.
    pub head: bool,
    /// Further header fields.
    pub headers: Vec<(&'static str, String)>,
    /// Longest time for everything, tries and waits and small bodies included.
    pub deadline: Option<Duration>,
}

impl Request {
    /// A plain GET.
    pub(crate) fn get(url: impl Into<String>) -> Self {
        Self { url: url.into(), head: false, headers: Vec::new(), deadline: None }
    }

    /// A plain HEAD.
    pub(crate) fn head(url: impl Into<String>) -> Self {
        Self { head: true, ..Self::get(url) }
    }

    /// With a longest time for everything.
    #[must_use]
    pub(crate) fn within(mut self, deadline: Option<Duration>) -> Self {
        self.deadline = deadline;
        self
    }
}

/// A whole small answer, of any status that a further try would not change.
#[derive(Debug)]
pub(crate) struct Answer {
    /// HTTP status.
    pub status: u16,
    /// At most [`SMALL_BODY`] bytes.
    pub body: Vec<u8>,
}

/// An answer whose body is still to be read.
pub(crate) struct Stream {
    /// HTTP status.
    pub status: u16,
    /// Header fields.
    pub headers: HeaderMap,
    /// The undecoded body; each read has the read time-out.
    pub body: Box<dyn Read + Send>,
}

impl Stream {
    /// A header field that is text.
    pub(crate) fn field(&self, name: header::HeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// `Content-Length`, bytes.
    pub(crate) fn length(&self) -> Option<u64> {
        self.field(header::CONTENT_LENGTH).and_then(|text| text.trim().parse().ok())
    }
}

/// Asks servers. Cheap to make and to clone: roots are loaded with the first request.
#[derive(Clone)]
pub(crate) struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    settings: HttpSettings,
    own_roots: Vec<Certificate<'static>>,
    /// Believes the system's bundle.
    agent: OnceLock<Result<Agent>>,
    /// Believes everything that the system believes: made when a server's authority was not in the bundle.
    thorough: OnceLock<Result<Agent>>,
}

struct Failure {
    error: Error,
    may_pass: bool,
    retry_after: Option<Duration>,
}

impl Failure {
    fn lasting(error: Error) -> Self {
        Self { error, may_pass: false, retry_after: None }
    }

    fn passing(error: Error) -> Self {
        Self { error, may_pass: true, retry_after: None }
    }
}

impl Client {
    /// Checks the settings; touches neither network nor the system's roots.
    ///
    /// Errors: [`Code::ConfigInvalid`] for a proxy address or `ca_pem` that cannot be used.
    pub(crate) fn new(settings: &HttpSettings) -> Result<Self> {
        settings.proxies.check()?;
        let own_roots = settings.ca_pem.as_deref().map_or(Ok(Vec::new()), trust::certificates)?;
        let (agent, thorough) = (OnceLock::new(), OnceLock::new());
        Ok(Self { inner: Arc::new(Inner { settings: settings.clone(), own_roots, agent, thorough }) })
    }

    /// Whether `--insecure` holds.
    pub(crate) fn is_insecure(&self) -> bool {
        self.inner.settings.insecure
    }

    /// Asks and reads the whole answer, at most [`SMALL_BODY`] bytes.
    ///
    /// Errors: [`Code::Network`] when the tries are used up, the answer is too large or is a refused redirect;
    /// [`Code::Interrupted`].
    pub(crate) fn ask(&self, ask: &Request, cancelled: &dyn Fn() -> bool) -> Result<Answer> {
        let ask = ask.clone().within(ask.deadline.or(Some(self.inner.settings.timeouts.question)));
        self.with_retries(&ask, cancelled, |stream, url| {
            let mut body = Vec::new();
            stream.body.take(SMALL_BODY + 1).read_to_end(&mut body).map_err(|error| {
                Failure::passing(Error::new(
                    Code::Network,
                    format!("cannot read the answer of {}: {}", shown(url), redact(&error.to_string())),
                ))
            })?;
            if body.len() as u64 > SMALL_BODY {
                return Err(Failure::lasting(Error::new(
                    Code::Network,
                    format!("{} answered with more than {SMALL_BODY} bytes", shown(url)),
                )));
            }
            Ok(Answer { status: stream.status, body })
        })
    }

    /// Asks and gives the answer as soon as its header is there. Errors: as [`Client::ask`].
    pub(crate) fn open(&self, ask: &Request, cancelled: &dyn Fn() -> bool) -> Result<Stream> {
        self.with_retries(ask, cancelled, |stream, _| Ok(stream))
    }

    fn with_retries<T: Send + 'static>(
        &self,
        ask: &Request,
        cancelled: &dyn Fn() -> bool,
        finish: fn(Stream, &str) -> Result<T, Failure>,
    ) -> Result<T> {
        let retry = &self.inner.settings.retry;
        let start = Instant::now();
        let end = ask.deadline.map(|deadline| start + deadline);
        let mut backoff = retry.first_wait;
        let mut tries = 0;
        loop {
            tries += 1;
            let failure = match self.attempt(ask, end, cancelled, finish) {
                Ok(value) => return Ok(value),
                Err(failure) => failure,
            };
            // Who asks for a longer rest gets it: the timer comes again, this run gives up.
            let rests = failure.retry_after.is_some_and(|rest| rest > retry.longest_wait);
            let wait = failure.retry_after.unwrap_or(backoff).min(retry.longest_wait);
            let next = Instant::now() + wait;
            let too_late = next > start + retry.total || end.is_some_and(|end| next >= end);
            if !failure.may_pass || tries >= retry.tries || too_late || rests {
                return Err(failure.error);
            }
            pause(wait, cancelled)?;
            backoff *= 2;
        }
    }

    /// One try, in a thread of its own: name look-ups and connects cannot be interrupted, but they can be left behind.
    fn attempt<T: Send + 'static>(
        &self,
        ask: &Request,
        end: Option<Instant>,
        cancelled: &dyn Fn() -> bool,
        finish: fn(Stream, &str) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let (client, request) = (self.clone(), ask.clone());
        let work = move || {
            let result = client.exchange(&request, end).and_then(|stream| finish(stream, &request.url));
            let _ = sender.send(result);
        };
        std::thread::Builder::new().name("http".into()).spawn(work).map_err(|error| {
            Failure::lasting(Error::new(Code::Io, format!("cannot start a thread for {}: {error}", shown(&ask.url))))
        })?;
        loop {
            let left = end.map_or(SLICE, |end| end.saturating_duration_since(Instant::now()));
            match receiver.recv_timeout(SLICE.min(left)) {
                Ok(result) => return result,
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    return Err(Failure::lasting(Error::new(
                        Code::Io,
                        format!("internal error: the thread for the request to {} ended unexpectedly", shown(&ask.url)),
                    )));
                }
                Err(mpsc::RecvTimeoutError::Timeout) if cancelled() => return Err(Failure::lasting(interrupted())),
                Err(mpsc::RecvTimeoutError::Timeout) if end.is_some_and(|end| Instant::now() >= end) => {
                    return Err(Failure::lasting(
                        Error::new(Code::Network, format!("{} did not answer in time", shown(&ask.url)))
                            .advise("check the network and the address"),
                    ));
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// One request with its redirects.
    fn exchange(&self, ask: &Request, end: Option<Instant>) -> Result<Stream, Failure> {
        let mut url = ask.url.clone();
        let mut is_at_home = true;
        for _ in 0..=MAX_REDIRECTS {
            let (response, uri) = self.call(ask, &url, is_at_home, end)?;
            let status = response.status().as_u16();
            if status == 429 || status >= 500 {
                return Err(Failure {
                    error: Error::new(Code::Network, format!("{} answered {status}", shown(&url)))
                        .advise("try again later"),
                    may_pass: true,
                    retry_after: retry_after(response.headers()),
                });
            }
            let location = response.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
            let Some(location) = location.filter(|_| matches!(status, 301 | 302 | 303 | 307 | 308)) else {
                let (parts, body) = response.into_parts();
                return Ok(Stream { status, headers: parts.headers, body: Box::new(body.into_reader()) });
            };
            let next = join(&uri, location)
                .and_then(|next| next.parse::<Uri>().ok())
                .filter(|next| next.host().is_some())
                .ok_or_else(|| {
                    let what = format!("{} sent a redirect without a valid Location", shown(&url));
                    Failure::lasting(Error::new(Code::Network, what))
                })?;
            if uri.scheme_str() == Some("https") && next.scheme_str() != Some("https") {
                return Err(Failure::lasting(Error::new(
                    Code::Network,
                    format!("{} redirects away from https, to {}", shown(&url), shown(&next.to_string())),
                )));
            }
            is_at_home &= same_origin(&uri, &next);
            url = next.to_string();
        }
        Err(Failure::lasting(Error::new(
            Code::Network,
            format!("{} redirects more than {MAX_REDIRECTS} times", shown(&ask.url)),
        )))
    }

    fn call(
        &self,
        ask: &Request,
        url: &str,
        is_at_home: bool,
        end: Option<Instant>,
    ) -> Result<(ureq::http::Response<ureq::Body>, Uri), Failure> {
        let settings = &self.inner.settings;
        let uri: Uri = url
            .parse()
            .map_err(|_| Failure::lasting(Error::new(Code::Usage, format!("{} is not a URL", shown(url)))))?;
        match uri.scheme_str() {
            Some("https") => {}
            Some("http") if settings.insecure => {}
            _ => {
                return Err(Failure::lasting(
                    Error::new(Code::Usage, format!("{} is not an https:// URL", shown(url)))
                        .advise("use https, or --insecure for a test"),
                ));
            }
        }
        let proxy = settings.proxies.route(&uri).map_err(Failure::lasting)?;
        let way = proxy
            .as_ref()
            .map_or_else(String::new, |proxy| format!(" through the HTTP proxy {}:{}", proxy.host(), proxy.port()));
        let send = |agent: &Agent| {
            let request = if ask.head { agent.head(url) } else { agent.get(url) };
            let mut request = request.header(header::ACCEPT_ENCODING, "identity");
            for (name, value) in &ask.headers {
                request = request.header(*name, value);
            }
            if let Some(credentials) = &settings.credentials
                && is_at_home
                && credentials.fit(&uri)
            {
                request = request.header(header::AUTHORIZATION, &credentials.header);
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            request.config().proxy(proxy.clone()).timeout_global(left).build().call()
        };
        let mut answer = send(&self.inner.agent().map_err(Failure::lasting)?);
        if let Err(error) = &answer
            && trust::is_refusal(error)
            && let Some(thorough) = self.inner.more_trusting()
        {
            answer = send(&thorough.map_err(Failure::lasting)?);
        }
        let response = answer.map_err(|error| failure(error, url, &way))?;
        Ok((response, uri))
    }
}

impl Inner {
    /// The agent that believes most of those made so far.
    fn agent(&self) -> Result<Agent> {
        self.thorough.get().unwrap_or_else(|| self.agent.get_or_init(|| self.agent_with(Places::Bundle))).clone()
    }

    /// An agent that believes more than [`Inner::agent`] did; `None` if there is nobody more to believe.
    fn more_trusting(&self) -> Option<Result<Agent>> {
        let is_used_up = self.thorough.get().is_some() || !trust::are_systems(&self.settings);
        (!is_used_up).then(|| self.thorough.get_or_init(|| self.agent_with(Places::Everywhere)).clone())
    }

    fn agent_with(&self, places: Places) -> Result<Agent> {
        let settings = &self.settings;
        let mut roots = self.own_roots.clone();
        if !settings.insecure {
            roots.extend(trust::system_roots(settings, places));
            if roots.is_empty() {
                return Err(Error::new(Code::ConfigInvalid, "this system has no trusted certificate authorities")
                    .advise("install ca-certificates, set SSL_CERT_FILE, or use --ca-file"));
            }
        }
        let timeouts = &settings.timeouts;
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::new_with_certs(&roots))
            .disable_verification(settings.insecure)
            .unversioned_rustls_crypto_provider(Arc::new(trust::provider()))
            .build();
        Ok(Agent::config_builder()
            .tls_config(tls)
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(USER_AGENT)
            .proxy(None)
            .timeout_resolve(Some(timeouts.resolve))
            .timeout_connect(Some(timeouts.connect))
            .timeout_send_request(Some(timeouts.send))
            .timeout_recv_response(Some(timeouts.answer))
            .timeout_per_read(Some(timeouts.read))
            .timeout_per_write(Some(timeouts.send))
            .build()
            .new_agent())
    }
}

fn failure(error: ureq::Error, url: &str, way: &str) -> Failure {
    let told = Error::new(Code::Network, format!("cannot reach {}{way}: {}", shown(url), redact(&error.to_string())));
    let is_certificate = matches!(error, ureq::Error::Rustls(_) | ureq::Error::Tls(_)) || trust::is_refusal(&error);
    if is_certificate {
        return Failure::lasting(told.advise("check the system clock, or give the CA certificate with --ca-file FILE"));
    }
    match error {
        ureq::Error::BadUri(_) | ureq::Error::Http(_) => Failure::lasting(Error { code: Code::Usage, ..told }),
        ureq::Error::ConnectProxyFailed(_) => Failure::passing(told.advise("check the HTTP proxy")),
        _ if is_lookup(&error) => Failure::passing(told.advise(
            "check the network and the name; this program uses only /etc/hosts and DNS, not /etc/nsswitch.conf: \
             other names must be added to /etc/hosts",
        )),
        _ => Failure::passing(told.advise("check the network and the address")),
    }
}

/// True if the name was not found. The C library's own errors of a look-up have no number, only std's words.
fn is_lookup(error: &ureq::Error) -> bool {
    match error {
        ureq::Error::HostNotFound => true,
        ureq::Error::Io(error) => {
            error.raw_os_error().is_none() && error.to_string().starts_with("failed to lookup address")
        }
        _ => false,
    }
}

/// `Retry-After`: seconds or a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
    Some(Duration::from_secs(u64::try_from(at.as_second() - jiff::Timestamp::now().as_second()).unwrap_or(0)))
}

/// Waits in short slices. Errors: [`Code::Interrupted`].
pub(crate) fn pause(wait: Duration, cancelled: &dyn Fn() -> bool) -> Result<()> {
    let end = Instant::now() + wait;
    loop {
        if cancelled() {
            return Err(interrupted());
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(SLICE.min(left));
    }
}

pub(crate) fn interrupted() -> Error {
    Error::new(Code::Interrupted, "stopped by a signal")
}

fn same_origin(a: &Uri, b: &Uri) -> bool {
    let port = |uri: &Uri| uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
    a.scheme() == b.scheme()
        && a.host().is_some_and(|host| b.host().is_some_and(|other| host.eq_ignore_ascii_case(other)))
        && port(a) == port(b)
}

/// A `Location`, absolute or relative to `base`, as a whole URL.
fn join(base: &Uri, location: &str) -> Option<String> {
    let location = location.split('#').next()?.trim();
    let (scheme, authority) = (base.scheme_str()?, base.authority()?);
    if location.contains("://") && !location.starts_with(['/', '?']) {
        Some(location.to_owned())
    } else if let Some(rest) = location.strip_prefix("//") {
        Some(format!("{scheme}://{rest}"))
    } else if location.starts_with('/') {
        Some(format!("{scheme}://{authority}{location}"))
    } else {
        let folder = base.path().rsplit_once('/').map_or("", |(folder, _)| folder);
        Some(format!("{scheme}://{authority}{folder}/{location}"))
    }
}

/// A URL as errors and logs show it: without userinfo and query.
pub(crate) fn shown(url: &str) -> String {
    redact(url.split(['?', '#']).next().unwrap_or_default())
}

/// Text with the userinfo of every URL in it replaced.
pub(crate) fn redact(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    // Proxies may be given without a scheme.
    if !text.contains("://")
        && let Some((_, host)) = text.rsplit_once('@')
        && !host.contains(' ')
        && !text.contains(' ')
    {
        return format!("***@{host}");
    }
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        out.push_str(before);
        let end = after.find(['/', '?', '#', ' ', '"', '\'']).unwrap_or(after.len());
        match after[..end].rfind('@') {
            Some(sign) => {
                out.push_str("***");
                rest = &after[sign..];
            }
            None => rest = after,
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::http::test_server::{Reply, Server};

    fn client(edit: impl FnOnce(&mut HttpSettings)) -> Client {
        let mut settings = HttpSettings { insecure: true, ..HttpSettings::default() };
        settings.retry.first_wait = Duration::ZERO;
        edit(&mut settings);
        Client::new(&settings).unwrap()
    }

    fn never() -> bool {
        false
    }

    #[test]
    fn urls_are_shown_without_userinfo_and_query() {
        assert_eq!(shown("https://me:pw@host/a?token=x"), "https://***@host/a");
        assert_eq!(redact("cannot reach http://u:p@h:1/ now"), "cannot reach http://***@h:1/ now");
        assert_eq!(redact("me:pw@host:3128"), "***@host:3128");
        assert_eq!(redact("https://host/a@b"), "https://host/a@b");
    }

    #[test]
    fn a_location_may_be_absolute_or_relative() {
        let base: Uri = "https://h:8443/a/b?c".parse().unwrap();
        for (location, expected) in [
            ("https://o/x", "https://o/x"),
            ("//o/x", "https://o/x"),
            ("/x?q=http://y", "https://h:8443/x?q=http://y"),
            ("x", "https://h:8443/a/x"),
        ] {
            assert_eq!(join(&base, location).unwrap(), expected);
        }
    }

    #[test]
    fn plain_http_needs_insecure_and_other_schemes_never_work() {
        let secure = client(|settings| settings.insecure = false);
        assert_eq!(secure.ask(&Request::get("http://127.0.0.1:1/"), &never).unwrap_err().code, Code::Usage);
        assert_eq!(client(|_| ()).ask(&Request::get("ftp://127.0.0.1/"), &never).unwrap_err().code, Code::Usage);
    }

    #[test]
    fn a_busy_server_is_asked_again_and_one_that_wants_a_long_rest_is_left_alone() {
        let server = Server::start(|request| match request.count {
            0 => Reply::status(503),
            1 => Reply::status(429).header("Retry-After", "0"),
            2 => Reply::ok(b"fine"),
            _ => Reply::status(429).header("Retry-After", "31"),
        });
        let ask = || client(|_| ()).ask(&Request::get(server.url("/x")), &never);
        assert_eq!(ask().unwrap().body, b"fine");
        assert_eq!(server.requests().len(), 3);
        assert!(ask().unwrap_err().what.contains("429"));
        assert_eq!(server.requests().len(), 4);
    }

    #[test]
    fn a_server_that_stays_broken_is_named_with_its_status() {
        let server = Server::start(|_| Reply::status(502));
        let error = client(|settings| settings.retry.tries = 2)
            .ask(&Request::get(server.url("/x?secret=1")), &never)
            .unwrap_err();
        assert!(error.what.contains("502") && error.what.contains("/x") && !error.what.contains("secret"), "{error}");
        assert_eq!(server.requests().len(), 2);
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
        let client = client(|settings| {
            settings.credentials = Some(Credentials { base_url: mirror.url("/m"), header: "Bearer secret".into() });
        });
        client.ask(&Request::get(mirror.url("/m/near")), &never).unwrap();
        client.ask(&Request::get(mirror.url("/m/away")), &never).unwrap();
        client.ask(&Request::get(mirror.url("/other/file")), &never).unwrap();
        client.ask(&Request::get(mirror.url("/m/../file")), &never).unwrap();
        let sent: Vec<_> = mirror.requests().iter().map(|request| request.field("authorization").is_some()).collect();
        assert_eq!(sent, [true, true, true, false, false]);
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
        let client = client(|settings| {
            settings.credentials = Some(Credentials { base_url: mirror.url("/m"), header: "Bearer secret".into() });
        });
        assert_eq!(client.ask(&Request::get(mirror.url("/m/away")), &never).unwrap().body, b"file");
        let sent: Vec<_> = mirror.requests().iter().map(|request| request.field("authorization").is_some()).collect();
        assert_eq!(sent, [true, false]);
    }

    #[test]
    fn the_fourth_redirect_is_refused() {
        let server = Server::start(|_| Reply::status(302).header("Location", "/again"));
        let error = client(|_| ()).ask(&Request::get(server.url("/")), &never).unwrap_err();
        assert!(error.what.contains("redirects more than 3"), "{error}");
        assert_eq!(server.requests().len(), 4);
    }

    #[test]
    fn an_answer_over_the_limit_is_refused() {
        let server = Server::start(|_| Reply::ok(&vec![b'x'; SMALL_BODY as usize + 1]));
        assert_eq!(client(|_| ()).ask(&Request::get(server.url("/")), &never).unwrap_err().code, Code::Network);
    }

    #[test]
    fn a_silent_server_costs_no_more_than_the_deadline_and_a_signal_ends_the_wait() {
        let server = Server::start(|_| Reply::silence());
        let client = client(|_| ());
        let start = Instant::now();
        let ask = Request::get(server.url("/")).within(Some(Duration::from_millis(200)));
        assert_eq!(client.ask(&ask, &never).unwrap_err().code, Code::Network);
        assert_eq!(client.ask(&Request::get(server.url("/")), &|| true).unwrap_err().code, Code::Interrupted);
        assert!(start.elapsed() < HttpSettings::default().timeouts.answer, "the client's own limit");
    }

    #[test]
    fn a_proxy_in_between_is_named_without_its_password() {
        let dead = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let client = client(|settings| {
            settings.proxies.https = Some(format!("http://me:secret@{dead}"));
            settings.retry.tries = 1;
        });
        let told = client.ask(&Request::get("https://cluster.invalid/x"), &never).unwrap_err().to_string();
        assert!(told.contains(&format!("through the HTTP proxy {dead}")) && !told.contains("secret"), "{told}");
    }

    #[test]
    fn a_ca_file_without_certificates_is_refused() {
        let settings = HttpSettings { ca_pem: Some("hello".into()), ..HttpSettings::default() };
        assert_eq!(Client::new(&settings).err().unwrap().code, Code::ConfigInvalid);
    }
}
