//! The configuration file, as it is written (FLEET §1): YAML with a key for each flag.

use std::fmt::Display;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use fleet_cli::args::CONFIG;
use protocol::{Edition, Version};
use yaml::Node;

use crate::oidc;
use crate::reporting::{self, Enrolment};

/// Most bytes of a configuration.
const MAX_FILE: u64 = 1 << 20;

/// The configuration, as it is written.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServerFile {
    pub(crate) data: Option<PathBuf>,
    /// The address of a PostgreSQL database.
    pub(crate) store: Option<String>,
    pub(crate) listen: Option<SocketAddr>,
    pub(crate) metrics: Option<SocketAddr>,
    pub(crate) tls_cert: Option<PathBuf>,
    pub(crate) tls_key: Option<PathBuf>,
    pub(crate) plain: Option<bool>,
    pub(crate) behind_proxy: Option<bool>,
    pub(crate) public_addr: Option<String>,
    pub(crate) packages: Option<String>,
    pub(crate) ready_file: Option<PathBuf>,
    pub(crate) admin_socket: Option<PathBuf>,
    pub(crate) server_version: Option<Version>,
    pub(crate) cluster_name: Option<String>,
    pub(crate) edition: Option<Edition>,
    pub(crate) enrolment: Option<Enrolment>,
    pub(crate) report_interval_seconds: Option<u32>,
    pub(crate) webhook_url: Option<String>,
    pub(crate) webhook_secret_file: Option<PathBuf>,
    /// The directory of a TUF repository.
    pub(crate) tuf_repository: Option<PathBuf>,
    /// The key of its online roles.
    pub(crate) tuf_online_key: Option<String>,
    pub(crate) oidc: oidc::OidcFile,
}

/// What is said of the command that an earlier version ran for each notification.
pub(super) const NO_COMMAND: &str =
    "is gone: set webhook_url and webhook_secret_file, and run the command where that leads";

/// Takes the value of a key.
type Taking = fn(&mut ServerFile, &Node) -> Result<(), String>;

/// Every key.
const KEYS: [(&str, Taking); 27] = [
    ("data", |file, value| set(&mut file.data, value)),
    ("store", |file, value| set(&mut file.store, value)),
    ("listen", |file, value| set_address(&mut file.listen, value)),
    ("metrics", |file, value| set_address(&mut file.metrics, value)),
    ("tls_cert", |file, value| set(&mut file.tls_cert, value)),
    ("tls_key", |file, value| set(&mut file.tls_key, value)),
    ("plain", |file, value| set_flag(&mut file.plain, value)),
    ("behind_proxy", |file, value| set_flag(&mut file.behind_proxy, value)),
    ("public_addr", |file, value| set(&mut file.public_addr, value)),
    ("packages", |file, value| set(&mut file.packages, value)),
    ("ready_file", |file, value| set(&mut file.ready_file, value)),
    ("admin_socket", |file, value| set(&mut file.admin_socket, value)),
    ("server_version", |file, value| set(&mut file.server_version, value)),
    ("cluster_name", |file, value| set(&mut file.cluster_name, value)),
    ("edition", |file, value| set(&mut file.edition, value)),
    ("enrolment", |file, value| set(&mut file.enrolment, value)),
    ("report_interval_seconds", |file, value| set_interval(&mut file.report_interval_seconds, value)),
    ("webhook_url", |file, value| set(&mut file.webhook_url, value)),
    ("webhook_secret_file", |file, value| set(&mut file.webhook_secret_file, value)),
    ("tuf_repository", |file, value| set(&mut file.tuf_repository, value)),
    ("tuf_online_key", |file, value| set(&mut file.tuf_online_key, value)),
    ("oidc_issuer", |file, value| set(&mut file.oidc.issuer, value)),
    ("oidc_client_id", |file, value| set(&mut file.oidc.client_id, value)),
    ("oidc_client_secret_file", |file, value| set(&mut file.oidc.client_secret_file, value)),
    ("oidc_scopes", |file, value| set(&mut file.oidc.scopes, value)),
    ("oidc_claim", |file, value| set(&mut file.oidc.claim, value)),
    ("oidc_roles", |file, value| file.oidc.take_mapping(value)),
];

