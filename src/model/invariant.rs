//! What must hold of a host, at every instant and at rest.

use std::collections::BTreeSet;
use std::path::Path;

use proptest::prelude::*;

use super::host::{Entry, Host, LINK_DIR, UNIT_FILE, VERSIONS_DIR, WANTS, unit_of};
use super::reference::Whole;
use super::seen::{open_journal, same, seen};
use super::sequence::World;
use super::updater::target;
use super::world::Rev;
use crate::plan::{self, Part, Step};
use crate::store::{UNMANAGED, VersionDir};

impl World {
    /// What must hold at every instant.
    pub(super) fn whole_between_runs(&self) -> Result<(), TestCaseError> {
        for (path, entry) in &self.host.files {
            if let Entry::Link(target) = entry {
                let dir = Host::dir_of(target).expect("ours");
                prop_assert!(self.host.versions.contains_key(&dir), "{} dangles: {dir}", path.display());
            }
        }
        if let Some(dir) = &self.host.process {
            prop_assert!(self.host.versions.contains_key(dir), "the running {} is gone", dir);
        }
        Ok(())
    }

    /// What must hold when no run is interrupted.
    pub(super) fn at_rest(&self) -> Result<(), TestCaseError> {
        let host = &self.host;
        self.whole_between_runs()?;
        same(&seen(host), &self.reference, "at rest")?;
        prop_assert!(!open_journal(host) && host.next.is_none());
        prop_assert!(host.prepared.is_none() && host.unmanaged.is_none());
        let kept = Path::new(VERSIONS_DIR).join(UNMANAGED);
        prop_assert!(!host.files.keys().any(|path| path.starts_with(&kept)), "something is left in .unmanaged");
        if host.systemd {
            prop_assert_eq!(&host.loaded, &host.files.get(Path::new(UNIT_FILE)).cloned(), "systemd knows another unit");
        }
        let Some(active) = self.reference.active else {
            let ours = host.files.values().filter(|entry| matches!(entry, Entry::Link(_))).count();
            prop_assert_eq!(ours, 0, "links of ours on a host without an active version");
            return Ok(());
        };
        let dir = host.dir(active).expect("the active version is on disk").clone();
        if let Some(process) = &host.process {
            prop_assert_eq!(process, &dir, "another version runs");
        }
        if let Some(database) = &host.database
            && host.process.is_some()
        {
            prop_assert_eq!(database.schema, active.schema(), "the database is another version's");
        }
        let is_older = host.database.as_ref().is_none_or(|database| database.schema <= active.schema());
        prop_assert!(is_older || self.found, "the database is a newer version's");
        prop_assert_eq!(host.files.get(Path::new(UNIT_FILE)), Some(&Entry::Link(unit_of(&dir))));
        if let Some(entry) = host.files.get(Path::new(WANTS)) {
            prop_assert_eq!(entry, &Entry::Link(unit_of(&dir)), "the unit is enabled from another version");
        }
        self.links(active, &dir)?;
        // A plan after success is empty.
        let marked = self.reference.kept.values().all(|kept| kept.whole != Whole::Visibly);
        if !self.reference.links_lost && marked && self.reference.kept[&active].whole == Whole::Yes {
            let facts = host.facts(host.updates.spec(), None, true);
            let again = plan::move_to(&facts, &target(active.revision(), false));
            // An undone run leaves the links as they were, and can have made whole a version whose updater may be linked.
            let only_updater = |plan: &plan::Plan| {
                let is_updater = |step: &Step| match step {
                    Step::Place(place) => place.part == Part::Updater,
                    other => matches!(other, Step::RecordAgent { .. } | Step::DaemonReload),
                };
                plan.prepare.is_empty() && plan.after.is_empty() && plan.switch.iter().all(is_updater)
            };
            let is_done = |plan: &plan::Plan| plan.is_empty() || (!active.has_updater() && only_updater(plan));
            prop_assert!(again.as_ref().is_ok_and(is_done), "not done: {:#?}", again);
        }
        Ok(())
    }

    fn links(&self, active: Rev, dir: &VersionDir) -> Result<(), TestCaseError> {
        let bin = |dir: &VersionDir, name: &str| Entry::Link(Path::new(VERSIONS_DIR).join(dir).join("bin").join(name));
        let wanted: BTreeSet<String> = active.binaries().into_iter().filter(|name| name != "teleport-update").collect();
        for name in &wanted {
            let found = self.host.files.get(&Path::new(LINK_DIR).join(name));
            let lost = found.is_none() && self.reference.links_lost;
            prop_assert!(lost || found == Some(&bin(dir, name)), "{} is {:?}", name, found);
        }
        for (path, entry) in self.host.files.iter().filter(|(path, _)| path.starts_with(LINK_DIR)) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let ours = matches!(entry, Entry::Link(_));
            prop_assert!(!ours || name == "teleport-update" || wanted.contains(&name), "{} should not be there", name);
        }
        // Our own link: the active version's updater, else any that speaks our protocol.
        let updater = self.host.link_dir_of(&Path::new(LINK_DIR).join("teleport-update"));
        match updater {
            Some(found) if active.has_updater() => prop_assert_eq!(&found, dir),
            Some(found) => prop_assert!(self.host.versions[&found].rev.has_updater(), "a foreign updater is linked"),
            None => prop_assert!(!active.has_updater(), "no updater is linked"),
        }
        Ok(())
    }
}
