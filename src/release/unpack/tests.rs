//! Each kind of entry, header and record of tar, at each kind of place: installed as it is meant, left out where the specification
//! says so, or refused by name.

use super::*;
use protocol::Digest;
use testing::cluster::tarball::{Tarball, gzip, header};

const PROGRAM: &[u8] = b"\x7fELF of tsh";
const AGENT: &[u8] = b"\x7fELF of the agent";

/// Where an entry may stand, and where a program there lands.
const PLACES: [(&str, Option<&str>); 4] = [
    ("teleport/tsh", Some("bin/tsh")),
    ("teleport/bin/tsh", Some("bin/tsh")),
    ("teleport/share/tsh", Some("share/tsh")),
    ("teleport/examples/tsh", None),
];

fn release() -> Tarball {
    Tarball::new().directory("teleport/").file("teleport/teleport", 0o755, AGENT)
}

fn unpacked(tar: &Tarball, components: Option<Vec<String>>) -> Result<Vec<FileEntry>> {
    let dir = tempfile::tempdir().unwrap();
    let rules = Rules { edition: Edition::Oss, components, limits: Limits::default() };
    let tree = Tree::create(&dir.path().join("new")).unwrap();
    let files = unpack(&tar.gzip()[..], tree, &rules)?;
    for file in &files {
        assert!(file.is_at(&dir.path().join("new").join(&file.path)), "{}", file.path);
    }
    Ok(files)
}

/// The archive is taken, and at `at` is a file of these bytes, or none.
#[track_caller]
fn lands(tar: &Tarball, at: Option<&str>, content: &[u8], what: &str) {
    let files = unpacked(tar, None).unwrap_or_else(|error| panic!("{what}: {error}"));
    let found: Vec<_> = files.iter().filter(|file| file.path != "bin/teleport").collect();
    match at {
        None => assert!(found.is_empty(), "{what}: {found:?}"),
        Some(at) => {
            let found: Vec<_> = found.iter().map(|file| (file.path.as_str(), file.mode, file.sha256)).collect();
            assert_eq!(found, [(at, 0o755, Digest::of(content))], "{what}");
        }
    }
}

/// The archive is refused, and the entry named.
#[track_caller]
fn refused(tar: &Tarball, name: &str, what: &str) {
    let error = unpacked(tar, None).expect_err(what);
    assert!(matches!(error.code, Code::ArchiveHostile | Code::ArchiveInvalid), "{what}: {error}");
    assert!(error.what.contains(&format!("{name:?}")), "{what}: {error}");
}

fn of_kind(path: &str, kind: u8, size: usize) -> Tarball {
    let mut header = header(path.as_bytes(), EntryType::new(kind), 0o755, size as u64);
    // What byte stands there, not what it is read as.
    header.as_old_mut().linkflag = [kind];
    header.set_cksum();
    Tarball::new().entry(&header, &PROGRAM[..size])
}

#[test]
fn every_type_at_every_place_is_installed_as_meant_or_refused_by_name() {
    for kind in 0..=u8::MAX {
        for (path, at) in PLACES {
            let tar = release().join(&of_kind(path, kind, PROGRAM.len()));
            let what = format!("type {:?} at {path}", char::from(kind));
            match kind {
                b'\0' | b'0' | b'7' => lands(&tar, at, PROGRAM, &what),
                // They speak of an entry that does not follow, or of none.
                b'L' | b'K' | b'x' => assert!(unpacked(&tar, None).is_err(), "{what}"),
                _ => refused(&tar, path, &what),
            }
            if b"LKxg0\x007".contains(&kind) {
                continue;
            }
            let tar = release().join(&of_kind(path, kind, 0));
            match kind {
                b'5' => lands(&tar, None, b"", &what),
                // Links without a target are among those.
                _ => refused(&tar, path, &what),
            }
        }
    }
}

