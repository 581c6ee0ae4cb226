//! Asks servers: each try in a thread of its own, with its redirects.

use std::fmt;
use std::io::Read;
use std::sync::{Arc, mpsc};
use std::time::Instant;

use error::{Code, Error, Result};
use ureq::http::{Uri, header};
use ureq::{Agent, RequestBuilder};

use super::agents::Agents;
use super::pause::{Cancelled, SLICE, interrupted};
use super::redact::{redact, shown};
use super::redirect::{self, MAX_REDIRECTS, same_origin};
use super::request::{Answer, Receipt, Request, SHORT_BODY, SMALL_BODY, Stream};
use super::retry::{Failure, retry_after};
use super::said::said_by;
use super::settings::HttpSettings;
use super::{failure, trust};

/// Asks servers. Cheap to make and to clone: roots are loaded with the first request.
#[derive(Clone)]
pub struct Client {
    agents: Arc<Agents>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client")
    }
}

impl Client {
    /// Checks the settings; touches neither network nor the system's roots.
    ///
    /// Errors: [`Code::ConfigInvalid`] for a proxy address or `ca_pem` that cannot be used.
    pub fn new(settings: &HttpSettings) -> Result<Self> {
        Ok(Self { agents: Arc::new(Agents::new(settings)?) })
    }

    /// Whether `--insecure` holds.
    pub fn is_insecure(&self) -> bool {
        self.agents.settings.insecure
    }

    /// Longest time for a whole small answer.
    pub fn longest_question(&self) -> std::time::Duration {
        self.agents.settings.timeouts.question
    }

    /// Asks and reads the whole answer, at most [`SMALL_BODY`] bytes.
    ///
    /// Errors: [`Code::Network`] when the tries are used up, the answer is too large or is a refused redirect;
    /// [`Code::Interrupted`].
    pub fn ask(&self, ask: &Request, cancelled: Cancelled<'_>) -> Result<Answer> {
        let ask = ask.clone().within(ask.deadline.or(Some(self.agents.settings.timeouts.question)));
        self.with_retries(&ask, cancelled, |stream, ask| {
            let (status, has_end) = (stream.status, stream.length().is_some() || stream.is_chunked());
            let body = stream.body.take(ask.cut.unwrap_or(u64::MAX));
            let body = whole(body, ask.cut.unwrap_or(SMALL_BODY), &ask.url)?;
            if status == 200 && !has_end && !is_closed(&body) {
                let what = format!(
                    "the answer of {} may be cut: it has no Content-Length, and its last line no end",
                    shown(&ask.url)
                );
                return Err(Failure::passing(Error::new(Code::Network, what)));
            }
            Ok(Answer { status, body })
        })
    }

    /// Sends once, to that address alone, and reads the whole answer, of whatever status, at most [`SHORT_BODY`] bytes. All of it
    /// is over by the request's deadline.
    ///
    /// Errors: [`Code::Network`] when there is no answer or it is too large; [`Code::Interrupted`].
    pub fn send(&self, post: &Request, cancelled: Cancelled<'_>) -> Result<Receipt> {
        let longest = post.deadline.unwrap_or(self.agents.settings.timeouts.question);
        self.attempt(post, Instant::now(), Some(Instant::now() + longest), cancelled, |stream, post| {
            let Stream { status, headers, body } = stream;
            Ok(Receipt { status, retry_after: retry_after(&headers), body: whole(body, SHORT_BODY, &post.url)? })
        })
        .map_err(|failure| failure.error)
    }

    /// Asks and gives the answer as soon as its header is there. Errors: as [`Client::ask`].
    pub fn open(&self, ask: &Request, cancelled: Cancelled<'_>) -> Result<Stream> {
        self.with_retries(ask, cancelled, |stream, _| Ok(stream))
    }

    /// Asks once, that address alone, and gives the answer of whatever status as soon as its header is there. All of it, the body
    /// too, is over by the request's deadline.
    ///
    /// Errors: [`Code::Network`] when there is no answer; [`Code::Interrupted`].
    pub fn once(&self, ask: &Request, cancelled: Cancelled<'_>) -> Result<Stream> {
        let (ask, begun) = (Request { is_alone: true, ..ask.clone() }, Instant::now());
        let end = begun + ask.deadline.unwrap_or(self.agents.settings.timeouts.question);
        self.attempt(&ask, begun, Some(end), cancelled, |stream, _| Ok(stream)).map_err(|failure| failure.error)
    }

