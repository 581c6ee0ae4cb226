//! What each step does to an abstract host and how it is undone (the table of `docs/architecture.md`).

use std::path::Path;

use super::host::{Act, Entry, Host, Kept, UNIT_FILE, VERSIONS_DIR, Version, fails, node_of};
use super::world::{Nature, Rev};
use crate::execute::journal::{Journal, Note, Record};
use crate::plan::{Database, Node, Placement, Plan, ServiceAction, Step};
use crate::report::Code;
use crate::store::{UNMANAGED, VersionDir};

impl Host {
    /// Does `step`.
    pub(super) fn perform(&mut self, plan: &Plan, step: &Step, proxy: &str) -> Act<Note> {
        match step {
            Step::RecordAgent { .. } => {}
            Step::Fetch { revision, dir, .. } => self.fetch(Rev::of(revision), dir)?,
            Step::Verify { dir } => {
                if !self.versions[dir].bytes {
                    return fails(Code::Damaged, "differs from its manifest");
                }
            }
            Step::Place(place) | Step::LinkAgent { place, .. } => self.put(place, &place.now)?,
            Step::Snapshot { dir, failed, .. } => return self.snapshot(plan, dir, *failed, proxy),
            // The model takes, describes and installs in one.
            Step::PrepareSnapshot { .. } | Step::Describe { .. } | Step::Install { .. } => self.tick()?,
            Step::PrepareRestore { dir } => {
                self.tick()?;
                self.prepared = self.kept(dir)?.database.clone();
            }
            Step::Stop => {
                self.tick()?;
                self.process = None;
            }
            Step::Restore { dir } => {
                self.tick()?;
                if self.kept(dir)?.database.is_none() {
                    self.database = None;
                } else if self.prepared.is_none() {
                    return fails(Code::BackupMissing, "the prepared database is gone");
                } else {
                    self.database = self.prepared.take();
                }
            }
            Step::DaemonReload => {
                self.tick()?;
                self.loaded = self.files.get(Path::new(UNIT_FILE)).cloned();
            }
            Step::Reload => {
                self.tick()?;
                self.reload();
            }
            Step::Start => {
                self.tick()?;
                self.start();
            }
            Step::Health { binary, failing, .. } => {
                if self.process != Self::dir_of(binary) && !failing {
                    return fails(Code::Unhealthy, "the new version is not healthy");
                }
            }
            Step::Retire { dir } => {
                self.tick()?;
                self.versions.remove(dir);
            }
            other => panic!("the model has no {other:?}"),
        }
        self.tick()?;
        Ok(Note::default())
    }

    /// Undoes `step`, which was begun and perhaps done.
    pub(super) fn undo(&mut self, step: &Step, journal: &mut Journal, boot: bool) -> Act {
        match step {
            Step::RecordAgent { running } => {
                self.loaded = self.files.get(Path::new(UNIT_FILE)).cloned();
                if !boot && (*running || journal.has_started()) && self.process.is_none() {
                    self.tick()?;
                    self.start();
                }
            }
            Step::Place(place) => self.take_back(place)?,
            Step::LinkAgent { place, evidence } => {
                let plan = journal.opening()?.plan.clone();
                let ours = plan.service != ServiceAction::None || plan.database == Database::Restore;
                let Node::Link(new) = &place.now else { panic!("{place:?}") };
                let runs_old = self.process.is_some() && self.process != Self::dir_of(new);
                if ours || !runs_old {
                    self.stop_for_undo(journal, boot)?;
                    let links_to_new = self.files.get(&place.path).map(|entry| node_of(Some(entry), ""));
                    if links_to_new.as_ref() == Some(&place.now) || !journal.has(&Record::DatabaseBack) {
                        self.database_back(Some(evidence), journal)?;
                    }
                }
                self.put(place, &place.was)?;
            }
            Step::Restore { .. } => {
                self.stop_for_undo(journal, boot)?;
                if !journal.has(&Record::DatabaseBack) {
                    self.database_back(None, journal)?;
                }
            }
            Step::PrepareRestore { .. } => self.prepared = None,
            _ => {}
        }
        self.tick()
    }

    /// Stops the agent; one that was started since the run is brought back.
    fn stop_for_undo(&mut self, journal: &mut Journal, boot: bool) -> Act {
        let switch = &journal.opening()?.plan.switch;
        let step = switch.iter().position(|step| matches!(step, Step::RecordAgent { running: false }));
        let is_started = self.process.is_some() || (self.failed && self.enabled());
        if let Some(step) = step
            && is_started
            && !boot
            && !journal.has_started()
        {
            self.append(journal, Record::Done { step, note: Note { started: true, ..Note::default() } })?;
        }
        self.process = None;
        Ok(())
    }

