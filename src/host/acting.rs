//! Work in a directory that belongs to others, with their rights and no more: what they make of its names (a link, another
//! directory in its place, in any instant) then leads to nothing that they could not reach themselves (SPEC §8).

#![expect(clippy::disallowed_methods, reason = "done with the rights of who owns the directory, by open handles")]

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

use super::{durable, machine, ownership};
use crate::report::{Code, Error, IoContext, Result};

/// Who has no group: `nogroup` of every distribution.
const NO_GROUP: u32 = 65_534;
/// Permission of its group to write to a directory.
const GROUP_WRITES: u32 = 0o020;
/// What the owner of a directory needs to work in it, and of a file to write to it.
const OWN_DIRECTORY: u32 = 0o700;
const OWN_FILE: u32 = 0o600;
/// How often something is kept that its owner put in the place of what belongs there: nobody else needs it.
const MAX_ASIDE: u32 = 99;
/// Below it this process's descriptors are names (proc_pid_fd(5)).
pub(crate) const HANDLES: &str = "/proc/self/fd";

/// Whose rights are used for the files of a directory.
#[derive(Debug, Clone)]
pub(crate) struct Acting(Option<Theirs>);

/// Another user's rights, and his directory.
#[derive(Debug, Clone)]
struct Theirs {
    uid: u32,
    gid: u32,
    groups: Vec<Gid>,
    place: Option<Rc<Place>>,
}

/// A directory of another user's, which was opened without following a link that he could make. Its files are named by the
/// open directory: what is above it needs none of his rights, as it needs none of an agent's that systemd starts in it.
#[derive(Debug)]
struct Place {
    dir: PathBuf,
    handle: OwnedFd,
    /// Those of the directories on the way that are his, this one among them.
    his: Vec<OwnedFd>,
}

impl Theirs {
    /// Whether a file of the user `uid` is one of theirs; root works with everybody's.
    fn is(&self, uid: u32) -> bool {
        self.uid == 0 || self.uid == uid
    }
}

impl Acting {
    /// With root's own rights, where nobody else can change anything.
    pub(crate) const SELF: Self = Self(None);

    /// For `file` and what is beside it. Ours, where nobody else can change its directory, or any above it.
    ///
    /// Errors: `permission` where others may write to a directory that is root's: on whose behalf is not to be told.
    pub(crate) fn beside(file: &Path) -> Result<Self> {
        // Whoever is not root has no right to lend.
        if !machine::is_root() {
            return Ok(Self(None));
        }
        let dir = durable::parent(file);
        let strangers = ownership::strangers(dir)?;
        let Some((shared, _)) = strangers.first() else { return Ok(Self(None)) };
        let foreign = |meta: &Metadata| meta.uid() != 0;
        if shared != dir && durable::is_dir(dir)? {
            return Self::in_closed(dir, &strangers);
        }
        let owner = strangers.iter().map(|(_, meta)| meta.clone()).find(foreign);
        // A directory of a group: the agent is who owns the file.
        match owner.or_else(|| std::fs::symlink_metadata(file).ok().filter(foreign)) {
            Some(meta) => Ok(Self(Some(Theirs {
                uid: meta.uid(),
                gid: if meta.gid() == 0 { NO_GROUP } else { meta.gid() },
                groups: groups_of(&strangers),
                place: Place::open(dir, &strangers, meta.uid()).map(Rc::new),
            }))),
            None => {
                let what = format!("users other than root can write to {}", shared.display());
                let how = format!("run `chmod go-w {}`, or make the agent's user its owner", shared.display());
                Err(Error::new(Code::Permission, what).advise(how))
            }
        }
    }

    /// With root's rights in `dir`, which others can only move: whatever they put under its name, it is the directory that is open.
    fn in_closed(dir: &Path, strangers: &[(PathBuf, Metadata)]) -> Result<Self> {
        let Some(place) = Place::open(dir, strangers, 0).map(Rc::new) else {
            let what =
                format!("users other than root can move {}, and it cannot be opened without a link", dir.display());
            return Err(
                Error::new(Code::Permission, what).advise("move the data to a directory that only root can move")
            );
        };
        Ok(Self(Some(Theirs { uid: 0, gid: 0, groups: Vec::new(), place: Some(place) })))
    }

