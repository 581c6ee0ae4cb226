//! Manifests and markers written, spoiled and read again, and versions held against them.

use super::*;
use std::os::unix::fs::PermissionsExt as _;

fn entry(path: &str, content: &[u8], mode: u32) -> FileEntry {
    FileEntry { path: path.into(), size: content.len() as u64, mode, sha256: Digest::of(content) }
}

fn version() -> (tempfile::TempDir, Manifest) {
    let dir = tempfile::tempdir().unwrap();
    durable::create_dir_all(&dir.path().join("bin")).unwrap();
    let files: Vec<_> = ["bin/teleport", "bin/tsh", "bin/tctl"]
        .into_iter()
        .map(|path| {
            durable::write(&dir.path().join(path), path.as_bytes(), 0o755).unwrap();
            entry(path, path.as_bytes(), 0o755)
        })
        .collect();
    let manifest = Manifest::new(
        "15.1.1".parse().unwrap(),
        Edition::Oss,
        Arch::Amd64,
        Digest::of(b"a"),
        "https://cdn.teleport.dev/x".into(),
        Timestamp::UNIX_EPOCH,
        files,
    );
    manifest.write(dir.path()).unwrap();
    write_marker(dir.path(), manifest.archive_sha256).unwrap();
    (dir, manifest)
}

#[test]
fn a_manifest_is_read_as_written_and_unknown_keys_are_tolerated() {
    let (dir, mut manifest) = version();
    manifest.updater = Some(UpdaterInfo { path: "bin/teleport-update".into(), protocol: "rfd0169/1".into() });
    manifest.write(dir.path()).unwrap();
    assert_eq!(Manifest::read(dir.path()).unwrap(), manifest);
    let path = dir.path().join(MANIFEST);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("\"mode\": \"0755\""), "{text}");
    durable::write(&path, text.replacen('{', "{\"later\": {\"a\": 1},", 1).as_bytes(), 0o644).unwrap();
    assert_eq!(Manifest::read(dir.path()).unwrap(), manifest);
    for bad in [text.replace("\"format\": 1", "\"format\": 2"), text.replace("bin/tsh", "../tsh"), "{".into()] {
        durable::write(&path, bad.as_bytes(), 0o644).unwrap();
        assert_eq!(Manifest::read(dir.path()).unwrap_err().code, Code::Damaged);
    }
}

#[test]
fn a_manifest_that_names_what_is_outside_or_no_file_at_all_is_damaged() {
    let (dir, mut manifest) = version();
    for bad in ["../x", "/etc/passwd", "bin/../../x", "bin//x", ".", "", "bin/x\0y"] {
        manifest.files[0].path = bad.into();
        manifest.write(dir.path()).unwrap();
        assert_eq!(Manifest::read(dir.path()).unwrap_err().code, Code::Damaged, "{bad:?}");
    }
}

#[test]
fn an_intact_version_differs_in_nothing_and_its_snapshots_do_not_count() {
    let (dir, manifest) = version();
    for extra in ["backup", ".backup-new"] {
        durable::create_dir_all(&dir.path().join(extra)).unwrap();
        durable::write(&dir.path().join(extra).join("sqlite.db"), b"x", 0o600).unwrap();
    }
    assert_eq!(manifest.verify(dir.path()).unwrap(), []);
    assert_eq!(manifest.quick_check(dir.path()).unwrap(), []);
}

