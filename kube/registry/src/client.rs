//! Asks a registry: schemes, credentials, redirects, and what an answer's status means.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use protocol::Digest;
use serde_json::Value;

use crate::Result;
use crate::auths::DockerAuths;
use crate::challenge::{Challenge, challenge};
use crate::error::{RegistryCode, RegistryError, quoted};
use crate::manifest::{INDEX, OciManifest, SINGLE};
use crate::reference::{ImageReference, sha256};
use crate::transport::{Transport, TransportCall, TransportReply};

/// Largest manifest, index or configuration, bytes: what registries take.
pub(crate) const MAX_MANIFEST: u64 = 4 << 20;
/// Largest answer of a token server, bytes: tokens with many claims have some thousand.
const MAX_TOKEN: u64 = 64 << 10;
/// Longest redirect, bytes: signed addresses of object stores have two or three thousand.
const MAX_LOCATION: usize = 8 << 10;
/// Most redirects of one request: a registry, its store, its cache.
const MAX_REDIRECTS: usize = 3;
/// Reads images and signatures from registries. Keeps tokens, nothing else.
pub struct Registry {
    transport: Box<dyn Transport>,
    auths: DockerAuths,
    insecure: Vec<String>,
    known: Mutex<KnownAccess>,
}

#[derive(Default)]
struct KnownAccess {
    /// The scheme of each insecure host.
    schemes: BTreeMap<String, &'static str>,
    /// The value of `Authorization` by repository: a token is for one.
    authorizations: BTreeMap<String, String>,
}

impl Registry {
    /// `insecure`: hosts, as `HOST[:PORT]`, whose certificates are not checked and that may speak plain HTTP.
    pub fn new(transport: Box<dyn Transport>, auths: DockerAuths, insecure: Vec<String>) -> Self {
        Self { transport, auths, insecure, known: Mutex::default() }
    }

    /// The digest that the registry says `image` has now: unproven, for "has the tag moved?" alone. HEAD: Docker Hub counts GETs.
    ///
    /// Errors: as [`Registry::resolve`].
    pub fn announced(&self, image: &ImageReference) -> Result<Option<Digest>> {
        let reply = self.ask(image, &format!("manifests/{}", image.wanted()), &manifests(), None)?;
        Ok(reply.fields("docker-content-digest").next().and_then(sha256))
    }

    /// A manifest or index, with its own digest. Errors: as [`Registry::resolve`].
    pub(crate) fn manifest(&self, image: &ImageReference) -> Result<OciManifest> {
        let reply = self.ask(image, &format!("manifests/{}", image.wanted()), &manifests(), Some(MAX_MANIFEST))?;
        let digest = Digest::of(&reply.body);
        let mut said = reply.fields("docker-content-digest").filter(|said| said.starts_with("sha256:"));
        if image.digest().is_some_and(|asked| asked != digest) || said.any(|said| sha256(said) != Some(digest)) {
            return Err(RegistryError::answer(
                image,
                format!("a manifest with another digest was sent: sha256:{digest}"),
            ));
        }
        let media_type = reply.fields("content-type").next().unwrap_or_default();
        OciManifest::read(&reply.body, media_type).map_err(|what| RegistryError::answer(image, what))
    }

    /// A blob's bytes, which have that digest. Errors: as [`Registry::resolve`].
    pub(crate) fn blob(&self, image: &ImageReference, digest: Digest, most: u64) -> Result<Vec<u8>> {
        let body = self.ask(image, &format!("blobs/sha256:{digest}"), "*/*", Some(most))?.body;
        let other = || RegistryError::answer(image, format!("other bytes were sent for sha256:{digest}"));
        if Digest::of(&body) == digest { Ok(body) } else { Err(other()) }
    }

    /// The index of what refers to `digest`; `None` where the registry does not serve the referrers API.
    pub(crate) fn referrers(&self, image: &ImageReference, digest: Digest) -> Result<Option<OciManifest>> {
        match self.ask(image, &format!("referrers/sha256:{digest}"), &INDEX.join(", "), Some(MAX_MANIFEST)) {
            Err(error) if error.code == RegistryCode::RegistryUnreachable => Err(error),
            // Registries that do not know the path answer 404, 400, 401, 405, 406, or with a page for people.
            answer => Ok(answer.ok().and_then(|reply| OciManifest::read(&reply.body, "").ok())),
        }
    }

    /// What a 200 of `/v2/PATH/tail` brings; without `most`, whether there is one. Errors: as [`Registry::resolve`].
    pub(crate) fn ask(
        &self,
        image: &ImageReference,
        tail: &str,
        accept: &str,
        most: Option<u64>,
    ) -> Result<TransportReply> {
        let url = format!("{}://{}/v2/{}/{tail}", self.scheme(image)?, image.api_host(), image.path());
        let call = TransportCall { url: &url, accept, authorization: None, is_insecure: self.is_insecure(image), most };
        let mut reply = self.send_authorized(image, &call)?;
        let (mut place, mut hops) = (url.clone(), 0);
        while matches!(reply.status, 301 | 302 | 303 | 307 | 308) {
            hops += 1;
            let next = reply.fields("location").next().and_then(|next| redirect(&place, next, call.is_insecure));
            let bad = || RegistryError::answer(&url, "it redirects too often, away from https, or to no address");
            place = next.filter(|_| hops <= MAX_REDIRECTS).ok_or_else(bad)?;
            // Without credentials, also back to the registry: an address there is for whoever holds it.
            reply = self.transport.send(&TransportCall { url: &place, ..call })?;
        }
        // An address that an object store signed for GET refuses HEAD; the registry that sent there has the blob.
        if most.is_none() && hops > 0 && matches!(reply.status, 400 | 401 | 403 | 405 | 501) {
            return Ok(reply);
        }
        refusal(reply.status, &url).map_or(Ok(reply), Err)
    }

