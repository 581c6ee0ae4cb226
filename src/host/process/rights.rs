//! Who could open a database: what others run, and have open, is nobody's business.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::files::database_file;
use super::{FIRST, Process, if_there, is_denied, leads_nowhere};
use crate::report::{Code, IoContext, Result};

/// CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH: files of any owner.
const ANY_FILE: u64 = 1 << 1 | 1 << 2;
/// What lets a process write files of any owner, or become who may: CAP_CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER,
/// SETGID, SETUID, SETPCAP, SYS_MODULE, SYS_RAWIO, SYS_PTRACE, SYS_ADMIN, MKNOD, SETFCAP (capabilities(7)).
const LEADS_TO_FILES: u64 =
    0b1111 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 16 | 1 << 17 | 1 << 19 | 1 << 21 | 1 << 27 | 1 << 31;
/// The bit of CAP_SYS_PTRACE.
const SYS_PTRACE: u64 = 1 << 19;
/// File systems where owner and mode of a file decide who may open it, by their numbers of statfs(2): ext2 to ext4, XFS,
/// Btrfs, F2FS, bcachefs, ZFS, JFS, ReiserFS, NILFS, tmpfs, ramfs, overlayfs, squashfs, EROFS, ISO 9660. On others (NFS,
/// SMB, FUSE) a server may decide.
const LOCAL: [u64; 15] = [
    0xEF53,
    0x5846_5342,
    0x9123_683E,
    0xF2F5_2010,
    0xCA45_1A4E,
    0x2FC1_2FC1,
    0x3153_464A,
    0x5265_4973,
    0x3434,
    0x0102_1994,
    0x8584_58F6,
    0x794C_7630,
    0x7371_7368,
    0xE0F5_E1E2,
    0x9660,
];

/// Who can open a database for writing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reach {
    /// Users that own it, its logs or a directory that it is in, up to the agent's own.
    pub owners: BTreeSet<u32>,
    /// Groups that may write one of these.
    pub groups: BTreeSet<u32>,
    /// Others may write one of these.
    pub anybody: bool,
}

impl Reach {
    /// For the files of a database, itself first, none of which need be there. Without any, it is anybody's: nobody is taken
    /// for harmless because no file was named.
    ///
    /// Errors: `io`.
    pub fn of(database: &[PathBuf]) -> Result<Self> {
        if database.is_empty() {
            return Ok(Self { anybody: true, ..Self::default() });
        }
        let files = database.iter().map(|file| (database_file(file), file.clone()));
        let dirs = database.iter().take(1).flat_map(|file| file.ancestors().skip(1).take(2)).map(|dir| {
            let found = std::fs::metadata(dir);
            let found = if leads_nowhere(&found) { Ok(None) } else { found.at("cannot look at", dir).map(Some) };
            (found, dir.to_owned())
        });
        let mut reach = Self::default();
        for (found, place) in files.chain(dirs) {
            let found = match found {
                // Of what may not be looked at nobody can be said to be kept from it.
                Err(error) if error.code == Code::Permission => return Ok(Self { anybody: true, ..reach }),
                found => match found? {
                    Some(found) => found,
                    None => continue,
                },
            };
            reach.anybody |= found.is_dir() && !is_local(&place);
            reach.owners.insert(found.uid());
            if found.mode() & 0o020 != 0 {
                reach.groups.insert(found.gid());
                // With an access list these bits are its mask, and whom it names is not told here (acl(5)).
                reach.anybody |= has_acl(&place);
            }
            // Where each can only remove what is his own, others' files are safe.
            let is_sticky_dir = found.is_dir() && found.mode() & 0o1000 != 0;
            reach.anybody |= found.mode() & 0o002 != 0 && !is_sticky_dir;
        }
        Ok(reach)
    }
}

fn is_local(dir: &Path) -> bool {
    rustix::fs::statfs(dir).is_ok_and(|found| u64::try_from(found.f_type).is_ok_and(|kind| LOCAL.contains(&kind)))
}