    fn with_retries<T: Send + 'static>(
        &self,
        ask: &Request,
        cancelled: Cancelled<'_>,
        finish: fn(Stream, &Request) -> Result<T, Failure>,
    ) -> Result<T> {
        let (retry, begun) = (&self.agents.settings.retry, Instant::now());
        retry.until_answered(ask.deadline, cancelled, |end| self.attempt(ask, begun, end, cancelled, finish))
    }

    /// One try, in a thread of its own: name look-ups and connects cannot be interrupted, but they can be left behind. `begun`: the
    /// first one of this request.
    fn attempt<T: Send + 'static>(
        &self,
        ask: &Request,
        begun: Instant,
        end: Option<Instant>,
        cancelled: Cancelled<'_>,
        finish: fn(Stream, &Request) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let (client, request) = (self.clone(), ask.clone());
        let work = move || {
            let result = client.exchange(&request, end).and_then(|stream| finish(stream, &request));
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
                    let url = shown(&ask.url);
                    let what = format!("internal error: the thread for the request to {url} ended unexpectedly");
                    return Err(Failure::lasting(Error::new(Code::Io, what)));
                }
                Err(mpsc::RecvTimeoutError::Timeout) if cancelled() => return Err(Failure::lasting(interrupted())),
                Err(mpsc::RecvTimeoutError::Timeout) if end.is_some_and(|end| Instant::now() >= end) => {
                    return Err(Failure::lasting(late(&ask.url).advise("check the network and the address")));
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    let Agents { settings, awaited, .. } = &*self.agents;
                    if begun.elapsed() >= settings.timeouts.silence
                        && let Some(what) = awaited.unsaid()
                    {
                        settings.waits.tell(&format!("waiting for {what}"));
                    }
                }
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
            let is_any_answer_one = ask.is_alone || ask.json.is_some();
            if !is_any_answer_one && (status == 429 || status >= 500) {
                let retry_after = retry_after(response.headers());
                let why =
                    said_by(response.into_body().into_reader()).map_or_else(String::new, |why| format!(": {why}"));
                let error = Error::new(Code::Network, format!("{} answered {status}{why}", shown(&url)));
                return Err(Failure { error: error.advise("try again later"), may_pass: true, retry_after });
            }
            let location = response.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
            let leads_on = !is_any_answer_one && matches!(status, 301 | 302 | 303 | 307 | 308);
            let Some(location) = location.filter(|_| leads_on) else {
                let (parts, body) = response.into_parts();
                return Ok(Stream { status, headers: parts.headers, body: Box::new(body.into_reader()) });
            };
            let next = redirect::target(&uri, location, &url).map_err(Failure::lasting)?;
            is_at_home &= same_origin(&uri, &next);
            url = next.to_string();
        }
        Err(Failure::lasting(redirect::too_many(&ask.url)))
    }

    fn call(
        &self,
        ask: &Request,
        url: &str,
        is_at_home: bool,
        end: Option<Instant>,
    ) -> Result<(ureq::http::Response<ureq::Body>, Uri), Failure> {
        let settings = &self.agents.settings;
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
        let place = proxy.as_ref().map(|proxy| format!("{}:{}", proxy.host(), proxy.port()));
        let way = place.as_ref().map_or_else(String::new, |place| format!(" through the HTTP proxy {place}"));
        self.agents.awaited.begin(&uri, place);
        let mut headers = ask.headers.clone();
        headers.push(("accept-encoding", "identity".to_owned()));
        headers.extend(ask.signature.clone().filter(|_| is_at_home));
        let mut credentials = settings.credentials.iter().filter(|_| is_at_home && ask.json.is_none());
        if let Some(known) = credentials.find(|known| known.fit(&uri)) {
            headers.push(("authorization", known.header.clone()));
        }
        let left = || end.map(|end| end.saturating_duration_since(Instant::now()));
        let send = |agent: &Agent| match &ask.json {
            Some(json) => {
                let request = with(agent.post(url), &headers).header(header::CONTENT_TYPE, "application/json");
                request.config().proxy(proxy.clone()).timeout_global(left()).build().send(&json[..])
            }
            None => {
                let request = with(if ask.head { agent.head(url) } else { agent.get(url) }, &headers);
                request.config().proxy(proxy.clone()).timeout_global(left()).build().call()
            }
        };
        let mut answer = send(&self.agents.agent().map_err(Failure::lasting)?);
        if let Err(error) = &answer
            && trust::is_refusal(error)
            && let Some(thorough) = self.agents.more_trusting()
        {
            answer = send(&thorough.map_err(Failure::lasting)?);
        }
        let response = answer.map_err(|error| failure::of(error, url, &way))?;
        Ok((response, uri))
    }
}

