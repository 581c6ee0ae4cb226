//! The dashboard, as a browser without a script meets it.

mod act;
mod look;
mod sessions;

use std::path::Path;

use crate::support::{PAGES, Server, groups, version};

/// Two groups, of which none has started.
fn started(dir: &Path) -> Server {
    let server = Server::start(dir);
    server.create(&format!("{}---\n{}", groups(&["dev", "prod"]), version("1.0.0", "1.1.0", "regular")));
    server
}

pub(crate) fn token(server: &Server, role: &str) -> String {
    let told = server.ok(&["tokens", "create", role, "--role", role]);
    told.split_whitespace().find(|word| word.starts_with("tfleet_")).unwrap().to_owned()
}
