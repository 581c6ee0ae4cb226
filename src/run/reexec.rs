//! Re-exec (SPEC §5): a command runs in the active version's updater, if that speaks our protocol, as a child with a
//! deadline. If it breaks, hangs or cannot be started, this one recovers and does the work itself.

use crate::run::environment::GUARD;
use crate::run::{record, recovery, writes};
use protocol::Digest;
use protocol::handover::{FAILED, PROTOCOL};

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cli::{Cli, Command};
use crate::config::Updates;
use crate::context::Context;
use crate::host::command::{Command as Program, Output};
use crate::host::process::FileId;
use crate::host::trust;
use crate::inspect;
use crate::report::{IoContext, Result};
use crate::store::VersionDir;
use crate::store::manifest::Manifest;

/// Exit statuses that stand: done, usage, `--err-if-should-update-now`, another run's lock.
const FINAL: [u8; 4] = [0, 2, 3, 75];
/// An updater that failed so often is passed over until it is another file.
pub(crate) const MAX_FAILURES: u32 = 3;
/// Longer than the longest honest run (jitter 1 h, download 1 h), and half an hour less than the unit has.
const LONGEST: Duration = Duration::from_secs(150 * 60);
/// A reader is waited for by a person; `verify` reads a gigabyte.
const READER: Duration = Duration::from_secs(10 * 60);
/// `status` answers within a second.
const STATUS: Duration = Duration::from_secs(15);
/// After SIGTERM, to the next safe point: a minute less than the unit has.
const STOP: Duration = Duration::from_secs(4 * 60);

/// Runs the command in the active version's updater. `None`: it runs here.
pub(crate) fn to_active(cli: &Cli, context: &mut Context) -> Result<Option<u8>> {
    let is_own =
        matches!(cli.command, Command::Recover(_) | Command::Version(_) | Command::Completion { .. } | Command::Man);
    // An image's binaries may be for another machine.
    if is_own || context.host.var(GUARD).is_some() || context.layout.is_image() {
        return Ok(None);
    }
    let Some(updater) = active_updater(cli, context) else {
        return Ok(None);
    };
    let program = Program::new(&updater).args(context.host.args.iter().skip(1)).env(GUARD, "1");
    let limit = limit(&cli.command);
    let ran = program.run_attached(Some((limit, STOP)), &context.signals);
    let is_stopped = context.signals.cancelled();
    let broke = match &ran {
        Err(error) => format!("could not be started ({error})"),
        Ok(None) if is_stopped => "did not end after it received the signal".to_owned(),
        Ok(None) => format!("did not end within {} s", limit.as_secs()),
        Ok(Some(status)) => match status.code().map(u8::try_from) {
            Some(Ok(FAILED)) => return Ok(Some(1)),
            Some(Ok(code)) if FINAL.contains(&code) => return Ok(Some(code)),
            Some(Ok(1)) => "failed without reporting an error".to_owned(),
            Some(Ok(code)) => format!("ended unexpectedly (exit status {code})"),
            _ => format!("ended with {status}"),
        },
    };
    let (path, own) = (updater.display(), context.host.exe.display());
    let goes_on = if is_stopped { String::new() } else { format!("; {own} continues in its place") };
    context.report.warn(&format!("the updater {path} {broke}{goes_on}"));
    let has_failed = !is_stopped || ran.is_ok_and(|status| status.is_none());
    if writes(&cli.command) {
        take_over(cli, context, has_failed.then_some(updater.as_path()))?;
    }
    Ok(is_stopped.then_some(1))
}

