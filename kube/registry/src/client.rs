//! Asks a registry: schemes, credentials, redirects, and what an answer's status means.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use protocol::Digest;
use serde_json::Value;

use crate::Result;
use crate::auths::DockerAuths;
use crate::challenge::challenge;
use crate::error::{RegistryCode, RegistryError, quoted};
use crate::manifest::Manifest;
use crate::reference::{ImageReference, sha256};
use crate::transport::{Transport, TransportCall, TransportFault, TransportReply};

/// Largest manifest, index or configuration, bytes: what registries take.
pub(crate) const MAX_MANIFEST: u64 = 4 << 20;
/// Largest answer of a token server, bytes: tokens with many claims have some thousand.
const MAX_TOKEN: u64 = 64 << 10;
/// Longest redirect, bytes: signed addresses of object stores have two or three thousand.
const MAX_LOCATION: usize = 8 << 10;
/// Most redirects of one request: a registry, its store, its cache.
const MAX_REDIRECTS: usize = 3;
/// Most repositories whose `Authorization` is kept.
const MAX_KEPT: usize = 256;
/// `Accept`: the manifests that we can read.
const MANIFESTS: &str = "application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json, \
                         application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json";

/// Reads images and signatures from registries. Keeps tokens, nothing else.
pub struct Registry {
    transport: Box<dyn Transport>,
    auths: DockerAuths,
    insecure: Vec<String>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// The scheme of each insecure host.
    schemes: BTreeMap<String, &'static str>,
    /// The value of `Authorization` by repository: a token is for one.
    authorizations: BTreeMap<(String, String), String>,
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
        let reply = self.ask(image, &format!("manifests/{}", image.wanted()), MANIFESTS, None)?;
        Ok(reply.fields("docker-content-digest").next().and_then(sha256))
    }

    /// A manifest or index, with its own digest. Errors: as [`Registry::resolve`].
    pub(crate) fn manifest(&self, image: &ImageReference) -> Result<Manifest> {
        let reply = self.ask(image, &format!("manifests/{}", image.wanted()), MANIFESTS, Some(MAX_MANIFEST))?;
        let digest = Digest::of(&reply.body);
        let mut said = reply.fields("docker-content-digest").filter(|said| said.starts_with("sha256:"));
        if image.digest().is_some_and(|asked| asked != digest) || said.any(|said| sha256(said) != Some(digest)) {
            return Err(RegistryError::answer(format!(
                "{image}: the manifest that was sent has another digest, sha256:{digest}"
            )));
        }
        let media_type = reply.fields("content-type").next().unwrap_or_default();
        Manifest::read(&reply.body, media_type).map_err(|what| RegistryError::answer(format!("{image}: {what}")))
    }

    /// A blob's bytes, which have that digest. Errors: as [`Registry::resolve`].
    pub(crate) fn blob(&self, image: &ImageReference, digest: Digest, most: u64) -> Result<Vec<u8>> {
        let body = self.ask(image, &format!("blobs/sha256:{digest}"), "", Some(most))?.body;
        let other = || RegistryError::answer(format!("{}: other bytes were sent for sha256:{digest}", image.name()));
        if Digest::of(&body) == digest { Ok(body) } else { Err(other()) }
    }

    /// Whether the registry has a blob. Errors: as [`Registry::resolve`], but for a blob that is not there.
    pub(crate) fn has_blob(&self, image: &ImageReference, digest: Digest) -> Result<bool> {
        match self.ask(image, &format!("blobs/sha256:{digest}"), "", None) {
            Err(error) if error.code == RegistryCode::ImageAbsent => Ok(false),
            answer => answer.map(|_| true),
        }
    }

    /// The index of what refers to `digest`; `None` where the registry does not serve the referrers API.
    pub(crate) fn referrers(&self, image: &ImageReference, digest: Digest) -> Result<Option<Manifest>> {
        match self.ask(image, &format!("referrers/sha256:{digest}"), MANIFESTS, Some(MAX_MANIFEST)) {
            Err(error) if error.code == RegistryCode::RegistryUnreachable => Err(error),
            // Registries that do not know the path answer 404, 400, 401, 405, 406, or with a page for people.
            answer => Ok(answer.ok().and_then(|reply| Manifest::read(&reply.body, "").ok())),
        }
    }

    /// What a 200 of `/v2/PATH/tail` brings.
    fn ask(&self, image: &ImageReference, tail: &str, accept: &str, most: Option<u64>) -> Result<TransportReply> {
        let url = format!("{}://{}/v2/{}/{tail}", self.scheme(image)?, image.api_host(), image.path());
        let call = TransportCall { url: &url, accept, authorization: None, is_insecure: self.is_insecure(image), most };
        let mut reply = self.send_authorized(image, &call)?;
        let (mut place, mut hops) = (url.clone(), 0);
        while matches!(reply.status, 301 | 302 | 303 | 307 | 308) {
            hops += 1;
            let next = reply.fields("location").next().and_then(|next| redirect(&place, next, call.is_insecure));
            let bad = || RegistryError::answer(format!("{url} redirects too often, away from https, or to no address"));
            place = next.filter(|_| hops <= MAX_REDIRECTS).ok_or_else(bad)?;
            // Without credentials, also back to the registry: an address there is for whoever holds it.
            reply = self.send(&TransportCall { url: &place, ..call })?;
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
            self.send(&TransportCall { url, accept: "", authorization: None, is_insecure: true, most: Some(MAX_TOKEN) })
        };
        let scheme = ask("https").map(|_| "https").or_else(|_| ask("http").map(|_| "http"))?;
        self.known().schemes.insert(host.to_owned(), scheme);
        Ok(scheme)
    }

    /// Sends with the `Authorization` of the repository; gets a new one when there is none or it is no longer good.
    fn send_authorized(&self, image: &ImageReference, call: &TransportCall<'_>) -> Result<TransportReply> {
        let key = (image.host().to_owned(), image.path());
        let kept = self.known().authorizations.get(&key).cloned();
        let reply = self.send(&TransportCall { authorization: kept.as_deref(), ..*call })?;
        if reply.status != 401 {
            return Ok(reply);
        }
        let wants = |scheme| reply.fields("www-authenticate").find_map(|field| challenge(field, scheme));
        let basic = self.auths.basic(image).map(|basic| format!("Basic {basic}"));
        let authorization = match wants("bearer") {
            Some(bearer) => {
                Some(self.token(image, &bearer, &TransportCall { authorization: basic.as_deref(), ..*call })?)
            }
            None => basic.filter(|_| wants("basic").is_some()),
        };
        let Some(authorization) = authorization else { return Ok(reply) };
        let mut known = self.known();
        if known.authorizations.len() >= MAX_KEPT {
            known.authorizations.clear();
        }
        known.authorizations.insert(key, authorization.clone());
        drop(known);
        self.send(&TransportCall { authorization: Some(&authorization), ..*call })
    }

    /// `Bearer` and a token for pulling from that repository. The scope is ours: a registry must not have a token for more made
    /// with what it is trusted with.
    fn token(
        &self,
        image: &ImageReference,
        bearer: &BTreeMap<String, String>,
        call: &TransportCall<'_>,
    ) -> Result<String> {
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
        let url = &format!(
            "{realm}{}service={}&scope={scope}",
            if realm.contains('?') { '&' } else { '?' },
            escaped(service)
        );
        let reply = self.send(&TransportCall { url, accept: "", most: Some(MAX_TOKEN), ..*call })?;
        if let Some(refusal) = refusal(reply.status, realm) {
            // Its 404 says nothing about the image.
            let is_passing = refusal.code == RegistryCode::RegistryUnreachable;
            let code = if is_passing { refusal.code } else { RegistryCode::RegistryDenied };
            return Err(bad(code, &format!("answered {}", reply.status)));
        }
        let answer: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        let token = ["token", "access_token"].into_iter().find_map(|name| answer.get(name)?.as_str());
        let token = token.filter(|token| !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()));
        token.map(|token| format!("Bearer {token}")).ok_or_else(|| bad(RegistryCode::RegistryAnswer, "sent no token"))
    }

    fn send(&self, call: &TransportCall<'_>) -> Result<TransportReply> {
        let bare = call.url.split('?').next().unwrap_or_default();
        self.transport.send(call).map_err(|fault| match fault {
            TransportFault::Away(what) => {
                RegistryError::new(RegistryCode::RegistryUnreachable, what, "it is asked again later")
            }
            TransportFault::TooLarge => RegistryError::answer(format!("{bare} answered with too many bytes")),
        })
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
    let whole = match location {
        _ if location.starts_with("//") => format!("{scheme}:{location}"),
        _ if location.starts_with('/') => format!("{scheme}://{}{location}", rest.split(['/', '?']).next()?),
        _ => location.to_owned(),
    };
    is_address(&whole, is_insecure).then_some(whole)
}
