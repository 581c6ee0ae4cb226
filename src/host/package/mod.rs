//! Distribution packages of the old kind (`teleport`, `teleport-ent`): found, and purged so that the agent's
//! configuration and data survive (SPEC §5).
//!
//! Only `dpkg` and `rpm` themselves are called: they refuse to break dependents, while apt and dnf would remove more.

mod busy;
mod dpkg;
mod kept;
mod rpm;
mod scripts;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) use busy::Waiting;
use kept::Kept;
pub(crate) use kept::restore as restore_kept;

use super::command::{Command, Output};
use super::{durable, path};
use crate::report::{Code, Error, IoContext, Result};

/// Every name that a Teleport agent's package has had.
pub(crate) const NAMES: [&str; 3] = ["teleport", "teleport-ent", "teleport-ent-fips"];
/// A purge with maintainer scripts that stop a service.
const PURGE_TIMEOUT: Duration = Duration::from_secs(300);
/// Maintainer scripts and status files are read up to this size, in bytes.
const READ_LIMIT: u64 = 64 * 1024 * 1024;
/// Who installed a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PackageTool {
    /// Debian, Ubuntu.
    Dpkg,
    /// Red Hat, SUSE, Amazon.
    Rpm,
}

/// How much of a package is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// All of it.
    Installed,
    /// Removed but for its configuration files: a later `apt purge` would delete them.
    ConfigFiles,
    /// An installation or removal was interrupted; dpkg may even ask for the package anew before it removes it.
    Broken,
}

/// An installed package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Package {
    /// One of [`NAMES`].
    pub name: String,
    /// Who installed it.
    pub tool: PackageTool,
    /// How much of it is there.
    pub state: State,
}

/// What a purge must not touch, and where it keeps copies meanwhile.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keep<'a> {
    /// Files that survive byte for byte, with owner and mode (`/etc/teleport.yaml`), as real paths.
    pub files: &'a [PathBuf],
    /// Directories that nothing is removed from (the data directory), as real paths.
    pub dirs: &'a [PathBuf],
    /// A directory of the caller's for the copies, gone after success. After a crash: [`restore_kept`].
    pub copies: &'a Path,
    /// Where the package's own scripts may have made links to its files: those that it leaves leading nowhere go.
    pub link_dir: &'a Path,
}

/// The Teleport packages on the host, or in the image at `root`. Needs no lock and no root.
///
/// Errors ([`Code::PackageFailed`]): the database cannot be read, or an image has such a package and this host no dpkg.
pub(crate) fn installed(root: Option<&Path>) -> Result<Vec<Package>> {
    let mut found = dpkg::installed(root)?;
    found.extend(rpm::installed(root)?);
    Ok(found)
}

/// Purges `package`. Before its maintainer scripts run, `keep.files` are copied; afterwards what they lack or changed
/// is put back, also after a failure. Scripts that run after the removal and could delete what is to be kept do not
/// run. Another package manager at work is waited for as `wait` says.
///
/// Whether its scripts stopped or disabled `teleport.service` is the caller's to look at.
///
/// Errors ([`Code::PackageFailed`]): another package depends on it, files of it are in `keep.dirs`, or the package
/// manager failed.
pub(crate) fn purge(package: &Package, keep: Keep<'_>, root: Option<&Path>, mut waiting: Waiting<'_>) -> Result<()> {
    // A purge that was cut short has the only good copies.
    restore_kept(keep.copies)?;
    let (tool, test, erase): (_, &[&str], &str) = match package.tool {
        PackageTool::Dpkg => (dpkg::command(root), &["--no-act", "--purge"], "--purge"),
        PackageTool::Rpm => (rpm::command(root)?, &["-e", "--test"], "-e"),
    };
    // Half unpacked, it would have to be installed again first; what it lacks is ours by now.
    let is_half = package.tool == PackageTool::Dpkg && package.state == State::Broken;
    let tool = tool.args(is_half.then_some("--force-remove-reinstreq"));
    let files = files(package, root)?;
    refuse_shared_data(package, &files, keep, root)?;
    let mut links = durable::links_in(keep.link_dir)?;
    links.retain(|(_, target)| files.contains(target));

    let mut run = |command: &Command| match package.tool {
        PackageTool::Dpkg => dpkg::run(command, &mut waiting),
        PackageTool::Rpm => rpm::run(command, root, &mut waiting),
    };
    run(&tool.clone().args(test).arg(&package.name))?;

    let kept = Kept::save(keep.files, keep.copies)?;
    let scripts = match package.tool {
        PackageTool::Dpkg => Kept::save(&dpkg::dangerous_scripts(package, keep, root)?, &keep.copies.join("scripts"))?,
        PackageTool::Rpm => Kept::default(),
    };
    // dpkg has no --nopostrm: a script that is not there is not run.
    scripts.files.iter().try_for_each(|file| durable::remove_file(&file.path))?;
    let tool = match package.tool {
        PackageTool::Dpkg => tool,
        PackageTool::Rpm => tool.args(rpm::dangerous_sections(package, keep, root)?),
    };
    let purged = run(&tool.arg(erase).arg(&package.name));
    kept.put_back()?;
    if purged.is_err() {
        scripts.put_back()?;
    }
    durable::remove_tree(keep.copies)?;
    purged?;
    // A script that was left out, or the package's own file that it calls, may have been the one to remove them.
    for (link, _) in links {
        if let Some(target) = durable::link_at(&link)?
            && !durable::exists(&below(root, &target))?
        {
            durable::remove_file(&link)?;
        }
    }
    Ok(())
}

