//! `verify`: every file of the active version against its manifest, links, unit, snapshot; `--repair` puts it right.

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use crate::cli::Verify;
use crate::config::Updates;
use crate::context::Context;
use crate::database::backup::{self, Backup};
use crate::database::directory;
use crate::host::{durable, trust};
use crate::inspect::{self, FactsFor, places};
use crate::plan::facts::{Facts, lacks};
use crate::plan::{self, Node, Over, Placement, Step, Target};
use crate::report::{Code, Error, Result};
use crate::run::change::{self, Basis, Fetched, RunRequest};
use crate::run::{apply, recovery, tuf};
use crate::store::manifest::{self, Manifest};
use protocol::Revision;

/// What a copy of the database that is damaged means, and its end.
const NO_WAY_BACK: &str = "this host cannot downgrade to that version until the version has been active again and was \
                           replaced by another one (that makes a new database backup)";

/// Takes the versions from others, for `--repair`: what is in them is then looked at like any other damage.
pub(crate) fn close(context: &Context) -> Result<()> {
    let closed = trust::close_versions(&context.layout)?;
    for path in &closed {
        context.report.warn(&format!(
            "users other than root could change {}; its owner and mode have been corrected",
            path.display()
        ));
    }
    let Some(program) = durable::link_at(&context.layout.link_dir.join("teleport"))? else { return Ok(()) };
    let is_active = |path: &PathBuf| program.starts_with(context.layout.path_inside(path));
    // Where more of it is another's, the repair says so.
    if let Some(active) = closed.iter().find(|path| is_active(path)).filter(|path| !manifest::is_open(path)) {
        change::warn_of_running(context, active);
    }
    Ok(())
}

/// Versions beside the active one that others could change: no damage, for no move uses them as they are.
fn tell_others(context: &Context, updates: &Updates) -> Result<()> {
    let installed = inspect::installed_now(context, updates)?;
    let active = inspect::active(updates, &installed);
    for other in installed.iter().filter(|installed| Some(&installed.revision) != active.as_ref()) {
        let dir = context.layout.versions.join(&other.dir);
        if manifest::is_open(&dir) {
            context.report.notice(&format!(
                "{}: users other than root could change this version; it will be downloaded again before it is used",
                dir.display()
            ));
        }
    }
    Ok(())
}

/// An active version that came without the signers of the trusted TUF repository: no damage, for it may have been there before.
fn tell_unproven(context: &Context, updates: &Updates, facts: &Facts) -> Result<()> {
    let (Some(tuf), Some(active)) = (tuf::of(context, updates, updates.spec())?, &facts.active) else { return Ok(()) };
    let manifest = Manifest::read(&context.layout.versions.join(facts.dir_for(active))).ok();
    if manifest.is_some_and(|manifest| !tuf.has_proven(manifest.tuf.as_ref())) {
        let what = format!("{active} was installed without the TUF repository that is trusted now, {}", tuf.url);
        context.report.notice(&what);
    }
    Ok(())
}

/// What would keep `rollback` from the last working version: no damage, for a backup may be too old, or never have been made.
fn tell_no_way_back(context: &Context, facts: &Facts) {
    let is_refused = |previous: &&Revision| facts.refused.iter().any(|refused| refused.revision == **previous);
    let Some(previous) = facts.previous.as_ref().filter(|previous| !is_refused(previous)) else { return };
    let target = Target { revision: previous.clone(), url: String::new(), trust_snapshot: false, over: Over::Told };
    let is_about_backup = |code| matches!(code, Code::BackupMissing | Code::BackupExpired | Code::BackupInvalid);
    if let Some(error) = plan::move_to(facts, &target).err().filter(|error| is_about_backup(error.code)) {
        context.report.warn(&format!("`rollback` cannot go back to {previous}: {}", error.what));
    }
}

/// Runs the command.
pub(crate) fn run(context: &mut Context, args: &Verify) -> Result<u8> {
    recovery::warn_if_pending(context);
    let status = change::rounds(context, |context, fetched| check(context, args, fetched))?;
    if !args.repair {
        return Ok(status);
    }
    let updates = inspect::open(context)?;
    let facts = inspect::facts(context, &updates, FactsFor::Move, None)?;
    if let Some(first) = differences(context, &updates, &facts)?.first() {
        return Err(Error::new(Code::Damaged, format!("still different after the repair: {first}")));
    }
    match snapshots(context, &updates)?.first() {
        None => Ok(status),
        Some(first) => {
            let what = format!("all repaired except what cannot be repaired: {}", first.what);
            Err(Error { what, ..first.clone() })
        }
    }
}

