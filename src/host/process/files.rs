//! Files that processes run and have open.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{FileId, Process, if_there, is_denied, is_too_long, leads_nowhere, without_deleted};
use crate::host::machine;
use crate::report::{Code, IoContext, Result};

/// A process that has a database open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Opener {
    /// The process.
    pub process: Process,
    /// For writing.
    pub writes: bool,
}

/// The processes that have a database open.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Open {
    /// These have it.
    pub by: Vec<Opener>,
    /// Of these it cannot be seen, though their programs can.
    pub unknown: Vec<Process>,
}

/// Descriptors that are read in one look of the processes of one other user, and of all others: a quarter of a second.
const OF_ONE_USER: usize = 4 * 1024;
const OF_OTHERS: usize = 16 * 1024;

/// Root, and the users that own the file at `path` or a directory that it is in, up to the agent's own: whose processes are
/// trusted to have what they have. What others run, and have open, must keep nobody waiting.
///
/// Errors: `io`.
pub(crate) fn owners(path: &Path) -> Result<BTreeSet<u32>> {
    let dirs = path.ancestors().skip(1).take(2).map(|dir| {
        let found = std::fs::metadata(dir);
        if leads_nowhere(&found) { Ok(None) } else { found.at("cannot look at", dir).map(Some) }
    });
    let mut owners = BTreeSet::from([0]);
    for found in dirs.chain([database_file(path)]) {
        match found {
            Err(error) if error.code == Code::Permission => {}
            found => owners.extend(found?.map(|found| found.uid())),
        }
    }
    Ok(owners)
}

/// Those of `all` that have one of a `database`'s files open (SPEC §6, stopped). Of processes of others than its `owners` those
/// that have one open for writing, as far as that can be seen soon; of these nothing is read that they could keep from being read.
///
/// Errors: `io`, `permission`.
pub(crate) fn with_open(all: &[Process], owners: &BTreeSet<u32>, database: &[PathBuf]) -> Result<Open> {
    let absolute = |path: &PathBuf| std::path::absolute(path).at("cannot look at", path);
    let names = database.iter().map(absolute).collect::<Result<Vec<_>>>()?;
    let mut files = BTreeSet::new();
    for name in &names {
        files.extend(database_file(name)?.map(|found| FileId { dev: found.dev(), ino: found.ino() }));
    }
    let mut open = Open::default();
    let (mut left, mut left_of) = (OF_OTHERS, BTreeMap::new());
    for process in all {
        let writes = if process.is_of(owners) {
            let Some(opened) = has_open(process, &names, &files)? else {
                open.unknown.push(process.clone());
                continue;
            };
            opened
        } else {
            let left_of = left_of.entry(process.user).or_insert(OF_ONE_USER);
            let links = descriptors(process.thread, left.min(*left_of))?.unwrap_or_default();
            (left, *left_of) = (left - links.len(), *left_of - links.len());
            has_for_writing(&links, &files)?.then_some(true)
        };
        open.by.extend(writes.map(|writes| Opener { process: process.clone(), writes }));
    }
    Ok(open)
}

/// What stands at the name of a database, or of a log of it, if that is a file. Only root's links are followed: another one
/// could lead to what every process has open.
pub(super) fn database_file(path: &Path) -> Result<Option<Metadata>> {
    let looked = match std::fs::symlink_metadata(path) {
        Ok(link) if link.is_symlink() && link.uid() == 0 => std::fs::metadata(path),
        found => found,
    };
    if leads_nowhere(&looked) {
        Ok(None)
    } else {
        looked.at("cannot look at", path).map(|found| Some(found).filter(Metadata::is_file))
    }
}

/// The files of the name `end` (with directories of its own) that `process` has open, as it calls them; none if it is
/// gone, or where that may not be seen.
///
/// Errors: `io`.
pub(crate) fn open_files(process: &Process, end: &Path) -> Result<Vec<(PathBuf, Option<FileId>)>> {
    let mut found = Vec::new();
    for link in descriptors(process.thread, usize::MAX)?.unwrap_or_default() {
        if let Some(target) = target_of(&link)?.filter(|target| target.ends_with(end)) {
            let file = FileId::behind(&link)?;
            found.push((target, file));
        }
    }
    Ok(found)
}

