//! A Unix socket that only its owner and one group may connect to.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tokio::net::{UnixListener, UnixSocket};

/// Tries for the lock of the directory, and the pause between two: a second together.
const LOCK_TRIES: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Connections that wait to be accepted: a few operators and scripts.
const BACKLOG: u32 = 128;

/// A bound Unix socket. Its file is removed when it is dropped, unless somebody else put another there.
#[derive(Debug)]
pub(crate) struct Local {
    pub(crate) listener: UnixListener,
    /// Removed after the listener is closed.
    _file: SocketFile,
}

/// The file of a bound socket: its path, device and inode.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl Local {
    /// Listens on `path`, whose directory must exist. The file gets the permissions `mode` and, if given, the group id
    /// `group`. Nobody can connect before it has them. A socket that a dead process left is replaced. Must be called
    /// within a tokio runtime; blocks for at most a second.
    ///
    /// # Errors
    /// If another process listens there, `path` is something else than a socket, or it cannot be made.
    pub(crate) fn bind(path: &Path, mode: u32, group: Option<u32>) -> io::Result<Self> {
        listen(path, mode, group)
            .map_err(|error| io::Error::new(error.kind(), format!("cannot listen on {}: {error}", path.display())))
    }
}

fn listen(path: &Path, mode: u32, group: Option<u32>) -> io::Result<Local> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Two processes that start at once must not both take the other's new socket for a stale one.
    let lock = File::open(directory)?;
    lock_briefly(&lock);
    remove_stale(path)?;
    let socket = UnixSocket::new_stream()?;
    socket.bind(path)?;
    let file = SocketFile { path: path.to_owned(), identity: identity(path)? };
    restrict(path, mode, group)?;
    // Before this the kernel refuses everybody.
    let listener = socket.listen(BACKLOG)?;
    Ok(Local { listener, _file: file })
}

/// Another server holds the lock for an instant; any user who may read the directory can hold it for ever, and must not
/// keep this one from starting.
fn lock_briefly(directory: &File) {
    for _ in 0..LOCK_TRIES {
        if directory.try_lock().is_ok() {
            return;
        }
        std::thread::sleep(LOCK_PAUSE);
    }
}

#[expect(clippy::disallowed_methods, reason = "a socket's file is made anew at each start: it need not be durable")]
fn restrict(path: &Path, mode: u32, group: Option<u32>) -> io::Result<()> {
    // What has it already is not given it: a unit may forbid every chown.
    if group.is_some_and(|group| std::fs::symlink_metadata(path).is_ok_and(|found| found.gid() != group)) {
        std::os::unix::fs::lchown(path, None, group)?;
    }
    std::fs::set_permissions(path, Permissions::from_mode(mode))
}

/// Removes a socket that nobody listens on.
#[expect(clippy::disallowed_methods, reason = "a socket's file is made anew at each start: it need not be durable")]
fn remove_stale(path: &Path) -> io::Result<()> {
    let kind = match std::fs::symlink_metadata(path) {
        Ok(found) => found.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !kind.is_socket() {
        let why = "something that is not a socket is there; remove it or choose another path";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
    }
    match connect(path) {
        Err(Errno::CONNREFUSED) => std::fs::remove_file(path),
        Err(Errno::NOENT) => Ok(()),
        // A full queue is an answer too.
        Ok(()) | Err(Errno::AGAIN) => {
            Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens there; stop it first"))
        }
        Err(error) => Err(error.into()),
    }
}

/// Tries whether somebody listens, without waiting.
fn connect(path: &Path) -> Result<(), Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)
}

impl Drop for SocketFile {
    #[expect(clippy::disallowed_methods, reason = "a socket's file is made anew at each start: it need not be durable")]
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|found| found == self.identity) {
            // Whatever stands in the way: the next start replaces it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Device and inode.
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = std::fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}
