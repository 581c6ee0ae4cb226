//! What tests and fuzzing judge of the private rooms, besides what the program does; nothing else uses it.

pub use crate::report::{Code, Error};

/// What stands in files.
pub mod config {
    pub use crate::config::credentials::{join, split};
    pub use crate::config::{AgentConfig, GoUpdater, LastResult, Outcome, Spec, Updates};
}

/// Backups of the agent's database.
pub mod database {
    pub use crate::database::backup::{Backup, Content, DESCRIPTION_FILE, Expect, validity};
    pub use crate::database::{Pace, SnapshotId, Subject, snapshot_online};
}

/// The run journal.
pub mod journal {
    pub use crate::execute::journal::{FORMAT, Journal, NAME, Opening, Record, is_open, parse, writer_of};
}

/// Plans as they are shown and written down.
pub mod plan {
    pub use crate::plan::{Plan, Step};
}

/// Archives and where they come from.
pub mod release {
    pub use crate::release::fuzz::{archive_path, link_target, place_of, unpack};
    pub use crate::release::{
        BaseUrl, Limits, PublicKey,
        tuf::{Look, Metadata},
    };
}

/// What a version on the disk consists of.
pub mod manifest {
    pub use crate::store::manifest::{DifferenceKind, FileEntry, MANIFEST, Manifest};
}
