//! The manifest: it never names what is outside its directory, and a look at a version by it always ends with an answer.

use std::fs;
use std::path::{Component, Path};

use teleport_update::testing::Code;
use teleport_update::testing::manifest::{DifferenceKind, MANIFEST, Manifest};

use crate::config::with_file;
use crate::strings::assert_version;

/// Any bytes as `manifest.json`.
pub fn manifest(bytes: &[u8]) {
    with_file(MANIFEST, bytes, |file| {
        let manifest = match Manifest::read(file.parent().unwrap()) {
            Ok(manifest) => manifest,
            Err(error) => return assert_eq!(error.code, Code::Damaged, "{error}"),
        };
        assert_version(&manifest.version);
        let updater = manifest.updater.iter().map(|updater| &updater.path);
        for path in manifest.files.iter().map(|file| &file.path).chain(updater) {
            let is_inside = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
            assert!(is_inside && !path.is_empty() && !path.contains('\0'), "{path:?}");
        }
        let dir = crate::sandbox::dir();
        manifest.write(dir.path()).unwrap();
        assert_eq!(Manifest::read(dir.path()).as_ref(), Ok(&manifest));
        let differences = manifest.verify(dir.path()).unwrap();
        assert_eq!(differences.len(), manifest.files.len(), "{differences:?}");
        for (file, difference) in manifest.files.iter().zip(&differences) {
            let is_itself = file.path == MANIFEST;
            assert!(is_itself || (difference.kind == DifferenceKind::Missing && difference.path == file.path));
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    });
}
