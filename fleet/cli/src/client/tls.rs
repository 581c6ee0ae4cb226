//! TLS to a server elsewhere.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::failure::Failure;

/// Most bytes of a file of certificates: those of all authorities of the world have some 250,000.
const MAX_FILE: u64 = 4 << 20;

/// Trusts the system's certificate authorities, and those in `ca_file`.
///
/// # Errors
/// The file cannot be read or holds no certificate; or nothing is trusted at all.
pub(super) fn config(ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, Failure> {
    let mut roots = RootCertStore::empty();
    let system = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(system.certs);
    if let Some(file) = ca_file {
        let failed = |error: &dyn std::fmt::Display| {
            Failure::local(format!("cannot read certificates in {}", file.display()), error)
        };
        let text = fleet_listener::read_file(file, MAX_FILE).map_err(|error| failed(&error))?;
        let certificates =
            CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>().map_err(|error| failed(&error))?;
        if certificates.is_empty() {
            return Err(failed(&"there are none"));
        }
        for certificate in certificates {
            roots.add(certificate).map_err(|error| failed(&error))?;
        }
    }
    if roots.is_empty() {
        let message = "no certificate authority is trusted: install ca-certificates, or give --ca-file";
        return Err(Failure::new(Failure::LOCAL, message));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = versions.map_err(|error| Failure::local("cannot set up TLS", error))?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}
