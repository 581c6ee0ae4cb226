//! `spec` of `updates.yaml`: the settings of an installation (SPEC §2).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use http_client::{Retry, Timeouts};
use protocol::installer::{Installer, MAX_NAMED};
use protocol::report::{MAX_LABEL, MAX_LABELS};
use protocol::{Edition, Revision, Version};
use yaml::Node;
use yaml::view::View;

use super::credentials::{self, Credentials};
use crate::config::record::{Field, record};
use crate::host::layout::{NOT_IN_UNIT, fits_unit};
use crate::release::Limits;
use crate::report::Result;
use crate::service::{Commands, HealthSettings};

/// How long a window is open by default (RFD 0109).
const DEFAULT_WINDOW: Duration = Duration::from_secs(3600);
/// Versions kept by default, count: the current one and the last working one (RFD 0169 enable 15).
const DEFAULT_KEEP: u32 = 2;
/// How long a committed version is watched, seconds (SPEC §6).
const DEFAULT_WATCH: Duration = Duration::from_secs(60);
/// How long a new binary may take to tell its version, seconds: a cold disk is slow, a hanging one never answers.
const DEFAULT_VERSION_WAIT: Duration = Duration::from_secs(20);
/// How old a snapshot may be, seconds: one year, above a major's support and below the host CA's ten years (SPEC §6).
const DEFAULT_BACKUP_MAX_AGE: Duration = Duration::from_secs(365 * 86_400);
/// How long a busy database is waited for, seconds: longer than any transaction of the agent.
const DEFAULT_DATABASE_TIMEOUT: Duration = Duration::from_secs(30);

/// The settings of an installation (`spec`).
///
/// Numbers, times and versions are checked when the file is read, and held as the room that uses it takes it. Addresses, certificates and
/// keys are held as written and parsed by who uses them: a wrong one must not keep an operator from `status` or `disable`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// The proxy that names the wanted version, as written.
    pub proxy: Option<String>,
    /// What names the wanted version in place of the proxy, as written; without credentials.
    pub source: Option<String>,
    /// Whether `update` does anything.
    pub enabled: bool,
    /// Updates are told, and not installed.
    pub notify_only: bool,
    /// When updates may be installed: a calendar expression for the beginnings of windows, as written.
    pub window: Option<String>,
    /// How long such a window is open.
    pub window_length: Duration,
    /// After how long a source that says the same, or nothing, is told of; `None`: never.
    pub stale_after: Option<Duration>,
    /// Whether an update graph may lead to lower versions.
    pub allow_downgrade: bool,
    /// The version the links point to.
    pub active_version: Option<Version>,
    /// Its edition.
    pub active_edition: Option<Edition>,
    /// The update group.
    pub group: Option<String>,
    /// Where archives come from, in place of the public CDN; without credentials.
    pub base_url: Option<String>,
    /// Stay on one version.
    pub pinned: bool,
    /// The version pinned to; the active one if none.
    pub pinned_version: Option<Version>,
    /// How many versions retention leaves, at least 1.
    pub keep: u32,
    /// Which binaries are linked; all if empty.
    pub components: Vec<String>,
    /// The floor that no cluster can undercut.
    pub min_version: Option<Version>,
    /// Further trusted certificate authorities, PEM.
    pub ca: Option<String>,
    /// The key archives must be signed with, PEM.
    pub public_key: Option<String>,
    /// The root of the TUF repository whose signers must mean every archive, JSON as it was given.
    pub tuf_root: Option<String>,
    /// Where that repository's metadata is, in place of `tuf/metadata` below the base URL.
    pub tuf_url: Option<String>,
    /// What may install here, at most 16; empty: [`Spec::allowed`] says the default (DIRECTIVES §4).
    pub installers: Vec<Installer>,
    /// No TLS verification.
    pub insecure: bool,
    /// How long a committed version is watched.
    pub watch: Duration,
    /// When a version counts as healthy.
    pub health: HealthSettings,
    /// How long `teleport version` may take before anything is switched.
    pub version_wait: Duration,
    /// How patient requests and downloads are.
    pub network: Network,
    /// How old a snapshot may be for a downgrade.
    pub backup_max_age: Duration,
    /// How long a database is waited for that is in use: locked, or still open when the agent should be stopped.
    pub database_timeout: Duration,
    /// Where links to the binaries go, in place of the layout's directory.
    pub path: Option<PathBuf>,
    /// The agent's data directory, where what starts it names another than `teleport.yaml` does.
    pub data_dir: Option<PathBuf>,
    /// Proxy for https URLs; without credentials.
    pub https_proxy: Option<String>,
    /// Proxy for http URLs; without credentials.
    pub http_proxy: Option<String>,
    /// Hosts reached without proxy, comma-separated.
    pub no_proxy: Option<String>,
    /// Commands that run the agent where systemd does not.
    pub service: Option<Commands>,
    /// What a rollout server is told of this host, besides what the agent's own labels say.
    pub labels: BTreeMap<String, String>,
    /// This host's id towards the cluster, a UUID made on the first run.
    pub update_id: Option<String>,
    /// Which host that id was made for: the text of a [`crate::host::fingerprint::HostFingerprint`].
    pub update_id_host: Option<String>,
}