fn has_acl(path: &Path) -> bool {
    let mut none = [0_u8; 0];
    match rustix::fs::getxattr(path, "system.posix_acl_access", &mut none[..]) {
        Ok(size) => size > 0,
        // What cannot be looked at may have one.
        Err(error) => !matches!(error, Errno::NODATA | Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOENT),
    }
}

/// Whether a process could open a database for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It could not.
    None,
    /// It runs a set-uid program, or one with capabilities of its own, that could. Whoever started it could not, and can have
    /// given it what he has open.
    Lent {
        /// Who started it: its real user.
        starter: u32,
    },
    /// It could.
    Own,
}

impl Process {
    /// Whether it could open what `reach` tells for writing: as root, its owner or a member of its group, or by a
    /// capability. A capability counts where our users are known: in a user name space of an ordinary user he has them
    /// all, and none over files of others. What cannot be read counts.
    ///
    /// Errors: `io`.
    pub fn access(&self, reach: &Reach) -> Result<Access> {
        if reach.anybody {
            return Ok(Access::Own);
        }
        let place = format!("/proc/{}/status", self.pid);
        let status = match std::fs::read(&place) {
            Err(error) if is_denied(&error) => return Ok(Access::Own),
            status => match if_there(status, &place)? {
                // A program's name is of any bytes.
                Some(status) => parse_status(&String::from_utf8_lossy(&status)),
                // It has ended since; the first one never does.
                None if self.pid == FIRST => return Ok(Access::Own),
                None => return Ok(Access::None),
            },
        };
        let is_named = |users: &[u32], groups: &[u32]| {
            users.iter().any(|user| *user == 0 || reach.owners.contains(user))
                || groups.iter().any(|group| reach.groups.contains(group))
        };
        let leads = |capabilities: Option<u64>| capabilities.is_none_or(|set| set & LEADS_TO_FILES != 0);
        // The real ones are of who started it; capabilities that a service was given are ambient (capabilities(7)).
        let is_starters = is_named(status.users.get(..1).unwrap_or_default(), &status.groups_of_starter());
        if status.users.is_empty() || is_starters {
            return Ok(Access::Own);
        }
        let is_capable = leads(status.permitted) && self.knows_users_of(reach)?;
        Ok(match is_capable || is_named(&status.users, &status.groups) {
            true if is_capable && status.ambient.is_some_and(|set| set & LEADS_TO_FILES != 0) => Access::Own,
            true => Access::Lent { starter: status.users[0] },
            false => Access::None,
        })
    }

    /// Whether it has any [access](Self::access).
    ///
    /// Errors: `io`.
    pub fn can_open(&self, reach: &Reach) -> Result<bool> {
        Ok(self.access(reach)? != Access::None)
    }

    /// Whether a capability of its own is one over files of `reach`: their owners are users in its name space, too.
    fn knows_users_of(&self, reach: &Reach) -> Result<bool> {
        let map = |pid: &str| {
            let place = format!("/proc/{pid}/uid_map");
            match std::fs::read_to_string(&place) {
                // What the kernel says of one that has just been waited for.
                Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => Ok(None),
                map => if_there(map, &place),
            }
        };
        let Some(theirs) = map(&self.pid.to_string())? else { return Ok(false) };
        // Kernels without user name spaces have no such file.
        let Some(ours) = map("self")? else { return Ok(true) };
        Ok(theirs == ours || [0].iter().chain(&reach.owners).any(|user| maps_user(&theirs, *user)))
    }
}

/// True when we have the capabilities to see what every process runs and has open. What is hidden nevertheless is so by
/// a guard (a security module, an endpoint protection that shields itself), or is outside of our user name space.
pub(crate) fn may_see_all() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .is_some_and(|set| set & SYS_PTRACE != 0 && set & ANY_FILE != 0)
}

