//! The dashboard, as a browser without a script meets it.

mod act;
mod directives;
mod look;
mod sessions;

use tempfile::TempDir;

use crate::support::{PAGES, Server, rolling};

/// Two groups, of which none has started.
fn started() -> (TempDir, Server) {
    rolling(&["dev", "prod"])
}

pub(crate) fn token(server: &Server, role: &str) -> String {
    server.token(role, role)
}
