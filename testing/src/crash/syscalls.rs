//! The system calls that are counted: their numbers, what each kind may fail with, and where their arguments are.

use libc::c_int;

/// What a call does, which says how it can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Gives a file another or a further name.
    Name,
    /// Makes a directory or a link.
    Make,
    /// Removes a name.
    Remove,
    /// Makes something durable.
    Sync,
    /// Writes into a regular file.
    Write,
    /// Sends bytes through a socket.
    Send,
    /// Opens a file, and may make or empty it.
    Create,
    /// Changes a file's size or reserves room for it.
    Resize,
    /// Changes owner, mode, times or extended attributes.
    Attribute,
    /// Takes or releases a lock.
    Lock,
    /// Opens a file for reading.
    Open,
    /// Reads a file.
    Read,
    /// Lists a directory.
    List,
    /// Looks at a file's metadata.
    Look,
}

impl Kind {
    /// What it can fail with on a host that is in trouble.
    pub fn errors(self) -> &'static [c_int] {
        use libc::{EACCES, EDQUOT, EINTR, EIO, EMFILE, ENOLCK, ENOSPC, EOPNOTSUPP, EPIPE, EROFS, EXDEV};
        match self {
            Self::Name => &[EIO, ENOSPC, EACCES, EXDEV, EROFS, EDQUOT],
            Self::Make => &[EIO, ENOSPC, EACCES, EROFS, EDQUOT],
            Self::Remove => &[EIO, EACCES, EROFS],
            Self::Sync => &[EIO, ENOSPC, EDQUOT, EINTR],
            Self::Write => &[EIO, ENOSPC, EDQUOT, EINTR],
            Self::Send => &[EPIPE, EIO],
            Self::Create => &[EIO, ENOSPC, EACCES, EMFILE, EROFS, EDQUOT, EINTR],
            Self::Resize => &[EIO, ENOSPC, EDQUOT, EINTR, EOPNOTSUPP],
            Self::Attribute => &[EIO, EACCES, EROFS],
            Self::Lock => &[EINTR, ENOLCK],
            Self::Open => &[EIO, EACCES, EMFILE],
            Self::Read | Self::List => &[EIO],
            Self::Look => &[EIO, EACCES],
        }
    }

    /// Whether it may do less than it was asked to.
    pub fn may_be_short(self) -> bool {
        self == Self::Write
    }
}

/// Where a call's arguments say what it works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A path.
    Path(usize),
    /// A directory's descriptor and a path.
    At(usize, usize),
    /// Two paths.
    Two(usize, usize),
    /// Two pairs of directory and path.
    TwoAt(usize, usize, usize, usize),
    /// A descriptor.
    Fd(usize),
    /// The whole system.
    Nothing,
}

/// When a call counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// Always.
    Always,
    /// If the flags in this argument make or empty a file.
    Creates(usize),
    /// If they do not.
    OnlyOpens(usize),
}

/// One system call.
#[derive(Debug)]
pub(crate) struct Known {
    pub number: i64,
    pub name: &'static str,
    pub kind: Kind,
    pub subject: Subject,
    pub when: When,
    /// The argument with the count of what is to be written.
    pub length: Option<usize>,
}

const fn known(number: i64, name: &'static str, kind: Kind, subject: Subject) -> Known {
    Known { number, name, kind, subject, when: When::Always, length: None }
}

const fn opening(number: i64, name: &'static str, kind: Kind, subject: Subject, when: When) -> Known {
    Known { number, name, kind, subject, when, length: None }
}

const fn writing(number: i64, name: &'static str, fd: usize, length: usize) -> Known {
    Known { number, name, kind: Kind::Write, subject: Subject::Fd(fd), when: When::Always, length: Some(length) }
}

/// `fchmodat2`, `setxattrat`, `removexattrat`: younger than some headers, the same on both machines.
const FCHMODAT2: i64 = 452;
const SETXATTRAT: i64 = 463;
const REMOVEXATTRAT: i64 = 466;

