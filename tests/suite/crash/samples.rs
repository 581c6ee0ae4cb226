//! Files that the updater of 28 November 2026 (1.0.0, commit 3393b6c) left: formats on disk are promises.
//!
//! Each sample is an image whose run was killed before its commit: settings with a CA and a status record, two versions
//! with their manifests, a journal, a snapshot of the agent's database with its description. A sample is never made anew.

use std::path::Path;
use std::process::Command;

use crate::support::{Ran, updater_at};

/// The command whose run was killed, the version that was active before, and what the database was then: the snapshot of
/// this version, or the live file.
const SAMPLES: [(&str, &str, &str); 3] = [
    ("update", "1.0.0", "versions/1.0.0/backup/sqlite.db"),
    ("downgrade", "2.0.0", "versions/2.0.0/backup/sqlite.db"),
    ("uninstall", "2.0.0", "proc/sqlite.db"),
];

#[test]
fn what_an_earlier_updater_left_is_read_and_its_interrupted_run_is_undone() {
    for (name, active, database) in SAMPLES {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/suite/crash/samples/{name}.tar.gz"));
        let tar = Command::new("tar").arg("-xzf").arg(sample).arg("-C").arg(root).status().unwrap();
        assert!(tar.success(), "{name}");
        let data = root.join("var/lib/teleport");
        let settings = || {
            let text = std::fs::read_to_string(data.join("versions/updates.yaml")).unwrap();
            text.split_once("\nstatus:").unwrap().0.to_owned()
        };
        let (before, settings_before) = (std::fs::read(data.join(database)).unwrap(), settings());
        let run = |args: &[&str]| Ran::of(&updater_at(root).args(args).output().unwrap()).ok();

        run(&["recover"]);
        assert!(!data.join("versions/.journal").exists(), "{name}");
        run(&["verify"]);
        let status = run(&["status"]).json();
        assert_eq!(status["agent_version_installed"], active, "{name}: {status}");
        assert_eq!(status["last_result"]["error_code"], "interrupted", "{name}: {status}");
        assert_eq!(std::fs::read(data.join("proc/sqlite.db")).unwrap(), before, "{name}: the database");
        assert_eq!(settings(), settings_before, "{name}");
        let link = std::fs::read_link(root.join("usr/local/bin/teleport")).unwrap();
        assert_eq!(link, Path::new(&format!("/var/lib/teleport/versions/{active}/bin/teleport")), "{name}");
    }
}
