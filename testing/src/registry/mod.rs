//! A registry that holds images and cosign's signatures, asks for credentials, and lies on request: in memory by
//! [`StandInRegistry::answer`], on loopback by [`StandInRegistry::serve`].

mod images;
mod served;
mod signatures;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use protocol::Digest;
use serde_json::json;

pub use signatures::{bundle, simple_payload, statement};

/// The type of an index.
pub const INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// The type of a manifest.
pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// What a client asks.
#[derive(Debug, Clone)]
pub struct RegistryQuestion {
    /// GET or HEAD.
    pub method: String,
    /// With the query.
    pub path: String,
    /// `Authorization`.
    pub authorization: Option<String>,
}

/// What it is answered.
#[derive(Debug, Clone)]
pub struct RegistryReply {
    /// HTTP status.
    pub status: u16,
    /// Header fields.
    pub headers: Vec<(String, String)>,
    /// All of the body, or its beginning.
    pub body: Vec<u8>,
    /// How the body ends.
    pub end: BodyEnd,
}

/// How a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyEnd {
    /// After its length.
    Whole,
    /// Before its length.
    Cut,
    /// Never: it goes on.
    Endless,
    /// Nothing comes, no header either.
    Silence,
}

/// What is answered in place of the truth.
#[derive(Debug, Clone)]
pub enum RegistryLie {
    /// `Docker-Content-Digest` of other bytes.
    OtherDigest,
    /// Other bytes, and no `Docker-Content-Digest`.
    OtherBytes,
    /// This body.
    Body(Vec<u8>),
    /// A body without an end.
    Endless,
    /// 307 to that address.
    Redirect(String),
    /// Half of the body, then the connection ends.
    Cut,
    /// No answer.
    Silence,
    /// Another status.
    Status(u16),
    /// Another `Content-Type`.
    Type(&'static str),
}

/// Who may read.
#[derive(Debug, Clone, Default)]
pub enum RegistryAuth {
    /// Everybody.
    #[default]
    Open,
    /// This user with that password, by Basic.
    Basic(&'static str, &'static str),
    /// Whoever has a token of the realm (an address; `/token` of the stand-in gives them), which wants this user and password.
    Token(String, Option<(&'static str, &'static str)>),
}

#[derive(Default)]
struct Shelf {
    /// In the order in which they were pushed: repository, tag or `sha256:HEX`, type, bytes.
    manifests: Vec<(String, String, String, Vec<u8>)>,
    blobs: BTreeMap<String, Vec<u8>>,
    has_referrers: bool,
    auth: RegistryAuth,
    /// Tokens of earlier numbers are no longer good.
    tokens: usize,
    /// What a path contains, the lie, how often it is still told.
    lies: Vec<(String, RegistryLie, usize)>,
    questions: Vec<RegistryQuestion>,
}

/// The registry. Clones are the same one.
#[derive(Clone, Default)]
pub struct StandInRegistry(Arc<Mutex<Shelf>>);

impl StandInRegistry {
    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.0.lock().unwrap()
    }

    /// Serves the referrers API from now on.
    pub fn serve_referrers(&self) {
        self.shelf().has_referrers = true;
    }

    /// Wants credentials from now on.
    pub fn want(&self, auth: RegistryAuth) {
        self.shelf().auth = auth;
    }

    /// Tokens that were given are no longer good.
    pub fn expire_tokens(&self) {
        self.shelf().tokens += 1;
    }

    /// Lies to each question whose path contains `part`.
    pub fn lie(&self, part: &str, lie: RegistryLie) {
        self.lie_times(part, lie, usize::MAX);
    }

    /// Lies to the next `times` questions whose path contains `part`.
    pub fn lie_times(&self, part: &str, lie: RegistryLie, times: usize) {
        self.shelf().lies.push((part.to_owned(), lie, times));
    }

    /// What was asked so far.
    pub fn questions(&self) -> Vec<RegistryQuestion> {
        self.shelf().questions.clone()
    }

