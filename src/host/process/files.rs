//! Files that processes run and have open.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{DELETED, FileId, Process, if_there, is_denied, is_too_long, leads_nowhere, memory_of, without_deleted};
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

/// Descriptors that are read in one look of the watched processes of one user: a quarter of a second.
const WATCHED: usize = 16 * 1024;

/// A process of which only what it has open for writing counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Watched {
    /// The process.
    pub process: Process,
    /// Whose limit what is read of it counts against.
    pub of: Option<u32>,
}

/// Those of `able` that have one of a `database`'s files open or mapped (SPEC §6, stopped), and those of `watched` that have
/// one open for writing, as far as that can be seen soon.
///
/// Errors: `io`, `permission`.
pub(crate) fn with_open(able: &[Process], watched: &[Watched], database: &[PathBuf]) -> Result<Open> {
    let absolute = |path: &PathBuf| std::path::absolute(path).at("cannot look at", path);
    let names = database.iter().map(absolute).collect::<Result<Vec<_>>>()?;
    let mut files = BTreeSet::new();
    for name in &names {
        files.extend(database_file(name)?.map(|found| FileId { dev: found.dev(), ino: found.ino() }));
    }
    let mut open = Open::default();
    for process in able {
        match has_open(process, &names, &files)? {
            Some(Some(writes)) => open.by.push(Opener { process: process.clone(), writes }),
            None if !process.hidden => open.unknown.push(process.clone()),
            _ => {}
        }
    }
    let mut left = BTreeMap::new();
    for Watched { process, of } in watched {
        if writes(process, &files, left.entry(of).or_insert(WATCHED))? {
            open.by.push(Opener { process: process.clone(), writes: true });
        }
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
/// `<dir>/*/bin/<file_name>` under another name.
///
/// Errors: `io`, `permission`.
pub(crate) fn running_below(all: &[Process], dir: &Path, file_name: &str) -> Result<Vec<Process>> {
    let mut files = BTreeSet::new();
    for entry in if_there(std::fs::read_dir(dir), dir)?.into_iter().flatten() {
        let entry = entry.at("cannot read", dir)?;
        match FileId::find(entry.path().join("bin").join(file_name)) {
            // What is root's alone tells others nothing.
            Err(error) if error.code == Code::Permission && !machine::is_root() => {}
            found => files.extend(found?),
        }
    }
    let dir = if_there(dir.canonicalize(), dir)?.unwrap_or_else(|| dir.to_owned());
    let mut found = Vec::new();
    for process in all {
        let is_named = |exe: &PathBuf| exe.file_name() == Some(OsStr::new(file_name)) && exe.starts_with(&dir);
        let runs = process.exe_id()?.is_some_and(|id| files.contains(&id))
            || (process.exe.as_ref().is_some_and(is_named) && process.shares_our_files()?);
        if runs {
            found.push(process.clone());
        }
    }
    Ok(found)
}

/// Those of `all` that run the file at `path`, or ran it before it was replaced there.
///
/// Errors: `io`, `permission`.
pub(crate) fn running_file(all: &[Process], path: &Path) -> Result<Vec<Process>> {
    let file = FileId::find(path)?;
    let mut found = Vec::new();
    for process in all {
        let same = file.is_some() && process.exe_id()? == file;
        if same || (process.exe.as_deref() == Some(path) && process.shares_our_files()?) {
            found.push(process.clone());
        }
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
    if process.hidden {
        return Ok(None);
    }
    let here = process.shares_our_files()?;
    let links = descriptors(process.thread, usize::MAX)?;
    let mut found = None;
    for link in links.iter().flatten() {
        let is_ours = FileId::behind(link)?.is_some_and(|id| files.contains(&id))
            || (here && target_of(link)?.is_some_and(|target| names.contains(&target)));
        if is_ours {
            found = Some(found == Some(true) || is_for_writing(link)?);
        }
    }
    if found != Some(true) && maps(process.thread, if here { names } else { &[] }, files)? {
        found = Some(true);
    }
    Ok((found.is_some() || links.is_some()).then_some(found))
}

/// The link's own mode tells for what the file was opened (proc_pid_fd(5)).
fn is_for_writing(link: &Path) -> Result<bool> {
    Ok(if_there(std::fs::symlink_metadata(link), link)?.is_some_and(|found| found.mode() & 0o200 != 0))
}

/// Whether one of `files` is open for writing in `process`. Of its descriptors at most `left` are read, which then are fewer.
fn writes(process: &Process, files: &BTreeSet<FileId>, left: &mut usize) -> Result<bool> {
    let links = descriptors(process.thread, *left)?.unwrap_or_default();
    *left -= links.len();
    for link in links {
        if is_for_writing(&link)? && FileId::behind(&link)?.is_some_and(|id| files.contains(&id)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether one of `files`, or a file that was called as one of `names`, is mapped: also one that is no longer open.
fn maps(pid: u32, names: &[PathBuf], files: &BTreeSet<FileId>) -> Result<bool> {
    for line in memory_of(pid)?.split(|byte| *byte == b'\n') {
        let unlinked = line.strip_suffix(DELETED).unwrap_or(line);
        let is_name = |name: &PathBuf| {
            unlinked.strip_suffix(name.as_os_str().as_bytes()).is_some_and(|before| before.ends_with(b" "))
        };
        if names.iter().any(is_name) || maps_one_of(pid, line, files)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a line of `/proc/PID/maps` is of one of `files`. Its inode tells which lines to ask about: there are hundreds a
/// process, and asking takes root. Its device is not `stat`'s on every file system.
fn maps_one_of(pid: u32, line: &[u8], files: &BTreeSet<FileId>) -> Result<bool> {
    let text = String::from_utf8_lossy(line);
    let mut fields = text.split_ascii_whitespace();
    let (Some(range), Some(inode)) = (fields.next(), fields.nth(3)) else { return Ok(false) };
    if !files.iter().any(|file| inode.parse() == Ok(file.ino)) {
        return Ok(false);
    }
    let Some((start, end)) = range.split_once('-') else { return Ok(false) };
    // Not padded there.
    let range = format!("{}-{}", start.trim_start_matches('0'), end.trim_start_matches('0'));
    let file = FileId::behind(Path::new(&format!("/proc/{pid}/map_files/{range}")))?;
    Ok(file.is_some_and(|id| files.contains(&id)))
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

    fn openers(able: &[Process], watched: &[Watched], database: &[PathBuf]) -> Vec<u32> {
        let open = with_open(able, watched, database).unwrap();
        open.by.iter().map(|opener| opener.process.pid).collect()
    }

    fn beside(database: &Path) -> PathBuf {
        format!("{}-wal", database.display()).into()
    }

    fn open_in(database: &Path) -> Vec<u32> {
        openers(&all().unwrap(), &[], &[database.to_owned(), beside(database)])
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
        assert!(!with_open(&all().unwrap(), &[], std::slice::from_ref(&wal)).unwrap().by[0].writes);
        let writer = Child::start(Path::new("/bin/sleep"), Some(File::options().write(true).open(&wal).unwrap()));
        let by = with_open(&all().unwrap(), &[], std::slice::from_ref(&wal)).unwrap().by;
        assert!(by.iter().any(|opener| opener.writes && opener.process.pid == writer.0.id()));
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
        let database = std::slice::from_ref(&database);
        assert_eq!(openers(std::slice::from_ref(&found), &[], database), [pid]);
        let watched = Watched { process: found.clone(), of: None };
        assert_eq!(openers(&[], &[watched], database), [pid]);
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
        assert_eq!(pids(&running_below(&all().unwrap(), dir.path(), "teleport").unwrap()), [by_inode.0.id()]);
        assert_eq!(pids(&running_file(&all().unwrap(), &plain).unwrap()), [by_inode.0.id()]);
        assert!(running_below(&all().unwrap(), dir.path(), "tsh").unwrap().is_empty());
        drop(by_inode);

        let by_name = Child::start(&binary, None);
        std::fs::remove_file(&binary).unwrap();
        let found = running_below(&all().unwrap(), dir.path(), "teleport").unwrap();
        assert_eq!(pids(&found), [by_name.0.id()]);
        assert_eq!(found[0].exe.as_deref(), Some(binary.as_path()));
    }
}
