//! What `status` says: the keys of its JSON, in their order, and the same for people.

use protocol::installer::Installer;
use serde::Serialize;
use sources::FleetReason;

use crate::command::rollback::BY_OPERATOR;
use crate::config::status::{FailedUpdater, KeptDatabase, LastResult};
use crate::plan::facts::Refusal;
use crate::release::tuf::TufStatus;
use crate::run::reexec::MAX_FAILURES;

/// One look at an installation. `null` is what is not known, or may not be read.
#[derive(Debug, Serialize)]
pub(super) struct StatusReport {
    // RFD 0169's nine keys, first and exactly so named.
    pub agent_version_installed: Option<String>,
    pub agent_version_desired: Option<String>,
    pub agent_version_previous: Option<String>,
    pub agent_edition_installed: Option<&'static str>,
    pub agent_edition_desired: Option<&'static str>,
    pub agent_edition_previous: Option<&'static str>,
    pub agent_update_time_last: Option<String>,
    pub agent_update_time_jitter: Option<u32>,
    pub agent_updates_enabled: Option<bool>,
    // What operators ask for.
    pub proxy: Option<String>,
    pub source: Option<String>,
    pub source_reason: Option<String>,
    pub source_stale: Option<String>,
    pub notify_only: Option<bool>,
    pub group: Option<String>,
    pub base_url: Option<String>,
    pub pinned: Option<bool>,
    pub in_window: Option<bool>,
    pub fleet: Option<FleetReason>,
    pub tuf: Option<TufStatus>,
    pub installers: Option<Vec<Installer>>,
    pub installed_by: Option<Installer>,
    pub last_result: Option<LastResult>,
    pub refused: Option<Vec<Refusal>>,
    pub delayed: Option<Vec<Refusal>>,
    pub held: Option<Vec<Held>>,
    pub failed_updaters: Option<Vec<Updater>>,
    pub kept_databases: Option<Vec<KeptDatabase>>,
    pub agent_running: Option<bool>,
    pub agent_version_running: Option<String>,
    pub agent_version_linked: Option<String>,
    pub agent_replaced_by: Option<String>,
    pub watch_until: Option<String>,
    pub recovery_pending: Option<bool>,
    pub update_in_progress: Option<bool>,
    pub report: Option<String>,
    pub lock_awaited_since: Option<String>,
    pub attention: Option<Vec<String>>,
    pub updater_version: &'static str,
    pub updater_path: std::path::PathBuf,
}

/// A version that was left a short time ago, and is not returned to yet.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Held {
    pub version: String,
    pub edition: &'static str,
    pub until: String,
}

/// An updater that failed.
#[derive(Debug, Serialize)]
pub(super) struct Updater {
    sha256: String,
    count: u32,
    passed_over: bool,
}

impl From<&FailedUpdater> for Updater {
    fn from(failed: &FailedUpdater) -> Self {
        Self { sha256: failed.sha256.to_string(), count: failed.count, passed_over: failed.count >= MAX_FAILURES }
    }
}

