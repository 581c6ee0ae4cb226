//! Why a certificate and its key cannot be used.

use std::path::{Path, PathBuf};
use std::{fmt, io};

use rustls::pki_types::pem;
use rustls::{Error as RustlsError, InconsistentKeys};

/// Why a certificate and its key cannot be used. Each is one line that names the file.
#[derive(Debug)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    Read(PathBuf, io::Error),
    /// A file is not PEM, or is cut off.
    Pem(PathBuf, pem::Error),
    /// A file has no certificate.
    NoCertificate(PathBuf),
    /// A file has no private key that is not encrypted.
    NoKey(PathBuf),
    /// The certificate is none.
    BadCertificate(PathBuf, RustlsError),
    /// The key is none, or of a kind that is not supported.
    BadKey(PathBuf, RustlsError),
    /// The certificate, and a key that belongs to another one.
    Mismatch(PathBuf, PathBuf),
    /// Certificate and key, which were written while they were read.
    Changed(PathBuf, PathBuf),
}

impl TlsError {
    /// What rustls says of the pair.
    pub(super) fn refused(cert: &Path, key: &Path, source: RustlsError) -> Self {
        match source {
            RustlsError::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                Self::Mismatch(cert.to_owned(), key.to_owned())
            }
            RustlsError::InvalidCertificate(_) | RustlsError::NoCertificatesPresented => {
                Self::BadCertificate(cert.to_owned(), source)
            }
            source => Self::BadKey(key.to_owned(), source),
        }
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(file, source) => write!(f, "cannot read {}: {source}", file.display()),
            Self::Pem(file, source) => write!(f, "{} is not complete PEM: {source}", file.display()),
            Self::NoCertificate(file) => {
                write!(f, "{} has no certificate; it must be PEM, the server's certificate first", file.display())
            }
            Self::NoKey(file) => {
                write!(f, "{} has no private key; it must be PEM and not encrypted", file.display())
            }
            Self::BadCertificate(file, source) => {
                write!(f, "the certificate in {} is not valid: {source}", file.display())
            }
            Self::BadKey(file, source) => {
                write!(f, "cannot use the key in {}: {source}; it must be RSA, ECDSA or Ed25519", file.display())
            }
            Self::Mismatch(cert, key) => {
                write!(f, "the key in {} does not belong to the certificate in {}", key.display(), cert.display())
            }
            Self::Changed(cert, key) => {
                write!(f, "{} or {} was written while it was read; try again", cert.display(), key.display())
            }
        }
    }
}

impl std::error::Error for TlsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read(_, source) => Some(source),
            Self::Pem(_, source) => Some(source),
            Self::BadCertificate(_, source) | Self::BadKey(_, source) => Some(source),
            Self::NoCertificate(_) | Self::NoKey(_) | Self::Mismatch(..) | Self::Changed(..) => None,
        }
    }
}
