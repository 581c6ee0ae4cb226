//! The configuration file, as it is written (FLEET §1): YAML with a key for each flag.

use std::fmt::Display;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;
use std::str::FromStr;

use fleet_cli::args::{CONFIG, Serve};
use protocol::{Edition, Version};
use yaml::Node;

use crate::oidc;
use crate::reporting::{self, Enrolment};

/// Most bytes of a configuration.
const MAX_FILE: u64 = 1 << 20;

/// What is said of the command that an earlier version ran for each notification.
pub(super) const NO_COMMAND: &str =
    "is gone: set webhook_url and webhook_secret_file, and run the command where that leads";

/// Takes the value of a key, where no flag has said it.
type Taking = fn(&mut Serve, &Node) -> Result<(), String>;

/// Every key.
const KEYS: [(&str, Taking); 27] = [
    ("data", |serve, value| set(&mut serve.data, value)),
    ("store", |serve, value| set(&mut serve.store, value)),
    ("listen", |serve, value| set_address(&mut serve.listen, value)),
    ("metrics", |serve, value| set_address(&mut serve.metrics, value)),
    ("tls_cert", |serve, value| set(&mut serve.tls_cert, value)),
    ("tls_key", |serve, value| set(&mut serve.tls_key, value)),
    ("plain", |serve, value| set_flag(&mut serve.plain, value)),
    ("behind_proxy", |serve, value| set_flag(&mut serve.behind_proxy, value)),
    ("public_addr", |serve, value| set(&mut serve.public_addr, value)),
    ("packages", |serve, value| set(&mut serve.packages, value)),
    ("ready_file", |serve, value| set(&mut serve.ready_file, value)),
    ("admin_socket", |serve, value| set(&mut serve.admin_socket, value)),
    ("server_version", |serve, value| set_as::<Version>(&mut serve.server_version, value)),
    ("cluster_name", |serve, value| set(&mut serve.cluster_name, value)),
    ("edition", |serve, value| set_as::<Edition>(&mut serve.edition, value)),
    ("enrolment", |serve, value| set_as::<Enrolment>(&mut serve.enrolment, value)),
    ("report_interval_seconds", |serve, value| set_interval(&mut serve.report_interval_seconds, value)),
    ("webhook_url", |serve, value| set(&mut serve.webhook_url, value)),
    ("webhook_secret_file", |serve, value| set(&mut serve.webhook_secret_file, value)),
    ("tuf_repository", |serve, value| set(&mut serve.tuf_repository, value)),
    ("tuf_online_key", |serve, value| set(&mut serve.tuf_online_key, value)),
    ("oidc_issuer", |serve, value| set(&mut serve.oidc_issuer, value)),
    ("oidc_client_id", |serve, value| set(&mut serve.oidc_client_id, value)),
    ("oidc_client_secret_file", |serve, value| set(&mut serve.oidc_client_secret_file, value)),
    ("oidc_scopes", |serve, value| set(&mut serve.oidc_scopes, value)),
    ("oidc_claim", |serve, value| set(&mut serve.oidc_claim, value)),
    ("oidc_roles", |serve, value| take(&mut serve.oidc_roles, oidc::pairs(value)?)),
];

fn text(value: &Node) -> Result<&str, String> {
    value.as_str().ok_or_else(|| "not a text".to_owned())
}

/// What a flag said stays.
#[expect(clippy::unnecessary_wraps, reason = "as all that take a value")]
fn take<T>(slot: &mut Option<T>, value: T) -> Result<(), String> {
    slot.get_or_insert(value);
    Ok(())
}

fn set<T: FromStr<Err: Display>>(slot: &mut Option<T>, value: &Node) -> Result<(), String> {
    take(slot, text(value)?.parse().map_err(|error: T::Err| error.to_string())?)
}

/// A text that is a `T`.
fn set_as<T: FromStr<Err: Display>>(slot: &mut Option<String>, value: &Node) -> Result<(), String> {
    set::<T>(&mut None, value)?;
    set(slot, value)
}

fn set_address(slot: &mut Option<SocketAddr>, value: &Node) -> Result<(), String> {
    let text = text(value)?;
    take(slot, text.parse().map_err(|_| format!("{text:?} is no address such as 0.0.0.0:443"))?)
}

fn set_flag(slot: &mut bool, value: &Node) -> Result<(), String> {
    let text = text(value)?;
    *slot |= yaml::scalar::boolean(text).ok_or_else(|| format!("{text:?} is not true or false"))?;
    Ok(())
}

