//! An agent's life in a bed, for the tests of its database and its service.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use testing::cluster::archive::Archive;
use testing::cluster::directive::Find;
use testing::crash::live::rows;

use super::{Rig, sql_of, tree};

/// Where the versions are.
pub(crate) const VERSIONS: &str = "/var/lib/teleport/versions";
/// For what takes a second or two: generous, the machine may be busy.
pub(crate) const SOON: Duration = Duration::from_secs(30);
/// Every row with all that makes it one.
const ROWS: &str = "SELECT id, version, note FROM rows ORDER BY id";

impl Rig {
    /// A bed with these settings whose agent runs `archive`.
    pub(crate) fn living(name: &str, settings: &str, archive: &Archive) -> Option<Self> {
        let rig = Self::up(name)?;
        rig.configure(settings);
        rig.release(archive);
        rig.enable(&[]).ok();
        rig.start_agent();
        Some(rig)
    }

    /// Replaces the settings of a host that is not enabled yet; lines of `spec`, indented by two.
    pub(crate) fn configure(&self, settings: &str) {
        let text = format!("version: v1\nkind: agent_versions\nspec:\n{settings}");
        self.bed.write(format!("{VERSIONS}/updates.yaml"), text, 0o644);
    }

    /// The cluster names `version`, which is published.
    pub(crate) fn wish(&self, version: &str) {
        self.cluster.set_directive(Find::version(version));
    }

    /// Replaces `from`, which must be there, in the text file at `path`.
    #[track_caller]
    pub(crate) fn edit(&self, path: &str, from: &str, to: &str) {
        let text = std::fs::read_to_string(self.path(path)).unwrap();
        assert!(text.contains(from), "{from:?} is not in {text}");
        std::fs::write(self.path(path), text.replace(from, to)).unwrap();
    }

    /// A further directive of the agent's unit.
    pub(crate) fn drop_in(&self, text: &str) {
        self.bed.write("/etc/systemd/system/teleport.service.d/test.conf", format!("[Service]\n{text}"), 0o644);
        self.bed.sh("systemctl daemon-reload");
    }

    /// Starts the updater in the unit `unit` and goes on; its exit status is the unit's.
    pub(crate) fn updater_in_background(&self, unit: &str, args: &str) {
        self.bed.sh(&format!("systemd-run --quiet --unit={unit} -p RemainAfterExit=yes teleport-update {args}"));
    }

    /// Waits until the background run `unit` is over.
    pub(crate) fn until_over(&self, unit: &str) {
        self.bed.until(
            &format!("case $(systemctl show -p SubState --value {unit}) in exited|failed) ;; *) false ;; esac"),
            SOON,
        );
    }

    /// The agent's main process.
    pub(crate) fn pid(&self) -> String {
        String::from_utf8(self.bed.exec(&["cat", "/run/teleport.pid"]).stdout).unwrap().trim().to_owned()
    }

    /// A name for this life of the agent's unit: a reload keeps it, a start changes it.
    pub(crate) fn invocation(&self) -> String {
        self.bed.sh("systemctl show -p InvocationID --value teleport")
    }

    /// Where the agent's link leads.
    pub(crate) fn link(&self) -> String {
        std::fs::read_link(self.path("/usr/local/bin/teleport")).unwrap().display().to_string()
    }

    /// The snapshot's file of `version`.
    pub(crate) fn snapshot(&self, version: &str) -> PathBuf {
        self.path(&format!("{VERSIONS}/{version}/backup/sqlite.db"))
    }

    /// The snapshot's description of `version`.
    pub(crate) fn description(&self, version: &str) -> String {
        std::fs::read_to_string(self.path(&format!("{VERSIONS}/{version}/backup/backup.yaml"))).unwrap_or_default()
    }

    /// The live database's rows.
    pub(crate) fn rows(&self) -> Vec<String> {
        self.sql(ROWS)
    }

    /// The rows in the snapshot of `version`.
    pub(crate) fn rows_kept(&self, version: &str) -> Vec<String> {
        sql_of(&self.snapshot(version), ROWS)
    }

    /// Inserts a row that is told apart by `note`.
    pub(crate) fn note(&self, note: &str) {
        let database = rows::open(&self.path("/var/lib/teleport/proc/sqlite.db")).unwrap();
        database.execute("INSERT INTO rows (version, note) VALUES ('test', ?1)", [note]).unwrap();
    }

    /// Whether a row with this note is live.
    pub(crate) fn has_note(&self, note: &str) -> bool {
        self.rows().iter().any(|row| row.ends_with(&format!("|{note}")))
    }

    /// What the agents acknowledged, `id|version` as in their rows.
    pub(crate) fn acknowledged(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path("/var/lib/teleport/acked.log")).unwrap_or_default();
        // A line that is being written has no end yet.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().filter_map(|line| line.split_once(' ')).map(|(version, id)| format!("{id}|{version}")).collect()
    }

    /// Waits until the agent has acknowledged some more rows of `version`.
    pub(crate) fn until_written(&self, version: &str) {
        let count = self.acknowledged().len() + 20;
        self.bed.until(&format!("test $(wc -l </var/lib/teleport/acked.log) -ge {count}"), SOON);
        self.bed.until(&format!("grep -q '^{version} ' /var/lib/teleport/acked.log"), SOON);
    }

    /// Everything that a refused command leaves as it was: versions, snapshots, links, the agent's process.
    pub(crate) fn footprint(&self) -> BTreeMap<&'static str, String> {
        let versions = tree(&self.path(VERSIONS));
        let versions =
            versions.into_iter().filter(|line| !line.starts_with("updates.yaml") && !line.starts_with(".lock"));
        BTreeMap::from([
            ("versions", versions.collect::<Vec<_>>().join("\n")),
            ("links", tree(&self.path("/usr/local")).join("\n")),
            ("process", self.pid()),
        ])
    }

    /// The version of the running agent, as `status` sees it.
    #[track_caller]
    pub(crate) fn running(&self) -> String {
        self.status()["agent_version_running"].as_str().unwrap_or("none").to_owned()
    }

    /// Nothing of a run is left behind: no journal, no staging, no prepared copy.
    #[track_caller]
    pub(crate) fn assert_tidy(&self) {
        for dir in [VERSIONS, "/var/lib/teleport/proc"].into_iter().filter(|dir| self.path(dir).exists()) {
            for entry in std::fs::read_dir(self.path(dir)).unwrap() {
                let name = entry.unwrap().file_name().to_string_lossy().into_owned();
                let is_known =
                    [".lock", ".credentials", ".fleet-host"].contains(&name.as_str()) || !name.starts_with('.');
                assert!(is_known, "{dir}/{name} was left behind");
            }
        }
    }
}
