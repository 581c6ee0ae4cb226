//! The abstract host in the reference's words, to compare the two.

use std::path::Path;

use proptest::prelude::TestCaseError;

use super::host::{Host, LINK_DIR};
use super::reference::{Kept, Reference, Snap, Watched, Whole, wait};
use super::world::{Rev, VERSIONS};
use crate::execute::journal;

/// Errors: what differs, when.
pub(super) fn same(seen: &Reference, expected: &Reference, when: &str) -> Result<(), TestCaseError> {
    if seen == expected {
        return Ok(());
    }
    let lines = |state: &Reference| format!("{state:#?}").lines().map(str::to_owned).collect::<Vec<_>>();
    let (is, not) = (lines(seen), lines(expected));
    let lacks = |word: &str, these: &[String], those: &[String]| {
        let missing = these.iter().filter(|line| !those.contains(line));
        missing.map(|line| format!("  {word} {line}")).collect::<Vec<_>>()
    };
    let lines = [lacks("is", &is, &not), lacks("not", &not, &is)].concat();
    Err(TestCaseError::fail(format!("{when}:\n{}\nin {seen:?}\nand {expected:?}", lines.join("\n"))))
}

/// A run was interrupted.
pub(super) fn open_journal(host: &Host) -> bool {
    journal::is_open(&host.journal_dir)
}

/// A copy of the journal, to look at without a change.
pub(super) fn copy_of(host: &Host) -> tempfile::TempDir {
    let dir = tempfile::tempdir_in(host.journal_dir.parent().unwrap()).unwrap();
    if let Ok(bytes) = std::fs::read(host.journal_dir.join(journal::NAME)) {
        crate::host::durable::write(&dir.path().join(journal::NAME), &bytes, 0o644).unwrap();
    }
    dir
}

/// The host in the reference's words.
pub(super) fn seen(host: &Host) -> Reference {
    let (spec, status) = (host.updates.spec(), host.updates.status());
    let at = |version: &protocol::Version| {
        VERSIONS.iter().position(|(known, _)| *known == version.to_string()).expect("a known version")
    };
    let kept = host.versions.values().map(|version| {
        let snap = version.backup.as_ref().map(|kept| Snap {
            database: kept.database.clone(),
            time: kept.backup.creation_time.as_second(),
            // What a failed version left belongs to nobody.
            proxy: if kept.backup.failed { String::new() } else { kept.backup.proxy.clone() },
            failed: kept.backup.failed,
            good: kept.good,
            described: kept.described,
        });
        let whole = match (version.marker && version.sizes, version.bytes) {
            (false, _) => Whole::Visibly,
            (true, false) => Whole::Secretly,
            (true, true) => Whole::Yes,
        };
        (version.rev, Kept { whole, nature: version.nature, snap })
    });
    for refused in &status.refused {
        assert_eq!(
            refused.retry_at.as_second() - refused.time.as_second(),
            wait(refused.count),
            "a wait out of its bounds"
        );
    }
    Reference {
        now: host.now.as_second(),
        active: host.active(),
        previous: status.previous.as_ref().map(Rev::of),
        kept: kept.collect(),
        database: host.database.clone(),
        running: host.process.is_some(),
        starts_at_boot: host.enabled(),
        failed: host.failed,
        systemd: host.systemd,
        enabled: spec.enabled,
        pinned: spec.pinned.then(|| spec.pinned_version.as_ref().map(at)).flatten(),
        keep: spec.keep,
        floor: spec.min_version.as_ref().map(at),
        max_age: spec.backup_max_age.as_secs() as i64,
        proxy: spec.proxy.clone().unwrap_or_default(),
        refused: status
            .refused
            .iter()
            .map(|refused| (Rev::of(&refused.revision), (refused.time.as_second(), refused.count)))
            .collect(),
        interrupted: status.attempts.iter().map(|attempt| (Rev::of(&attempt.revision), attempt.count)).collect(),
        watched: status.watch.as_ref().map(|watch| Watched {
            rev: Rev::of(&watch.revision),
            previous: watch.previous.as_ref().map(Rev::of),
            until: watch.until.as_second(),
        }),
        links_lost: host.active().is_some()
            && ["tsh", "tctl"].iter().any(|name| !host.files.contains_key(&Path::new(LINK_DIR).join(name))),
        wanted: host.wanted,
        window: host.window,
        published: host.published.clone(),
        marks: Vec::new(),
    }
}
