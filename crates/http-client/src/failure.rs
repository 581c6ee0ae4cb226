//! What an error of the HTTP library means: for the operator, and for another try.

use error::{Code, Error};

use super::redact::{redact, shown};
use super::retry::Failure;
use super::trust;

/// A server that shows the authority's certificate as its own.
const OF_AUTHORITY: &str =
    "its certificate is that of an authority (CA:TRUE): the server needs one of its own, signed by it";

/// Of a request for `url`, sent `way` (by a proxy, or empty).
pub(super) fn of(error: ureq::Error, url: &str, way: &str) -> Failure {
    let told = Error::new(Code::Network, format!("cannot reach {}{way}: {}", shown(url), redact(&error.to_string())));
    let is_certificate = matches!(error, ureq::Error::Rustls(_) | ureq::Error::Tls(_)) || trust::is_refusal(&error);
    if is_certificate {
        // webpki's error has no name in rustls.
        let is_of_authority = told.what.contains("CaUsedAsEndEntity");
        let advice = if is_of_authority {
            OF_AUTHORITY
        } else {
            "check the system clock, or give the CA certificate with --ca-file FILE"
        };
        return Failure::lasting(told.advise(advice));
    }
    match error {
        ureq::Error::BadUri(_) | ureq::Error::Http(_) => Failure::lasting(Error { code: Code::Usage, ..told }),
        ureq::Error::ConnectProxyFailed(_) => Failure::passing(told.advise("check the HTTP proxy")),
        _ if is_lookup(&error) => Failure::passing(told.advise(
            "check the network and the name; this program uses only /etc/hosts and DNS, not /etc/nsswitch.conf: \
             other names must be added to /etc/hosts",
        )),
        _ => Failure::passing(told.advise("check the network and the address")),
    }
}

/// True if the name was not found: `resolve` has the words that std would have.
fn is_lookup(error: &ureq::Error) -> bool {
    match error {
        ureq::Error::HostNotFound => true,
        ureq::Error::Io(error) => {
            error.raw_os_error().is_none() && error.to_string().starts_with("failed to lookup address")
        }
        _ => false,
    }
}
