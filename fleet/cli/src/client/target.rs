//! Where the server is: the admin socket, or an address with a token.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hyper::Uri;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use super::tls;
use crate::args::{ADMIN_SOCKET, Global};
use crate::failure::Failure;

/// Longest file of a token, bytes.
const LONGEST_TOKEN: u64 = 4096;

/// Where the server is.
#[derive(Debug)]
pub(super) enum Target {
    /// Its admin socket.
    Socket(PathBuf),
    /// An address.
    Address(Address),
}

/// A server's address.
#[derive(Debug)]
pub(super) struct Address {
    /// As it was written, without what follows the port.
    name: String,
    /// Host, without the brackets of an IPv6 address.
    pub(super) host: String,
    /// Port.
    pub(super) port: u16,
    /// `None`: plain HTTP, to this host only.
    pub(super) tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    /// The value of `Authorization`.
    authorization: Option<String>,
}

impl Target {
    /// `--server`, else the admin socket.
    ///
    /// # Errors
    /// An address that cannot be asked, and files that cannot be read.
    pub(super) fn of(global: &Global) -> Result<Self, Failure> {
        match &global.server {
            None => {
                let socket = global.admin_socket.clone().unwrap_or_else(|| ADMIN_SOCKET.into());
                Ok(Self::Socket(socket))
            }
            Some(url) => {
                let token = global.token_file.as_deref().map(token).transpose()?;
                Address::parse(url, token, global.ca_file.as_deref()).map(Self::Address)
            }
        }
    }

    /// The value of `Host`.
    pub(super) fn host(&self) -> &str {
        match self {
            Self::Socket(_) => "localhost",
            Self::Address(address) => address.name.split_once("://").map_or("localhost", |(_, host)| host),
        }
    }

    /// The value of `Authorization`.
    pub(super) fn authorization(&self) -> Option<&str> {
        match self {
            Self::Socket(_) => None,
            Self::Address(address) => address.authorization.as_deref(),
        }
    }
}

impl Address {
    fn parse(url: &str, token: Option<String>, ca_file: Option<&Path>) -> Result<Self, Failure> {
        let wrong = |why: &str| Failure::new(Failure::USAGE, format!("--server {url:?}: {why}"));
        let uri: Uri = url.parse().map_err(|_| wrong("expected https://HOST[:PORT]"))?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(wrong("expected https://HOST[:PORT]"));
        };
        if authority.as_str().contains('@') || !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(wrong("expected nothing but https://HOST[:PORT]; a token is given with --token-file"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let (port, tls) = match scheme {
            "https" => {
                let name = ServerName::try_from(host.clone()).map_err(|_| wrong("this is no name of a host"))?;
                (443, Some((tls::config(ca_file)?, name)))
            }
            "http" if is_loopback(&host) => (80, None),
            "http" => return Err(wrong("the token would be readable on the way: use https://")),
            _ => return Err(wrong("expected https://HOST[:PORT]")),
        };
        Ok(Self {
            name: format!("{scheme}://{authority}"),
            host,
            port: authority.port_u16().unwrap_or(port),
            tls,
            authorization: token.map(|token| format!("Bearer {token}")),
        })
    }
}

/// Names nothing but this host.
fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The token in a file: one word.
fn token(file: &Path) -> Result<String, Failure> {
    let failed = |error: io::Error| Failure::local(format!("cannot read the token in {}", file.display()), error);
    let text = fleet_listener::read_text(file, LONGEST_TOKEN).map_err(failed)?;
    let token = text.trim();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(failed(io::Error::other("expected one word of printable ASCII")));
    }
    Ok(token.to_owned())
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => write!(f, "{}", path.display()),
            Self::Address(address) => f.write_str(&address.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Address, Failure> {
        Address::parse(url, Some("t".to_owned()), None)
    }

    #[test]
    fn plain_http_goes_to_this_host_only() {
        for url in ["http://127.0.0.1:8080", "http://localhost", "http://[::1]:80/", "http://127.9.9.9"] {
            assert!(parse(url).unwrap().tls.is_none(), "{url}");
        }
        for url in ["http://fleet.example.com", "http://10.0.0.1", "http://localhost.example.com", "http://[::2]"] {
            assert!(parse(url).unwrap_err().message.contains("use https://"), "{url}");
        }
    }

    #[test]
    fn an_address_is_a_host_and_a_port_and_nothing_else() {
        let address = parse("http://127.0.0.1").unwrap();
        assert_eq!((address.host.as_str(), address.port), ("127.0.0.1", 80));
        let address = parse("http://[::1]:8443").unwrap();
        assert_eq!((address.host.as_str(), address.port), ("::1", 8443));
        for url in [
            "fleet.example.com",
            "https://",
            "https://me:x@localhost",
            "https://localhost/a",
            "https://localhost?a=b",
            "ftp://localhost",
            "",
        ] {
            assert!(parse(url).unwrap_err().message.contains("expected"), "{url}");
        }
    }
}
