//! Whose certificates are believed: the system's authorities and the operator's. And what TLS is made of.

use std::sync::Arc;

use error::{Code, Error, Result};
use p256::pkcs8::der::pem::{LineEnding, encode_string};
use rustls::crypto::{self, CryptoProvider, KeyProvider};
use rustls::pki_types::PrivateKeyDer;
use rustls::sign::SigningKey;
use rustls_native_certs::{load_certs_from_paths, load_native_certs};
use ureq::tls::{Certificate, PemItem};

use super::HttpSettings;

/// Where the system's roots are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Places {
    /// The file that has them all, where there is one.
    Bundle,
    /// Also the directories with a file for each: some hundred files, nearly always the same certificates again.
    Everywhere,
}

/// The system's roots, or those that the environment names instead. Certificates that cannot be read are left out, as in
/// other programs: one bad file must not stop all updates.
pub(super) fn system_roots(settings: &HttpSettings, places: Places) -> Vec<Certificate<'static>> {
    let mut found = Vec::new();
    if are_systems(settings) {
        if places == Places::Bundle
            && let Some(bundle) = openssl_probe::probe().cert_file
        {
            found = load_certs_from_paths(Some(&bundle), None).certs;
        }
        if found.is_empty() {
            found = load_native_certs().certs;
        }
    }
    if let Some(file) = &settings.cert_file {
        found.extend(load_certs_from_paths(Some(file), None).certs);
    }
    for dir in &settings.cert_dirs {
        found.extend(load_certs_from_paths(None, Some(dir)).certs);
    }
    found.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect()
}

/// Whether the roots are the system's. Its directories may then know more than its bundle: an authority that was put there
/// by hand, and that other programs believe.
pub(super) fn are_systems(settings: &HttpSettings) -> bool {
    settings.cert_file.is_none() && settings.cert_dirs.is_empty()
}

/// The certificates in `pem`. Errors: [`Code::ConfigInvalid`] if there is none.
pub fn certificates(pem: &str) -> Result<Vec<Certificate<'static>>> {
    let invalid = || {
        Error::new(Code::ConfigInvalid, "no PEM certificate is in it")
            .advise("give --ca-file a file with -----BEGIN CERTIFICATE----- blocks")
    };
    let mut found = Vec::new();
    for item in ureq::tls::parse_pem(pem.as_bytes()) {
        if let PemItem::Certificate(certificate) = item.map_err(|_| invalid())? {
            found.push(certificate);
        }
    }
    if found.is_empty() { Err(invalid()) } else { Ok(found) }
}

/// The certificates in `pem`, each once, as PEM. Of what else is in such a file nothing is kept: mostly it is a private key.
///
/// Errors: as [`certificates`].
pub fn only_certificates(pem: &str) -> Result<String> {
    let mut all = String::new();
    for certificate in certificates(pem)? {
        let block = encode_string("CERTIFICATE", LineEnding::LF, certificate.der()).unwrap_or_default();
        if !all.contains(&block) {
            all += &block;
        }
    }
    Ok(all)
}

/// Whether it is the server's certificate that `error` is about.
pub(super) fn is_refusal(error: &ureq::Error) -> bool {
    let error = match error {
        ureq::Error::Rustls(error) => Some(error),
        ureq::Error::Io(error) => error.get_ref().and_then(|inner| inner.downcast_ref()),
        _ => None,
    };
    matches!(error, Some(rustls::Error::InvalidCertificate(_)))
}

/// ring's TLS without what signs: we show servers no certificate of our own, and what cannot be called is not linked.
pub(super) fn provider() -> CryptoProvider {
    CryptoProvider { key_provider: &NoKeys, ..crypto::ring::default_provider() }
}

#[derive(Debug)]
struct NoKeys;

impl KeyProvider for NoKeys {
    fn load_private_key(&self, _: PrivateKeyDer<'static>) -> std::result::Result<Arc<dyn SigningKey>, rustls::Error> {
        Err(rustls::Error::General("no client certificates".into()))
    }
}
