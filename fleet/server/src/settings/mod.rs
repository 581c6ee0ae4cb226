//! What `serve` runs with: flags and variables first, then the configuration, then the defaults (FLEET §1).

mod written;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fleet_cli::args::{ADMIN_SOCKET, Serve};
use fleet_engine::resource;
use fleet_store::StorePlace;
use fleet_wire::answers::install_script::InstallScript;
use protocol::{Edition, Version};

use crate::fault::UsageFault;
use crate::notify::Receiver;
use crate::oidc::{self, Oidc};
use crate::reporting::{self, Reporting};
use crate::tuf_site::TufPlace;
use written::NO_COMMAND;
pub(crate) use written::with_file;

/// Where the data is by default.
const DATA: &str = "/var/lib/teleport-fleet";
/// By default: HTTPS, on every address.
const LISTEN: (Ipv4Addr, u16) = (Ipv4Addr::UNSPECIFIED, 443);
/// By default: only from this host.
const METRICS: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 9443);

/// What the server runs with.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Where the data is.
    pub(crate) store: StorePlace,
    /// For hosts, pages and the admin API.
    pub(crate) listen: SocketAddr,
    /// For metrics.
    pub(crate) metrics: SocketAddr,
    /// Certificate chain and key; `None`: plain HTTP.
    pub(crate) tls: Option<(PathBuf, PathBuf)>,
    /// A proxy in front of it speaks TLS with browsers and hosts.
    pub(crate) is_behind_proxy: bool,
    /// What scripts and links name.
    pub(crate) public_addr: Option<String>,
    /// The script for new hosts; `None`: the server's own address is not known.
    pub(crate) install_script: Option<Arc<InstallScript>>,
    /// Where the bound addresses are written.
    pub(crate) ready_file: Option<PathBuf>,
    /// For operators on this host.
    pub(crate) admin_socket: PathBuf,
    /// What answers of the nested dialect say the server is; channels name no higher major.
    pub(crate) server_version: Option<Version>,
    /// What answers of the nested dialect say the cluster is called.
    pub(crate) cluster_name: String,
    /// What hosts are told to install.
    pub(crate) edition: Option<Edition>,
    /// Whether hosts are asked for reports, and whose are accepted.
    pub(crate) reporting: Reporting,
    /// Who is told what happens; `None`: nobody.
    pub(crate) receiver: Option<Receiver>,
    /// The TUF repository that is served and refreshed; `None`: none.
    pub(crate) tuf: Option<TufPlace>,
    /// Who names the people that log in to the dashboard; `None`: tokens alone do.
    #[cfg_attr(not(feature = "oidc"), allow(dead_code, reason = "it is none"))]
    pub(crate) oidc: Option<Oidc>,
}

/// What is wrong with a host, and a port where it has one; some write `https://` before it.
fn fault_of_address(address: &str) -> Option<String> {
    let bare = address.split_once("://").map_or(address, |(_, bare)| bare);
    let what = resource::check_url(&format!("https://{bare}")).err()?;
    Some(format!("public_addr {address:?}: {what}: give HOST or HOST:PORT"))
}

impl Settings {
    /// Of the flags, and the configuration that they name.
    ///
    /// # Errors
    /// One line: which flags are wrong or do not go together; or which file, line and key.
    pub(crate) fn of(serve: &Serve, admin_socket: Option<&Path>) -> Result<Self, UsageFault> {
        let all = with_file(serve.clone(), &serve.config)?;
        let listen = all.listen.unwrap_or(LISTEN.into());
        let tls = tls(&all, listen).map_err(UsageFault::Usage)?;
        if let Some(what) = all.public_addr.as_deref().and_then(fault_of_address) {
            return Err(fault(serve.public_addr.is_some())(what));
        }
        // Of the configuration they were good.
        let server_version = flag("--server-version", all.server_version.as_ref())?;
        let edition = flag("--edition", all.edition.as_ref())?;
        let socket = admin_socket.map(Path::to_owned).or(all.admin_socket.clone());
        Ok(Self {
            store: store(&all).map_err(UsageFault::Failed)?,
            listen,
            metrics: all.metrics.unwrap_or(METRICS.into()),
            is_behind_proxy: all.behind_proxy,
            ready_file: all.ready_file.clone(),
            admin_socket: socket.unwrap_or_else(|| ADMIN_SOCKET.into()),
            server_version,
            cluster_name: all.cluster_name.clone().unwrap_or_default(),
            edition,
            reporting: reporting(&all)?,
            receiver: receiver(serve, &all)?,
            tuf: tuf(serve, &all)?,
            oidc: oidc(serve, &all, tls.is_some() || all.behind_proxy)?,
            install_script: install_script(serve, &all)?,
            tls,
            public_addr: all.public_addr,
        })
    }

    /// Where the data is, for the verbs that look at it, or need the server to be stopped.
    ///
    /// # Errors
    /// One line: the configuration or the address of the store cannot be read.
    pub(crate) fn store(data: Option<&PathBuf>, url: Option<&String>, config: &Path) -> Result<StorePlace, String> {
        let flags = Serve { data: data.cloned(), store: url.cloned(), ..Serve::default() };
        // Who names both needs no configuration.
        store(&if data.is_some() && url.is_some() { flags } else { with_file(flags, config)? })
    }