#[test]
fn a_link_to_a_file_of_the_archive_is_that_file() {
    for (path, at) in PLACES {
        let up = "../".repeat(path.matches('/').count() - 1);
        let sure = release();
        for (what, tar) in [
            ("hard", sure.clone().hardlink(path, "teleport/teleport")),
            ("hard, dots", sure.clone().hardlink(path, "./teleport//teleport")),
            ("symbolic", sure.clone().symlink(path, format!("{up}teleport"))),
            ("symbolic, dots", sure.clone().symlink(path, format!("./{up}./teleport"))),
            ("before its target", {
                Tarball::new().symlink(path, format!("{up}teleport")).file("teleport/teleport", 0o755, AGENT)
            }),
            ("through another", {
                sure.clone()
                    .symlink(path, format!("{up}examples/other"))
                    .symlink("teleport/examples/other", "../teleport")
            }),
            ("a long target", {
                let long = format!("{up}{}teleport", "./".repeat(60));
                let header = header(b"././@LongLink", EntryType::GNULongLink, 0o644, long.len() as u64);
                sure.clone().entry(&header, long.as_bytes()).symlink(path, "short")
            }),
            ("a target of PAX", {
                sure.clone().pax(&[("linkpath", format!("{up}teleport").as_bytes())]).symlink(path, "short")
            }),
        ] {
            lands(&tar, at, AGENT, &format!("{what} at {path}"));
        }
    }
}

#[test]
fn the_agent_itself_may_be_a_link_and_keeps_the_mode_of_what_it_leads_to() {
    let tar = Tarball::new().symlink("teleport/teleport", "bin/tbot").file("teleport/bin/tbot", 0o4711, AGENT);
    let files = unpacked(&tar, None).unwrap();
    let found: Vec<_> = files.iter().map(|file| (file.path.as_str(), file.mode)).collect();
    assert_eq!(found, [("bin/tbot", 0o711), ("bin/teleport", 0o711)]);
}

#[test]
fn a_link_that_leads_to_no_installed_file_is_refused_unless_it_is_left_out_itself() {
    for (path, at) in PLACES {
        let up = "../".repeat(path.matches('/').count() - 1);
        for (what, tar) in [
            ("dangling", release().symlink(path, format!("{up}nobody"))),
            ("hard, dangling", release().hardlink(path, "teleport/nobody")),
            ("to a folder", release().directory("teleport/docs/").symlink(path, format!("{up}docs"))),
            ("to a file that is left out", {
                release().file("teleport/examples/x", 0o755, b"x").symlink(path, format!("{up}examples/x"))
            }),
            ("to itself", release().symlink(path, "tsh")),
            ("in a ring", release().symlink(path, format!("{up}b")).symlink("teleport/examples/b", format!("{up}tsh"))),
        ] {
            let what = format!("{what} at {path}");
            match at {
                None => lands(&tar, None, b"", &what),
                Some(_) => refused(&tar, path, &what),
            }
        }
    }
}

#[test]
fn a_selected_link_to_a_program_that_is_not_selected_is_refused_and_the_reverse_is_left_out() {
    let tar = release().file("teleport/tctl", 0o755, PROGRAM).symlink("teleport/tsh", "tctl");
    let error = unpacked(&tar, Some(vec!["tsh".to_owned()])).unwrap_err();
    assert!(error.what.contains("\"teleport/tsh\""), "{error}");
    let files = unpacked(&tar, Some(vec!["tctl".to_owned()])).unwrap();
    assert_eq!(files.len(), 2);
}