    /// True if others can change what the directory's name means.
    pub(crate) fn is_foreign(&self) -> bool {
        self.0.is_some()
    }

    /// The name by which `file` is reached with these rights: below its directory as that is open here, while this value lives.
    pub(crate) fn path(&self, file: &Path) -> PathBuf {
        match (self.place(), file.file_name()) {
            (Some(place), Some(name)) if durable::parent(file) == place.dir => place.name().join(name),
            _ => file.to_owned(),
        }
    }

    /// Does `work` with these rights; of this thread alone, and nothing that `work` starts may run on.
    ///
    /// Errors: those of `work`; `permission` if the rights cannot be taken on.
    pub(crate) fn act<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let lent = self.0.as_ref().map(Rights::lent).transpose();
        let _acting = lent.at("cannot act as the owner of", "the agent's files")?;
        work().map_err(|error| self.named(error))
    }

    /// Does `work`, which makes, renames or removes names beside the file by [`Self::path`], and follows none. With root's own
    /// rights where the directory is open here: no name in it leads anywhere then, and no mode, list or quota of its owner
    /// is in the way. With his where root has none (NFS).
    ///
    /// Errors: those of `work`; `permission` as of [`Self::act`].
    pub(crate) fn names<T>(&self, work: impl Fn() -> Result<T>) -> Result<T> {
        match self.place().map(|_| work()) {
            None => self.act(work),
            Some(Err(error)) if error.code == Code::Permission => self.act(work),
            Some(done) => done.map_err(|error| self.named(error)),
        }
    }

    /// Removes `file`. A directory that others put in its place is kept beside it.
    ///
    /// Errors: `permission`, `io`.
    pub(crate) fn remove(&self, file: &Path) -> Result<()> {
        let here = self.path(file);
        self.names(|| {
            if self.is_foreign() && std::fs::symlink_metadata(&here).is_ok_and(|meta| meta.is_dir()) {
                set_aside(&here)
            } else {
                durable::remove_file(&here)
            }
        })
    }

    /// Makes `file`, theirs from the beginning. Errors: `permission`, `no_space`, `io`.
    pub(crate) fn create_new(&self, file: &Path, mode: u32) -> Result<File> {
        let made = self.names(|| durable::create_new(&self.path(file), mode).at("cannot make", file))?;
        if let Some(theirs) = &self.0
            && made.metadata().at("cannot look at", file)?.uid() != theirs.uid
        {
            std::os::unix::fs::fchown(&made, Some(theirs.uid), Some(theirs.gid)).at("cannot set the owner of", file)?;
        }
        Ok(made)
    }

    /// Whether a file of the user `uid` is one of theirs.
    pub(crate) fn is_of(&self, uid: u32) -> bool {
        self.0.as_ref().is_none_or(|theirs| theirs.is(uid))
    }

    /// Whether a file can be made beside `file`; nothing is made. Errors: `permission`, `read_only`, `io`.
    pub(crate) fn try_new(&self, file: &Path) -> Result<()> {
        self.names(|| durable::try_new(durable::parent(&self.path(file))).at("cannot make a file beside", file))
    }

    /// Opens `file` for reading. A link that others can make is not followed, and a pipe in its place is not waited for.
    pub(crate) fn open(&self, file: &Path) -> io::Result<File> {
        let reading = |flags: OFlags, path: &Path| {
            let flags = i32::try_from((flags | OFlags::NONBLOCK).bits()).unwrap_or_default();
            File::options().read(true).custom_flags(flags).open(path)
        };
        if !self.is_foreign() {
            return reading(OFlags::empty(), file);
        }
        // What is his and a file may be read whatever its mode says: he could change that.
        if let Some(own) = self.own(file)?
            && let Ok(opened) = reading(OFlags::empty(), &name_of(&own))
        {
            return Ok(opened);
        }
        let opened = self.act(|| Ok(reading(OFlags::NOFOLLOW, &self.path(file))));
        opened.map_err(|error| io::Error::other(error.what))?
    }

    /// Gives the owner back what he has taken from himself: the permissions without which neither he nor his agent could work
    /// with `files` and in their directory. What cannot be given back fails where it is used.
    pub(crate) fn open_up(&self, files: &[PathBuf]) {
        let Some(place) = self.place().filter(|_| !self.is_of(u32::MAX)) else { return };
        let own: Vec<OwnedFd> = files.iter().filter_map(|file| self.own(file).ok().flatten()).collect();
        let parts = place.his.iter().map(|dir| (dir, OWN_DIRECTORY)).chain(own.iter().map(|file| (file, OWN_FILE)));
        for (part, needed) in parts {
            let Ok(mode) = rustix::fs::fstat(part).map(|stat| stat.st_mode & 0o7777) else { continue };
            if mode & needed != needed {
                // As he could do it himself, and no more.
                let set = || Ok(rustix::fs::chmod(name_of(part), Mode::from_raw_mode(mode | needed)));
                let _ = self.act(set);
            }
        }
    }

    /// Makes `dir`, of theirs, anew where it is gone or something else stands in its place, which is kept beside it. The
    /// directories above it likewise.
    ///
    /// Errors: `permission`, `io`.
    pub(crate) fn make_dir(dir: &Path) -> Result<()> {
        // A link would lead where its owner says.
        if std::fs::symlink_metadata(dir).is_ok_and(|meta| meta.is_dir()) || !Self::beside(dir)?.is_foreign() {
            return Ok(());
        }
        Self::make_dir(durable::parent(dir))?;
        let above = Self::beside(dir)?;
        let Some(theirs) = &above.0 else { return Ok(()) };
        let here = above.path(dir);
        above.names(|| {
            set_aside(&here)?;
            match rustix::fs::mkdir(&here, Mode::from_raw_mode(OWN_DIRECTORY)) {
                Ok(()) | Err(Errno::EXIST) => durable::sync_dir(durable::parent(&here)),
                Err(error) => Err(error).at("cannot make", dir),
            }
        })?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let made = rustix::fs::open(&here, flags, Mode::empty()).at("cannot open", dir)?;
        // Of another's nothing is given away.
        if rustix::fs::fstat(&made).at("cannot look at", dir)?.st_uid != 0 {
            return Ok(());
        }
        let (uid, gid) = (Uid::from_raw(theirs.uid), Gid::from_raw(theirs.gid));
        rustix::fs::chownat(&made, "", Some(uid), Some(gid), AtFlags::EMPTY_PATH).at("cannot set the owner of", dir)
    }

    /// Gives `file`, which must be theirs already, the group `gid` and the permissions `mode`.
    ///
    /// Errors: `permission`, `io`.
    pub(crate) fn give(&self, file: &Path, uid: u32, gid: u32, mode: u32) -> Result<()> {
        let opened = self.open(file).at("cannot open", file)?;
        let meta = opened.metadata().at("cannot look at", file)?;
        if !meta.is_file() || !self.is_of(meta.uid()) || !self.is_of(uid) {
            let what = format!("another file was put in the place of {} while this run was using it", file.display());
            return Err(Error::new(Code::Permission, what).advise("run the command again"));
        }
        // By the descriptor: who owns the directory can have put another file, or a link, under the name.
        std::os::unix::fs::fchown(&opened, Some(uid), Some(gid)).at("cannot set the owner of", file)?;
        opened.set_permissions(PermissionsExt::from_mode(mode)).at("cannot set the mode of", file)
    }

    /// Gives the file `from`, of theirs or ours, the further name `to` in a directory of `of_target`'s. A link is not
    /// followed, nor is another's file linked.
    pub(crate) fn link(&self, from: &Path, to: &Path, of_target: &Self) -> Result<io::Result<()>> {
        if !self.is_foreign() && !of_target.is_foreign() {
            return Ok(std::fs::hard_link(from, to));
        }
        // Opened for its name alone: closing it must not end locks that this process has on the file (fcntl(2)).
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || rustix::fs::open(self.path(from), flags, Mode::empty()).at("cannot open", from);
        let file = File::from(self.names(open)?);
        let meta = file.metadata().at("cannot look at", from)?;
        let owner = self.0.as_ref().or(of_target.0.as_ref());
        if !meta.is_file() || owner.is_some_and(|owner| !owner.is(meta.uid())) {
            return Ok(Err(io::ErrorKind::PermissionDenied.into()));
        }
        let target = of_target.path(to);
        let link = || Ok(rustix::fs::linkat(CWD, name_of(&file), CWD, &target, AtFlags::SYMLINK_FOLLOW));
        let linked = match of_target.names(link)? {
            Err(Errno::ACCESS | Errno::PERM) => of_target.act(link)?,
            linked => linked,
        };
        Ok(linked.map_err(io::Error::from))
    }

    fn place(&self) -> Option<&Place> {
        self.0.as_ref()?.place.as_deref()
    }

    /// `file`, opened for its name alone, if it is a file and theirs, in the open directory.
    fn own(&self, file: &Path) -> io::Result<Option<OwnedFd>> {
        let (Some(theirs), Some(place), Some(name)) = (&self.0, self.place(), file.file_name()) else {
            return Ok(None);
        };
        if durable::parent(file) != place.dir {
            return Ok(None);
        }
        let opened =
            rustix::fs::openat(&place.handle, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        let stat = rustix::fs::fstat(&opened)?;
        let is_own = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file() && stat.st_uid == theirs.uid;
        Ok(is_own.then_some(opened))
    }

    /// With the names by which an operator knows the files.
    fn named(&self, error: Error) -> Error {
        match self.place() {
            None => error,
            Some(place) => {
                let (here, known) = (place.name().display().to_string(), place.dir.display().to_string());
                Error { what: error.what.replace(&here, &known), ..error }
            }
        }
    }
}

