//! What `updates.yaml`, the environment and the flags make of the network: the client, the mirror, whose archives.

use std::path::Path;
use std::sync::Mutex;

use base64::Engine;
use http_client::{Client, HttpSettings, Trace, only_certificates};
use sources::Source;

use crate::config::{Credentials, Spec};
use crate::context::Context;
use crate::host::durable;
use crate::host::elf::{self, Elf};
use crate::release::BaseUrl;
use crate::report::{Code, Error, Report, Result};
use protocol::Arch;

/// Largest file of certificates that `enable` keeps, bytes: a whole system bundle is 220 kB.
const MAX_PEM: u64 = 1024 * 1024;

/// What servers see.
const USER_AGENT: &str = concat!("teleport-update/", env!("CARGO_PKG_VERSION"));

/// The client for this run: persisted settings, with the environment's on top.
pub(crate) fn client(context: &Context, spec: &Spec) -> Result<Client> {
    let insecure = is_insecure(context, spec);
    if insecure {
        context.report.warn("TLS certificates are not verified (--insecure)");
    }
    let mut settings = HttpSettings::from_env(USER_AGENT, &|name| context.host.var(name).map(str::to_owned));
    // A bundle that is gone must not stop a host that also knows it by content.
    if spec.ca.is_some() && settings.cert_file.as_ref().is_some_and(|file| !file.exists()) {
        settings.cert_file = None;
    }
    settings.insecure = insecure;
    (settings.ca_pem, settings.ca_place) = (spec.ca.clone(), "spec.ca in updates.yaml");
    settings.timeouts = spec.network.timeouts.clone();
    settings.retry = spec.network.retry.clone();
    let trace = |say: fn(&Report, &str)| {
        let report = Mutex::new(context.report.beside());
        Trace::to(move |line| drop(report.lock().map(|report| say(&report, line))))
    };
    (settings.trace, settings.waits) = (trace(Report::debug), trace(Report::info));
    let kept = credentials(context, spec)?;
    let full = spec.clone().with_credentials(&kept);
    let proxies = &mut settings.proxies;
    if proxies.https.is_none() && proxies.http.is_none() && proxies.all.is_none() {
        proxies.https = full.https_proxy.clone();
        proxies.http = full.http_proxy.clone();
        proxies.none = proxies.none.take().or(full.no_proxy.clone());
    }
    let source = spec.source.as_deref().and_then(|source| source.parse::<Source>().ok()?.origin());
    // The mirror's first: its place can be on the source's server.
    let known = [(&kept.base_url, &spec.base_url), (&kept.source, &source)];
    settings.credentials = known
        .into_iter()
        .filter_map(|(userinfo, place)| {
            let userinfo = userinfo.as_deref()?.split('?').next().filter(|userinfo| !userinfo.is_empty())?;
            let (header, base_url) = (authorization(userinfo), place.clone()?);
            Some(http_client::Credentials { base_url, header })
        })
        .collect();
    Client::new(&settings)
}

/// The URL of a source with what is kept apart of its query.
pub(crate) fn whole_url(context: &Context, spec: &Spec, url: &str) -> Result<String> {
    let kept = credentials(context, spec)?.source;
    let Some((_, secret)) = kept.as_deref().and_then(|kept| kept.split_once('?')) else { return Ok(url.to_owned()) };
    Ok(format!("{url}{}{secret}", if url.contains('?') { '&' } else { '?' }))
}

fn credentials(context: &Context, spec: &Spec) -> Result<Credentials> {
    let known = context.credentials.clone().map_or_else(|| Credentials::known(&context.layout.versions), Ok)?;
    Ok(known.fitting(spec.urls()))
}

/// Whether certificates are not checked: as this command is told, or as the settings say.
pub(crate) fn is_insecure(context: &Context, spec: &Spec) -> bool {
    context.global.insecure || spec.insecure
}

/// `user:password` becomes Basic, a lone token Bearer.
fn authorization(userinfo: &str) -> String {
    if userinfo.contains(':') {
        format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(userinfo))
    } else {
        format!("Bearer {userinfo}")
    }
}

/// Where archives come from.
pub(crate) fn base_url(context: &Context, spec: &Spec) -> Result<BaseUrl> {
    let base: BaseUrl = spec.base_url.as_deref().map(str::parse).transpose()?.unwrap_or_default();
    base.check_scheme(is_insecure(context, spec)).map(|()| base)
}

/// The architecture that archives must be for: the image's own, or this machine's.
pub(crate) fn arch(context: &Context) -> Arch {
    if context.layout.is_image() { image_arch(context).unwrap_or(Arch::NATIVE) } else { Arch::NATIVE }
}

/// The machine of the image's shell or init, read from its ELF header.
fn image_arch(context: &Context) -> Option<Arch> {
    ["/bin/sh", "/usr/bin/env", "/sbin/init", "/usr/lib/systemd/systemd"].into_iter().find_map(|inside| {
        let path = context.layout.followed(Path::new(inside));
        // A pipe in its place would be waited for.
        path.is_file().then_some(())?;
        Arch::from_elf_machine(Elf::parse(&elf::head(&path).ok()?)?.machine)
    })
}

/// The certificates in a file of authorities. Errors: as [`pem`]; `config_invalid` for one without a certificate.
pub(crate) fn authorities(path: &std::path::Path) -> Result<String> {
    only_certificates(&pem(path)?).map_err(|error| error.during(path.display()))
}

/// A file of certificates or a key, by content.
pub(crate) fn pem(path: &std::path::Path) -> Result<String> {
    let bytes = durable::read_limited(path, MAX_PEM)?
        .ok_or_else(|| Error::new(Code::Usage, format!("{} does not exist", path.display())))?;
    String::from_utf8(bytes).map_err(|_| Error::new(Code::Usage, format!("{} is not PEM text", path.display())))
}
