//! Where the server is: the admin socket, or an address with a token.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use ureq::http::Uri;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};

use crate::args::{ADMIN_SOCKET, GlobalArgs};
use crate::failure::Failure;

/// Longest file of a token, bytes.
const LONGEST_TOKEN: u64 = 4096;
/// Most bytes of a file of certificates: those of all authorities of the world have some 250,000.
const LONGEST_CA_FILE: u64 = 4 << 20;

/// Where the server is, and how it is asked.
#[derive(Debug)]
pub(super) struct ServerAddress {
    /// Its admin socket, if that is asked.
    pub(super) socket: Option<PathBuf>,
    /// What stands before the path of each question, without a slash. Nobody connects to that of the socket.
    pub(super) url: String,
    /// Who is trusted. `None`: plain HTTP, to this host only.
    pub(super) tls: Option<TlsConfig>,
    /// The value of `Authorization`.
    pub(super) authorization: Option<String>,
}

impl ServerAddress {
    /// `--server`, else the admin socket.
    ///
    /// # Errors
    /// An address that cannot be asked, and files that cannot be read.
    pub(super) fn of(global: &GlobalArgs) -> Result<Self, Failure> {
        let Some(url) = &global.server else {
            if global.token_file.is_some() || global.ca_file.is_some() {
                let message = "--token-file and --ca-file are for --server, which is not given";
                return Err(Failure::new(Failure::USAGE, message));
            }
            return Ok(Self::socket(global.admin_socket.clone().unwrap_or_else(|| ADMIN_SOCKET.into())));
        };
        let token = global.token_file.as_deref().map(token).transpose()?;
        Self::address(url, token, global.ca_file.as_deref())
    }

    pub(super) fn socket(path: PathBuf) -> Self {
        Self { socket: Some(path), url: "http://127.0.0.1".to_owned(), tls: None, authorization: None }
    }

    fn address(url: &str, token: Option<String>, ca_file: Option<&Path>) -> Result<Self, Failure> {
        let wrong = |why: &str| Failure::new(Failure::USAGE, format!("--server {url:?}: {why}"));
        let uri: Uri = url.parse().map_err(|_| wrong("expected https://HOST[:PORT]"))?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(wrong("expected https://HOST[:PORT]"));
        };
        if authority.as_str().contains('@') || !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(wrong("expected nothing but https://HOST[:PORT]; a token is given with --token-file"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        let tls = match scheme {
            "https" if ServerName::try_from(host).is_err() => return Err(wrong("this is no name of a host")),
            "https" => Some(tls(ca_file)?),
            "http" if is_loopback(host) => None,
            "http" => return Err(wrong("the token would be readable on the way: use https://")),
            _ => return Err(wrong("expected https://HOST[:PORT]")),
        };
        let authorization = token.map(|token| format!("Bearer {token}"));
        Ok(Self { socket: None, url: format!("{scheme}://{authority}"), tls, authorization })
    }
}

/// Trusts the system's certificate authorities, and those in `ca_file`.
///
/// # Errors
/// The file cannot be read or holds no certificate; or nothing is trusted at all.
fn tls(ca_file: Option<&Path>) -> Result<TlsConfig, Failure> {
    let mut trusted = rustls_native_certs::load_native_certs().certs;
    if let Some(file) = ca_file {
        let failed =
            |error: &dyn fmt::Display| Failure::local(format!("cannot read certificates in {}", file.display()), error);
        let text = crate::file::read_file(file, LONGEST_CA_FILE).map_err(|error| failed(&error))?;
        let certificates =
            CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>().map_err(|error| failed(&error))?;
        if certificates.is_empty() {
            return Err(failed(&"there are none"));
        }
        for certificate in certificates {
            RootCertStore::empty().add(certificate.clone()).map_err(|error| failed(&error))?;
            trusted.push(certificate);
        }
    }
    if trusted.is_empty() {
        let message = "no certificate authority is trusted: install ca-certificates, or give --ca-file";
        return Err(Failure::new(Failure::LOCAL, message));
    }
    Ok(trusting(&trusted))
}

/// Trusts these certificates, and no others.
pub fn trusting(certificates: &[CertificateDer<'_>]) -> TlsConfig {
    let trusted: Vec<_> = certificates.iter().map(|one| Certificate::from_der(one).to_owned()).collect();
    TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .root_certs(RootCerts::Specific(Arc::new(trusted)))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build()
}

/// Names nothing but this host.
fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The token in a file: one word.
fn token(file: &Path) -> Result<String, Failure> {
    let failed = |error: io::Error| Failure::local(format!("cannot read the token in {}", file.display()), error);
    let text = crate::file::read_text(file, LONGEST_TOKEN).map_err(failed)?;
    let token = text.trim();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(failed(io::Error::other("expected one word of printable ASCII")));
    }
    Ok(token.to_owned())
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.socket {
            Some(path) => write!(f, "{}", path.display()),
            None => f.write_str(&self.url),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<ServerAddress, Failure> {
        ServerAddress::address(url, Some("t".to_owned()), None)
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
        assert_eq!(parse("http://127.0.0.1/").unwrap().url, "http://127.0.0.1");
        assert_eq!(parse("http://[::1]:8443").unwrap().url, "http://[::1]:8443");
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