/// Every call that changes something or makes it durable.
pub(crate) const CHANGES: &[Known] = &[
    known(libc::SYS_renameat, "renameat", Kind::Name, Subject::TwoAt(0, 1, 2, 3)),
    known(libc::SYS_renameat2, "renameat2", Kind::Name, Subject::TwoAt(0, 1, 2, 3)),
    known(libc::SYS_linkat, "linkat", Kind::Name, Subject::TwoAt(0, 1, 2, 3)),
    known(libc::SYS_symlinkat, "symlinkat", Kind::Make, Subject::At(1, 2)),
    known(libc::SYS_mkdirat, "mkdirat", Kind::Make, Subject::At(0, 1)),
    known(libc::SYS_unlinkat, "unlinkat", Kind::Remove, Subject::At(0, 1)),
    known(libc::SYS_fsync, "fsync", Kind::Sync, Subject::Fd(0)),
    known(libc::SYS_fdatasync, "fdatasync", Kind::Sync, Subject::Fd(0)),
    known(libc::SYS_sync_file_range, "sync_file_range", Kind::Sync, Subject::Fd(0)),
    known(libc::SYS_syncfs, "syncfs", Kind::Sync, Subject::Fd(0)),
    known(libc::SYS_sync, "sync", Kind::Sync, Subject::Nothing),
    writing(libc::SYS_write, "write", 0, 2),
    writing(libc::SYS_pwrite64, "pwrite64", 0, 2),
    writing(libc::SYS_writev, "writev", 0, 2),
    writing(libc::SYS_pwritev, "pwritev", 0, 2),
    writing(libc::SYS_pwritev2, "pwritev2", 0, 2),
    writing(libc::SYS_copy_file_range, "copy_file_range", 2, 4),
    writing(libc::SYS_sendfile, "sendfile", 0, 3),
    opening(libc::SYS_openat, "openat", Kind::Create, Subject::At(0, 1), When::Creates(2)),
    known(libc::SYS_openat2, "openat2", Kind::Create, Subject::At(0, 1)),
    known(libc::SYS_truncate, "truncate", Kind::Resize, Subject::Path(0)),
    known(libc::SYS_ftruncate, "ftruncate", Kind::Resize, Subject::Fd(0)),
    known(libc::SYS_fallocate, "fallocate", Kind::Resize, Subject::Fd(0)),
    known(libc::SYS_fchmod, "fchmod", Kind::Attribute, Subject::Fd(0)),
    known(libc::SYS_fchmodat, "fchmodat", Kind::Attribute, Subject::At(0, 1)),
    known(FCHMODAT2, "fchmodat2", Kind::Attribute, Subject::At(0, 1)),
    known(libc::SYS_fchown, "fchown", Kind::Attribute, Subject::Fd(0)),
    known(libc::SYS_fchownat, "fchownat", Kind::Attribute, Subject::At(0, 1)),
    known(libc::SYS_utimensat, "utimensat", Kind::Attribute, Subject::At(0, 1)),
    known(libc::SYS_setxattr, "setxattr", Kind::Attribute, Subject::Path(0)),
    known(libc::SYS_lsetxattr, "lsetxattr", Kind::Attribute, Subject::Path(0)),
    known(libc::SYS_fsetxattr, "fsetxattr", Kind::Attribute, Subject::Fd(0)),
    known(SETXATTRAT, "setxattrat", Kind::Attribute, Subject::At(0, 1)),
    known(libc::SYS_removexattr, "removexattr", Kind::Attribute, Subject::Path(0)),
    known(libc::SYS_lremovexattr, "lremovexattr", Kind::Attribute, Subject::Path(0)),
    known(libc::SYS_fremovexattr, "fremovexattr", Kind::Attribute, Subject::Fd(0)),
    known(REMOVEXATTRAT, "removexattrat", Kind::Attribute, Subject::At(0, 1)),
    known(libc::SYS_flock, "flock", Kind::Lock, Subject::Fd(0)),
];