/// How patient requests and downloads are, in the words of those that wait (SPEC §3, §4).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Network {
    /// Of one request.
    pub timeouts: Timeouts,
    /// Of a request that fails.
    pub retry: Retry,
    /// Of a download.
    pub limits: Limits,
}

impl Spec {
    /// A pinned host that goes back to `version` is pinned to that from now on: settings that name the version that was left would
    /// lead there again with the next `enable`.
    pub(crate) fn follow(&mut self, version: &Version) {
        if self.pinned {
            self.pinned_version = Some(version.clone());
        }
    }

    /// What may install here: what the settings name, else the updater, with a trusted root also as `tuf`.
    pub fn allowed(&self) -> Vec<Installer> {
        if !self.installers.is_empty() {
            return self.installers.clone();
        }
        let tuf = self.tuf_root.as_ref().map(|_| Installer::Tuf);
        [Installer::Update].into_iter().chain(tuf).collect()
    }

    /// The active version with its edition, if both are known.
    pub fn active(&self) -> Option<Revision> {
        let version = self.active_version.clone()?;
        Some(Revision { version, edition: self.active_edition? })
    }

    /// Takes user names, passwords and tokens out of the URLs, for `.credentials`.
    pub fn take_credentials(&mut self) -> Credentials {
        let take = |url: &mut Option<String>, split: fn(&str) -> (String, Option<String>)| {
            let (bare, secret) = split(url.as_deref()?);
            *url = Some(bare);
            secret
        };
        Credentials {
            https_proxy: take(&mut self.https_proxy, credentials::split),
            http_proxy: take(&mut self.http_proxy, credentials::split),
            base_url: take(&mut self.base_url, credentials::split),
            source: take(&mut self.source, credentials::split_source),
            ..Credentials::default()
        }
    }

    /// The URLs that credentials can be for, in the order of [`Credentials`].
    pub(crate) fn urls(&self) -> [&Option<String>; 4] {
        [&self.https_proxy, &self.http_proxy, &self.base_url, &self.source]
    }

    /// Puts credentials back into the URLs, for use; never for writing.
    #[must_use]
    pub fn with_credentials(mut self, credentials: &Credentials) -> Self {
        let put = |url: &mut Option<String>, userinfo: &Option<String>| {
            if let (Some(bare), Some(userinfo)) = (url.as_deref(), userinfo) {
                *url = Some(credentials::join(bare, userinfo));
            }
        };
        put(&mut self.https_proxy, &credentials.https_proxy);
        put(&mut self.http_proxy, &credentials.http_proxy);
        put(&mut self.base_url, &credentials.base_url);
        put(&mut self.source, &credentials.source);
        self
    }
}

record!(Spec, settings;
    proxy by filled,
    source by filled,
    enabled = false,
    notify_only = false,
    window by filled,
    window_length by View::window_length = DEFAULT_WINDOW,
    stale_after by longer_than_nothing,
    allow_downgrade = false,
    active_version,
    active_edition,
    group by filled,
    base_url by filled,
    pinned = false,
    pinned_version,
    keep by View::count = DEFAULT_KEEP,
    components by texts,
    min_version,
    ca by filled,
    public_key by filled,
    tuf_root by root_text,
    tuf_url by filled,
    installers by installers,
    insecure = false,
    watch = DEFAULT_WATCH,
    health = HealthSettings::default(),
    version_wait as "health.version" = DEFAULT_VERSION_WAIT,
    network = Network::default(),
    backup_max_age = DEFAULT_BACKUP_MAX_AGE,
    database_timeout = DEFAULT_DATABASE_TIMEOUT,
    path by path_for_unit,
    data_dir by absolute_path,
    https_proxy by filled,
    http_proxy by filled,
    no_proxy by filled,
    service,
    labels by labels,
    update_id by filled,
    update_id_host by filled,
);
record!(HealthSettings;
    stable = Self::default().stable,
    without_readiness = Self::default().without_readiness,
    deadline = Self::default().deadline,
);
record!(Commands; start by command, stop by other_command, reload by other_command, pid_file by View::absolute_path);

/// A text; an empty one counts as none.
fn filled(view: &View<'_>) -> Result<Option<Option<String>>> {
    Ok(Some(view.text()?.filter(|text| !text.is_empty())))
}

/// A template that failed must not end a trust.
fn root_text(view: &View<'_>) -> Result<Option<Option<String>>> {
    match view.text()? {
        Some(text) if text.trim().is_empty() => Err(view.wrong("the JSON of a root; without the key none is trusted")),
        text => Ok(Some(text)),
    }
}

