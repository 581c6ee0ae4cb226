//! `backup.yaml`: what is read is written equal, and only a snapshot that fits may be restored.

use std::fs;
use std::time::Duration;

use jiff::Timestamp;
use protocol::{Digest, Version};
use teleport_update::testing::database::{Backup, DESCRIPTION_FILE, Expect, SnapshotId, validity};

use crate::config::{assert_names_line, with_file};
use crate::strings::assert_version;

/// How old a snapshot may be here.
const MAX_AGE: Duration = Duration::from_secs(86_400);

/// Any bytes as `backup.yaml`.
pub fn backup_yaml(bytes: &[u8]) {
    with_file(DESCRIPTION_FILE, bytes, |file| {
        let backup = match Backup::read(file.parent().unwrap()) {
            Ok(backup) => backup.expect("the file is there"),
            Err(error) => return assert_names_line(&error, bytes, DESCRIPTION_FILE),
        };
        assert_version(&backup.version);
        assert_round_trip(&backup);
        assert_validity(&backup);
    });
}

fn assert_round_trip(backup: &Backup) {
    let dir = crate::sandbox::dir();
    let file = dir.path().join(DESCRIPTION_FILE);
    fs::write(&file, backup.render()).unwrap();
    let read = Backup::read(dir.path()).unwrap_or_else(|error| panic!("{error}\n{}", backup.render())).unwrap();
    // Whole seconds stand in the file.
    assert_eq!(read.creation_time.as_second(), backup.creation_time.as_second());
    assert_eq!(read, Backup { creation_time: read.creation_time, ..backup.clone() });
    assert_eq!(read.render(), backup.render());
}

/// The rules of SPEC §6 "Valid", stated a second time.
fn assert_validity(backup: &Backup) {
    let other: Version = "99.9.9".parse().unwrap();
    let now = backup.creation_time;
    let expect = Expect {
        version: &backup.version,
        edition: backup.edition,
        proxy: Some(&backup.proxy),
        now,
        max_age: MAX_AGE,
        host: backup.host.as_deref(),
        trusted: None,
    };
    let is_valid = |expect: &Expect<'_>| validity(backup, expect).is_ok();
    assert_eq!(is_valid(&expect), !backup.failed);
    assert!(backup.version == other || !is_valid(&Expect { version: &other, ..expect.clone() }));
    assert!(!is_valid(&Expect { proxy: Some("another.example.org:1"), ..expect.clone() }) || backup.failed);
    for (seconds, fits) in [(-3600, false), (0, true), (86_399, true), (86_401, false), (1 << 33, false)] {
        let Ok(now) = Timestamp::from_second(now.as_second().saturating_add(seconds)) else { continue };
        assert!(fits || !is_valid(&Expect { now, ..expect.clone() }), "{seconds} s after it was taken");
    }
    for now in [Timestamp::MIN, Timestamp::MAX] {
        is_valid(&Expect { now, max_age: Duration::MAX, ..expect.clone() });
    }
    // This run's own snapshot: its digest alone counts.
    let other_host = Expect { version: &other, proxy: None, now: Timestamp::MIN, ..expect };
    assert!(!is_valid(&Expect { trusted: Some(SnapshotId::Sha256(Digest([1; 32]))), ..other_host.clone() }));
    if let Some(id) = backup.id() {
        assert!(is_valid(&Expect { trusted: Some(id), ..other_host }));
    }
}
