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
    /// Of these, root's and the owners', it cannot be seen.
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
    let mut owners = BTreeSet::new();
    owners.insert(0);
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
    let mut files = BTreeSet::new();
    for name in database {
        files.extend(database_file(name)?.map(|found| FileId { dev: found.dev(), ino: found.ino() }));
    }
    let mut open = Open::default();
    let (mut left, mut left_of) = (OF_OTHERS, BTreeMap::new());
    for process in all {
        let is_owners = process.is_of(owners);
        let left_of = left_of.entry(process.user).or_insert(OF_ONE_USER);
        let most = if is_owners { usize::MAX } else { left.min(*left_of) };
        let Some(links) = descriptors(process.thread, most)?.filter(|_| !process.hidden) else {
            open.unknown.extend(is_owners.then(|| process.clone()));
            continue;
        };
        if !is_owners {
            (left, *left_of) = (left - links.len(), *left_of - links.len());
        }
        let writes = opened(&links, &files, !is_owners)?;
        open.by.extend(writes.map(|writes| Opener { process: process.clone(), writes }));
    }
    Ok(open)
}

/// What stands at the name of a database, or of a log of it, if that is a file. Only root's links are followed: another one
/// could lead to what every process has open.
fn database_file(path: &Path) -> Result<Option<Metadata>> {
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
pub(crate) fn running(all: &[Process], dir: &Path, file_name: &str, plain: &Path) -> Result<Vec<Process>> {
    let mut files = BTreeSet::new();
    files.extend(FileId::find(plain)?);
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
        |exe: &Path| exe == plain || (exe.file_name() == Some(OsStr::new(file_name)) && exe.starts_with(&dir));
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

/// Whether one of `files` is among the open files `links`, and then whether for writing: the link's own mode tells for what it was
/// opened (proc_pid_fd(5)). With `for_writing` nobody looks behind the others: before Linux 4.20 FUSE can keep whoever does.
fn opened(links: &[PathBuf], files: &BTreeSet<FileId>, for_writing: bool) -> Result<Option<bool>> {
    let mut found = None;
    for link in links {
        if for_writing && !is_for_writing(link)? {
            continue;
        }
        if FileId::behind(link)?.is_some_and(|id| files.contains(&id)) {
            found = Some(found == Some(true) || is_for_writing(link)?);
        }
    }
    Ok(found)
}

fn is_for_writing(link: &Path) -> Result<bool> {
    Ok(if_there(std::fs::symlink_metadata(link), link)?.is_some_and(|own| own.mode() & 0o200 != 0))
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

    fn open_by(all: &[Process], database: &[PathBuf], user: u32) -> Vec<Opener> {
        with_open(all, &BTreeSet::from([user]), database).unwrap().by
    }

    fn beside(database: &Path) -> PathBuf {
        format!("{}-wal", database.display()).into()
    }

    fn me() -> u32 {
        rustix::process::getuid().as_raw()
    }

    fn open_in(database: &Path) -> Vec<u32> {
        open_by(&all().unwrap(), &[database.to_owned(), beside(database)], me())
            .iter()
            .map(|opener| opener.process.pid)
            .collect()
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
        let wal_of = |child: &Child, user| {
            let process = Process::by_pid(child.0.id()).unwrap().unwrap();
            open_by(&[process], std::slice::from_ref(&wal), user).first().map(|opener| opener.writes)
        };
        assert_eq!([me(), me() + 1].map(|owner| wal_of(&child, owner)), [Some(false), None]);
        let writer = Child::start(Path::new("/bin/sleep"), Some(File::options().write(true).open(&wal).unwrap()));
        assert_eq!([me(), me() + 1].map(|owner| wal_of(&writer, owner)), [Some(true); 2]);
        drop(writer);
        let moved = dir.path().join("moved");
        crate::host::durable::rename(&wal, &dir.path().join("moved-wal")).unwrap();
        crate::host::durable::rename(&database, &moved).unwrap();
        assert_eq!(open_in(&moved), [child.0.id()]);
    }

    #[test]
    fn what_others_have_open_is_read_so_far_and_no_further_and_what_the_owners_have_wholly() {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        let most = rustix::process::Rlimit { current: limit.maximum, ..limit };
        rustix::process::setrlimit(rustix::process::Resource::Nofile, most).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("sqlite.db");
        let file = File::create(&database).unwrap();
        let null = File::open("/dev/null").unwrap();
        let Ok(held) = (0..=OF_ONE_USER).map(|_| null.try_clone()).collect::<std::io::Result<Vec<_>>>() else {
            eprintln!("skipped: too few descriptors");
            return;
        };
        // The one with the highest number is read last.
        let last = file.try_clone().unwrap();
        drop(file);
        let own = Process::by_pid(std::process::id()).unwrap().unwrap();
        let of = |user| Process { user: Some(user), ..own.clone() };
        let found = |all: &[Process]| {
            let by = with_open(all, &BTreeSet::from([me()]), std::slice::from_ref(&database)).unwrap().by;
            by.iter().map(|opener| opener.process.user).collect::<Vec<_>>()
        };
        assert_eq!(found(std::slice::from_ref(&own)), [own.user]);
        assert!(found(&[of(me() + 1)]).is_empty());
        drop((held, last));
        // Neither do many users hold up a look.
        let writer = Child::start(Path::new("/bin/sleep"), Some(File::options().write(true).open(&database).unwrap()));
        let writer = Process { user: Some(me() + 9), ..Process::by_pid(writer.0.id()).unwrap().unwrap() };
        assert_eq!(found(std::slice::from_ref(&writer)), [writer.user]);
        let _held: Vec<File> = (0..OF_ONE_USER).map(|_| null.try_clone().unwrap()).collect();
        let crowd = (1..=4).map(|user| of(me() + user)).chain([writer]);
        assert!(found(&crowd.collect::<Vec<_>>()).is_empty());
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
        assert_eq!(open_by(std::slice::from_ref(&found), std::slice::from_ref(&database), me() + 1).len(), 1);
        assert!(found.id().is_alive().unwrap());
        drop(child.0.stdin.take());
        while found.id().is_alive().unwrap() {
            std::thread::yield_now();
        }
        assert!(stat().contains(") Z "), "nobody has waited for it yet");
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
        assert_eq!(
            pids(&running(&all().unwrap(), dir.path(), "teleport", Path::new("/none")).unwrap()),
            [by_inode.0.id()]
        );
        assert_eq!(pids(&running(&all().unwrap(), elsewhere.path(), "teleport", &plain).unwrap()), [by_inode.0.id()]);
        assert!(running(&all().unwrap(), dir.path(), "tsh", Path::new("/none")).unwrap().is_empty());
        drop(by_inode);

        let by_name = Child::start(&binary, None);
        std::fs::remove_file(&binary).unwrap();
        let found = running(&all().unwrap(), dir.path(), "teleport", Path::new("/none")).unwrap();
        assert_eq!(pids(&found), [by_name.0.id()]);
        assert_eq!(found[0].exe.as_deref(), Some(binary.as_path()));
    }
}
