//! Who names the wanted version: the find question in both of its dialects (SPEC §3), channels, graphs, files (docs/sources.md).

mod calendar;
mod channel;
mod find;
mod fleet_reason;
mod graph;
mod host_key;
mod proxy_addr;
mod release_file;
mod report;
mod said;
mod source;
mod timing;
mod window;

pub use channel::{ask as ask_channel, schedule};
pub use find::{Found, find, origin};
pub use fleet_reason::FleetReason;
pub use graph::{Choice, ask as ask_graph, choose};
pub use host_key::{HostKey, new_seed};
pub use proxy_addr::{DEFAULT_PORT, ProxyAddr};
pub use release_file::{floor as file_floor, word as file_word};
pub use report::{ReportVerdict, send_report};
pub use said::{Said, Way, Word};
pub use source::Source;
pub use timing::{Timing, timing};
pub use window::{Window, Zones};
