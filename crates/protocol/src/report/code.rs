//! Codes of the errors that hosts report ([`super::Change::code`]): those of the updater, which never change their meaning.

/// The new version did not become healthy, and was rolled back.
pub const UNHEALTHY: &str = "unhealthy";

/// All of them. A newer updater may report others.
pub const ALL: [&str; 43] = [
    "usage",
    "config_invalid",
    "proxy_missing",
    "proxy_conflict",
    "network",
    "cluster_answer",
    "edition_unknown",
    "archive_missing",
    "checksum_mismatch",
    "checksum_invalid",
    "signature_invalid",
    "archive_invalid",
    "archive_hostile",
    "download_stalled",
    "version_mismatch",
    "wrong_architecture",
    "no_space",
    "permission",
    "read_only",
    "lock_held",
    "overtaken",
    "journal_unknown",
    "recovery_failed",
    "backup_missing",
    "backup_expired",
    "backup_invalid",
    "database_busy",
    "database_invalid",
    "agent_not_stopped",
    "other_data_dir",
    "service_failed",
    UNHEALTHY,
    "below_min_version",
    "lower_major",
    "schedule_stale",
    "version_invalid",
    "no_previous",
    "package_failed",
    "damaged",
    "path_taken",
    "newer_agent",
    "interrupted",
    "io",
];

/// What failed there is the way to the version and not the version itself: the host is tried again (FLEET §3).
pub const OF_THE_WAY: [&str; 4] = ["network", "download_stalled", "lock_held", "interrupted"];

/// Whether a code is one of [`OF_THE_WAY`].
pub fn is_of_the_way(code: &str) -> bool {
    OF_THE_WAY.contains(&code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_some_codes_is_said_of_codes_that_exist() {
        assert!(OF_THE_WAY.iter().chain([&UNHEALTHY]).all(|code| ALL.contains(code)));
    }
}
