//! A certificate file and a key file, as one thing.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{Error as RustlsError, InconsistentKeys, ServerConfig};

use fleet_cli::read_file;

/// The only protocol spoken; a client that offers others alone is refused in the handshake.
const ALPN: &[u8] = b"http/1.1";

/// Most bytes of a file: a long chain has some ten thousand.
const MAX_FILE: u64 = 1 << 20;

/// By what a replaced or rewritten file is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp([Option<FileStamp>; 2]);

/// Device, inode, size, and when it was modified and changed. The change time is for a file that was unreadable: permissions leave the
/// time of modification alone.
type FileStamp = ([u64; 3], [i64; 4]);

impl Stamp {
    /// The files now; links are followed.
    pub(super) fn of(cert: &Path, key: &Path) -> Self {
        Self([cert, key].map(stamp))
    }
}

fn stamp(path: &Path) -> Option<FileStamp> {
    let found = fs::metadata(path).ok()?;
    let times = [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()];
    Some(([found.dev(), found.ino(), found.size()], times))
}

/// A server's configuration from both files, and what they looked like.
///
/// # Errors
/// One line, which names the file.
pub(super) fn load(cert: &Path, key: &Path) -> Result<(Arc<ServerConfig>, Stamp), String> {
    let before = Stamp::of(cert, key);
    let chain = read_chain(cert)?;
    let secret = read_key(key)?;
    if Stamp::of(cert, key) != before {
        return Err(format!("{} or {} was written while it was read; try again", cert.display(), key.display()));
    }
    let provider = Arc::new(ring::default_provider());
    let tls = |source| refused(cert, key, &source);
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(tls)?
        .with_no_client_auth()
        .with_single_cert(chain, secret)
        .map_err(tls)?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    // New with each certificate: who resumes an older session is asked for a full handshake.
    config.ticketer = ring::Ticketer::new().map_err(tls)?;
    Ok((Arc::new(config), before))
}

/// What rustls says of the pair.
fn refused(cert: &Path, key: &Path, source: &RustlsError) -> String {
    let (cert, key) = (cert.display(), key.display());
    match source {
        RustlsError::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
            format!("the key in {key} does not belong to the certificate in {cert}")
        }
        RustlsError::InvalidCertificate(_) | RustlsError::NoCertificatesPresented => {
            format!("the certificate in {cert} is not valid: {source}")
        }
        _ => format!("cannot use the key in {key}: {source}; it must be RSA, ECDSA or Ed25519"),
    }
}

fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = read(path)?;
    let chain = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|error| incomplete(path, &error))?;
    if chain.is_empty() {
        return Err(format!("{} has no certificate; it must be PEM, the server's certificate first", path.display()));
    }
    Ok(chain)
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_slice(&read(path)?).map_err(|error| match error {
        pem::Error::NoItemsFound => {
            format!("{} has no private key; it must be PEM and not encrypted", path.display())
        }
        error => incomplete(path, &error),
    })
}

fn incomplete(path: &Path, error: &pem::Error) -> String {
    format!("{} is not complete PEM: {error}", path.display())
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    read_file(path, MAX_FILE).map_err(|error| format!("cannot read {}: {error}", path.display()))
}
