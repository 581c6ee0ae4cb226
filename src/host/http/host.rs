//! The host that a URL names.

use ureq::http::Uri;

/// Whether `url` names a host. The library counts brackets in the whole authority, also those of a password: `https://[@1]` is
/// refused by it once the password is kept elsewhere.
pub(crate) fn has_host(url: &Uri) -> bool {
    let host = url.host().unwrap_or_default();
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    !bare.is_empty() && !bare.contains(['[', ']'])
}