impl Place {
    /// Opens `dir`, from the deepest directory above `strangers` on, which root alone decides on; `None` where a link or
    /// nothing is on the way, or the directory is not of `uid`.
    fn open(dir: &Path, strangers: &[(PathBuf, Metadata)], uid: u32) -> Option<Self> {
        let top = durable::parent(&strangers.last()?.0);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut handle = rustix::fs::open(top, flags, Mode::empty()).ok()?;
        let mut his = Vec::new();
        for part in dir.strip_prefix(top).ok()? {
            handle = rustix::fs::openat(&handle, part, flags | OFlags::NOFOLLOW, Mode::empty()).ok()?;
            if rustix::fs::fstat(&handle).ok()?.st_uid == uid {
                his.push(rustix::io::fcntl_dupfd_cloexec(&handle, 0).ok()?);
            }
        }
        let is_his = rustix::fs::fstat(&handle).ok()?.st_uid == uid;
        let place = Self { dir: dir.to_owned(), handle, his };
        // Without /proc the directory has no other name than its own.
        (is_his && rustix::fs::stat(place.name()).is_ok()).then_some(place)
    }

    fn name(&self) -> PathBuf {
        name_of(&self.handle)
    }
}

/// The name that an open descriptor has.
fn name_of(open: &impl AsFd) -> PathBuf {
    Path::new(HANDLES).join(open.as_fd().as_raw_fd().to_string())
}