    /// Puts a blob there.
    pub fn push_blob(&self, bytes: &[u8]) -> Digest {
        let digest = Digest::of(bytes);
        self.shelf().blobs.insert(digest.to_string(), bytes.to_owned());
        digest
    }

    /// Takes a blob away.
    pub fn drop_blob(&self, digest: Digest) {
        self.shelf().blobs.remove(&digest.to_string()).expect("a blob that is there");
    }

    /// Puts a manifest there, and a tag on it in place of the manifest that had it.
    pub fn push_manifest(&self, repository: &str, tag: Option<&str>, media_type: &str, bytes: &[u8]) -> Digest {
        let digest = Digest::of(bytes);
        let names = [Some(format!("sha256:{digest}")), tag.map(str::to_owned)];
        let mut shelf = self.shelf();
        for name in names.into_iter().flatten() {
            shelf.manifests.retain(|(there, known, ..)| (there.as_str(), known) != (repository, &name));
            shelf.manifests.push((repository.to_owned(), name, media_type.to_owned(), bytes.to_owned()));
        }
        digest
    }

    /// Puts the tag `new` on what `tag` names.
    pub fn retag(&self, repository: &str, tag: &str, new: &str) {
        let (media_type, bytes) = self.found(repository, tag).expect("a tag that is there");
        self.push_manifest(repository, Some(new), &media_type, &bytes);
    }

    /// A manifest's type and bytes.
    fn found(&self, repository: &str, name: &str) -> Option<(String, Vec<u8>)> {
        let shelf = self.shelf();
        let mut all = shelf.manifests.iter();
        let (.., media_type, bytes) =
            all.find(|(there, known, ..)| (there.as_str(), known.as_str()) == (repository, name))?;
        Some((media_type.clone(), bytes.clone()))
    }

    fn blob(&self, hex: &str) -> Option<Vec<u8>> {
        self.shelf().blobs.get(hex).cloned()
    }

    /// Takes a manifest's name away: a tag, or `sha256:HEX`.
    pub fn drop_manifest(&self, repository: &str, name: &str) {
        self.shelf().manifests.retain(|(there, known, ..)| (there.as_str(), known.as_str()) != (repository, name));
    }

    /// Answers a question.
    pub fn answer(&self, question: &RegistryQuestion) -> RegistryReply {
        let mut shelf = self.shelf();
        shelf.questions.push(question.clone());
        let truth = shelf.truth(question);
        let lie = shelf.lies.iter_mut().find(|(part, _, left)| *left > 0 && question.path.contains(part.as_str()));
        let mut reply = match lie {
            Some((_, lie, left)) => {
                *left -= 1;
                told(lie, truth)
            }
            None => truth,
        };
        if question.method == "HEAD" {
            reply.body.clear();
        }
        reply
    }
}

impl Shelf {
    fn truth(&self, question: &RegistryQuestion) -> RegistryReply {
        let (path, query) = question.path.split_once('?').unwrap_or((&question.path, ""));
        if path == "/token" {
            return self.token(question, query);
        }
        let Some(rest) = path.strip_prefix("/v2/") else { return status(404) };
        let (rest, name) = rest.rsplit_once('/').unwrap_or((rest, ""));
        let (repository, kind) = rest.rsplit_once('/').unwrap_or((rest, ""));
        if let Some(refusal) = self.refusal(question, repository) {
            return refusal;
        }
        match kind {
            "manifests" => self.manifest(repository, name).unwrap_or_else(|| status(404)),
            "blobs" => {
                let blob = name.strip_prefix("sha256:").and_then(|hex| self.blobs.get(hex));
                blob.map_or_else(|| status(404), |bytes| content("application/octet-stream", bytes))
            }
            "referrers" if self.has_referrers => content(INDEX, &self.referrers(repository, name)),
            _ => status(if rest.is_empty() { 200 } else { 404 }),
        }
    }

    fn manifest(&self, repository: &str, name: &str) -> Option<RegistryReply> {
        let mut all = self.manifests.iter();
        let (.., media_type, bytes) =
            all.find(|(there, known, ..)| (there.as_str(), known.as_str()) == (repository, name))?;
        let mut reply = content(media_type, bytes);
        reply.headers.push(("Docker-Content-Digest".into(), format!("sha256:{}", Digest::of(bytes))));
        Some(reply)
    }