#[test]
fn every_kind_of_difference_is_found() {
    let (dir, mut manifest) = version();
    let at = |path: &str| dir.path().join(path);
    durable::write(&at("bin/teleport"), b"BIN/teleport", 0o755).unwrap();
    durable::write(&at("bin/tsh"), b"bin", 0o755).unwrap();
    std::fs::set_permissions(at("bin/tctl"), std::fs::Permissions::from_mode(0o4755)).unwrap();
    durable::symlink(Path::new("teleport"), &at("bin/link")).unwrap();
    manifest.files.push(entry("bin/link", b"", 0o755));
    manifest.files.push(entry("bin/gone", b"", 0o755));
    durable::write(&at("bin/extra"), b"", 0o755).unwrap();
    let mut found: Vec<_> = manifest.verify(dir.path()).unwrap().iter().map(ToString::to_string).collect();
    found.sort();
    assert_eq!(
        found,
        [
            "bin/extra is not part of this version",
            "bin/gone is missing",
            "bin/link is not a regular file",
            "bin/tctl has mode 4755, expected 0755",
            "bin/teleport has different content",
            "bin/tsh has 3 bytes, expected 7",
        ]
    );
    let quick: Vec<_> = manifest.quick_check(dir.path()).unwrap().into_iter().map(|found| found.path).collect();
    assert_eq!(quick, ["bin/tsh", "bin/tctl", "bin/link", "bin/gone"]);
}

#[test]
fn a_file_that_cannot_be_looked_at_is_an_error_and_not_missing() {
    let (dir, manifest) = version();
    durable::remove_tree(&dir.path().join("bin")).unwrap();
    let missing = |found: &[Difference]| found.iter().all(|found| found.kind == DifferenceKind::Missing);
    assert!(missing(&manifest.quick_check(dir.path()).unwrap()));
    durable::write(&dir.path().join("bin"), b"", 0o644).unwrap();
    assert!(missing(&manifest.quick_check(dir.path()).unwrap()));
    durable::symlink(Path::new("bin"), &dir.path().join("bin")).unwrap();
    assert_eq!(manifest.quick_check(dir.path()).unwrap_err().code, Code::Io);
}

#[test]
fn a_marker_is_64_hex_digits_and_a_line_end() {
    let (dir, manifest) = version();
    assert_eq!(read_marker(dir.path()).unwrap(), Some(manifest.archive_sha256));
    assert_eq!(std::fs::read(dir.path().join(MARKER)).unwrap().len(), 65);
    durable::write(&dir.path().join(MARKER), b"", 0o644).unwrap();
    assert_eq!(read_marker(dir.path()).unwrap_err().code, Code::Damaged);
    durable::remove_file(&dir.path().join(MARKER)).unwrap();
    assert_eq!(read_marker(dir.path()).unwrap(), None);
}

