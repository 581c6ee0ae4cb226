//! The facts of an abstract host, as `inspect` gathers them from a real one.

use std::path::Path;

use super::host::{Host, Kept, LINK_DIR, UNIT_FILE, VERSIONS_DIR, WANTS, node_of};
use crate::config::Spec;
use crate::database::SnapshotId;
use crate::database::backup::{self, Content, Expect};
use crate::plan::facts::{Agent, Facts, Installed, Name, UnitFact};
use crate::plan::{Node, Snapshot};
use crate::report::{Code, Error};

impl Host {
    /// The facts under the settings `spec`; `every_byte`: the active version is hashed too.
    pub(super) fn facts(&self, spec: &Spec, trusted: Option<SnapshotId>, every_byte: bool) -> Facts {
        let active = self.linked().and_then(|dir| self.versions.get(&dir)).map(|version| version.rev.revision());
        let active = active.or_else(|| spec.active());
        let installed: Vec<Installed> = self
            .versions
            .iter()
            .map(|(dir, version)| {
                let hashed = every_byte && Some(version.rev.revision()) == active;
                Installed {
                    revision: version.rev.revision(),
                    dir: dir.clone(),
                    marker: version.marker.then(|| "0".repeat(64)),
                    intact: version.marker && version.sizes && (version.bytes || !hashed),
                    binaries: version.rev.binaries(),
                    components: None,
                    updater: version.rev.has_updater().then(|| "bin/teleport-update".to_owned()),
                    unit: Some("[Service]\n".to_owned()),
                    size: 1,
                    snapshot: self.judged(version.backup.as_ref(), spec, trusted, version.rev.revision()),
                    install_time: version.install_time,
                }
            })
            .collect();
        let unit = self.files.get(Path::new(UNIT_FILE));
        let status = self.updates.status();
        Facts {
            now: self.now,
            versions: VERSIONS_DIR.into(),
            link_dir: LINK_DIR.into(),
            active,
            previous: status.previous.clone(),
            names: self.names(&installed),
            unit: UnitFact {
                path: UNIT_FILE.into(),
                inside: UNIT_FILE.into(),
                node: node_of(unit, "teleport.service"),
                linked: true,
                managed: self.systemd,
                ..UnitFact::default()
            },
            enablement: self
                .files
                .get_key_value(Path::new(WANTS))
                .map(|(path, entry)| (path.clone(), node_of(Some(entry), "wants")))
                .into_iter()
                .collect(),
            database: self.database.is_some(),
            agent: Agent {
                running: self.process.is_some(),
                enabled: self.enabled(),
                failed: self.failed,
                served: self.process.is_some(),
                controllable: self.systemd,
                ..Agent::default()
            },
            refused: status.refused.clone(),
            components: spec.components.clone(),
            keep: spec.keep,
            in_use: self.process.iter().cloned().collect(),
            installed,
            ..Facts::default()
        }
    }

    fn names(&self, installed: &[Installed]) -> Vec<Name> {
        let usual = ["teleport", "tsh", "tctl", "tbot", "teleport-update"].map(str::to_owned);
        let links = self.files.keys().filter_map(|path| Some(path.strip_prefix(LINK_DIR).ok()?.display().to_string()));
        let mut names: Vec<String> = usual.into_iter().chain(links).collect();
        names.extend(installed.iter().flat_map(|installed| installed.binaries.clone()));
        names.sort();
        names.dedup();
        let named = names.into_iter().map(|name| {
            let node = node_of(self.files.get(&Path::new(LINK_DIR).join(&name)), &name);
            let ours = matches!(&node, Node::Link(target) if target.starts_with(VERSIONS_DIR));
            Name { name, node, ours }
        });
        named.collect()
    }

    fn judged(
        &self,
        kept: Option<&Kept>,
        spec: &Spec,
        trusted: Option<SnapshotId>,
        revision: protocol::Revision,
    ) -> Snapshot {
        let Some(kept) = kept else {
            return Snapshot::Unusable(Error::new(Code::BackupMissing, "no snapshot"));
        };
        if !kept.described {
            return Snapshot::Unusable(Error::new(Code::BackupInvalid, "backup.yaml: line 1"));
        }
        let absent = kept.backup.content == Content::Absent;
        let expect = Expect {
            version: &revision.version,
            edition: Some(revision.edition),
            proxy: spec.proxy.as_deref(),
            now: self.now,
            max_age: spec.backup_max_age,
            host: None,
            trusted,
        };
        match backup::validity(&kept.backup, &expect) {
            Err(error) => Snapshot::Unusable(error),
            Ok(()) if absent => Snapshot::NoDatabase,
            Ok(()) => Snapshot::Valid,
        }
    }
}