/// Gives what stands at `path`, if anything, another name beside it.
fn set_aside(path: &Path) -> Result<()> {
    if !durable::exists(path)? {
        return Ok(());
    }
    let name = |number| PathBuf::from(format!("{}.set-aside-{number}", path.display()));
    let free = (1..MAX_ASIDE).map(name).find(|name| !durable::exists(name).unwrap_or(true));
    durable::rename_new(path, &free.unwrap_or_else(|| name(MAX_ASIDE)))
}

/// The groups by which alone somebody can write to directories of root's on the way: whose file lies in one has them, or root
/// put it there.
fn groups_of(strangers: &[(PathBuf, Metadata)]) -> Vec<Gid> {
    let shared = strangers.iter().filter(|(_, meta)| meta.uid() == 0 && meta.mode() & GROUP_WRITES != 0);
    shared.map(|(_, meta)| meta.gid()).filter(|&gid| gid != 0).map(Gid::from_raw).collect()
}

/// The file system's view of this thread's user, groups and capabilities, until it is dropped (setfsuid(2)).
struct Rights {
    uid: u32,
    gid: u32,
    groups: Vec<Gid>,
}

impl Rights {
    fn lent(theirs: &Theirs) -> io::Result<Self> {
        let (uid, gid) = (theirs.uid, theirs.gid);
        let before = Self { uid: fs_uid(u32::MAX), gid: fs_gid(u32::MAX), groups: rustix::process::getgroups()? };
        // Dropped on an error, too: then all is as it was.
        let lent = before;
        rustix::thread::set_thread_groups(&theirs.groups)?;
        fs_gid(gid);
        fs_uid(uid);
        if (fs_uid(u32::MAX), fs_gid(u32::MAX)) == (uid, gid) {
            Ok(lent)
        } else {
            Err(io::ErrorKind::PermissionDenied.into())
        }
    }
}

