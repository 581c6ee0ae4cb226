//! Who names the wanted version: the find question in both of its dialects (SPEC §3), channels, graphs, files (docs/sources.md).

mod calendar;
mod channel;
pub(crate) mod find;
mod fleet_reason;
pub(crate) mod fuzz;
mod graph;
pub(crate) mod proxy_addr;
mod release_file;
mod said;
pub(crate) mod source;
mod window;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

pub(crate) use channel::{ask as ask_channel, schedule};
pub(crate) use find::{Found, find, origin};
pub(crate) use fleet_reason::FleetReason;
pub(crate) use graph::{Choice, ask as ask_graph};
pub use proxy_addr::ProxyAddr;
pub(crate) use release_file::{ask as read_file, floor as file_floor};
pub(crate) use said::{Said, Way, Word};
pub(crate) use source::Source;
pub(crate) use window::Window;

/// What stands in a query as it is (RFC 3986, unreserved).
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// `text` for a query.
fn encoded(text: &str) -> String {
    utf8_percent_encode(text, PLAIN).to_string()
}
