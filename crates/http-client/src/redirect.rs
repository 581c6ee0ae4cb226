//! Where a server sends a request on to.

use error::{Code, Error, Result};
use ureq::http::Uri;

use super::redact::shown;

/// Most redirects followed (SPEC §3).
pub(super) const MAX_REDIRECTS: usize = 3;

/// Where the `Location` of an answer from `from`, asked as `url`, leads.
///
/// Errors: [`Code::Network`] for one that is no URL or leads away from https.
pub(super) fn target(from: &Uri, location: &str, url: &str) -> Result<Uri> {
    let next = join(from, location)
        .and_then(|next| next.parse::<Uri>().ok())
        .filter(|next| next.host().is_some())
        .ok_or_else(|| {
            let what = format!("{} sent a redirect without a valid Location", shown(url));
            Error::new(Code::Network, what)
        })?;
    if from.scheme_str() == Some("https") && next.scheme_str() != Some("https") {
        let (url, next) = (shown(url), shown(&next.to_string()));
        return Err(Error::new(Code::Network, format!("{url} redirects away from https, to {next}")));
    }
    Ok(next)
}

/// The refusal of a redirect beyond [`MAX_REDIRECTS`] of `url`.
pub(super) fn too_many(url: &str) -> Error {
    Error::new(Code::Network, format!("{} redirects more than {MAX_REDIRECTS} times", shown(url)))
}

/// Whether both are of one server.
pub(super) fn same_origin(a: &Uri, b: &Uri) -> bool {
    let port = |uri: &Uri| uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
    a.scheme() == b.scheme()
        && a.host().is_some_and(|host| b.host().is_some_and(|other| host.eq_ignore_ascii_case(other)))
        && port(a) == port(b)
}

/// A `Location`, absolute or relative to `base`, as a whole URL.
fn join(base: &Uri, location: &str) -> Option<String> {
    let location = location.split('#').next()?.trim();
    let (scheme, authority) = (base.scheme_str()?, base.authority()?);
    if location.contains("://") && !location.starts_with(['/', '?']) {
        Some(location.to_owned())
    } else if let Some(rest) = location.strip_prefix("//") {
        Some(format!("{scheme}://{rest}"))
    } else if location.starts_with('/') {
        Some(format!("{scheme}://{authority}{location}"))
    } else {
        let folder = base.path().rsplit_once('/').map_or("", |(folder, _)| folder);
        Some(format!("{scheme}://{authority}{folder}/{location}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_may_be_absolute_or_relative() {
        let base: Uri = "https://h:8443/a/b?c".parse().unwrap();
        for (location, expected) in [
            ("https://o/x", "https://o/x"),
            ("//o/x", "https://o/x"),
            ("/x?q=http://y", "https://h:8443/x?q=http://y"),
            ("x", "https://h:8443/a/x"),
        ] {
            assert_eq!(join(&base, location).unwrap(), expected);
        }
    }
}
