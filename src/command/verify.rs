//! `verify`: every file of the active version against its manifest, links, unit, snapshot; `--repair` puts it right.

use super::errand::{self, Errand};
use super::survey::{self, Depth};
use super::{Context, data_dir, recover};
use crate::cli::Verify;
use crate::config::Updates;
use crate::database::backup::{self, Backup};
use crate::database::directory;
use crate::plan::Step;
use crate::plan::facts::lacks;
use crate::plan::{self, Node, Over, Target};
use crate::report::{Code, Error, Result};
use crate::store::manifest::{self, Manifest};

/// Runs the command.
pub fn run(context: &mut Context, args: &Verify) -> Result<u8> {
    recover::warn_if_pending(context);
    let updates = context.open()?;
    let mut differences = differences(context, &updates)?;
    differences.extend(snapshots(context, &updates)?);
    // No damage, and not repaired: that is the operator's word.
    if let Some(why) = survey::silent_timer(context).filter(|_| updates.spec().enabled) {
        context.report.warn(&why);
    }
    if differences.is_empty() {
        context.report.notice("everything is as it was installed");
        return Ok(0);
    }
    for difference in &differences {
        context.report.warn(difference);
    }
    if !args.repair {
        let (count, them) = (differences.len(), if differences.len() == 1 { "it" } else { "them" });
        let noun = if count == 1 { "difference" } else { "differences" };
        return Err(Error::new(Code::Damaged, format!("{count} {noun} from what was installed"))
            .advise(format!("`teleport-update verify --repair` puts {them} right")));
    }
    let installed = survey::installed_now(context, &updates)?;
    let target = survey::active(&updates, &installed).ok_or_else(nothing_active)?;
    errand::carry_out(
        context,
        &Errand {
            command: "verify --repair",
            target,
            in_window: true,
            insist: true,
            depth: Depth::Repair,
            over: Over::Foreign,
            change: &|_| {},
            obsolete: &errand::never,
            refuse_left: None,
            trusted_snapshot: None,
        },
    )?;
    let updates = context.open()?;
    if let Some(first) = self::differences(context, &updates)?.first() {
        return Err(Error::new(Code::Damaged, format!("still different after the repair: {first}")));
    }
    match snapshots(context, &updates)?.first() {
        None => Ok(0),
        Some(first) => Err(Error::new(Code::BackupInvalid, format!("cannot be repaired: {first}"))
            .advise("everything else is right, but there is no way back to that version")),
    }
}

/// Everything but snapshots that differs, as lines.
fn differences(context: &Context, updates: &Updates) -> Result<Vec<String>> {
    let facts = survey::facts(context, updates, Depth::Move, None)?;
    let active = facts.active.clone().ok_or_else(nothing_active)?;
    let mut found = Vec::new();
    if context.misnamed {
        found.push(format!("{} does not call {active} active", updates.file().display()));
    }
    let dir = facts.dir_for(&active);
    let version_dir = context.layout.versions.join(&dir);
    match Manifest::read(&version_dir) {
        Ok(manifest) => {
            found.extend(
                manifest
                    .verify(&version_dir)?
                    .iter()
                    .map(|difference| format!("{}: {difference}", version_dir.display())),
            );
            if lacks(manifest.components.as_deref(), &facts.components) {
                let what = "components are selected that were left out when it was unpacked";
                found.push(format!("{}: {what}", version_dir.display()));
            }
            if manifest::read_marker(&version_dir).unwrap_or_default() != Some(manifest.archive_sha256) {
                found.push(format!("{}: the checksum marker is missing or another", version_dir.display()));
            }
        }
        Err(error) => found.push(error.to_string()),
    }
    let target = Target { revision: active, url: String::new(), bytes: None, trust_snapshot: false, over: Over::Newer };
    let plan = plan::move_to(&facts, &target)?;
    for step in &plan.switch {
        if let Step::Place(place) | Step::Switch { place, .. } = step {
            let is = match &place.was {
                Node::Absent => "is missing".to_owned(),
                Node::Link(target) => format!("leads to {}", target.display()),
                Node::Text(_) | Node::Kept(_) => "is another file".to_owned(),
            };
            let wanted = match &place.now {
                Node::Link(target) => format!(", not to {}", target.display()),
                Node::Absent => ", and should not be there".to_owned(),
                _ => String::new(),
            };
            found.push(format!("{} {is}{wanted}", place.path.display()));
        }
    }
    if let Some(other) = &facts.other_data_dir {
        found.push(data_dir::told(other, &context.data_dir()?));
    }
    for (file, program) in survey::starts_elsewhere(context) {
        let links = context.layout.inside(&context.layout.link_dir);
        found.push(format!(
            "{} starts {}, and the links are in {}",
            file.display(),
            program.display(),
            links.display()
        ));
    }
    Ok(found)
}

/// Every snapshot that is not what its description says; they cannot be made again.
fn snapshots(context: &Context, updates: &Updates) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for installed in survey::installed_now(context, updates)? {
        let snapshot = directory::of(&context.layout.versions.join(&installed.dir));
        let checked = Backup::read(&snapshot).and_then(|backup| match backup {
            // What a failed version left is kept as it is, perhaps damaged, and never restored.
            Some(backup) if !backup.failed => backup::check_bytes(&snapshot, &backup),
            _ => Ok(()),
        });
        match checked {
            Ok(()) => {}
            // Snapshots are root's alone; that they cannot be seen says nothing against them.
            Err(error) if error.code == Code::Permission => {
                context.report.info(&format!("{}: not checked", error.what));
            }
            Err(error) => found.push(error.what),
        }
    }
    Ok(found)
}

fn nothing_active() -> Error {
    Error::new(Code::Damaged, "no version is active").advise("run `teleport-update enable`")
}
