//! Parts of URLs.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, percent_encode, utf8_percent_encode};
use ureq::http::Uri;
use ureq::http::uri::Authority;

/// What stands in a query as it is (RFC 3986, unreserved).
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// What stands in the path of a URL as it is: also the slash.
const OF_PATH: &AsciiSet = &PLAIN.remove(b'/');

/// `text` for a query.
pub fn encoded(text: &str) -> String {
    utf8_percent_encode(text, PLAIN).to_string()
}

/// `path` as a URL has it.
pub fn in_url(path: &Path) -> PercentEncode<'_> {
    percent_encode(path.as_os_str().as_bytes(), OF_PATH)
}

/// Whether `url` names a host, and a port that can be one: for the library another one is none, and the default is asked. Also without its user name and password, which are kept elsewhere. The library counts brackets in
/// the whole authority: `https://[@1]` is a URL for it, and `https://1]` is none.
pub fn has_host(url: &Uri) -> bool {
    let authority = url.authority().map_or("", Authority::as_str);
    let bare = authority.rsplit_once('@').map_or(authority, |(_, bare)| bare);
    bare.parse::<Authority>().is_ok_and(|bare| {
        let port = bare.as_str().strip_prefix(bare.host()).unwrap_or_default().trim_start_matches(':');
        !bare.host().is_empty() && (port.is_empty() || port.parse::<u16>().is_ok_and(|port| port > 0))
    })
}