    fn fetch(&mut self, rev: Rev, dir: &VersionDir) -> Act {
        let Some(&nature) = self.published.get(&rev) else {
            return fails(Code::ArchiveMissing, "there is no archive");
        };
        self.tick()?;
        let unpacked = Version {
            rev,
            nature,
            marker: false,
            sizes: true,
            bytes: true,
            install_time: self.now,
            backup: None,
            evidence: None,
        };
        if let Some(there) = self.versions.get_mut(dir) {
            there.marker = false;
            self.tick()?;
        }
        let kept = self.versions.remove(dir).map(|there| (there.backup, there.evidence)).unwrap_or_default();
        self.versions.insert(dir.clone(), Version { backup: kept.0, evidence: kept.1, ..unpacked });
        self.tick()?;
        self.versions.get_mut(dir).unwrap().marker = true;
        Ok(())
    }

    fn put(&mut self, place: &Placement, node: &Node) -> Act {
        if let Node::Kept(kept) = &place.was
            && *node != place.was
            && !self.files.contains_key(kept)
            && let Some(entry) = self.files.get(&place.path).cloned()
        {
            self.tick()?;
            self.files.insert(kept.clone(), entry);
        }
        self.tick()?;
        match node {
            Node::Absent => {
                self.files.remove(&place.path);
            }
            Node::Link(target) => {
                self.files.insert(place.path.clone(), Entry::Link(target.clone()));
            }
            Node::Kept(kept) => {
                if let Some(entry) = self.files.remove(kept) {
                    self.files.insert(place.path.clone(), entry);
                }
            }
            Node::Text(_) => panic!("the model generates no units"),
        }
        Ok(())
    }

    fn take_back(&mut self, place: &Placement) -> Act {
        if let Node::Kept(kept) = &place.now
            && !self.files.contains_key(kept)
            && let Some(entry) = self.files.get(&place.path).cloned()
        {
            self.tick()?;
            self.files.insert(kept.clone(), entry);
        }
        self.put(place, &place.was)
    }

    fn snapshot(&mut self, plan: &Plan, dir: &VersionDir, failed: bool, proxy: &str) -> Act<Note> {
        let rev = Rev::of(plan.from.as_ref().or(plan.to.as_ref()).expect("a version"));
        let kept = self.copy(rev, proxy, failed);
        let note = Note { snapshot: kept.backup.id(), ..Note::default() };
        self.tick()?;
        match self.versions.get_mut(dir) {
            Some(version) => version.backup = Some(kept),
            None if dir.is_unmanaged() => self.unmanaged = Some(kept),
            None => panic!("a snapshot in {dir}, which is no version"),
        }
        self.tick()?;
        Ok(note)
    }

    /// The snapshot in `dir`.
    fn kept(&self, dir: &VersionDir) -> Act<&Kept> {
        let kept = match self.versions.get(dir) {
            Some(version) => version.backup.as_ref(),
            None => self.unmanaged.as_ref(),
        };
        kept.map_or_else(|| fails(Code::BackupMissing, "no snapshot"), Ok)
    }

    fn database_back(&mut self, evidence: Option<&VersionDir>, journal: &mut Journal) -> Act {
        let Some(id) = journal.snapshot() else { return Ok(()) };
        let plan = journal.opening()?.plan.clone();
        let from = plan.switch.iter().find_map(|step| match step {
            Step::Snapshot { dir, .. } => Some(dir.clone()),
            _ => None,
        });
        let from = from.expect("a snapshot has its step");
        if let Some(dir) = evidence
            && !journal.has(&Record::Evidence)
            && self.database.is_some()
        {
            let to = plan.to.as_ref().map(Rev::of).expect("a switch has a target");
            let kept = self.copy(to, "", true);
            self.tick()?;
            let version = self.versions.get_mut(dir).expect("the target is on disk");
            *(if plan.needs_snapshot_of_target() { &mut version.evidence } else { &mut version.backup }) = Some(kept);
            self.tick()?;
            self.append(journal, Record::Evidence)?;
        }
        let kept = self.kept(&from)?.clone();
        if kept.backup.id() != Some(id) || !kept.good {
            return fails(Code::BackupInvalid, "this run's snapshot is another");
        }
        self.tick()?;
        self.database = kept.database;
        self.tick()?;
        self.append(journal, Record::DatabaseBack)
    }

    /// Writes the descriptions of what failed versions left to where the record looks for them.
    pub(super) fn show_evidence(&self) {
        for (dir, version) in &self.versions {
            for (name, kept) in [("backup", &version.backup), ("backup-failed", &version.evidence)] {
                let place = self.journal_dir.join(dir).join(name);
                match kept.as_ref().filter(|kept| kept.backup.failed) {
                    Some(kept) => {
                        std::fs::create_dir_all(&place).unwrap();
                        kept.backup.write(&place).unwrap();
                    }
                    None => {
                        let _ = std::fs::remove_file(place.join("backup.yaml"));
                    }
                }
            }
        }
    }

    /// What a start finds: the version that the agent's link leads to.
    pub(super) fn nature(&self) -> Option<Nature> {
        Some(self.versions.get(&self.linked()?)?.nature)
    }

    /// Everything in `.unmanaged` goes.
    pub(super) fn remove_unmanaged(&mut self) {
        self.unmanaged = None;
        let unmanaged = Path::new(VERSIONS_DIR).join(UNMANAGED);
        self.files.retain(|path, _| !path.starts_with(&unmanaged));
    }
}