/// Those that newer machines have no more, and musl still prefers.
#[cfg(target_arch = "x86_64")]
pub(crate) const OLD_CHANGES: &[Known] = &[
    known(libc::SYS_rename, "rename", Kind::Name, Subject::Two(0, 1)),
    known(libc::SYS_link, "link", Kind::Name, Subject::Two(0, 1)),
    known(libc::SYS_symlink, "symlink", Kind::Make, Subject::Path(1)),
    known(libc::SYS_mkdir, "mkdir", Kind::Make, Subject::Path(0)),
    known(libc::SYS_unlink, "unlink", Kind::Remove, Subject::Path(0)),
    known(libc::SYS_rmdir, "rmdir", Kind::Remove, Subject::Path(0)),
    opening(libc::SYS_open, "open", Kind::Create, Subject::Path(0), When::Creates(1)),
    known(libc::SYS_creat, "creat", Kind::Create, Subject::Path(0)),
    known(libc::SYS_chmod, "chmod", Kind::Attribute, Subject::Path(0)),
    known(libc::SYS_chown, "chown", Kind::Attribute, Subject::Path(0)),
    known(libc::SYS_lchown, "lchown", Kind::Attribute, Subject::Path(0)),
    known(libc::SYS_utime, "utime", Kind::Attribute, Subject::Path(0)),
    known(libc::SYS_utimes, "utimes", Kind::Attribute, Subject::Path(0)),
    known(libc::SYS_futimesat, "futimesat", Kind::Attribute, Subject::At(0, 1)),
];
/// None here.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) const OLD_CHANGES: &[Known] = &[];

/// Calls by which a server answers; `write` and `writev` are among [`CHANGES`].
pub(crate) const SENDS: &[Known] = &[
    known(libc::SYS_sendto, "sendto", Kind::Send, Subject::Fd(0)),
    known(libc::SYS_sendmsg, "sendmsg", Kind::Send, Subject::Fd(0)),
];

/// Calls that ask for the time, where the kernel's own functions for it are hidden.
pub(crate) const CLOCKS: &[Known] = &[known(libc::SYS_clock_gettime, "clock_gettime", Kind::Look, Subject::Nothing)];

/// Calls that only look, on files: sockets are read by other ones.
pub(crate) const LOOKS: &[Known] = &[
    opening(libc::SYS_openat, "openat", Kind::Open, Subject::At(0, 1), When::OnlyOpens(2)),
    known(libc::SYS_read, "read", Kind::Read, Subject::Fd(0)),
    known(libc::SYS_pread64, "pread64", Kind::Read, Subject::Fd(0)),
    known(libc::SYS_readv, "readv", Kind::Read, Subject::Fd(0)),
    known(libc::SYS_readlinkat, "readlinkat", Kind::Look, Subject::At(0, 1)),
    known(libc::SYS_getdents64, "getdents64", Kind::List, Subject::Fd(0)),
    known(libc::SYS_statx, "statx", Kind::Look, Subject::At(0, 1)),
    known(libc::SYS_newfstatat, "newfstatat", Kind::Look, Subject::At(0, 1)),
    known(libc::SYS_fstat, "fstat", Kind::Look, Subject::Fd(0)),
    known(libc::SYS_statfs, "statfs", Kind::Look, Subject::Path(0)),
    known(libc::SYS_fstatfs, "fstatfs", Kind::Look, Subject::Fd(0)),
];

/// Those that newer machines have no more.
#[cfg(target_arch = "x86_64")]
pub(crate) const OLD_LOOKS: &[Known] = &[
    opening(libc::SYS_open, "open", Kind::Open, Subject::Path(0), When::OnlyOpens(1)),
    known(libc::SYS_readlink, "readlink", Kind::Look, Subject::Path(0)),
    known(libc::SYS_stat, "stat", Kind::Look, Subject::Path(0)),
    known(libc::SYS_lstat, "lstat", Kind::Look, Subject::Path(0)),
    known(libc::SYS_access, "access", Kind::Look, Subject::Path(0)),
];
/// None here.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) const OLD_LOOKS: &[Known] = &[];