#[test]
fn each_limit_holds_and_links_do_not_multiply_what_an_archive_may_unpack_to() {
    let none = Limits::default;
    let data = |tar: Tarball, size| tar.file("teleport/examples/zeros", 0o644, &vec![0; size]);
    let folder = header(b"teleport/share/", EntryType::Directory, 0o755, 4 << 20);
    let agent = Tarball::new().file("teleport/teleport", 0o755, &[7; 4096]);
    let link = |tar: Tarball, number| tar.hardlink(format!("teleport/share/{number}"), "teleport/teleport");
    let linked = (0..3).fold(agent, link);
    let total = |max_total| Limits { max_total, ..none() };
    for (what, archive, limits, is_taken) in [
        ("an entry", data(release(), 4096).gzip(), Limits { max_entry: 4095, ..none() }, false),
        ("an entry of the limit", data(release(), 4096).gzip(), Limits { max_entry: 4096, ..none() }, true),
        ("all that is left out", data(release(), 1 << 20).gzip(), total(1 << 20), false),
        ("zeros after the end", gzip(&[release().tar(), vec![0; 1 << 20]].concat()), total(1 << 20), false),
        ("some zeros after the end", gzip(&[release().tar(), vec![0; 100_000]].concat()), none(), true),
        ("a file named as a folder", release().file("teleport/x/", 0o755, b"x").gzip(), none(), false),
        ("one entry more", release().gzip(), Limits { max_entries: 1, ..none() }, false),
        ("as many entries", release().gzip(), Limits { max_entries: 2, ..none() }, true),
        ("a long name", release().long_name(&vec![b'a'; 4 << 20]).file("x", 0o644, b"").gzip(), none(), false),
        ("a folder with content", release().entry(&folder, &vec![0; 4 << 20]).gzip(), none(), false),
        ("links", linked.gzip(), total(4 * 4096 - 1), false),
        ("links to the limit", linked.gzip(), total(4 * 4096), true),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let rules = Rules { edition: Edition::Oss, components: None, limits };
        let tree = Tree::create(&dir.path().join("new")).unwrap();
        let result = unpack(&archive[..], tree, &rules).map(|_| ()).map_err(|error| error.code);
        assert_eq!(result, if is_taken { Ok(()) } else { Err(Code::ArchiveHostile) }, "{what}");
    }
}

#[test]
fn records_that_change_nothing_are_ignored_and_all_others_refuse_what_they_speak_of() {
    const NOTHING: [&str; 7] = ["mtime", "atime", "comment", "uname", "gid", "SCHILY.ino", "RHT.security.selinux"];
    const SOMETHING: [&str; 14] = [
        "GNU.sparse.map",
        "GNU.sparse.major",
        "GNU.sparse.realsize",
        "GNU.sparse.name",
        "GNU.volume.label",
        "GNU.dumpdir",
        "SCHILY.xattr.security.capability",
        "SCHILY.xattr.user.x",
        "LIBARCHIVE.xattr.security.capability",
        "SCHILY.acl.access",
        "SCHILY.fflags",
        "SCHILY.realsize",
        "SUN.holesdata",
        "VENDOR.x",
    ];
    for (path, at) in PLACES {
        for key in NOTHING {
            let tar = release().pax(&[(key, b"1")]).file(path, 0o755, PROGRAM);
            lands(&tar, at, PROGRAM, key);
        }
        for key in SOMETHING {
            refused(&release().pax(&[(key, b"1")]).file(path, 0o755, PROGRAM), path, key);
            refused(&release().pax(&[(key, b"1")]).symlink(path, "teleport"), path, key);
            refused(&release().pax(&[("mtime", b"1"), (key, b"1")]).directory(path), path, key);
        }
    }
}

#[test]
fn records_for_all_entries_may_only_be_such_that_change_none() {
    let global = |record: &str| {
        let header = header(b"/tmp/pax_global_header", EntryType::XGlobalHeader, 0o644, record.len() as u64);
        Tarball::new().entry(&header, record.as_bytes()).join(&release().file("teleport/tsh", 0o755, PROGRAM))
    };
    lands(&global("52 comment=5c1b7a0e9d1f4c6a8e2b3d4f5a6b7c8d9e0f1a2b\n"), Some("bin/tsh"), PROGRAM, "git's comment");
    for record in
        ["10 path=x\n", "9 size=1\n", "14 linkpath=x\n", "18 GNU.sparse.x=1\n", "9 mtime=1\n", "\n", "9 uid=1\n\n", ""]
    {
        refused(&global(record), "/tmp/pax_global_header", record);
    }
}

