//! Asks a registry: schemes, credentials, redirects, and what an answer's status means.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use protocol::Digest;
use serde::Deserialize;

use crate::Result;
use crate::auths::DockerAuths;
use crate::challenge::{Challenge, challenges};
use crate::error::{RegistryCode, RegistryError, quoted};
use crate::manifest::Manifest;
use crate::reference::{ImageReference, sha256};
use crate::transport::{Transport, TransportCall, TransportFault, TransportReply};

/// Largest manifest, index or configuration, bytes: what registries take.
pub(crate) const MAX_MANIFEST: u64 = 4 << 20;
/// Largest answer of a token server, bytes.
const MAX_TOKEN: u64 = 64 << 10;
/// Longest redirect, bytes: signed addresses of object stores have two or three thousand.
const MAX_LOCATION: usize = 8 << 10;
/// Most redirects of one request: a registry, its store, its cache.
const MAX_REDIRECTS: usize = 3;
/// Most repositories whose `Authorization` is kept.
const MAX_KEPT: usize = 256;

/// The manifests that we can read.
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
    /// The value of `Authorization` by host and path.
    authorizations: BTreeMap<(String, String), String>,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("auths", &self.auths).field("insecure", &self.insecure).finish_non_exhaustive()
    }
}

/// What a token server answers; Docker's says `token`, OAuth's `access_token`.
#[derive(Deserialize)]
struct TokenAnswer {
    token: Option<String>,
    access_token: Option<String>,
}

impl Registry {
    /// `insecure`: hosts, as `HOST[:PORT]`, whose certificates are not checked and that may speak plain HTTP.
    pub fn new(transport: Box<dyn Transport>, auths: DockerAuths, insecure: Vec<String>) -> Self {
        Self { transport, auths, insecure, known: Mutex::default() }
    }

    /// The digest that the registry says a tag has now: unproven, for "has it moved?" alone. HEAD, which Docker Hub does not count.
    ///
    /// Errors: as [`Registry::resolve`].
    pub fn announced(&self, image: &ImageReference) -> Result<Option<Digest>> {
        let accept = [("accept", MANIFESTS.to_owned())];
        let reply = self.ask(image, &format!("manifests/{}", image.wanted()), true, &accept, 0)?;
        Ok(reply.field("docker-content-digest").and_then(sha256))
    }

    /// A manifest or index, with its own digest. Errors: as [`Registry::resolve`].
    pub(crate) fn manifest(&self, image: &ImageReference) -> Result<Manifest> {
        let accept = [("accept", MANIFESTS.to_owned())];
        let reply = self.ask(image, &format!("manifests/{}", image.wanted()), false, &accept, MAX_MANIFEST)?;
        let digest = Digest::of(&reply.body);
        let said = reply.field("docker-content-digest").filter(|said| said.starts_with("sha256:"));
        if image.digest().is_some_and(|asked| asked != digest) || said.is_some_and(|said| sha256(said) != Some(digest))
        {
            let what =
                format!("{}: the registry sent a manifest with the digest sha256:{digest}, which is another", image);
            return Err(RegistryError::answer(what).advise("somebody changes it on its way, or the registry is broken"));
        }
        let media_type = reply.field("content-type").unwrap_or_default();
        Manifest::read(&reply.body, digest, media_type)
            .map_err(|what| RegistryError::answer(format!("{image}: {what}")))
    }

    /// A blob's bytes, which have that digest. Errors: as [`Registry::resolve`].
    pub(crate) fn blob(&self, image: &ImageReference, digest: Digest, most: u64) -> Result<Vec<u8>> {
        let reply = self.ask(image, &format!("blobs/sha256:{digest}"), false, &[], most)?;
        if Digest::of(&reply.body) != digest {
            let what = format!("{}: the registry sent other bytes for the blob sha256:{digest}", image.name());
            return Err(RegistryError::answer(what));
        }
        Ok(reply.body)
    }