/// Those of `all` that run a file called `file_name` somewhere below `dir`, or that run one of the files
/// `<dir>/*/bin/<file_name>` under another name; and those that run the file `plain`, or ran it before it was replaced there.
///
/// Errors: `io`, `permission`.
pub(crate) fn running(all: &[Process], dir: &Path, file_name: &str, plain: Option<&Path>) -> Result<Vec<Process>> {
    let mut files: BTreeSet<FileId> = plain.map_or(Ok(None), FileId::find)?.into_iter().collect();
    for entry in if_there(std::fs::read_dir(dir), dir)?.into_iter().flatten() {
        let entry = entry.at("cannot read", dir)?;
        match FileId::find(entry.path().join("bin").join(file_name)) {
            // What is root's alone tells others nothing.
            Err(error) if error.code == Code::Permission && !machine::is_root() => {}
            found => files.extend(found?),
        }
    }
    let dir = if_there(dir.canonicalize(), dir)?.unwrap_or_else(|| dir.to_owned());
    let is_named =
        |exe: &Path| Some(exe) == plain || (exe.file_name() == Some(OsStr::new(file_name)) && exe.starts_with(&dir));
    let mut found = Vec::new();
    for process in all {
        let runs = process.exe_id()?.is_some_and(|id| files.contains(&id))
            || (process.exe.as_deref().is_some_and(is_named) && process.shares_our_files()?);
        found.extend(runs.then(|| process.clone()));
    }
    Ok(found)
}

/// The names below `/proc` of the open files of a process, or of a thread, at most so many; `None` where they may not be seen.
fn descriptors(pid: u32, most: usize) -> Result<Option<Vec<PathBuf>>> {
    let place = PathBuf::from(format!("/proc/{pid}/fd"));
    let entries = match std::fs::read_dir(&place) {
        Err(error) if is_denied(&error) => return Ok(None),
        entries => if_there(entries, &place)?,
    };
    let mut found = Vec::new();
    for entry in entries.into_iter().flatten().take(most) {
        found.extend(if_there(entry, &place)?.map(|entry| entry.path()));
    }
    Ok(Some(found))
}

/// What a link of `/proc/PID` is called, without the kernel's "(deleted)"; `None` for one that is gone or too long.
fn target_of(link: &Path) -> Result<Option<PathBuf>> {
    match std::fs::read_link(link) {
        Err(error) if is_too_long(&error) || is_denied(&error) => Ok(None),
        target => Ok(if_there(target, link)?.map(without_deleted)),
    }
}

/// Whether it has one open for reading (`Some(false)`) or for writing (`Some(true)`); `None` where that may not be seen.
fn has_open(process: &Process, names: &[PathBuf], files: &BTreeSet<FileId>) -> Result<Option<Option<bool>>> {
    let links = match descriptors(process.thread, usize::MAX)? {
        Some(links) if !process.hidden => links,
        _ => return Ok(None),
    };
    let here = process.shares_our_files()?;
    let mut found = None;
    for link in &links {
        let is_ours = FileId::behind(link)?.is_some_and(|id| files.contains(&id))
            || (here && target_of(link)?.is_some_and(|target| names.contains(&target)));
        if is_ours {
            found = Some(found == Some(true) || is_for_writing(link)?);
        }
    }
    Ok(Some(found))
}

/// The link's own mode tells for what the file was opened (proc_pid_fd(5)).
fn is_for_writing(link: &Path) -> Result<bool> {
    Ok(if_there(std::fs::symlink_metadata(link), link)?.is_some_and(|found| found.mode() & 0o200 != 0))
}

