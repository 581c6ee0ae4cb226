//! Connections to the server.

use std::io;
use std::path::Path;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::group;
use super::target::{Address, Target};
use crate::failure::Failure;

/// A connection of any kind.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Connects within `limit`.
///
/// # Errors
/// Nobody is there, or it is not allowed: said so that the operator knows what to do.
pub(super) async fn connect(target: &Target, limit: Duration) -> Result<TokioIo<Box<dyn Stream>>, Failure> {
    let connected = match target {
        Target::Socket(path) => timeout(limit, over_socket(path)).await,
        Target::Address(address) => timeout(limit, over_network(address)).await,
    };
    let late = || io::Error::new(io::ErrorKind::TimedOut, format!("no connection within {} s", limit.as_secs()));
    match connected.unwrap_or_else(|_| Err(late())) {
        Ok(stream) => Ok(TokioIo::new(stream)),
        Err(error) => Err(unreachable(target, &error)),
    }
}

async fn over_socket(path: &Path) -> io::Result<Box<dyn Stream>> {
    Ok(Box::new(UnixStream::connect(path).await?))
}

async fn over_network(address: &Address) -> io::Result<Box<dyn Stream>> {
    let stream = TcpStream::connect((address.host.as_str(), address.port)).await?;
    stream.set_nodelay(true)?;
    match &address.tls {
        None => Ok(Box::new(stream)),
        Some((config, name)) => Ok(Box::new(TlsConnector::from(config.clone()).connect(name.clone(), stream).await?)),
    }
}

fn unreachable(target: &Target, error: &io::Error) -> Failure {
    match target {
        Target::Socket(path) if error.kind() == io::ErrorKind::PermissionDenied => {
            let group = group::of(path);
            let message = format!(
                "no permission on the admin socket {}: run as root or as a member of the group {group}",
                path.display()
            );
            Failure::new("forbidden", message)
        }
        Target::Socket(path) => Failure::new(Failure::UNREACHABLE, no_server(path, error)),
        Target::Address(_) => {
            Failure::new(Failure::UNREACHABLE, format!("cannot reach {target}: {error}{}", hint(error)))
        }
    }
}

/// What to do about a failed handshake of TLS; empty where the error says it.
fn hint(error: &io::Error) -> &'static str {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
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

fn no_server(path: &Path, error: &io::Error) -> String {
    format!("cannot reach the server at {}: {error}; is teleport-fleet running?", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_not_use_the_socket_is_told_which_group_may() {
        let target = Target::Socket("/run/teleport-fleet-of-a-test/admin.sock".into());
        let failure = unreachable(&target, &io::ErrorKind::PermissionDenied.into());
        assert_eq!(failure.code, "forbidden");
        let message = "no permission on the admin socket /run/teleport-fleet-of-a-test/admin.sock: run as root or as a \
                       member of the group teleport-fleet";
        assert_eq!(failure.message, message);
    }
}
