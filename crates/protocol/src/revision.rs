//! Revisions and the names of their archives.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Arch, Edition, Version};

/// One installable thing: a version in an edition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Revision {
    /// The version.
    pub version: Version,
    /// The edition.
    pub edition: Edition,
}

impl Revision {
    /// The archive's file name (SPEC §4).
    pub fn archive_name(&self, arch: Arch) -> String {
        let ent = if self.edition == Edition::Oss { "" } else { "-ent" };
        let fips = if self.edition == Edition::EnterpriseFips { "-fips" } else { "" };
        format!("teleport{ent}-v{}-linux-{}{fips}-bin.tar.gz", self.version, arch.as_str())
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.version, self.edition)
    }
}