fn has_for_writing(links: &[PathBuf], files: &BTreeSet<FileId>) -> Result<bool> {
    for link in links {
        if is_for_writing(link)? && FileId::behind(link)?.is_some_and(|id| files.contains(&id)) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::super::all;
    use super::super::tests::Child;
    use super::*;

    fn pids(found: &[Process]) -> Vec<u32> {
        found.iter().map(|process| process.pid).collect()
    }

    fn open_by(database: &[PathBuf], users: &[u32]) -> Vec<Opener> {
        with_open(&all().unwrap(), &users.iter().copied().collect(), database).unwrap().by
    }

    fn beside(database: &Path) -> PathBuf {
        format!("{}-wal", database.display()).into()
    }

    fn me() -> u32 {
        rustix::process::getuid().as_raw()
    }

    fn open_in(database: &Path) -> Vec<u32> {
        open_by(&[database.to_owned(), beside(database)], &[me()]).iter().map(|opener| opener.process.pid).collect()
    }

    #[test]
    fn an_open_database_is_found_also_after_it_was_renamed() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("sqlite.db");
        let wal = beside(&database);
        crate::host::durable::write(&wal, b"", 0o600).unwrap();
        crate::host::durable::write(&database, b"", 0o600).unwrap();
        assert!(open_in(&database).is_empty());
        let child = Child::start(Path::new("/bin/sleep"), Some(File::open(&wal).unwrap()));
        assert_eq!(open_in(&database), [child.0.id()]);
        let wal_of = |user| open_by(std::slice::from_ref(&wal), &[user]);
        assert!(!wal_of(me())[0].writes && wal_of(me() + 1).is_empty(), "a reader counts if the file is its user's");
        let writer = Child::start(Path::new("/bin/sleep"), Some(File::options().write(true).open(&wal).unwrap()));
        for user in [me(), me() + 1] {
            assert!(wal_of(user).iter().any(|opener| opener.writes && opener.process.pid == writer.0.id()));
        }
        drop(writer);
        let moved = dir.path().join("moved");
        crate::host::durable::rename(&wal, &dir.path().join("moved-wal")).unwrap();
        crate::host::durable::rename(&database, &moved).unwrap();
        assert_eq!(open_in(&moved), [child.0.id()]);
    }

    /// Opens the file of its first argument, and ends its first thread by the system call of its second; a second thread ends
    /// the process with its standard input.
    const FIRST_THREAD_ENDS: &str = "import ctypes, os, sys, threading
held = open(sys.argv[1], 'r+b')
threading.Thread(target=lambda: os.read(0, 1) or os._exit(0)).start()
ctypes.CDLL(None).syscall(int(sys.argv[2]), 0)";

    #[test]
    fn a_process_lives_until_its_last_thread_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("sqlite.db");
        crate::host::durable::write(&database, b"", 0o600).unwrap();
        let mut command = std::process::Command::new("python3");
        command.args(["-c", FIRST_THREAD_ENDS, database.to_str().unwrap(), &libc::SYS_exit.to_string()]);
        let Ok(child) = command.stdin(std::process::Stdio::piped()).spawn() else {
            eprintln!("skipped: no python3");
            return;
        };
        let mut child = Child(child);
        let pid = child.0.id();
        let stat = || String::from_utf8(std::fs::read(format!("/proc/{pid}/stat")).unwrap()).unwrap();
        while !stat().contains(") Z ") {
            assert!(child.0.try_wait().unwrap().is_none());
            std::thread::yield_now();
        }
        let found = Process::by_pid(pid).unwrap().expect("its second thread lives");
        assert!(found.exe.as_ref().is_some_and(|exe| exe.to_string_lossy().contains("python3")), "{found:?}");
        assert_eq!(open_in(&database), [pid]);
        assert_eq!(open_by(std::slice::from_ref(&database), &[me() + 1]).len(), 1);
        assert!(found.id().is_alive().unwrap());
        drop(child.0.stdin.take());
        while found.id().is_alive().unwrap() {
            std::thread::yield_now();
        }
        assert!(stat().contains(") Z "), "nobody has waited for it yet");
    }

    #[test]
    fn a_deleted_database_that_is_still_open_is_found_by_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("sqlite.db");
        crate::host::durable::write(&database, b"", 0o600).unwrap();
        let child = Child::start(Path::new("/bin/sleep"), Some(File::open(&database).unwrap()));
        std::fs::remove_file(&database).unwrap();
        assert_eq!(open_in(&database), [child.0.id()]);
    }

    #[test]
    fn a_program_of_ours_is_found_by_name_after_its_removal_and_by_inode_under_another_name() {
        let dir = tempfile::tempdir().unwrap();
        let binary = dir.path().join("1.2.3/bin/teleport");
        crate::host::durable::create_dir_all(binary.parent().unwrap()).unwrap();
        crate::host::durable::copy_synced(Path::new("/bin/sleep"), &binary, 0o755).unwrap();
        let elsewhere = tempfile::tempdir_in(dir.path().parent().unwrap()).unwrap();
        let plain = elsewhere.path().join("teleport-plain");
        std::fs::hard_link(&binary, &plain).unwrap();

        let by_inode = Child::start(&plain, None);
        assert_eq!(pids(&running(&all().unwrap(), dir.path(), "teleport", None).unwrap()), [by_inode.0.id()]);
        assert_eq!(
            pids(&running(&all().unwrap(), elsewhere.path(), "teleport", Some(&plain)).unwrap()),
            [by_inode.0.id()]
        );
        assert!(running(&all().unwrap(), dir.path(), "tsh", None).unwrap().is_empty());
        drop(by_inode);

        let by_name = Child::start(&binary, None);
        std::fs::remove_file(&binary).unwrap();
        let found = running(&all().unwrap(), dir.path(), "teleport", None).unwrap();
        assert_eq!(pids(&found), [by_name.0.id()]);
        assert_eq!(found[0].exe.as_deref(), Some(binary.as_path()));
    }
}