/// Looks, and repairs what is active if that is wanted; `None`: another version or other settings came meanwhile.
fn check(context: &mut Context, args: &Verify, fetched: &mut Fetched) -> Result<Option<u8>> {
    let updates = inspect::open(context)?;
    // No repair would help.
    places::unusable(context)?.map_or(Ok(()), Err)?;
    let facts = inspect::facts(context, &updates, FactsFor::Move, None)?;
    let differences = differences(context, &updates, &facts)?;
    let copies = snapshots(context, &updates)?;
    // No damage, and not repaired: that is the operator's word.
    if let Some(why) = inspect::silent_timer(context).filter(|_| updates.spec().enabled) {
        context.report.warn(&why);
    }
    if let Some(error) = places::shared_data(context)? {
        context.report.warn(&error.to_string());
    }
    tell_others(context, &updates)?;
    tell_unproven(context, &updates, &facts)?;
    if copies.is_empty() {
        tell_no_way_back(context, &facts);
    }
    if differences.is_empty() && copies.is_empty() {
        context.report.notice("everything is as it was installed");
        return Ok(Some(0));
    }
    differences.iter().for_each(|difference| context.report.warn(difference));
    copies.iter().for_each(|copy| context.report.warn(&copy.to_string()));
    if !args.repair {
        let (count, them) = (differences.len() + copies.len(), if differences.len() == 1 { "it" } else { "them" });
        let noun = if count == 1 { "difference" } else { "differences" };
        return Err(Error::new(Code::Damaged, format!("{count} {noun} from what was installed")).advise(match () {
            () if copies.is_empty() => format!("run `teleport-update verify --repair` to repair {them}"),
            () if differences.is_empty() => {
                "`--repair` cannot repair a database backup: see its warning above for what this means".to_owned()
            }
            () => {
                "`teleport-update verify --repair` repairs everything except database backups: see their warnings above"
                    .to_owned()
            }
        }));
    }
    let installed = inspect::installed_now(context, &updates)?;
    let target = inspect::active(&updates, &installed).ok_or_else(nothing_active)?;
    let basis = Some(Basis::of(context, &updates)?);
    apply(
        context,
        &RunRequest {
            facts_for: FactsFor::Repair,
            over: Over::Foreign,
            basis,
            ..RunRequest::new("verify --repair", target)
        },
        fetched,
    )
}

/// Everything but snapshots that differs, as lines.
fn differences(context: &Context, updates: &Updates, facts: &Facts) -> Result<Vec<String>> {
    let active = facts.active.clone().ok_or_else(nothing_active)?;
    let mut found = Vec::new();
    if context.settings_disagree {
        found.push(format!("{} does not name {active} as the active version", updates.file().display()));
    }
    let dir = facts.dir_for(&active);
    let version_dir = context.layout.versions.join(&dir);
    for (path, meta) in trust::open_versions(&context.layout)? {
        let (shown, mode) = (path.display(), meta.mode() & 0o7777);
        found.push(format!("{shown} can be changed by users other than root (owner {}, mode {mode:04o})", meta.uid()));
    }
    match Manifest::read(&version_dir) {
        Ok(manifest) => {
            // The directory itself is among the versions above.
            let differences = manifest.verify(&version_dir)?.into_iter().filter(|found| found.path != ".");
            found.extend(differences.map(|difference| format!("{}: {difference}", version_dir.display())));
            if lacks(manifest.components.as_deref(), &facts.components) {
                let what = "selected components are missing: this version was unpacked without them";
                found.push(format!("{}: {what}", version_dir.display()));
            }
            match manifest::read_marker(&version_dir) {
                Ok(marker) if marker == Some(manifest.archive_sha256) => {}
                Ok(_) => found.push(format!(
                    "{}: the file sha256 is missing or does not match manifest.json",
                    version_dir.display()
                )),
                Err(error) => found.push(error.what),
            }
        }
        Err(error) => found.push(error.what),
    }
    let target = Target { revision: active, url: String::new(), trust_snapshot: false, over: Over::Newer };
    let plan = plan::move_to(facts, &target)?;
    for step in &plan.switch {
        if let Step::Place(place) | Step::LinkAgent { place, .. } = step {
            found.push(misplaced(place));
        }
    }
    let links = context.layout.path_inside(&context.layout.link_dir);
    found.extend(facts.moved_links.iter().map(|(path, _)| {
        format!("{} is a link of an earlier directory; the links are in {}", path.display(), links.display())
    }));
    if let Some(other) = &facts.other_data_dir {
        found.push(other.what.clone());
    }
    for (file, program) in inspect::starts_elsewhere(context)? {
        found.push(format!(
            "{} starts {}, but the links are in {}",
            file.display(),
            program.display(),
            links.display()
        ));
    }
    Ok(found)
}

/// What stands at a place, and what should.
fn misplaced(place: &Placement) -> String {
    let is = match &place.was {
        Node::Absent => "is missing".to_owned(),
        Node::Link(target) => format!("leads to {}", target.display()),
        Node::Text(_) | Node::Kept(_) => "is a different file".to_owned(),
    };
    let wanted = match &place.now {
        Node::Link(target) => format!(", expected a link to {}", target.display()),
        Node::Absent => ", but it should not exist".to_owned(),
        _ => String::new(),
    };
    format!("{} {is}{wanted}", place.path.display())
}

/// What is wrong with snapshots that are not what their descriptions say; they cannot be made again.
fn snapshots(context: &Context, updates: &Updates) -> Result<Vec<Error>> {
    let mut found = Vec::new();
    for installed in inspect::installed_now(context, updates)? {
        let snapshot = directory::of(&context.layout.versions.join(&installed.dir));
        let checked = Backup::read(&snapshot).and_then(|backup| match backup {
            // What a failed version left is kept as it is, perhaps damaged, and never restored.
            Some(backup) if !backup.failed => backup::check_bytes(&snapshot, &backup),
            None if durable::is_dir(&snapshot)? => {
                let what = format!("{} has no {}", snapshot.display(), backup::DESCRIPTION_FILE);
                Err(Error::new(Code::BackupInvalid, what))
            }
            _ => Ok(()),
        });
        match checked {
            Ok(()) => {}
            // Snapshots are root's alone; that they cannot be seen says nothing against them.
            Err(error) if error.code == Code::Permission => {
                context.report.info(&format!("{}: not checked", error.what));
            }
            Err(error) if Backup::is_open(&snapshot) => found.push(error),
            Err(error) => found.push(error.advise(NO_WAY_BACK)),
        }
    }
    Ok(found)
}

fn nothing_active() -> Error {
    Error::new(Code::Damaged, "no version is active").advise("run `teleport-update enable`")
}