fn set_interval(slot: &mut Option<u32>, value: &Node) -> Result<(), String> {
    let text = text(value)?;
    let seconds = text.parse().map_err(|_| format!("{text:?} is no number of seconds"))?;
    take(slot, reporting::interval(seconds)?)
}

/// What `serve` was told by flags, and what the configuration `file` says beside that. The default file may be absent.
///
/// # Errors
/// It cannot be read, or what is wrong with it in which line.
pub(crate) fn with_file(flags: Serve, file: &Path) -> Result<Serve, String> {
    let text = match fleet_cli::read_text(file, MAX_FILE) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound && file == Path::new(CONFIG) => return Ok(flags),
        Err(error) => return Err(format!("cannot read {}: {error}", file.display())),
    };
    parse(flags, &text).map_err(|(line, what)| format!("{} line {line}: {what}", file.display()))
}

fn parse(mut serve: Serve, text: &str) -> Result<Serve, (usize, String)> {
    let root = Node::parse(text).map_err(|fault| (fault.line, fault.what))?;
    if root.is_null() {
        return Ok(serve);
    }
    let Some(pairs) = root.pairs() else {
        return Err((root.line.max(1), "this is no mapping of keys and values".to_owned()));
    };
    for (key, value) in pairs {
        let name = key.as_str().unwrap_or_default();
        take_key(&mut serve, name, value).map_err(|what| (key.line, what))?;
    }
    Ok(serve)
}

fn take_key(serve: &mut Serve, key: &str, value: &Node) -> Result<(), String> {
    if key == "notify_command" {
        return Err(format!("{key} {NO_COMMAND}"));
    }
    let Some((_, take)) = KEYS.iter().find(|(name, _)| *name == key) else {
        let keys = KEYS.map(|(name, _)| name).join(", ");
        return Err(format!("{key:?} is no key; keys are {keys}"));
    };
    if value.is_null() {
        return Ok(());
    }
    take(serve, value).map_err(|error| format!("{key}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_taken_and_an_unknown_one_is_told_with_its_line() {
        let text = "data: /d\nstore: postgres://f@h/d\nlisten: 127.0.0.1:1\nmetrics: '[::1]:2'\ntls_cert: /c\ntls_key: /k\nplain: no\nbehind_proxy: on\npublic_addr: a:1\npackages: https://p/d\nready_file: /r\nadmin_socket: /s\nserver_version: 17.0.0\ncluster_name: c\nedition: oss\nenrolment: token\nreport_interval_seconds: 60\nwebhook_url: https://h/\nwebhook_secret_file: /w\ntuf_repository: /t\ntuf_online_key: /t/k\noidc_issuer: https://i/\noidc_client_id: f\noidc_client_secret_file: /o\noidc_scopes: openid\noidc_claim: groups\noidc_roles: {sre: operator}\n";
        let written = parse(Serve::default(), text).unwrap();
        assert_eq!(text.lines().count(), KEYS.len());
        assert_eq!((written.plain, written.behind_proxy), (false, true));
        assert_eq!(written.listen.unwrap().port(), 1);
        assert!(written.tuf_repository.is_some() && written.tuf_online_key.is_some());
        assert!(written.edition.is_some() && written.server_version.is_some() && written.admin_socket.is_some());
        for (text, line, what) in [
            ("data: /d\nlistn: x\n", 2, "\"listn\" is no key"),
            ("data: /d\nnotify_command: /c\n", 2, "notify_command is gone: set webhook_url"),
            ("listen: 443\n", 1, "is no address"),
            ("plain: perhaps\n", 1, "is not true or false"),
            ("- data\n", 1, "mapping of keys"),
            ("enrolment: closed\n", 1, "is not open, token or approve"),
            ("report_interval_seconds: 59\n", 1, "60 to 86400"),
            ("report_interval_seconds: soon\n", 1, "no number"),
            ("oidc_issuer: [a]\n", 1, "oidc_issuer: not a text"),
            ("data: /d\noidc_roles: {sre: root}\n", 2, "oidc_roles: \"root\" is not viewer, operator or admin"),
        ] {
            let (found, message) = parse(Serve::default(), text).unwrap_err();
            assert_eq!(found, line, "{message}");
            assert!(message.contains(what), "{message}");
        }
        assert!(parse(Serve::default(), "").unwrap().data.is_none());
    }
}