    /// Where the admin socket is, for a verb that asks the server beside a look at its files.
    ///
    /// # Errors
    /// The configuration cannot be read.
    pub(crate) fn admin_socket(flag: Option<&Path>, config: &Path) -> Result<PathBuf, String> {
        match flag {
            Some(path) => Ok(path.to_owned()),
            None => Ok(with_file(Serve::default(), config)?.admin_socket.unwrap_or_else(|| ADMIN_SOCKET.into())),
        }
    }
}

fn store(all: &Serve) -> Result<StorePlace, String> {
    let data = all.data.clone().unwrap_or_else(|| DATA.into());
    StorePlace::new(&data, all.store.as_deref()).map_err(|error| error.to_string())
}

/// The value of a flag, or of its variable, which has a shape.
fn flag<T: std::str::FromStr<Err: std::fmt::Display>>(
    name: &str,
    text: Option<&String>,
) -> Result<Option<T>, UsageFault> {
    let parsed = text.map(|text| text.parse()).transpose();
    parsed.map_err(|error| UsageFault::Usage(format!("{name}: {error}")))
}

/// What is wrong with settings of which `is_said` by flags or variables: else the configuration is wrong.
fn fault(is_said: bool) -> fn(String) -> UsageFault {
    if is_said { UsageFault::Usage } else { UsageFault::Failed }
}

/// Certificate chain and key; `None`: plain HTTP.
///
/// # Errors
/// What does not go together.
fn tls(all: &Serve, listen: SocketAddr) -> Result<Option<(PathBuf, PathBuf)>, String> {
    let is_plain = all.plain;
    let wrong = match (all.tls_cert.clone(), all.tls_key.clone()) {
        (Some(cert), Some(key)) if !is_plain => return Ok(Some((cert, key))),
        (None, None) if is_plain && crate::listener::is_plain_allowed(listen, all.behind_proxy) => return Ok(None),
        (None, None) if is_plain => {
            return Err(format!(
                "--plain on {listen}: without TLS the server listens on loopback alone, or with --behind-proxy"
            ));
        }
        (None, None) => "give --tls-cert and --tls-key; or --plain, on loopback or with --behind-proxy",
        (Some(_), None) => "--tls-cert needs --tls-key",
        (None, Some(_)) => "--tls-key needs --tls-cert",
        (Some(_), Some(_)) => "--plain does not go with --tls-cert and --tls-key",
    };
    Err(wrong.to_owned())
}

fn reporting(all: &Serve) -> Result<Reporting, UsageFault> {
    let enrolment = flag("--enrolment", all.enrolment.as_ref())?;
    let interval = all.report_interval_seconds.map(reporting::interval).transpose();
    let interval = interval.map_err(|error| UsageFault::Usage(format!("--report-interval-seconds: {error}")))?;
    Ok(Reporting { enrolment: enrolment.unwrap_or_default(), interval: interval.unwrap_or(reporting::INTERVAL) })
}

fn receiver(serve: &Serve, all: &Serve) -> Result<Option<Receiver>, UsageFault> {
    // Nobody would miss notifications that a variable asked for which is not read any more.
    let variable = "TELEPORT_FLEET_NOTIFY_COMMAND";
    if std::env::var_os(variable).is_some() {
        return Err(UsageFault::Usage(format!("{variable} {NO_COMMAND}")));
    }
    let is_said = serve.webhook_url.is_some() || serve.webhook_secret_file.is_some();
    Receiver::of(all.webhook_url.clone(), all.webhook_secret_file.clone()).map_err(fault(is_said))
}

fn tuf(serve: &Serve, all: &Serve) -> Result<Option<TufPlace>, UsageFault> {
    let is_said = serve.tuf_repository.is_some() || serve.tuf_online_key.is_some();
    tuf_place(all.tuf_repository.clone(), all.tuf_online_key.clone()).map_err(fault(is_said))
}

/// Of a configuration, for `doctor` too. Errors: a key without a repository.
pub(crate) fn tuf_place(dir: Option<PathBuf>, online_key: Option<String>) -> Result<Option<TufPlace>, String> {
    match (dir, online_key) {
        (Some(dir), online_key) => Ok(Some(TufPlace { dir, online_key })),
        (None, None) => Ok(None),
        (None, Some(_)) => Err("tuf_online_key needs tuf_repository: the directory that `tuf init` made".to_owned()),
    }
}

fn oidc(serve: &Serve, all: &Serve, is_secure: bool) -> Result<Option<Oidc>, UsageFault> {
    let wrong = |error| UsageFault::Usage(format!("--oidc-roles: {error}"));
    oidc::roles(serve.oidc_roles.as_deref().unwrap_or_default()).map_err(wrong)?;
    Oidc::of(all, is_secure).map_err(fault(oidc::is_said(serve) || serve.public_addr.is_some()))
}

fn install_script(serve: &Serve, all: &Serve) -> Result<Option<Arc<InstallScript>>, UsageFault> {
    let packages = all.packages.as_deref();
    let Some(address) = all.public_addr.as_deref() else {
        if packages.is_some() {
            // No refusal: a server that starts today starts after its next upgrade.
            crate::terminal::say(format_args!(
                "warning: packages is ignored without public_addr: the install script names this server"
            ));
        }
        return Ok(None);
    };
    let is_said = serve.public_addr.is_some() || serve.packages.is_some();
    let script = InstallScript::new(address, packages).map_err(|error| format!("public_addr or packages: {error}"));
    script.map(|script| Some(Arc::new(script))).map_err(fault(is_said))
}