    /// Whether the registry has a blob. Errors: as [`Registry::resolve`], but for a blob that is not there.
    pub(crate) fn has_blob(&self, image: &ImageReference, digest: Digest) -> Result<bool> {
        match self.ask(image, &format!("blobs/sha256:{digest}"), true, &[], 0) {
            Ok(_) => Ok(true),
            Err(error) if error.code == RegistryCode::ImageAbsent => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The index of what refers to `digest`; `None` where the registry does not serve the referrers API.
    pub(crate) fn referrers(&self, image: &ImageReference, digest: Digest) -> Result<Option<Manifest>> {
        let accept = [("accept", "application/vnd.oci.image.index.v1+json".to_owned())];
        match self.ask(image, &format!("referrers/sha256:{digest}"), false, &accept, MAX_MANIFEST) {
            Ok(reply) => {
                let media_type = reply.field("content-type").unwrap_or_default();
                Ok(Manifest::read(&reply.body, Digest::of(&reply.body), media_type).ok())
            }
            Err(error) if error.code == RegistryCode::RegistryUnreachable => Err(error),
            // Registries that do not know the path answer 404, 400, 401, 405, 406, or send to a page for people.
            Err(_) => Ok(None),
        }
    }

    /// The 200 of `/v2/PATH/tail`.
    fn ask(
        &self,
        image: &ImageReference,
        tail: &str,
        is_head: bool,
        headers: &[(&'static str, String)],
        most: u64,
    ) -> Result<TransportReply> {
        let url = format!("{}://{}/v2/{}/{tail}", self.scheme(image)?, image.api_host(), image.path());
        let call = TransportCall { is_head, url: &url, headers, is_insecure: self.is_insecure(image), most };
        let mut reply = self.send_authorized(image, &call)?;
        let (mut place, mut hops) = (url.clone(), 0);
        while matches!(reply.status, 301 | 302 | 303 | 307 | 308) {
            hops += 1;
            let next = reply.field("location").and_then(|location| redirect(&place, location, call.is_insecure));
            let next = next.filter(|_| hops <= MAX_REDIRECTS).ok_or_else(|| {
                RegistryError::answer(format!("{url} redirects too often, away from https, or to no address"))
            })?;
            // Without credentials, also back to the registry itself: an address there is for whoever holds it.
            reply = self.send(&TransportCall { url: &next, ..call })?;
            place = next;
        }
        // Addresses that an object store signs for GET refuse HEAD; that the registry sent there says that it has the blob.
        if is_head && hops > 0 && matches!(reply.status, 400 | 401 | 403 | 405 | 501) {
            return Ok(TransportReply { status: 200, ..reply });
        }
        refusal(reply.status, &url).map_or(Ok(reply), Err)
    }

    fn is_insecure(&self, image: &ImageReference) -> bool {
        self.insecure.iter().any(|host| host == image.host())
    }

    /// An insecure registry may speak TLS or not: asked once, without credentials.
    fn scheme(&self, image: &ImageReference) -> Result<&'static str> {
        if !self.is_insecure(image) {
            return Ok("https");
        }
        let host = image.api_host();
        if let Some(scheme) = self.known().schemes.get(host) {
            return Ok(scheme);
        }
        let answers = |scheme: &str| {
            let url = format!("{scheme}://{host}/v2/");
            self.send(&TransportCall { is_head: false, url: &url, headers: &[], is_insecure: true, most: MAX_TOKEN })
        };
        let scheme = if answers("https").is_ok() { "https" } else { answers("http").map(|_| "http")? };
        self.known().schemes.insert(host.to_owned(), scheme);
        Ok(scheme)
    }

    /// Sends with the `Authorization` of the repository; gets a new one when there is none or it is no longer good.
    fn send_authorized(&self, image: &ImageReference, call: &TransportCall<'_>) -> Result<TransportReply> {
        let key = (image.host().to_owned(), image.path());
        let kept = self.known().authorizations.get(&key).cloned();
        let reply = self.send_with(call, kept)?;
        if reply.status != 401 {
            return Ok(reply);
        }
        let found: Vec<_> = reply.fields("www-authenticate").flat_map(challenges).collect();
        let of = |scheme: &str| found.iter().find(|challenge| challenge.scheme.eq_ignore_ascii_case(scheme));
        let basic = self.auths.basic(image).map(|basic| format!("Basic {basic}"));
        let authorization = match (of("bearer"), of("basic")) {
            (Some(bearer), _) => Some(format!("Bearer {}", self.token(image, bearer, basic, call.is_insecure)?)),
            (None, Some(_)) => basic,
            (None, None) => None,
        };
        let Some(authorization) = authorization else { return Ok(reply) };
        let mut known = self.known();
        if known.authorizations.len() >= MAX_KEPT {
            known.authorizations.clear();
        }
        known.authorizations.insert(key, authorization.clone());
        drop(known);
        self.send_with(call, Some(authorization))
    }

    /// A token for pulling from that repository. The scope is ours: a registry must not have a token for more made with what it
    /// is trusted with.
    fn token(
        &self,
        image: &ImageReference,
        bearer: &Challenge,
        basic: Option<String>,
        is_insecure: bool,
    ) -> Result<String> {
        let realm = bearer.param("realm").unwrap_or_default();
        let told = |what: &str| format!("{}: the registry's token server {} {what}", image.name(), quoted(realm));
        if !is_address(realm, is_insecure) {
            return Err(RegistryError::answer(told("has no https:// address")));
        }
        let escaped = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let mut url = format!(
            "{realm}{}scope={}",
            if realm.contains('?') { '&' } else { '?' },
            escaped(&format!("repository:{}:pull", image.path()))
        );
        if let Some(service) = bearer.param("service") {
            url += &format!("&service={}", escaped(service));
        }
        let reply = self.send_with(
            &TransportCall { is_head: false, url: &url, headers: &[], is_insecure, most: MAX_TOKEN },
            basic,
        )?;
        if let Some(refusal) = refusal(reply.status, realm) {
            // A token server's 404 says nothing about the image.
            let is_passing = matches!(refusal.code, RegistryCode::RegistryUnreachable);
            let code = if is_passing { refusal.code } else { RegistryCode::RegistryDenied };
            return Err(RegistryError::new(code, told(&format!("answered {}", reply.status)))
                .advise("check the registry's auth_file"));
        }
        let answer: Option<TokenAnswer> = serde_json::from_slice(&reply.body).ok();
        let token = answer.and_then(|answer| answer.token.or(answer.access_token));
        let is_token = |token: &String| !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
        token.filter(is_token).ok_or_else(|| RegistryError::answer(told("sent no token")))
    }

    fn send_with(&self, call: &TransportCall<'_>, authorization: Option<String>) -> Result<TransportReply> {
        let mut headers = call.headers.to_vec();
        headers.extend(authorization.map(|value| ("authorization", value)));
        self.send(&TransportCall { headers: &headers, ..*call })
    }

    fn send(&self, call: &TransportCall<'_>) -> Result<TransportReply> {
        let url = call.url.split('?').next().unwrap_or_default();
        self.transport.send(call).map_err(|fault| match fault {
            TransportFault::Away(what) => RegistryError::new(RegistryCode::RegistryUnreachable, what),
            TransportFault::TooLarge => {
                RegistryError::answer(format!("{url} answered with more than {} bytes", call.most))
            }
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
    Some(RegistryError::new(code, format!("{url} answered {status}")).advise(advice))
}

/// Whether a text is an address that may be asked: https with a host and without a user, in visible ASCII.
fn is_address(url: &str, is_insecure: bool) -> bool {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://").filter(|_| is_insecure));
    let authority = rest.and_then(|rest| rest.split(['/', '?', '#']).next());
    authority.is_some_and(|authority| !authority.is_empty() && !authority.contains(['@', '\\']))
        && url.len() <= MAX_LOCATION
        && url.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'<' | b'>'))
}

/// Where a `Location` in an answer from `base` leads, if it may be gone to.
fn redirect(base: &str, location: &str, is_insecure: bool) -> Option<String> {
    let (scheme, rest) = base.split_once("://")?;
    let host = rest.split(['/', '?']).next()?;
    let whole = match location {
        _ if location.starts_with("//") => format!("{scheme}:{location}"),
        _ if location.starts_with('/') => format!("{scheme}://{host}{location}"),
        _ => location.to_owned(),
    };
    is_address(&whole, is_insecure).then_some(whole)
}