fn command(view: &View<'_>) -> Result<Option<String>> {
    Ok(view.text()?.filter(|text| !text.trim().is_empty()))
}

fn other_command(view: &View<'_>) -> Result<Option<Option<String>>> {
    Ok(command(view)?.map(Some))
}

fn texts(view: &View<'_>) -> Result<Option<Vec<String>>> {
    view.texts().map(Some)
}

/// At most as many as a report may have.
fn installers(view: &View<'_>) -> Result<Option<Vec<Installer>>> {
    let read =
        |text: String| text.parse().map_err(|_| view.wrong("a list of update, tuf, notify and local-script/NAME"));
    let all: Vec<Installer> = view.texts()?.into_iter().map(read).collect::<Result<_>>()?;
    if all.len() > MAX_NAMED { Err(view.wrong(&format!("a list of at most {MAX_NAMED}"))) } else { Ok(Some(all)) }
}

fn path_for_unit(view: &View<'_>) -> Result<Option<Option<PathBuf>>> {
    let path = view.absolute_path()?;
    match path.as_deref().filter(|path| !fits_unit(path)) {
        Some(_) => Err(view.wrong(&format!("an absolute path without {NOT_IN_UNIT}"))),
        None => Ok(Some(path)),
    }
}

fn absolute_path(view: &View<'_>) -> Result<Option<Option<PathBuf>>> {
    view.absolute_path().map(Some)
}

fn longer_than_nothing(view: &View<'_>) -> Result<Option<Option<Duration>>> {
    match view.duration()? {
        Some(limit) if limit.is_zero() => Err(view.wrong("longer than nothing")),
        limit => Ok(Some(limit)),
    }
}

/// At most as many labels, and as long ones, as a report may have.
fn labels(view: &View<'_>) -> Result<Option<BTreeMap<String, String>>> {
    let labels = view.texts_by_name()?;
    let is_long = |(name, value): (&String, &String)| name.is_empty() || name.len().max(value.len()) > MAX_LABEL;
    if labels.len() > MAX_LABELS || labels.iter().any(is_long) {
        return Err(
            view.wrong(&format!("at most {MAX_LABELS} labels, whose names and values have at most {MAX_LABEL} bytes"))
        );
    }
    Ok(Some(labels))
}

impl Field for Network {
    fn read(view: &View<'_>) -> Result<Option<Self>> {
        let Self { mut timeouts, mut retry, mut limits } = Self::default();
        let time = |key: &str, kept: &mut Duration| -> Result<()> {
            *kept = view.at(key)?.duration()?.unwrap_or(*kept);
            Ok(())
        };
        time("connect", &mut timeouts.connect)?;
        time("answer", &mut timeouts.answer)?;
        time("stall", &mut timeouts.read)?;
        time("question", &mut timeouts.question)?;
        retry.tries = view.at("tries")?.count()?.unwrap_or(retry.tries);
        time("deadline", &mut limits.run)?;
        limits.min_speed = view.at("min_speed")?.integer()?.unwrap_or(limits.min_speed);
        time("speed_window", &mut limits.speed_window)?;
        limits.resumes = view.at("resumes")?.integer()?.unwrap_or(limits.resumes);
        Ok(Some(Self { timeouts, retry, limits }))
    }

    fn node(&self) -> Option<Node> {
        let Self { timeouts, retry, limits } = self;
        Some(Node::mapping([
            ("connect", timeouts.connect.node()),
            ("answer", timeouts.answer.node()),
            ("stall", timeouts.read.node()),
            ("question", timeouts.question.node()),
            ("tries", retry.tries.node()),
            ("deadline", limits.run.node()),
            ("min_speed", Some(Node::plain(limits.min_speed))),
            ("speed_window", limits.speed_window.node()),
            ("resumes", limits.resumes.node()),
        ]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_changed_since_stays_and_what_both_say_otherwise_is_contested() {
        let group = |name: &str| Some(name.to_owned());
        let base = Spec { group: group("a"), keep: 2, ..Spec::default() };
        let wanted = Spec { group: group("b"), enabled: true, ..base.clone() };
        assert_eq!(base.changed(&base, &wanted), wanted);
        assert_eq!(base.contested(&base, &wanted), [""; 0]);
        let now = Spec { group: group("c"), keep: 5, ..base.clone() };
        assert_eq!(now.changed(&base, &wanted), Spec { enabled: true, ..now.clone() });
        // `keep` is what somebody else has changed, and wanted as it was; decided anew, it would be wanted as it is.
        assert_eq!(now.contested(&base, &Spec { keep: 5, ..wanted.clone() }), ["group"]);
        // Both say the same.
        assert_eq!(wanted.contested(&base, &wanted), [""; 0]);
    }
}
