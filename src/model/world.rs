//! What host and reference share: the releases that exist, and what a database holds. No rule of the program.

use std::collections::BTreeSet;

use protocol::{Edition, Revision};

/// Every version, the oldest first, with its database schema.
pub(super) const VERSIONS: [(&str, u32); 5] =
    [("1.0.0", 1), ("2.0.0-rc.1", 2), ("2.0.0", 2), ("2.1.0", 3), ("10.0.0", 4)];

/// The clusters that a host may be told to belong to.
pub(super) const PROXIES: [&str; 2] = ["a.example.com:443", "b.example.com:443"];

/// A day, seconds.
pub(super) const DAY: i64 = 86_400;

/// A revision by its place in [`VERSIONS`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rev {
    /// The place.
    pub at: usize,
    /// The enterprise edition, else the open-source one.
    pub enterprise: bool,
}

impl Rev {
    /// As the program names it.
    pub(super) fn revision(self) -> Revision {
        let edition = if self.enterprise { Edition::Enterprise } else { Edition::Oss };
        Revision { version: VERSIONS[self.at].0.parse().unwrap(), edition }
    }

    /// From the program's name.
    pub(super) fn of(revision: &Revision) -> Self {
        let text = revision.version.to_string();
        let at = VERSIONS.iter().position(|(version, _)| *version == text).expect("a known version");
        Self { at, enterprise: revision.edition == Edition::Enterprise }
    }

    /// The schema that its agent migrates to.
    pub(super) fn schema(self) -> u32 {
        VERSIONS[self.at].1
    }

    /// File names in `bin/`: some come and go between versions.
    pub(super) fn binaries(self) -> Vec<String> {
        let mut names = vec!["tctl", "teleport", "tsh"];
        if self.at != 2 {
            names.push("tbot");
        }
        if self.at == 4 {
            names.push("fdpass-teleport");
        }
        if self.at != 0 {
            // 2.1.0 carries another program of that name.
            names.push("teleport-update");
        }
        names.sort_unstable();
        names.into_iter().map(str::to_owned).collect()
    }

    /// Whether its updater speaks our protocol.
    pub(super) fn has_updater(self) -> bool {
        ![0, 3].contains(&self.at)
    }
}

/// How a release's agent behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nature {
    /// It runs.
    Healthy,
    /// It ends at once.
    Dies,
    /// It migrates the database and ends.
    MigratesAndDies,
    /// It becomes healthy and fails while it is watched.
    Falls,
}

/// What a database holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Database {
    /// Its schema.
    pub schema: u32,
    /// Acknowledged rows.
    pub rows: BTreeSet<u32>,
}