#[test]
fn headers_that_programs_read_differently_refuse_the_entry() {
    let file = |tar: Tarball| tar.file("teleport/tsh", 0o755, PROGRAM);
    let size = PROGRAM.len().to_string();
    let raw =
        |body: &[u8]| release().entry(&header(b"PaxHeaders/x", EntryType::XHeader, 0o644, body.len() as u64), body);
    for (what, tar) in [
        ("two names of PAX", release().pax(&[("path", b"teleport/tctl"), ("path", b"teleport/tsh")])),
        ("a name of PAX and one of GNU", release().pax(&[("path", b"teleport/tctl")]).long_name(b"teleport/tsh")),
        ("two names of GNU", release().long_name(b"teleport/tctl").long_name(b"teleport/tsh")),
        ("an empty target", release().pax(&[("linkpath", b"")])),
        ("another size", release().pax(&[("size", b"1")])),
        ("two sizes", release().pax(&[("size", b"1"), ("size", size.as_bytes())])),
        ("a size that is none", release().pax(&[("size", b"-1")])),
        ("a record of a wrong length", raw(b"9 mtime=1\n")),
        ("a record without an end", raw(b"11 mtime=1")),
        ("records behind an empty line", raw(b"\n28 GNU.sparse.major=1.......\n")),
        ("no record", raw(b"")),
        ("a record that is no text", raw(b"\xff\xff")),
    ] {
        refused(&file(tar), "teleport/tsh", what);
    }
    for (what, tar) in [
        ("the same name twice", release().pax(&[("path", b"teleport/tsh")]).long_name(b"teleport/tsh")),
        ("the same size", release().pax(&[("size", size.as_bytes())])),
    ] {
        lands(&file(tar), Some("bin/tsh"), PROGRAM, what);
    }
    // A header for all entries does not take what is meant for the next one.
    let between = header(b"pax_global_header", EntryType::XGlobalHeader, 0o644, 11);
    let tar = release().long_name(b"teleport/tctl").entry(&between, b"11 mtime=1\n");
    lands(&file(tar), Some("bin/tctl"), PROGRAM, "a name before a global header");
}

#[test]
fn a_program_that_would_not_run_or_that_nobody_knows_is_refused_and_data_are_kept() {
    for path in ["teleport/bin/notes", "teleport/bin/sub/tsh", "teleport/etc/cron.d/x", "teleport/tsh"] {
        refused(&release().file(path, 0o644, PROGRAM), path, path);
    }
    refused(&release().file("teleport/tools/tsh", 0o755, PROGRAM), "teleport/tools/tsh", "an unknown folder");
    refused(&release().symlink("teleport/tools/tsh", "../teleport"), "teleport/tools/tsh", "a link there");
    let tar = release().file("teleport/NOTICE", 0o644, b"text").file("teleport/selinux/teleport.te", 0o644, b"text");
    let files = unpacked(&tar, None).unwrap();
    let found: Vec<_> = files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(found, ["bin/teleport", "share/NOTICE", "share/selinux/teleport.te"]);
}

#[test]
fn names_that_differ_in_case_are_two_and_names_that_meet_in_the_version_are_refused() {
    let tar = release().file("teleport/tsh", 0o755, b"1").file("teleport/TSH", 0o755, b"2");
    assert_eq!(unpacked(&tar, None).unwrap().len(), 3);
    let twice = release().file("teleport/VERSION", 0o644, b"1");
    refused(&twice.clone().file("teleport/share/VERSION", 0o644, b"1"), "teleport/share/VERSION", "the same place");
    refused(&twice.file("teleport/share/VERSION/x", 0o644, b"1"), "teleport/share/VERSION/x", "below a file");
    let other_layout = release().file("teleport/bin/teleport", 0o755, AGENT);
    refused(&other_layout, "teleport/bin/teleport", "the agent of another layout");
    refused(&release().file("teleportx/a", 0o644, b""), "teleportx/a", "beside the prefix");
    let linked = release().symlink("teleport/bin/teleport", "../teleport");
    refused(&linked, "teleport/bin/teleport", "a link in the place of a file");
}