fn text(value: &Node) -> Result<&str, String> {
    value.as_str().ok_or_else(|| "not a text".to_owned())
}

fn set<T: FromStr<Err: Display>>(slot: &mut Option<T>, value: &Node) -> Result<(), String> {
    *slot = Some(text(value)?.parse().map_err(|error: T::Err| error.to_string())?);
    Ok(())
}

fn set_address(slot: &mut Option<SocketAddr>, value: &Node) -> Result<(), String> {
    let text = text(value)?;
    *slot = Some(text.parse().map_err(|_| format!("{text:?} is no address such as 0.0.0.0:443"))?);
    Ok(())
}

fn set_flag(slot: &mut Option<bool>, value: &Node) -> Result<(), String> {
    let text = text(value)?;
    *slot = Some(yaml::scalar::boolean(text).ok_or_else(|| format!("{text:?} is not true or false"))?);
    Ok(())
}

fn set_interval(slot: &mut Option<u32>, value: &Node) -> Result<(), String> {
    let text = text(value)?;
    let seconds = text.parse().map_err(|_| format!("{text:?} is no number of seconds"))?;
    *slot = Some(reporting::interval(seconds)?);
    Ok(())
}

impl ServerFile {
    /// The default file may be absent.
    pub(crate) fn read(file: &Path) -> Result<Self, String> {
        let text = match fleet_cli::read_text(file, MAX_FILE) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound && file == Path::new(CONFIG) => {
                return Ok(Self::default());
            }
            Err(error) => return Err(format!("cannot read {}: {error}", file.display())),
        };
        Self::parse(&text).map_err(|(line, what)| format!("{} line {line}: {what}", file.display()))
    }

    fn parse(text: &str) -> Result<Self, (usize, String)> {
        let root = Node::parse(text).map_err(|fault| (fault.line, fault.what))?;
        let mut written = Self::default();
        if root.is_null() {
            return Ok(written);
        }
        let Some(pairs) = root.pairs() else {
            return Err((root.line.max(1), "this is no mapping of keys and values".to_owned()));
        };
        for (key, value) in pairs {
            let name = key.as_str().unwrap_or_default();
            written.take(name, value).map_err(|what| (key.line, what))?;
        }
        Ok(written)
    }

    fn take(&mut self, key: &str, value: &Node) -> Result<(), String> {
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
        take(self, value).map_err(|error| format!("{key}: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_taken_and_an_unknown_one_is_told_with_its_line() {
        let text = "data: /d\nstore: postgres://f@h/d\nlisten: 127.0.0.1:1\nmetrics: '[::1]:2'\ntls_cert: /c\ntls_key: /k\nplain: no\nbehind_proxy: on\npublic_addr: a:1\npackages: https://p/d\nready_file: /r\nadmin_socket: /s\nserver_version: 17.0.0\ncluster_name: c\nedition: oss\nenrolment: token\nreport_interval_seconds: 60\nwebhook_url: https://h/\nwebhook_secret_file: /w\ntuf_repository: /t\ntuf_online_key: /t/k\noidc_issuer: https://i/\noidc_client_id: f\noidc_client_secret_file: /o\noidc_scopes: openid\noidc_claim: groups\noidc_roles: {sre: operator}\n";
        let written = ServerFile::parse(text).unwrap();
        assert_eq!(text.lines().count(), KEYS.len());
        assert_eq!((written.plain, written.behind_proxy), (Some(false), Some(true)));
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
            let (found, message) = ServerFile::parse(text).unwrap_err();
            assert_eq!(found, line, "{message}");
            assert!(message.contains(what), "{message}");
        }
        assert!(ServerFile::parse("").unwrap().data.is_none());
    }
}