fn chmod(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_file_is_the_manifests_with_its_content_and_mode_alone() {
    let (dir, manifest) = version();
    let path = dir.path().join("bin/teleport");
    let file = &manifest.files[0];
    assert!(file.is_at(&path));
    for mode in [0o644, 0o757, 0o4755] {
        chmod(&path, mode);
        assert!(!file.is_at(&path), "{mode:o}");
        // Nor as one that its archive itself opens to all.
        assert_eq!(FileEntry { mode, ..file.clone() }.is_at(&path), mode & 0o002 == 0, "{mode:o}");
    }
    durable::write(&path, b"BIN/teleport", 0o755).unwrap();
    assert!(!file.is_at(&path));
    durable::write(&path, b"bin", 0o755).unwrap();
    assert!(!file.is_at(&path));
    durable::symlink(Path::new("tsh"), &path).unwrap();
    assert!(!manifest.files[1].is_at(&path));
}

#[test]
fn a_directory_called_like_another_version_has_no_manifest_of_its_own() {
    let (dir, manifest) = version();
    for (name, is_its_own) in [
        ("15.1.1", true),
        ("15.1.1_oss", true),
        ("15.1.1_ent", false),
        ("15.1.2", false),
        ("15.1.2_oss", false),
        // What is called like no version, such as a directory that is being filled.
        (".new-15.1.2", true),
    ] {
        let copy = dir.path().join(name);
        durable::create_dir_all(&copy).unwrap();
        manifest.write(&copy).unwrap();
        let found = Manifest::read(&copy).map_err(|error| error.code);
        assert_eq!(found.is_ok(), is_its_own, "{name}: {found:?}");
        assert!(is_its_own || found == Err(Code::Damaged), "{name}: {found:?}");
    }
}

#[test]
fn a_version_is_open_where_others_may_write_to_any_part_of_it_but_its_snapshots() {
    let (dir, manifest) = version();
    durable::create_dir_all(&dir.path().join("backup/deep")).unwrap();
    durable::create_dir_all(&dir.path().join("bin/backup")).unwrap();
    durable::symlink(Path::new("/tmp"), &dir.path().join("bin/link")).unwrap();
    chmod(&dir.path().join("backup"), 0o777);
    chmod(&dir.path().join("backup/deep"), 0o777);
    assert!(!is_open(dir.path()));
    for (part, mode) in [("", 0o777), ("bin", 0o757), ("bin/tsh", 0o777), ("bin/backup", 0o777), (MARKER, 0o666)] {
        let path = dir.path().join(part);
        let before = std::fs::symlink_metadata(&path).unwrap().mode();
        chmod(&path, mode);
        assert!(is_open(dir.path()), "{part:?}");
        if ["", "bin"].contains(&part) {
            let told: Vec<_> = manifest.verify(dir.path()).unwrap().iter().map(ToString::to_string).collect();
            let part = if part.is_empty() { "." } else { part };
            assert!(
                told.iter().any(|told| told.starts_with(&format!("{part} can be changed by users other than root"))
                    && told.ends_with(&format!("mode {mode:04o})"))),
                "{told:?}"
            );
        }
        chmod(&path, before);
    }
    assert!(!is_open(dir.path()));
    assert!(!is_open(&dir.path().join("nowhere")), "what is not there is nobody's");
}

#[test]
fn a_foreign_directory_is_named_once_and_what_is_in_one_of_the_versions_by_its_names() {
    let (dir, manifest) = version();
    for folder in ["theirs", "ours", "bin/ours"] {
        durable::create_dir_all(&dir.path().join(folder)).unwrap();
        for name in ["a", "b"] {
            durable::write(&dir.path().join(folder).join(name), b"", 0o644).unwrap();
        }
    }
    chmod(&dir.path().join("theirs"), 0o777);
    chmod(&dir.path().join("bin"), 0o777);
    let unexpected: BTreeSet<String> = manifest
        .verify(dir.path())
        .unwrap()
        .into_iter()
        .filter(|found| found.kind == DifferenceKind::Unexpected)
        .map(|found| found.path)
        .collect();
    assert_eq!(unexpected, ["bin/ours/a", "bin/ours/b", "ours/a", "ours/b", "theirs"].map(str::to_owned).into());
}

#[test]
fn a_record_that_is_no_file_or_too_large_or_others_is_damaged() {
    type Spoil = fn(&Path);
    let spoil: [(Spoil, &str); 3] = [
        (|path| durable::write(path, &vec![b' '; 4097], 0o644).unwrap(), "larger"),
        (
            |path| {
                durable::remove_file(path).unwrap();
                durable::create_dir_all(path).unwrap();
            },
            "not a regular file",
        ),
        (|path| chmod(path, 0o666), "mode 0666)"),
    ];
    for (spoil, what) in spoil {
        let (dir, _) = version();
        let path = dir.path().join(MARKER);
        spoil(&path);
        let error = read_marker(dir.path()).unwrap_err();
        assert_eq!(error.code, Code::Damaged, "{error}");
        assert!(error.to_string().contains(what), "{error}");
    }
    // One of the largest size is read.
    let (dir, manifest) = version();
    let mut text = format!("{}", manifest.archive_sha256);
    text.extend(std::iter::repeat_n('0', 4096 - text.len()));
    durable::write(&dir.path().join(MARKER), text.as_bytes(), 0o644).unwrap();
    assert!(read_marker(dir.path()).unwrap_err().to_string().contains("does not contain a SHA-256 digest"));
}