/// Who a process is, by `/proc/PID/status`.
#[derive(Debug, PartialEq, Eq)]
struct Standing {
    /// Real, effective, saved, of the file system.
    users: Vec<u32>,
    /// The same four, and the supplementary ones.
    groups: Vec<u32>,
    /// Permitted capabilities.
    permitted: Option<u64>,
    /// Ambient ones; kernels before 4.3 have none.
    ambient: Option<u64>,
}

impl Standing {
    /// The real group and the supplementary ones.
    fn groups_of_starter(&self) -> Vec<u32> {
        self.groups.iter().take(1).chain(self.groups.iter().skip(4)).copied().collect()
    }
}

fn parse_status(status: &str) -> Standing {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let numbers = |name: &str| {
        let words = field(name).unwrap_or_default().split_ascii_whitespace();
        words.filter_map(|word| word.parse().ok()).collect::<Vec<u32>>()
    };
    let capabilities = |name| field(name).and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    Standing {
        users: numbers("Uid:"),
        groups: [numbers("Gid:"), numbers("Groups:")].concat(),
        permitted: capabilities("CapPrm:"),
        ambient: capabilities("CapAmb:"),
    }
}

/// Whether the user `user` of our name space is one in the name space with this map (user_namespaces(7)).
fn maps_user(map: &str, user: u32) -> bool {
    map.lines().any(|line| {
        let mut numbers = line.split_ascii_whitespace().skip(1).map(str::parse::<u64>);
        let (Some(Ok(first)), Some(Ok(count))) = (numbers.next(), numbers.next()) else { return false };
        (first..first.saturating_add(count)).contains(&u64::from(user))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_groups_and_capabilities_are_read() {
        let status = "Name:\tx\nUid:\t0\t1\t2\t3\nGid:\t9\t9\t9\t9\nGroups:\t4 27 \nCapPrm:\t00000000a80425fb\n";
        let standing = parse_status(status);
        assert_eq!((standing.users, standing.groups), (vec![0, 1, 2, 3], vec![9, 9, 9, 9, 4, 27]));
        assert_eq!(standing.permitted, Some(0xa804_25fb));
        assert_eq!([parse_status("").permitted, parse_status("").ambient], [None; 2]);
    }

    #[test]
    fn a_user_of_ours_is_one_in_a_name_space_that_maps_him() {
        assert!(maps_user("         0          0 4294967295\n", 1000));
        assert!(maps_user("0 100000 65536\n65536 5 1\n", 5));
        for (map, user) in [("0 1000 1\n", 0), ("", 0), ("0 100000 65536\n", 165_536), ("x", 0)] {
            assert!(!maps_user(map, user), "{map}");
        }
    }

    #[test]
    fn a_process_can_open_what_is_its_users_or_everybodys_and_one_that_has_ended_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("data/proc/sqlite.db");
        crate::host::durable::create_dir_all(database.parent().unwrap()).unwrap();
        crate::host::durable::write(&database, b"", 0o600).unwrap();
        let mode = |path: &Path, mode| {
            std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
            Reach::of(std::slice::from_ref(&database)).unwrap()
        };
        let closed = mode(&database, 0o644);
        assert!(!closed.anybody && closed.groups.is_empty());
        let own = Process::by_pid(std::process::id()).unwrap().unwrap();
        assert!(own.can_open(&closed).unwrap());
        assert!(!Process::unseen(u32::MAX).can_open(&closed).unwrap(), "it has ended");
        let of_group = mode(&database, 0o660);
        assert_eq!(of_group.groups, BTreeSet::from([std::fs::metadata(&database).unwrap().gid()]));
        assert!(mode(&database, 0o606).anybody);
        assert!(!mode(&database, 0o600).anybody);
        // Who may make its log, or put another file in its place, can do as much; not where each has only his own.
        let [proc, data] = [1, 2].map(|up| database.ancestors().nth(up).unwrap());
        assert!(mode(proc, 0o757).anybody && !mode(proc, 0o1757).anybody && !mode(proc, 0o755).anybody);
        assert!(mode(data, 0o757).anybody && !mode(data, 0o755).anybody);
    }
}