    fn referrers(&self, repository: &str, subject: &str) -> Vec<u8> {
        let refers = |bytes: &[u8]| {
            let text: serde_json::Value = serde_json::from_slice(bytes).unwrap_or_default();
            text.pointer("/subject/digest").is_some_and(|digest| digest == subject)
        };
        let of_it = self
            .manifests
            .iter()
            .filter(|(there, name, _, bytes)| there == repository && name.starts_with("sha256:") && refers(bytes));
        let entries: Vec<_> = of_it.map(|(_, name, _, bytes)| signatures::entry(name, bytes)).collect();
        serde_json::to_vec(&json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries})).unwrap()
    }

    fn token(&self, question: &RegistryQuestion, query: &str) -> RegistryReply {
        let RegistryAuth::Token(_, user) = &self.auth else { return status(404) };
        if user.is_some_and(|(user, password)| question.authorization != Some(basic(user, password))) {
            return status(401);
        }
        let scope = query.split('&').find_map(|pair| pair.strip_prefix("scope=repository%3A")?.strip_suffix("%3Apull"));
        let Some(repository) = scope else { return status(400) };
        let token = json!({"token": self.token_for(&repository.replace("%2F", "/").replace("%2D", "-"))});
        content("application/json", &serde_json::to_vec(&token).unwrap())
    }

    fn token_for(&self, repository: &str) -> String {
        format!("{}-for-{repository}", self.tokens)
    }

    fn refusal(&self, question: &RegistryQuestion, repository: &str) -> Option<RegistryReply> {
        let (wanted, challenge) = match &self.auth {
            RegistryAuth::Open => return None,
            RegistryAuth::Basic(user, password) => (basic(user, password), "Basic realm=\"here\"".to_owned()),
            RegistryAuth::Token(realm, _) => {
                let challenge = format!(
                    "Bearer realm=\"{realm}\",service=\"stand-in\",scope=\"repository:{repository}:pull,push\""
                );
                (format!("Bearer {}", self.token_for(repository)), challenge)
            }
        };
        if question.authorization == Some(wanted) {
            return None;
        }
        let mut reply = status(401);
        reply.headers.push(("WWW-Authenticate".into(), challenge));
        Some(reply)
    }
}

fn told(lie: &RegistryLie, mut truth: RegistryReply) -> RegistryReply {
    match lie {
        RegistryLie::OtherDigest => {
            truth.headers.retain(|(name, _)| name != "Docker-Content-Digest");
            truth.headers.push(("Docker-Content-Digest".into(), format!("sha256:{}", Digest::of(b"another"))));
        }
        RegistryLie::OtherBytes => {
            truth.headers.retain(|(name, _)| name != "Docker-Content-Digest");
            truth.body.push(b' ');
        }
        RegistryLie::Body(bytes) => truth.body.clone_from(bytes),
        RegistryLie::Endless => truth.end = BodyEnd::Endless,
        RegistryLie::Redirect(to) => {
            truth = status(307);
            truth.headers.push(("Location".into(), to.clone()));
        }
        RegistryLie::Cut => {
            truth.body.truncate(truth.body.len() / 2);
            truth.end = BodyEnd::Cut;
        }
        RegistryLie::Silence => truth.end = BodyEnd::Silence,
        RegistryLie::Status(number) => truth = status(*number),
        RegistryLie::Type(name) => {
            truth.headers.retain(|(name, _)| name != "Content-Type");
            truth.headers.push(("Content-Type".into(), (*name).into()));
        }
    }
    truth
}

fn status(status: u16) -> RegistryReply {
    RegistryReply { status, headers: Vec::new(), body: b"{}".to_vec(), end: BodyEnd::Whole }
}

fn content(media_type: &str, bytes: &[u8]) -> RegistryReply {
    let headers = vec![("Content-Type".into(), media_type.into())];
    RegistryReply { status: 200, headers, body: bytes.to_owned(), end: BodyEnd::Whole }
}

fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")))
}