fn with<B>(request: RequestBuilder<B>, headers: &[(&'static str, String)]) -> RequestBuilder<B> {
    headers.iter().fold(request, |request, (name, value)| request.header(*name, value))
}

fn late(url: &str) -> Error {
    Error::new(Code::Network, format!("{} did not answer in time", shown(url)))
}

/// Whether a body that ended with its connection is whole: a line that is, or JSON, which its reader finds cut elsewhere. Of a
/// version's first digits nobody could tell.
fn is_closed(body: &[u8]) -> bool {
    body.ends_with(b"\n") || body.ends_with(b"}") || body.ends_with(b"]")
}

/// The body of the answer of `url`, of at most `most` bytes.
fn whole(body: impl Read, most: u64, url: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    body.take(most + 1).read_to_end(&mut bytes).map_err(|error| {
        Failure::passing(match ureq::Error::from(error) {
            ureq::Error::Timeout(_) => late(url),
            error => {
                let what = format!("cannot read the answer of {}: {}", shown(url), redact(&error.to_string()));
                Error::new(Code::Network, what)
            }
        })
    })?;
    if bytes.len() as u64 > most {
        let what = format!("{} answered with more than {most} bytes", shown(url));
        return Err(Failure::lasting(Error::new(Code::Network, what)));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::resolve::Trace;
    use super::super::testing_client::{client, never};
    use super::*;
    use std::time::Duration;
    use testing::loopback::{Reply, Server};

    #[test]
    fn plain_http_needs_insecure_and_other_schemes_never_work() {
        let secure = client(|settings| settings.insecure = false);
        assert_eq!(secure.ask(&Request::get("http://127.0.0.1:1/"), &never).unwrap_err().code, Code::Usage);
        assert_eq!(client(|_| ()).ask(&Request::get("ftp://127.0.0.1/"), &never).unwrap_err().code, Code::Usage);
    }

    #[test]
    fn what_only_its_connection_ends_is_believed_where_it_ends_itself() {
        let ask = |reply: fn() -> Reply| {
            let server = Server::start(move |_| reply());
            client(|settings| settings.retry.tries = 1).ask(&Request::get(server.url("/version")), &never)
        };
        let cut = |reply| {
            let error = ask(reply).unwrap_err();
            assert!(error.to_string().contains("/version may be cut"), "{error}");
            error.code
        };
        assert_eq!(cut(|| Reply::ok(b"2.0.1").without_length()), Code::Network);
        assert_eq!(cut(|| Reply::ok(b"").without_length()), Code::Network);
        assert_eq!(ask(|| Reply::ok(b"2.0.10\n").without_length()).unwrap().body, b"2.0.10\n");
        assert_eq!(ask(|| Reply::ok(b"{}").without_length()).unwrap().body, b"{}");
        assert_eq!(ask(|| Reply::ok(b"2.0.10").chunked()).unwrap().body, b"2.0.10");
        assert_eq!(ask(|| Reply::ok(b"2.0.10")).unwrap().body, b"2.0.10");
        assert_eq!(ask(|| Reply::status(404).without_length()).unwrap().status, 404);
    }

    #[test]
    fn what_is_asked_once_follows_no_redirect_and_its_body_ends_by_the_deadline() {
        let server = Server::start(|request| match request.path.as_str() {
            "/away" => Reply::status(302).header("Location", "/elsewhere"),
            "/busy" => Reply::status(503).header("Retry-After", "7"),
            _ => Reply::ok(b"the beginning").cut_after(3).then_silence(),
        });
        let ask = |path: &str| {
            let ask = Request::get(server.url(path)).within(Some(Duration::from_millis(300)));
            client(|_| ()).once(&ask, &never).unwrap()
        };
        assert_eq!((ask("/away").status, ask("/busy").field(header::RETRY_AFTER)), (302, Some("7")));
        assert_eq!(server.requests().len(), 2);
        let start = Instant::now();
        ask("/slow").body.read_to_end(&mut Vec::new()).unwrap_err();
        assert!(start.elapsed() < HttpSettings::default().timeouts.read, "the client's own limit");
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
    fn after_a_silence_it_is_said_once_what_is_waited_for() {
        let server = Server::start(|_| Reply::silence());
        // Nobody takes its connections.
        let deaf = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let deaf = deaf.local_addr().unwrap();
        let secure = format!("https://{deaf}/");
        for (url, proxy, expected) in [
            (server.url("/"), None, format!("the answer of {}", server.url("").replace("http://", ""))),
            (secure.clone(), None, format!("the TLS handshake of {deaf}")),
            (secure, Some(format!("http://{deaf}")), format!("the answer of the HTTP proxy {deaf}")),
        ] {
            let (sender, said) = mpsc::channel();
            let client = client(|settings| {
                settings.proxies.https = proxy;
                settings.timeouts.silence = Duration::ZERO;
                settings.waits = Trace::to(move |line| sender.send(line.to_owned()).unwrap());
            });
            client.ask(&Request::get(url).within(Some(Duration::from_millis(500))), &never).unwrap_err();
            drop(client);
            assert_eq!(said.iter().collect::<Vec<_>>(), [format!("waiting for {expected}")]);
        }
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
}
