//! What a report says of this host: no secrets, and no addresses.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use protocol::dry_run::DryRunResult;
use protocol::installer::MAX_NAMED;
use protocol::report::{MAX_LABEL, MAX_LABELS, Report, Versions};

use super::{Talked, commands};
use crate::config::{Spec, Updates};
use crate::context::Context;
use crate::host::durable;
use crate::inspect;
use crate::run::identity;

/// Longest error that is told, characters.
const MAX_ERROR: usize = 240;
/// Longest file with a line about this system, bytes.
const MAX_FILE: u64 = 16 << 10;

/// The report of now but for its number, of the agent `host`.
pub(super) fn gather(context: &Context, updates: &Updates, talked: &Talked, host: String) -> Report {
    let (spec, status) = (updates.spec(), updates.status());
    let version = |revision: &Option<protocol::Revision>| revision.as_ref().map(|it| it.version.to_string());
    let running = inspect::running(context, updates).and_then(|(_, version)| version);
    let mut last = talked.kept.last.clone();
    if let Some(last) = &mut last {
        last.error = plain(&last.error, spec);
    }
    Report {
        update_id: identity::shown(context, spec, Some(&host)).unwrap_or_default(),
        host,
        hostname: text_of("/proc/sys/kernel/hostname"),
        epoch: talked.wanted.map_or(0, |wanted| wanted.epoch),
        sequence: 0,
        time: context.host.now().to_string(),
        group: spec.group.clone().unwrap_or_default(),
        labels: labels(context, spec, talked),
        services: context.agent_config().ok().flatten().unwrap_or_default().services,
        installers: spec.allowed().iter().take(MAX_NAMED).map(ToString::to_string).collect(),
        versions: Versions {
            installed: spec.active_version.as_ref().map(ToString::to_string).unwrap_or_default(),
            running: running.unwrap_or_default(),
            previous: version(&status.previous).unwrap_or_default(),
            desired: talked.desired.clone().unwrap_or_default(),
        },
        edition: spec.active_edition.map(|edition| edition.as_str().to_owned()).unwrap_or_default(),
        updater: concat!("teleport-update ", env!("CARGO_PKG_VERSION")).to_owned(),
        arch: protocol::Arch::NATIVE.to_string(),
        os: os(),
        kernel: text_of("/proc/sys/kernel/osrelease"),
        enabled: spec.enabled,
        pinned: spec.pinned,
        recovery_pending: context.is_interrupted(),
        last,
        dry_run: talked.kept.dry_run.as_deref().and_then(DryRunResult::of),
    }
}

/// The labels of `updates.yaml`, below them what the agent's commands printed, and below those its static ones: as many as a report
/// may have.
fn labels(context: &Context, spec: &Spec, talked: &Talked) -> BTreeMap<String, String> {
    let mut labels = spec.labels.clone();
    let of_agent = context.agent_config().ok().flatten().unwrap_or_default().labels;
    for (name, value) in commands::labels(&talked.kept.printed).chain(of_agent) {
        let fits = !name.is_empty() && name.len().max(value.len()) <= MAX_LABEL;
        if fits && labels.len() < MAX_LABELS {
            labels.entry(name).or_insert(value);
        }
    }
    labels
}

/// `ID` and `VERSION_ID` of os-release.
fn os() -> String {
    let text = match text_of("/etc/os-release") {
        empty if empty.is_empty() => text_of("/usr/lib/os-release"),
        text => text,
    };
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        line.unwrap_or_default().trim_matches(['"', '\'']).to_owned()
    };
    format!("{} {}", value("ID"), value("VERSION_ID")).trim().to_owned()
}

fn text_of(file: &str) -> String {
    let bytes = durable::read_limited(Path::new(file), MAX_FILE).ok().flatten().unwrap_or_default();
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

/// An error in one line, without addresses, and so without what may stand in them.
fn plain(error: &str, spec: &Spec) -> String {
    let known = [&spec.proxy, &spec.source, &spec.base_url, &spec.https_proxy, &spec.http_proxy].into_iter().flatten();
    let hosts: Vec<&str> = known.map(|address| host_of(address)).filter(|host| host.len() > 1).collect();
    let line = error.lines().next().unwrap_or_default();
    let words: Vec<&str> = line
        .split_whitespace()
        .map(|word| if is_address(word) || hosts.iter().any(|host| word.contains(host)) { "(address)" } else { word })
        .collect();
    words.join(" ").chars().filter(|char| !char.is_control()).take(MAX_ERROR).collect()
}

/// The host's name in an address with or without scheme, user and port.
fn host_of(address: &str) -> &str {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let rest = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let rest = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, _)) => host,
        None => rest.split(':').next().unwrap_or_default(),
    }
}

fn is_address(word: &str) -> bool {
    let bare = word.trim_matches(|char: char| !char.is_ascii_alphanumeric() && char != ':');
    let bare = bare.trim_end_matches(':');
    let has_port = |(host, port): (&str, &str)| {
        host.contains('.') && !port.is_empty() && port.bytes().all(|it| it.is_ascii_digit())
    };
    word.contains("://")
        || word.contains('@')
        || bare.contains(':') && bare.parse::<IpAddr>().is_ok()
        || bare.parse::<std::net::Ipv4Addr>().is_ok()
        || word.trim_matches([',', ';', '(', ')', '"']).parse::<SocketAddr>().is_ok()
        || bare.split_once(':').is_some_and(has_port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_without_addresses() {
        let spec = Spec {
            proxy: Some("teleport.corp:3080".into()),
            base_url: Some("https://mirror.corp/teleport".into()),
            https_proxy: Some("px.corp:3128".into()),
            ..Spec::default()
        };
        for (error, expected) in [
            (
                "the new version is not healthy: exited after 3 s\nmore",
                "the new version is not healthy: exited after 3 s",
            ),
            ("cannot reach https://u:pw@other.corp/x: no", "cannot reach (address) no"),
            ("through the HTTP proxy px.corp:3128: refused", "through the HTTP proxy (address) refused"),
            ("look-up of mirror.corp failed", "look-up of (address) failed"),
            ("connect to 10.1.2.3, [2001:db8::1]:443 and (fe80::1)", "connect to (address) (address) and (address)"),
            ("a.example.com:443 said me@there", "(address) said (address)"),
            ("2.0.0 (oss): teleport.service at 15:04 /var/lib/x", "2.0.0 (oss): teleport.service at 15:04 /var/lib/x"),
        ] {
            assert_eq!(plain(error, &spec), expected);
        }
        assert_eq!(plain(&"ä".repeat(1000), &spec).chars().count(), MAX_ERROR);
    }

    #[test]
    fn the_host_in_an_address_is_found() {
        for (address, host) in [
            ("a.b:1", "a.b"),
            ("https://u:p@a.b:1/x?y", "a.b"),
            ("[::1]:443", "::1"),
            ("https://[::1]/", "::1"),
            ("a", "a"),
        ] {
            assert_eq!(host_of(address), host);
        }
    }
}
