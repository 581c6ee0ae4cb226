//! Re-exec (SPEC §5): a command runs in the active version's updater, if that speaks our protocol, as a supervised
//! child. If the child breaks, this one recovers and does the work itself.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{Context, recover, survey};
use crate::cli::{Cli, Command};
use crate::config::Updates;
use crate::host::command::Command as Program;
use crate::host::trust;
use crate::report::Result;
use crate::store::manifest::Manifest;

/// Set in the child: it never hands over again.
pub const GUARD: &str = "TELEPORT_UPDATE_REEXEC";
/// The parent's pid, in a child that recovers under its parent's lock.
pub const LOCKED: &str = "TELEPORT_UPDATE_LOCKED";
/// Exit status of an updater that broke (sysexits.h, EX_SOFTWARE).
const EX_SOFTWARE: i32 = 70;

/// Runs the command in the active version's updater. `None`: it runs here.
pub fn to_active(cli: &Cli, context: &mut Context) -> Result<Option<u8>> {
    let is_own =
        matches!(cli.command, Command::Recover(_) | Command::Version(_) | Command::Completion { .. } | Command::Man);
    // An image's binaries may be for another machine.
    if is_own || context.host.var(GUARD).is_some() || context.layout.is_image() {
        return Ok(None);
    }
    let Some(updater) = active_updater(context) else {
        return Ok(None);
    };
    let child =
        Program::new(&updater).args(context.host.args.iter().skip(1)).env(GUARD, "1").run_attached(&context.signals);
    let broke = match &child {
        Ok(status) => match status.code() {
            Some(EX_SOFTWARE) => "broke (exit status 70)".to_owned(),
            Some(code) => return Ok(Some(u8::try_from(code).unwrap_or(1))),
            None if context.signals.cancelled() => return Ok(Some(1)),
            None => format!("ended with {status}"),
        },
        Err(error) => format!("could not be started ({error})"),
    };
    context.report.warn(&format!(
        "the updater {} {broke}; this one ({}) recovers and does the work",
        updater.display(),
        context.host.exe.display()
    ));
    if super::writes(&cli.command) && recover::is_needed(context) {
        let _lock = context.lock("recover")?;
        recover::pending(context, false)?;
    }
    Ok(None)
}

/// The active version's updater, if it is compatible and not this very file.
fn active_updater(context: &Context) -> Option<PathBuf> {
    let mut updates = Updates::read(&context.layout.config_file()).ok()?;
    survey::believe_links(context, &mut updates);
    let version = updates.spec().active_version.as_ref()?;
    let plain = version.to_string();
    let dirs = [updates.spec().active_edition.map(|edition| format!("{plain}_{edition}")), Some(plain.clone())];
    let (dir, manifest) = dirs.into_iter().flatten().find_map(|dir| {
        let dir = context.layout.versions.join(dir);
        let manifest = Manifest::read(&dir).ok()?;
        let fits = updates.spec().active_edition.is_none_or(|edition| edition == manifest.edition);
        fits.then_some((dir, manifest))
    })?;
    let updater = manifest.updater.filter(|updater| updater.protocol == super::version::PROTOCOL)?;
    let path = dir.join(updater.path);
    // What others may have put there is not for us to run, nor what they may exchange when we have looked.
    let layout = &context.layout;
    let is_safe = |path: &PathBuf| trust::check_way(layout, &layout.inside(path)).is_ok();
    (!is_same_file(&path, &context.host.exe)).then_some(path).filter(|path| path.exists()).filter(is_safe)
}

fn is_same_file(a: &Path, b: &Path) -> bool {
    match (std::fs::metadata(a), std::fs::metadata(b)) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}
