//! The power-cut bed itself: a real file system loses what was not synced there, and nothing else.

use std::fs::File;
use std::path::Path;

use testing::crash::Found;
use testing::crash::power::{Kind, Recording, Volume, cannot, in_own_mounts};

/// What a file is replaced with; more than a block, so that parts of it can be missing.
const NEW: &[u8] = &[b'n'; 9000];
const OLD: &[u8] = b"old";

#[test]
fn a_file_that_is_synced_and_renamed_and_its_name_synced_is_old_or_new_at_every_cut() {
    for kind in [Kind::Ext4, Kind::Ext4Writeback, Kind::Xfs] {
        let found = replaced(kind, |root| {
            write_synced(&root.join("temp"), NEW);
            std::fs::rename(root.join("temp"), root.join("file")).unwrap();
            sync(root);
        });
        let Some(found) = found else { continue };
        assert!(found.iter().all(|cut| cut.is_whole), "{kind:?}: {found:?}");
        assert!(found.iter().all(|cut| cut.is_new || !cut.is_promised), "{kind:?}: {found:?}");
        assert!(found.iter().any(|cut| !cut.is_new), "{kind:?}: {found:?}");
        assert!(found.iter().any(|cut| cut.is_promised), "{kind:?}: {found:?}");
    }
}

#[test]
fn a_name_that_is_not_synced_is_lost_at_some_cut() {
    for kind in [Kind::Ext4, Kind::Xfs] {
        let found = replaced(kind, |root| {
            write_synced(&root.join("temp"), NEW);
            std::fs::rename(root.join("temp"), root.join("file")).unwrap();
        });
        let Some(found) = found else { continue };
        assert!(found.iter().any(|cut| cut.is_promised && !cut.is_new), "{kind:?}: {found:?}");
    }
}

#[test]
fn contents_that_are_not_synced_are_lost_at_some_cut() {
    // Under its final name at once: ext4 writes out what is renamed over something, if it is not told otherwise.
    for kind in [Kind::Ext4, Kind::Ext4Writeback, Kind::Xfs] {
        let found = replaced(kind, |root| {
            std::fs::remove_file(root.join("file")).unwrap();
            std::fs::write(root.join("file"), NEW).unwrap();
            sync(root);
        });
        let Some(found) = found else { continue };
        assert!(found.iter().any(|cut| cut.is_promised && !cut.is_whole), "{kind:?}: {found:?}");
    }
}

/// What a file was after a cut.
#[derive(Debug)]
struct Cut {
    is_promised: bool,
    is_whole: bool,
    is_new: bool,
}

/// The file at each cut of `replace`, which replaces it; `None` where there can be no cuts.
fn replaced(kind: Kind, replace: impl Fn(&Path) + Sync) -> Option<Vec<Cut>> {
    if let Some(reason) = cannot(kind) {
        eprintln!("skipped: power cuts on {}: {reason}", kind.name());
        return None;
    }
    in_own_mounts(|| {
        let volume = Volume::mount(kind, kind.make().unwrap()).unwrap();
        std::fs::create_dir(volume.root()).unwrap();
        std::fs::write(volume.root().join("file"), OLD).unwrap();
        let before = volume.unmount().unwrap();
        let run = |root: &Path| {
            replace(root);
            Ok(())
        };
        let recording = Recording::of(kind, before, None, run, |_| Ok(Found::New)).unwrap();
        let cuts = recording.cuts(1).into_iter().map(|cut| {
            let volume = Volume::mount(kind, recording.image(&cut)).unwrap();
            let file = std::fs::read(volume.root().join("file")).unwrap_or_default();
            let is_new = file == NEW;
            Cut { is_promised: cut.promised.is_some(), is_whole: is_new || file == OLD, is_new }
        });
        Some(cuts.collect())
    })
}

fn write_synced(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).unwrap();
    sync(path);
}

fn sync(path: &Path) {
    File::open(path).unwrap().sync_all().unwrap();
}