    fn is_insecure(&self, image: &ImageReference) -> bool {
        self.insecure.iter().any(|host| host == image.host())
    }

    /// An insecure registry may speak TLS or not: asked once, without credentials.
    fn scheme(&self, image: &ImageReference) -> Result<&'static str> {
        let host = image.api_host();
        let known = self.known().schemes.get(host).copied();
        if let Some(scheme) = known.or((!self.is_insecure(image)).then_some("https")) {
            return Ok(scheme);
        }
        let ask = |scheme| {
            let url = &format!("{scheme}://{host}/v2/");
            let most = Some(MAX_TOKEN);
            self.transport.send(&TransportCall { url, accept: "*/*", is_insecure: true, most, authorization: None })
        };
        let scheme = ask("https").map(|_| "https").or_else(|_| ask("http").map(|_| "http"))?;
        self.known().schemes.insert(host.to_owned(), scheme);
        Ok(scheme)
    }

    /// Sends with the `Authorization` of the repository; gets a new one when there is none or it is no longer good.
    fn send_authorized(&self, image: &ImageReference, call: &TransportCall<'_>) -> Result<TransportReply> {
        let key = format!("{}/{}", image.host(), image.path());
        let kept = self.known().authorizations.get(&key).cloned();
        let reply = self.transport.send(&TransportCall { authorization: kept.as_deref(), ..*call })?;
        if reply.status != 401 {
            return Ok(reply);
        }
        let wants = |scheme| reply.fields("www-authenticate").find_map(|field| challenge(field, scheme));
        let basic = self.auths.basic(image).map(|basic| format!("Basic {basic}"));
        let with = TransportCall { authorization: basic.as_deref(), ..*call };
        let token = wants("bearer").map(|bearer| self.token(image, &bearer, &with)).transpose()?;
        let basic = || basic.clone().filter(|_| wants("basic").is_some());
        let Some(authorization) = token.or_else(basic) else { return Ok(reply) };
        self.known().authorizations.insert(key, authorization.clone());
        self.transport.send(&TransportCall { authorization: Some(&authorization), ..*call })
    }

    /// `Bearer` and a token for pulling from that repository. The scope is ours: a registry must not have a token for more made
    /// with what it is trusted with.
    fn token(&self, image: &ImageReference, bearer: &Challenge, call: &TransportCall<'_>) -> Result<String> {
        let [realm, service] = ["realm", "service"].map(|name| bearer.get(name).map_or("", String::as_str));
        let bad = |code, what: &str| {
            let what = format!("{}: the registry's token server {} {what}", image.name(), quoted(realm));
            RegistryError::new(code, what, "check the registry and its auth_file")
        };
        if !is_address(realm, call.is_insecure) {
            return Err(bad(RegistryCode::RegistryAnswer, "has no https address"));
        }
        let escaped = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let scope = escaped(&format!("repository:{}:pull", image.path()));
        let and = if realm.contains('?') { '&' } else { '?' };
        let url = &format!("{realm}{and}service={}&scope={scope}", escaped(service));
        let reply = self.transport.send(&TransportCall { url, accept: "*/*", most: Some(MAX_TOKEN), ..*call })?;
        if let Some(refusal) = refusal(reply.status, realm) {
            // Its 404 says nothing about the image.
            let is_absent = refusal.code == RegistryCode::ImageAbsent;
            let code = if is_absent { RegistryCode::RegistryDenied } else { refusal.code };
            return Err(bad(code, &format!("answered {}", reply.status)));
        }
        let answer: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        let token = ["token", "access_token"].into_iter().find_map(|name| answer.get(name)?.as_str());
        let token = token.filter(|token| !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()));
        token.map(|token| format!("Bearer {token}")).ok_or_else(|| bad(RegistryCode::RegistryAnswer, "sent no token"))
    }

    fn known(&self) -> MutexGuard<'_, KnownAccess> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `Accept`: what we can read.
fn manifests() -> String {
    [INDEX, SINGLE].concat().join(", ")
}

/// What a status other than 200 means.
fn refusal(status: u16, url: &str) -> Option<RegistryError> {
    let (code, advice) = match status {
        200 => return None,
        404 | 410 => (RegistryCode::ImageAbsent, "check that this version was published there"),
        401 | 403 => (RegistryCode::RegistryDenied, "check the registry's auth_file, and that the repository is there"),
        429 => (RegistryCode::RegistryUnreachable, "the registry limits requests: give it credentials, or wait"),
        408 | 500.. => (RegistryCode::RegistryUnreachable, "it is asked again later"),
        _ => (RegistryCode::RegistryAnswer, "check that this is a registry"),
    };
    Some(RegistryError::new(code, format!("{url} answered {status}"), advice))
}

/// Whether a text is an address that may be asked: https, a host, no user, visible ASCII.
fn is_address(url: &str, is_insecure: bool) -> bool {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://").filter(|_| is_insecure));
    let authority = rest.and_then(|rest| rest.split(['/', '?', '#']).next()).unwrap_or_default();
    let is_plain = url.len() <= MAX_LOCATION && url.bytes().all(|byte| byte.is_ascii_graphic());
    is_plain && !authority.is_empty() && !authority.contains(['@', '\\'])
}

/// Where a `Location` in an answer from `base` leads, if it may be gone to.
fn redirect(base: &str, location: &str, is_insecure: bool) -> Option<String> {
    let (scheme, rest) = base.split_once("://")?;
    let host = rest.split(['/', '?']).next()?;
    let whole = if location.starts_with('/') { format!("{scheme}://{host}{location}") } else { location.to_owned() };
    is_address(&whole, is_insecure).then_some(whole)
}
