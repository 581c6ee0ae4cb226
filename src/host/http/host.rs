//! The host that a URL names.

use ureq::http::Uri;
use ureq::http::uri::Authority;

/// Whether `url` names a host, and a port that can be one: for the library another one is none, and the default is asked. Also without its user name and password, which are kept elsewhere. The library counts brackets in
/// the whole authority: `https://[@1]` is a URL for it, and `https://1]` is none.
pub(crate) fn has_host(url: &Uri) -> bool {
    let authority = url.authority().map_or("", Authority::as_str);
    let bare = authority.rsplit_once('@').map_or(authority, |(_, bare)| bare);
    bare.parse::<Authority>().is_ok_and(|bare| {
        let port = bare.as_str().strip_prefix(bare.host()).unwrap_or_default().trim_start_matches(':');
        !bare.host().is_empty() && (port.is_empty() || port.parse::<u16>().is_ok_and(|port| port > 0))
    })
}
