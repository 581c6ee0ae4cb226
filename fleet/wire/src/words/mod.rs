//! Why a group or a host waits, and what would change it, as sentences: the command line and the pages say the same.
//!
//! Pure: values of the API in, text out.

pub mod effects;
pub mod fleet;
pub mod holds;
pub mod host;
pub mod planned;
pub mod record;
pub mod reported;
pub mod written;