/// A label and what stands beside it.
type Row = (&'static str, String);

impl StatusReport {
    /// What an operator should look at, by what is in the report.
    pub(super) fn complaints(&self) -> impl Iterator<Item = String> {
        let interrupted = "a run was interrupted: run `teleport-update recover`, or wait for the next run";
        let interrupted = self.recovery_pending.filter(|is_pending| *is_pending).map(|_| interrupted.to_owned());
        let replaced = self
            .agent_replaced_by
            .as_ref()
            .map(|by| format!("{by}: run `teleport-update enable` to replace it with the managed version"));
        [interrupted, replaced].into_iter().flatten()
    }

    /// The lines for people.
    pub(super) fn text(&self) -> String {
        let mut rows = self.state();
        rows.extend(self.last_result.as_ref().map(ended));
        rows.extend(self.tuf.as_ref().map(trusted));
        // The default is no news.
        let named = self.installers.as_ref().filter(|all| **all != [Installer::Update]);
        let named = named.map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "));
        rows.extend(named.map(|names| ("Installers", names)));
        rows.extend(self.waits());
        rows.extend(self.attention.iter().flatten().map(|why| ("Attention", why.clone())));
        rows.push(("Updater", self.updater_version.into()));
        rows.into_iter().map(|(name, value)| format!("{name:<12} {value}\n")).collect()
    }

    fn state(&self) -> Vec<Row> {
        let running = match (self.agent_running, &self.agent_version_running) {
            (Some(true), None) => "yes (a version that teleport-update did not install)".into(),
            (Some(true), Some(version)) => version.clone(),
            (Some(false), _) => "no".into(),
            (None, _) => unknown(),
        };
        let updates = match (self.agent_updates_enabled, self.pinned) {
            (Some(true), Some(false)) if self.notify_only == Some(true) => "told, not installed (notify_only)",
            (Some(true), Some(true)) => "enabled, pinned",
            (Some(false), Some(true)) => "disabled, pinned",
            (Some(true), _) => "enabled",
            (Some(false), _) => "disabled",
            (None, _) => "-",
        };
        let window = self.in_window.map(|open| if open { "yes" } else { "no" });
        let source = [("Source", &self.source), ("Reason", &self.source_reason), ("Stale", &self.source_stale)];
        let source = source.into_iter().filter_map(|(name, value)| Some((name, value.clone()?)));
        let by = self.installed_by.as_ref().map(|script| format!(", by {script}")).unwrap_or_default();
        let mut rows = vec![
            ("Installed", both(&self.agent_version_installed, self.agent_edition_installed) + &by),
            ("Running", running),
            ("Desired", both(&self.agent_version_desired, self.agent_edition_desired)),
            ("Previous", both(&self.agent_version_previous, self.agent_edition_previous)),
            ("Updates", updates.into()),
            ("Cluster", self.proxy.clone().unwrap_or_else(unknown)),
            ("Group", self.group.clone().unwrap_or_else(unknown)),
            ("Window open", window.map_or_else(unknown, str::to_owned)),
            ("Last update", self.agent_update_time_last.clone().unwrap_or_else(unknown)),
            ("Report", self.report.clone().unwrap_or_else(unknown)),
        ];
        // Behind the cluster.
        rows.splice(6..6, source);
        rows
    }

    /// What waits, is no longer used, or is kept.
    fn waits(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        rows.extend(self.fleet.as_ref().and_then(FleetReason::held).map(|held| ("Held back", held)));
        for (list, label) in [(&self.refused, "Refused"), (&self.delayed, "Delayed")] {
            rows.extend(list.iter().flatten().map(|waiting| {
                let Refusal { revision, reason, count, retry_at, .. } = waiting;
                let failed = if reason == BY_OPERATOR { String::new() } else { format!(", failed {}", times(*count)) };
                (label, format!("{} ({reason}){failed}, next attempt {retry_at}", revision.version))
            }));
        }
        rows.extend(self.held.iter().flatten().map(|Held { version, until, .. }| {
            let why = "this host switched back and forth between versions several times in the last two days";
            ("Delayed", format!("{version}: {why}; next attempt {until}, or run `update --now`"))
        }));
        let unused = self.failed_updaters.iter().flatten().filter(|updater| updater.passed_over);
        rows.extend(unused.map(|Updater { sha256, count, .. }| {
            let what = "and is no longer used; the package's own updater is used instead";
            ("Not used", format!("the updater with SHA-256 {sha256} failed {} {what}", times(*count)))
        }));
        rows.extend(self.kept_databases.iter().flatten().map(|KeptDatabase { revision, path }| {
            ("Kept data", format!("the database of {} from before its rollback is in {path}", revision.version))
        }));
        rows
    }
}

fn trusted(tuf: &TufStatus) -> Row {
    let TufStatus { root, targets, expires, checked } = tuf;
    let found = checked.zip(*expires).map(|(checked, end)| {
        let (root, targets) = (root.unwrap_or_default(), targets.unwrap_or_default());
        format!("root version {root}, targets version {targets}, good until {end}, verified {checked}")
    });
    ("TUF", found.unwrap_or_else(|| "a root is trusted; its repository was not asked yet".to_owned()))
}

fn ended(last: &LastResult) -> Row {
    let mut line = format!("{} at {}", last.outcome.to_string().replace('_', " "), last.time);
    if let Some(message) = last.message.as_deref().filter(|message| !message.is_empty()) {
        line += &format!(": {message}");
        line.extend(last.error_code.as_ref().map(|code| format!(" [{code}]")));
    }
    ("Last result", line)
}

fn times(count: u32) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

fn unknown() -> String {
    "-".into()
}

fn both(version: &Option<String>, edition: Option<&str>) -> String {
    match (version, edition) {
        (None, _) => unknown(),
        (Some(version), None) => version.clone(),
        (Some(version), Some(edition)) => format!("{version} ({edition})"),
    }
}