/// Recovers what the child left half done, and counts its failure, under the lock.
fn take_over(cli: &Cli, context: &mut Context, failed: Option<&Path>) -> Result<()> {
    let is_needed = context.is_interrupted();
    let lock = context.lock(if matches!(cli.command, Command::Update(_)) { "update" } else { "recover" });
    let _lock = match lock {
        Ok(lock) => lock,
        Err(error) if is_needed => return Err(error),
        // Whoever may not write comes to that in its command.
        Err(error) => {
            context.report.debug(&error.to_string());
            return Ok(());
        }
    };
    // Who was told to end leaves the recovery to the next run.
    if !context.signals.cancelled() {
        recovery::pending(context, false)?;
    }
    let counted = failed.filter(|_| !context.is_interrupted()).map(|updater| {
        let sha256 = Digest::of_file(updater).at("cannot read", updater)?.0;
        let mut updates = Updates::read(&context.layout.config_file())?;
        record::updater_failed(&mut updates, sha256);
        updates.write()
    });
    if let Some(Err(error)) = counted {
        context.report.debug(&error.to_string());
    }
    Ok(())
}

/// How long the command may take there.
fn limit(command: &Command) -> Duration {
    match command {
        Command::Status(_) => STATUS,
        command if writes(command) => LONGEST,
        _ => READER,
    }
}

/// Whether an updater has this command, and an option of it in its help: another one refuses it.
fn knows(updater: &Path, command: &str, option: &str) -> bool {
    let asked = Program::new(updater).args([command, "--help"]).env(GUARD, "1").timeout(STATUS).unprivileged();
    let is_told = |output: Output| output.success() && output.stdout_text().contains(option);
    asked.run_judged().is_ok_and(|ran| ran.is_ok_and(is_told))
}

/// The active version's updater, if it is compatible and not this very file.
fn active_updater(cli: &Cli, context: &Context) -> Option<PathBuf> {
    // What cannot be looked at leaves the work to this one, which says so.
    let mut updates = Updates::read(&context.layout.config_file()).ok()?;
    inspect::believe_links(context, &mut updates).ok()?;
    let version = updates.spec().active_version.as_ref()?;
    let by_edition = updates.spec().active_edition.map(|edition| VersionDir::of_edition(version, edition));
    let dirs = [by_edition, Some(VersionDir::of_version(version))];
    let (dir, manifest) = dirs.into_iter().flatten().find_map(|dir| {
        let dir = context.layout.versions.join(dir);
        let manifest = Manifest::read(&dir).ok()?;
        let fits = updates.spec().active_edition.is_none_or(|edition| edition == manifest.edition);
        fits.then_some((dir, manifest))
    })?;
    let updater = manifest.updater.filter(|updater| updater.protocol == PROTOCOL)?;
    let path = dir.join(updater.path);
    // What others may have put there is not for us to run, nor what they may exchange when we have looked.
    let is_safe = trust::check_way(&context.layout, &context.layout.path_inside(&path)).is_ok();
    let file = FileId::of(&path);
    if !is_safe || file.is_none() || file == FileId::of(&context.host.exe) {
        return None;
    }
    let (is_about_tuf, is_about_installers) = match &cli.command {
        Command::Enable(args) | Command::Pin(args) => {
            (args.tuf_root.is_some() || args.tuf_url.is_some(), args.installers.is_some())
        }
        command => (matches!(command, Command::Tuf(_)), false),
    };
    let (spec, own) = (updates.spec(), context.host.exe.display());
    // One that does not know the trust would install what nobody signed.
    if (is_about_tuf || spec.tuf_root.is_some()) && !knows(&path, "tuf", "") {
        context.report.info(&format!("the updater of {version} does not know TUF repositories; using {own}"));
        return None;
    }
    // One that does not know installers would install where it is not allowed to.
    if (is_about_installers || !spec.installers.is_empty()) && !knows(&path, "enable", "--installers") {
        context.report.info(&format!("the updater of {version} does not know installers; using {own}"));
        return None;
    }
    let failed = updates.status().failed_updaters.iter().filter(|failed| failed.count >= MAX_FAILURES);
    let digests: Vec<Digest> = failed.map(|failed| failed.sha256).collect();
    if !digests.is_empty() && Digest::of_file(&path).is_ok_and(|(digest, _)| digests.contains(&digest)) {
        let (path, own) = (path.display(), context.host.exe.display());
        context
            .report
            .info(&format!("the updater {path} failed {MAX_FAILURES} times and is no longer used; using {own}"));
        return None;
    }
    Some(path)
}
