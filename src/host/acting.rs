//! Work in a directory that belongs to others, with their rights and no more: what they make of its names (a link, another
//! directory in its place, in any instant) then leads to nothing that they could not reach themselves (SPEC §8).

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Gid, OFlags};

use super::{durable, machine, trust};
use crate::report::{Code, Error, IoContext, Result};

/// Who has no group: `nogroup` of every distribution.
const NO_GROUP: u32 = 65_534;

/// Whose rights are used for the files of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acting(Option<(u32, u32)>);

impl Acting {
    /// With root's own rights, where nobody else can change anything.
    pub const SELF: Self = Self(None);

    /// For `file` and what is beside it. Ours, where nobody else can change its directory, or any above it.
    ///
    /// Errors: `permission` where others may write to a directory that is root's: on whose behalf is not to be told.
    pub fn beside(file: &Path) -> Result<Self> {
        // Whoever is not root has no right to lend.
        if !machine::is_root() {
            return Ok(Self(None));
        }
        let dir = durable::parent(file);
        let strangers = trust::strangers(dir)?;
        let Some((shared, _)) = strangers.first() else { return Ok(Self(None)) };
        let foreign = |meta: &Metadata| meta.uid() != 0;
        let owner = strangers.iter().map(|(_, meta)| meta.clone()).find(foreign);
        // A directory of a group: the agent is who owns the file.
        match owner.or_else(|| std::fs::symlink_metadata(file).ok().filter(foreign)) {
            Some(meta) => Ok(Self(Some((meta.uid(), if meta.gid() == 0 { NO_GROUP } else { meta.gid() })))),
            None => {
                Err(Error::new(Code::Permission, format!("{} can be written to by others than root", shared.display()))
                    .advise(format!("`chmod go-w {0}`, or give it to the agent's user", shared.display())))
            }
        }
    }

    /// True if this is another user's directory.
    pub fn is_foreign(&self) -> bool {
        self.0.is_some()
    }

    /// Does `work` with these rights; of this thread alone, and nothing that `work` starts may run on.
    ///
    /// Errors: those of `work`; `permission` if the rights cannot be taken on.
    pub fn act<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let _acting = match self.0 {
            None => None,
            Some((uid, gid)) => Some(Rights::lent(uid, gid).at("cannot act as the owner of", "the agent's files")?),
        };
        work()
    }

    /// Gives `file`, which must be theirs already, the group `gid` and the permissions `mode`.
    ///
    /// Errors: `permission`, `io`.
    pub fn give(&self, file: &Path, uid: u32, gid: u32, mode: u32) -> Result<()> {
        let open = || {
            let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
            let flags = i32::try_from(flags.bits()).unwrap_or_default();
            File::options().read(true).custom_flags(flags).open(file).at("cannot open", file)
        };
        let opened = self.act(open)?;
        let meta = opened.metadata().at("cannot look at", file)?;
        let theirs = self.0.is_none_or(|(own, _)| meta.uid() == own && uid == own);
        if !meta.is_file() || !theirs {
            return Err(Error::new(Code::Permission, format!("{} was exchanged meanwhile", file.display()))
                .advise("run the command again"));
        }
        // By the descriptor: who owns the directory can have put another file, or a link, under the name.
        std::os::unix::fs::fchown(&opened, Some(uid), Some(gid)).at("cannot set the owner of", file)?;
        opened.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(mode)).at("cannot set the mode of", file)
    }

    /// Gives the file `from`, of theirs or ours, the further name `to` in a directory of `of_target`'s. A link is not
    /// followed, nor is another's file linked.
    pub fn link(&self, from: &Path, to: &Path, of_target: &Self) -> Result<io::Result<()>> {
        if *self == Self(None) && *of_target == Self(None) {
            return Ok(std::fs::hard_link(from, to));
        }
        // Opened for its name alone: closing it must not end locks that this process has on the file (fcntl(2)).
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || rustix::fs::open(from, flags, rustix::fs::Mode::empty()).at("cannot open", from);
        let file = File::from(self.act(open)?);
        let meta = file.metadata().at("cannot look at", from)?;
        let owner = self.0.or(of_target.0).map(|(uid, _)| uid);
        if !meta.is_file() || owner.is_some_and(|owner| owner != meta.uid()) {
            return Ok(Err(io::ErrorKind::PermissionDenied.into()));
        }
        let handle = format!("/proc/self/fd/{}", file.as_raw_fd());
        let link = || Ok(rustix::fs::linkat(CWD, handle.as_str(), CWD, to, AtFlags::SYMLINK_FOLLOW));
        of_target.act(link).map(|linked| linked.map_err(io::Error::from))
    }
}

/// The file system's view of this thread's user, groups and capabilities, until it is dropped (setfsuid(2)).
struct Rights {
    uid: u32,
    gid: u32,
    groups: Vec<Gid>,
}

impl Rights {
    fn lent(uid: u32, gid: u32) -> io::Result<Self> {
        let before = Self { uid: fs_uid(u32::MAX), gid: fs_gid(u32::MAX), groups: rustix::process::getgroups()? };
        // Dropped on an error, too: then all is as it was.
        let lent = before;
        rustix::thread::set_thread_groups(&[])?;
        fs_gid(gid);
        fs_uid(uid);
        match (fs_uid(u32::MAX), fs_gid(u32::MAX)) == (uid, gid) {
            true => Ok(lent),
            false => Err(io::ErrorKind::PermissionDenied.into()),
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

/// What a name in a directory leads to, unless others decide that: then the name.
pub fn own_path(root: &Path, inside: &Path) -> PathBuf {
    let is_image = root != Path::new("/");
    let mut ours = true;
    super::layout::follow_while(root, inside, &mut |path| {
        ours &= trust::is_ours_alone(path);
        // Of an image every link leads to the image, whoever made it.
        ours || is_image
    })
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
        // Root's directory in the agent's: he exchanges it as a whole.
        std::fs::create_dir(data.join("proc")).unwrap();
        assert_eq!(Acting::beside(&data.join("proc/x")).unwrap(), Acting(Some((AGENT, AGENT))));
        let shared = dir.path().join("shared");
        std::fs::create_dir(&shared).unwrap();
        std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o777)).unwrap();
        let file = shared.join("x");
        assert_eq!(Acting::beside(&file).unwrap_err().code, Code::Permission);
        durable::write(&file, b"", 0o600).unwrap();
        assert_eq!(Acting::beside(&file).unwrap_err().code, Code::Permission);
        chown(&file, Some(AGENT), Some(0)).unwrap();
        assert_eq!(Acting::beside(&file).unwrap(), Acting(Some((AGENT, NO_GROUP))));
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
        assert_eq!(own_path(slash, &dir.path().join("roots/x")), kept.join("x"));
        assert_eq!(own_path(slash, &data.join("agents/x")), data.join("agents/x"));
    }
}
