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
pub(super) struct ServerFile {
    pub(super) data: Option<PathBuf>,
    pub(super) listen: Option<SocketAddr>,
    pub(super) metrics: Option<SocketAddr>,
    pub(super) tls_cert: Option<PathBuf>,
    pub(super) tls_key: Option<PathBuf>,
    pub(super) plain: Option<bool>,
    pub(super) behind_proxy: Option<bool>,
    pub(super) public_addr: Option<String>,
    pub(super) packages: Option<String>,
    pub(super) ready_file: Option<PathBuf>,
    pub(super) admin_socket: Option<PathBuf>,
    pub(super) server_version: Option<Version>,
    pub(super) cluster_name: Option<String>,
    pub(super) edition: Option<Edition>,
    pub(super) enrolment: Option<Enrolment>,
    pub(super) report_interval_seconds: Option<u32>,
    pub(super) webhook_url: Option<String>,
    pub(super) webhook_secret_file: Option<PathBuf>,
    pub(super) oidc: oidc::OidcFile,
}

/// What is said of the command that an earlier version ran for each notification.
pub(super) const NO_COMMAND: &str =
    "is gone: set webhook_url and webhook_secret_file, and run the command where that leads";

/// Takes the text of a key.
type Taking = fn(&mut ServerFile, &str) -> Result<(), String>;

/// The keys whose value is a text.
const KEYS: [(&str, Taking); 23] = [
    ("data", |file, text| set(&mut file.data, text)),
    ("listen", |file, text| set_address(&mut file.listen, text)),
    ("metrics", |file, text| set_address(&mut file.metrics, text)),
    ("tls_cert", |file, text| set(&mut file.tls_cert, text)),
    ("tls_key", |file, text| set(&mut file.tls_key, text)),
    ("plain", |file, text| set_flag(&mut file.plain, text)),
    ("behind_proxy", |file, text| set_flag(&mut file.behind_proxy, text)),
    ("public_addr", |file, text| set(&mut file.public_addr, text)),
    ("packages", |file, text| set(&mut file.packages, text)),
    ("ready_file", |file, text| set(&mut file.ready_file, text)),
    ("admin_socket", |file, text| set(&mut file.admin_socket, text)),
    ("server_version", |file, text| set(&mut file.server_version, text)),
    ("cluster_name", |file, text| set(&mut file.cluster_name, text)),
    ("edition", |file, text| set(&mut file.edition, text)),
    ("enrolment", |file, text| set(&mut file.enrolment, text)),
    ("report_interval_seconds", |file, text| {
        let seconds = text.parse().map_err(|_| format!("{text:?} is no number of seconds"))?;
        file.report_interval_seconds = Some(reporting::interval(seconds)?);
        Ok(())
    }),
    ("webhook_url", |file, text| set(&mut file.webhook_url, text)),
    ("webhook_secret_file", |file, text| set(&mut file.webhook_secret_file, text)),
    ("oidc_issuer", |file, text| set(&mut file.oidc.issuer, text)),
    ("oidc_client_id", |file, text| set(&mut file.oidc.client_id, text)),
    ("oidc_client_secret_file", |file, text| set(&mut file.oidc.client_secret_file, text)),
    ("oidc_scopes", |file, text| set(&mut file.oidc.scopes, text)),
    ("oidc_claim", |file, text| set(&mut file.oidc.claim, text)),
];
/// The key whose value is a mapping.
const ROLES: &str = "oidc_roles";

fn set<T: FromStr<Err: Display>>(slot: &mut Option<T>, text: &str) -> Result<(), String> {
    *slot = Some(text.parse().map_err(|error: T::Err| error.to_string())?);
    Ok(())
}

fn set_address(slot: &mut Option<SocketAddr>, text: &str) -> Result<(), String> {
    set(slot, text).map_err(|_| format!("{text:?} is no address such as 0.0.0.0:443"))
}

fn set_flag(slot: &mut Option<bool>, text: &str) -> Result<(), String> {
    *slot = Some(yaml::scalar::boolean(text).ok_or_else(|| format!("{text:?} is not true or false"))?);
    Ok(())
}

impl ServerFile {
    /// The default file may be absent.
    pub(super) fn read(file: &Path) -> Result<Self, String> {
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
        let known = KEYS.iter().find(|(name, _)| *name == key);
        if known.is_none() && key != ROLES {
            let keys = KEYS.iter().map(|(name, _)| *name).chain([ROLES]);
            return Err(format!("{key:?} is no key; keys are {}", keys.collect::<Vec<_>>().join(", ")));
        }
        if value.is_null() {
            return Ok(());
        }
        let taken = match known {
            Some((_, take)) => value.as_str().ok_or_else(|| "not a text".to_owned()).and_then(|text| take(self, text)),
            None => self.oidc.take_mapping(value),
        };
        taken.map_err(|error| format!("{key}: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_taken_and_an_unknown_one_is_told_with_its_line() {
        let text = "data: /d\nlisten: 127.0.0.1:1\nmetrics: '[::1]:2'\ntls_cert: /c\ntls_key: /k\nplain: no\nbehind_proxy: on\npublic_addr: a:1\npackages: https://p/d\nready_file: /r\nadmin_socket: /s\nserver_version: 17.0.0\ncluster_name: c\nedition: oss\nenrolment: token\nreport_interval_seconds: 60\nwebhook_url: https://h/\nwebhook_secret_file: /w\noidc_issuer: https://i/\noidc_client_id: f\noidc_client_secret_file: /o\noidc_scopes: openid\noidc_claim: groups\noidc_roles: {sre: operator}\n";
        let written = ServerFile::parse(text).unwrap();
        assert_eq!(text.lines().count(), KEYS.len() + 1);
        assert_eq!((written.plain, written.behind_proxy), (Some(false), Some(true)));
        assert_eq!(written.listen.unwrap().port(), 1);
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
