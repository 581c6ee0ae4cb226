//! The find question: `/v1/webapi/find` first, then the path today's proxies know (SPEC §3).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use error::{Code, Error, Result};
use http_client::{Cancelled, Client, Request, said};
use protocol::ParseError;
use protocol::dry_run::DryRunOrder;
use protocol::find::{Digests, Directive, PATHS, Question, fleet};
use protocol::installer::{self, InstallerOrder};
use protocol::reason::Told;
use protocol::report::{QUESTION_HEADER, Rollout};

use super::ProxyAddr;

/// How much of what somebody else wrote an error shows, characters.
const EXCERPT: usize = 60;

/// An answer.
#[derive(Debug)]
pub struct Found {
    /// What it says.
    pub directive: Directive,
    /// What a rollout server adds to it.
    pub fleet: Option<Rollout>,
    /// Why it tells that.
    pub told: Option<Told>,
    /// The digests that it knows of the version's archives.
    pub digests: Digests,
    /// How it is to be installed; `None`: nobody says. An error is one that cannot be understood, which nobody guesses.
    pub installer: Option<Result<InstallerOrder>>,
    /// What the answer says of the version besides (`fleet.attributes`): texts.
    pub attributes: BTreeMap<String, String>,
    /// What it asks this host to try (`fleet.dry_run`).
    pub dry_run: Option<DryRunOrder>,
}

/// Where `proxy` is asked: `https://HOST:PORT`.
pub fn origin(proxy: &ProxyAddr) -> String {
    format!("https://{}:{}", proxy.bracketed(), proxy.port())
}

/// Asks the cluster at `origin` which version its agents should run.
///
/// `signature` is shown to that origin alone. `deadline` bounds everything, retries included; `None` leaves the client's own
/// limits.
/// Errors: [`Code::Network`] when there is no answer, [`Code::ClusterAnswer`] or [`Code::EditionUnknown`] when it is
/// no usable one, [`Code::Interrupted`].
pub fn find(
    client: &Client,
    origin: &str,
    question: &Question,
    signature: Option<&str>,
    deadline: Option<Duration>,
    cancelled: Cancelled<'_>,
) -> Result<Found> {
    let end = deadline.map(|deadline| Instant::now() + deadline);
    let query = question.query();
    let mut refused = Vec::new();
    let mut has_said = false;
    for path in PATHS {
        let url = format!("{origin}{path}");
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let signature = signature.map(|signature| (QUESTION_HEADER, signature.to_owned()));
        let request = Request { signature, ..Request::get(format!("{url}{query}")).within(left) };
        let answer = client.ask(&request, cancelled)?;
        let told = |what: &str| format!("{url} answered {}{what}", answer.status);
        let why = said(&answer.body).map(|why| format!(": {why}"));
        has_said |= why.is_some();
        let why = why.unwrap_or_default();
        match answer.status {
            200 => match Directive::parse(&answer.body) {
                Ok(read) => {
                    let place = |error: ParseError| Error::from(error).during(format!("{url} (200)"));
                    let (directive, digests) = (read.map_err(place)?, Digests::parse(&answer.body).map_err(place)?);
                    let (rollout, told) = (Rollout::parse(&answer.body), Told::parse(&answer.body));
                    let installer = InstallerOrder::parse(&answer.body).map_err(unclear).transpose();
                    let attributes = installer::attributes(&fleet(&answer.body).unwrap_or_default()["attributes"]);
                    let dry_run = DryRunOrder::parse(&answer.body);
                    return Ok(Found { directive, fleet: rollout, told, digests, installer, attributes, dry_run });
                }
                Err(_) => refused.push(told(&format!(", but the body is not JSON: {:?}", excerpt(&answer.body)))),
            },
            404 | 405 => refused.push(told(&why)),
            _ => return Err(no_answer(&told(&why), has_said)),
        }
    }
    // Both: the second path's 404 says nothing of what is wrong with the first.
    Err(no_answer(&refused.join(", "), has_said))
}

fn unclear(error: ParseError) -> Error {
    Error { code: Code::InstallerRefused, ..Error::from(error).during("the order how to install cannot be understood") }
}

/// What says why it refuses is a server of ours.
fn no_answer(what: &str, has_said: bool) -> Error {
    let error = Error::new(Code::ClusterAnswer, what);
    if has_said { error } else { error.advise("check that this is the address of a Teleport proxy") }
}

/// The beginning of what somebody else wrote, for an error.
pub(super) fn excerpt(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let (text, mut shown) = (text.trim(), String::new());
    shown.extend(text.chars().take(EXCERPT));
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_client::HttpSettings;
    use testing::loopback::{Reply, Server};

    #[test]
    fn an_error_has_what_the_server_says_of_it_and_leaves_the_query_out() {
        let body = br#"{"error":{"code":"no_rollout","message":"there is no rollout:\n write an autoupdate_version"}}"#;
        let question = Question { host: Some("u-1".into()), ..Question::default() };
        for (status, code) in [(404, Code::ClusterAnswer), (400, Code::ClusterAnswer), (503, Code::Network)] {
            let server = Server::start(move |_| Reply::ok(body).with_status(status));
            let mut settings = HttpSettings { insecure: true, ..HttpSettings::default() };
            (settings.retry.tries, settings.retry.first_wait) = (2, Duration::ZERO);
            let client = Client::new(&settings).unwrap();
            let error = find(&client, &server.url(""), &question, None, None, &|| false).err().unwrap();
            assert!(error.what.contains(&server.url("/")) && !error.what.contains("u-1"), "{error}");
            let told = format!("answered {status}: there is no rollout: write an autoupdate_version");
            assert!(error.code == code && error.what.contains(&told), "{error}");
            assert!(!error.to_string().contains("Teleport proxy"), "{error}");
        }
    }
}