impl Drop for Rights {
    fn drop(&mut self) {
        fs_uid(self.uid);
        fs_gid(self.gid);
        let groups = rustix::thread::set_thread_groups(&self.groups);
        // With the rights of another nothing may go on.
        if groups.is_err() || (fs_uid(u32::MAX), fs_gid(u32::MAX)) != (self.uid, self.gid) {
            std::process::abort();
        }
    }
}

/// Sets the thread's file system user and returns the one before; of no user (`u32::MAX`) it changes nothing.
fn fs_uid(uid: u32) -> u32 {
    // SAFETY: a call with a number, on the state of this thread.
    unsafe { libc::setfsuid(uid) }.cast_unsigned()
}

/// The same of its group.
fn fs_gid(gid: u32) -> u32 {
    // SAFETY: as above.
    unsafe { libc::setfsgid(gid) }.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    const AGENT: u32 = 900;

    /// A directory of the agent's below one that anybody may enter.
    fn agents() -> Option<(tempfile::TempDir, PathBuf)> {
        if !machine::is_root() {
            eprintln!("skipped: not root");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let data = dir.path().join("data");
        std::fs::create_dir(&data).unwrap();
        chown(&data, Some(AGENT), Some(AGENT)).unwrap();
        Some((dir, data))
    }

    /// User and group whose rights are used beside `file`.
    fn whose(file: &Path) -> (u32, u32) {
        let theirs = Acting::beside(file).unwrap().0.unwrap();
        (theirs.uid, theirs.gid)
    }

    #[test]
    fn in_the_agents_directory_root_can_no_more_than_the_agent() {
        let Some((dir, data)) = agents() else { return };
        let secret = dir.path().join("secret");
        durable::write(&secret, b"root's", 0o640).unwrap();
        symlink(&secret, data.join("link")).unwrap();
        let acting = Acting::beside(&data.join("link")).unwrap();
        assert!(acting.is_foreign());
        let read = |path: &Path| acting.act(|| std::fs::read(path).at("cannot read", path));
        assert_eq!(read(&data.join("link")).unwrap_err().code, Code::Permission);
        acting.act(|| durable::write(&data.join("own"), b"x", 0o600)).unwrap();
        assert_eq!(std::fs::metadata(data.join("own")).unwrap().uid(), AGENT);
        assert_eq!(std::fs::read(&secret).unwrap(), b"root's", "and root is root again");
        // Also after an error, and one within the other.
        let nested = acting.act(|| acting.act(|| read(&secret)).map_err(|_| Error::new(Code::Io, "inner")));
        assert_eq!(nested.unwrap_err().code, Code::Io);
        assert_eq!(std::fs::read(&secret).unwrap(), b"root's");
    }

    #[test]
    fn where_only_root_writes_root_acts_itself_and_a_shared_directory_has_the_files_owner() {
        let Some((dir, data)) = agents() else { return };
        assert!(!Acting::beside(&dir.path().join("x")).unwrap().is_foreign());
        // Root's directory in the agent's: he exchanges it as a whole, and the open one is worked in.
        let (proc, moved, kept) = (data.join("proc"), data.join("moved"), dir.path().join("kept"));
        [&proc, &kept].iter().for_each(|dir| std::fs::create_dir(dir).unwrap());
        let acting = Acting::beside(&proc.join("x")).unwrap();
        assert!(acting.is_foreign() && acting.is_of(0) && acting.is_of(AGENT));
        std::fs::rename(&proc, &moved).unwrap();
        symlink(&kept, &proc).unwrap();
        std::os::unix::fs::lchown(&proc, Some(AGENT), Some(AGENT)).unwrap();
        drop(acting.create_new(&proc.join("x"), 0o600).unwrap());
        assert_eq!(std::fs::metadata(moved.join("x")).unwrap().uid(), 0);
        assert_eq!(std::fs::read_dir(&kept).unwrap().count(), 0, "nothing where his link leads");
        assert_eq!(whose(&proc.join("x")), (AGENT, AGENT), "what he made is his");
        let shared = dir.path().join("shared");
        std::fs::create_dir(&shared).unwrap();
        std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o777)).unwrap();
        let file = shared.join("x");
        assert_eq!(Acting::beside(&file).unwrap_err().code, Code::Permission);
        durable::write(&file, b"", 0o600).unwrap();
        assert_eq!(Acting::beside(&file).unwrap_err().code, Code::Permission);
        chown(&file, Some(AGENT), Some(0)).unwrap();
        assert_eq!(whose(&file), (AGENT, NO_GROUP));
    }

    #[test]
    fn a_name_that_was_exchanged_gets_no_owner_and_no_mode_and_no_second_name() {
        let Some((dir, data)) = agents() else { return };
        let [secret, readable] = ["secret", "readable"].map(|name| dir.path().join(name));
        durable::write(&secret, b"root's", 0o600).unwrap();
        durable::write(&readable, b"root's", 0o644).unwrap();
        let [to_secret, to_readable, hard] = ["a", "b", "c"].map(|name| data.join(name));
        symlink(&secret, &to_secret).unwrap();
        symlink(&readable, &to_readable).unwrap();
        std::fs::hard_link(&readable, &hard).unwrap();
        let (acting, ours) = (Acting::beside(&to_secret).unwrap(), Acting(None));
        for name in [&to_secret, &to_readable, &hard] {
            assert!(acting.give(name, AGENT, AGENT, 0o666).is_err(), "{}", name.display());
            let second = dir.path().join("second");
            assert!(!matches!(acting.link(name, &second, &ours), Ok(Ok(()))), "{}", name.display());
            assert!(!second.exists());
        }
        for file in [&secret, &readable] {
            let meta = std::fs::metadata(file).unwrap();
            assert!(meta.uid() == 0 && meta.mode() & 0o022 == 0, "{meta:?}");
        }
        let own = data.join("own");
        acting.act(|| durable::write(&own, b"rows", 0o600)).unwrap();
        acting.give(&own, AGENT, 0, 0o640).unwrap();
        assert_eq!(std::fs::metadata(&own).unwrap().mode() & 0o7777, 0o640);
        acting.link(&own, &dir.path().join("second"), &ours).unwrap().unwrap();
        ours.link(&dir.path().join("second"), &data.join("third"), &acting).unwrap().unwrap();
        assert_eq!(std::fs::read(data.join("third")).unwrap(), b"rows");
    }

    #[test]
    fn only_links_that_others_cannot_exchange_are_followed() {
        let Some((dir, data)) = agents() else { return };
        let kept = dir.path().join("kept");
        std::fs::create_dir(&kept).unwrap();
        symlink(&kept, dir.path().join("roots")).unwrap();
        symlink(&kept, data.join("agents")).unwrap();
        let slash = Path::new("/");
        assert_eq!(crate::host::path::own_path(slash, &dir.path().join("roots/x")), kept.join("x"));
        assert_eq!(crate::host::path::own_path(slash, &data.join("agents/x")), data.join("agents/x"));
    }
}