/// Every path of the package, as seen from inside the root.
fn files(package: &Package, root: Option<&Path>) -> Result<Vec<PathBuf>> {
    let list = match package.tool {
        PackageTool::Dpkg => {
            let list = below(root, Path::new(dpkg::DATABASE).join(format!("info/{}.list", package.name)));
            String::from_utf8_lossy(&durable::read_limited(&list, READ_LIMIT)?.unwrap_or_default()).into_owned()
        }
        PackageTool::Rpm => start(&rpm::command(root)?.args(["-ql", &package.name]))?.stdout_text(),
    };
    Ok(list.lines().filter(|line| line.starts_with('/')).map(PathBuf::from).collect())
}

/// Refuses a package that has files where nothing may be removed; directories are only removed when empty.
fn refuse_shared_data(package: &Package, files: &[PathBuf], keep: Keep<'_>, root: Option<&Path>) -> Result<()> {
    let place = |file: &PathBuf| path::name(root.unwrap_or(Path::new("/")), file);
    let inside = |path: &PathBuf| keep.dirs.iter().any(|dir| path.starts_with(dir));
    for path in files.iter().map(place).filter(inside) {
        if !durable::exists(&path)? || path.symlink_metadata().at("cannot look at", &path)?.is_dir() {
            continue;
        }
        let (name, path) = (&package.name, path.display());
        let why = "in the agent's data directory, belongs to the package and would be deleted";
        return Err(Error::new(Code::PackageFailed, format!("cannot purge {name}: {path}, {why}"))
            .advise("move that file, or remove the package by hand"));
    }
    Ok(())
}

fn below(root: Option<&Path>, inside: impl AsRef<Path>) -> PathBuf {
    let inside = inside.as_ref();
    root.map_or_else(|| inside.to_owned(), |root| path::followed(root, inside))
}

fn start(command: &Command) -> Result<Output> {
    command.run().map_err(|error| Error { code: Code::PackageFailed, ..error })
}

fn judged(output: Output, locked: bool) -> Result<Output> {
    if output.success() {
        return Ok(output);
    }
    let text = output.stderr_text();
    // A Debian's rpm has a word to say before the error.
    let preface = text.lines().position(|line| line.starts_with("error:")).unwrap_or_default();
    let words: Vec<&str> = text.lines().skip(preface).map(str::trim).filter(|line| !line.is_empty()).take(3).collect();
    let error = Error::new(Code::PackageFailed, format!("`{}` failed: {}", output.line, words.join(" ")));
    Err(match locked {
        true => error.advise(busy::TRY_AGAIN),
        false if text.contains(SEALED) => error.advise(
            "remove it in this system's own way (`rpm-ostree uninstall`, `transactional-update pkg remove`), then run the command again",
        ),
        false => error.advise("fix this with the package manager, then run the command again"),
    })
}

/// What a package manager says of a database that nobody has locked but that nobody can write (EROFS).
const SEALED: &str = "Read-only file system";

fn is_lock_message(text: &str) -> bool {
    // dpkg ("dpkg frontend lock was locked by another process", "status database area is locked"), rpm.
    ["locked by another process", "database area is locked", "can't create transaction lock"]
        .iter()
        .any(|words| text.contains(words))
        && !text.contains(SEALED)
}

#[cfg(test)]
mod tests;
