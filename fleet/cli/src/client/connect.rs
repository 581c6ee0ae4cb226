//! Connections to the server, and why there is none.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use ureq::Error;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, DefaultConnector, Either, LazyBuffers, NextTimeout, Transport,
};

use super::CONNECT;
use super::target::ServerAddress;
use crate::failure::Failure;
use crate::file::find_entry;

/// The group that the server's package makes (FLEET §1).
const USUAL: &str = "teleport-fleet";

/// Connects to the admin socket where there is one, else to the address that is asked for.
#[derive(Debug)]
pub(super) struct ApiConnector {
    pub(super) socket: Option<PathBuf>,
    pub(super) network: DefaultConnector,
    /// Set by each connection that was made: what fails before was sent to nobody.
    pub(super) connected: Arc<AtomicBool>,
}

impl Connector for ApiConnector {
    type Out = Either<Box<dyn Transport>, AdminStream>;

    fn connect(&self, details: &ConnectionDetails<'_>, _: Option<()>) -> Result<Option<Self::Out>, Error> {
        let made = match &self.socket {
            Some(path) => Some(Either::B(AdminStream::connect(path, details)?)),
            None => self.network.connect(details, None)?.map(Either::A),
        };
        self.connected.store(true, Ordering::Relaxed);
        Ok(made)
    }
}

/// A connection over the admin socket.
#[derive(Debug)]
pub(super) struct AdminStream {
    stream: UnixStream,
    buffers: LazyBuffers,
}

impl AdminStream {
    fn connect(path: &Path, details: &ConnectionDetails<'_>) -> Result<Self, Error> {
        let buffers = LazyBuffers::new(details.config.input_buffer_size(), details.config.output_buffer_size());
        // It waits as long as a server that hangs takes nobody in, and has no time-out of its own.
        let (connected, stream) = mpsc::channel();
        let path = path.to_owned();
        thread::spawn(move || connected.send(UnixStream::connect(path)));
        let stream = stream.recv_timeout(CONNECT).map_err(|_| Error::Timeout(details.timeout.reason))??;
        Ok(Self { stream, buffers })
    }
}

/// What took longer than `timeout` is said as such.
fn in_time<T>(done: io::Result<T>, timeout: NextTimeout) -> Result<T, Error> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(Error::Timeout(timeout.reason)),
        done => Ok(done?),
    }
}

impl Transport for AdminStream {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.set_write_timeout(timeout.not_zero().map(|left| *left))?;
        in_time(self.stream.write_all(&self.buffers.output()[..amount]), timeout)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.set_read_timeout(timeout.not_zero().map(|left| *left))?;
        let mut read = self.stream.read(self.buffers.input_append_buf());
        // A process that was stopped and goes on (Ctrl-Z, `fg`) finds its wait interrupted (socket(7)).
        while matches!(&read, Err(error) if error.kind() == io::ErrorKind::Interrupted) {
            read = self.stream.read(self.buffers.input_append_buf());
        }
        let amount = in_time(read, timeout)?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        // A connection is for one question.
        false
    }
}

/// Why there is no connection: said so that the operator knows what to do.
pub(super) fn unreachable(target: &ServerAddress, error: Error) -> Failure {
    let hint = hint(&error);
    let error = match error {
        Error::Timeout(_) => io::Error::other(format!("no connection within {} s", CONNECT.as_secs())),
        error => error.into_io(),
    };
    let message = match &target.socket {
        Some(path) if error.kind() == io::ErrorKind::PermissionDenied => {
            let group = group_of(path);
            let message =
                format!("no permission on the admin socket {target}: run as root or as a member of the group {group}");
            return Failure::new("forbidden", message);
        }
        Some(_) => format!("cannot reach the server at {target}: {error}; is teleport-fleet running?"),
        None => format!("cannot reach {target}: {error}{hint}"),
    };
    Failure::new(Failure::UNREACHABLE, message)
}

/// The name of the group whose members may use the socket; the usual one where it cannot be seen, or is root's.
fn group_of(socket: &Path) -> String {
    let directory = socket.parent().unwrap_or(socket);
    let gid = fs::metadata(socket).or_else(|_| fs::metadata(directory)).map_or(0, |meta| meta.gid());
    // Of root's there is nothing to say.
    let groups = File::open("/etc/group").ok().filter(|_| gid != 0);
    let found = groups.and_then(|groups| find_entry(groups, |_, number| number == gid));
    found.map_or_else(|| if gid == 0 { USUAL.to_owned() } else { gid.to_string() }, |(name, _)| name)
}

/// What to do about a failed handshake of TLS; empty where the error says it.
fn hint(error: &Error) -> &'static str {
    let handshake = match error {
        Error::Rustls(error) => Some(error),
        Error::Io(error) => error.get_ref().and_then(|inner| inner.downcast_ref()),
        _ => None,
    };
    match handshake {
        Some(rustls::Error::InvalidMessage(_)) => {
            ": that port speaks no TLS; look at the port, or write http:// for a server on this host"
        }
        Some(rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer)) => {
            ": name the authority of its certificate with --ca-file"
        }
        // webpki's error has no name in rustls.
        Some(error) if error.to_string().contains("CaUsedAsEndEntity") => {
            ": its certificate is that of an authority (CA:TRUE): the server needs one of its own, signed by it"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_not_use_the_socket_is_told_which_group_may() {
        let target = ServerAddress::socket("/run/teleport-fleet-of-a-test/admin.sock".into());
        let failure = unreachable(&target, Error::Io(io::ErrorKind::PermissionDenied.into()));
        assert_eq!(failure.code, "forbidden");
        let message = "no permission on the admin socket /run/teleport-fleet-of-a-test/admin.sock: run as root or as a \
                       member of the group teleport-fleet";
        assert_eq!(failure.message, message);
    }
}
