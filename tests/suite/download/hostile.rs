//! Archives that must not be installed, and odd ones that must (SPEC §4).

use testing::cluster::hostile::{self, Sample, corpus, odd_but_fine_around};

use crate::support::*;

/// Address space (KiB) and processor time (s) of a run: far above what one needs, far below what any bomb would take.
const MEMORY: &str = "ulimit -v 400000; ulimit -t 20";
/// Longest run, whatever the archive: the machine that tests may be slow, a bomb is slower.
const PATIENCE: Duration = Duration::from_secs(30);

/// Damaged, or no Teleport archive of this edition. All others are hostile.
const INVALID: &[&str] = &[
    "two prefixes",
    "file outside the prefix",
    "no teleport",
    "no entry at all",
    "empty tar without closing blocks",
    "teleport is a directory",
    "teleport is not executable",
    "prefix of another edition",
    "wrong header checksum",
    "tar that ends within an entry",
    "entry after the closing blocks",
    "empty file",
    "not gzip at all",
    "plain tar, not compressed",
    "cut within the gzip header",
    "cut after the gzip header",
    "cut after a quarter",
    "cut in the middle",
    "cut before CRC and size",
    "cut between CRC and size",
    "cut by one byte",
    "wrong CRC",
    "wrong size in the trailer",
    "bit flipped in the middle",
    "second gzip member after the end",
    "garbage after the end",
    "reserved gzip flag",
];

/// Where both names fit.
const EITHER: &[&str] = &[
    "empty name",
    "prefix is a link",
    "prefix is a file",
    "prefix is a file with contents and a slash",
    "entry of 2^64-1 bytes",
    "GNU sparse file",
];

fn fits(name: &str, code: &str) -> bool {
    match code {
        "archive_invalid" => INVALID.contains(&name) || EITHER.contains(&name),
        "archive_hostile" => !INVALID.contains(&name),
        _ => false,
    }
}

/// Every path of the image with what changes when it is written to: quicker than digests, for many looks in a row.
fn facts(image: &Image) -> String {
    let ours = ["!", "-path", "*/versions/updates.yaml", "!", "-path", "*/versions/.lock*"];
    let print = ["(", "-type", "d", "-printf", "%P %m\n", "-o", "-printf", "%P %y %m %s %T@ %i %l\n", ")"];
    let found = Command::new("find").arg(image.root()).args(ours).args(print).output().unwrap();
    assert!(found.status.success(), "{found:?}");
    let mut lines: Vec<String> = String::from_utf8(found.stdout).unwrap().lines().map(str::to_owned).collect();
    lines.sort();
    lines.join("\n")
}

/// What is wrong with the refusal of `sample` by `args`, if anything.
fn refusal(image: &Image, sample: &Sample, before: &str) -> Result<(), String> {
    let (name, bytes) = sample;
    image.release_bytes("2.0.0", bytes);
    let start = Instant::now();
    let ran = image.run_below(MEMORY, &["--log-format", "json", "update"]);
    let took = start.elapsed();
    let wrong = |what: &str| Err(format!("{name}: {what}: {ran:#?}"));
    if ran.status != 1 {
        return wrong("exit status");
    }
    let code = ran.error_code();
    if !fits(name, &code) {
        return wrong(&format!("error_code {code}"));
    }
    // What `status` shows, without the time that asking the cluster takes.
    if !image.config().contains(&format!("error_code: {code}\n")) {
        return wrong("another code in updates.yaml");
    }
    if facts(image) != before {
        return wrong(&format!("something changed: {}", facts(image)));
    }
    if took > PATIENCE { wrong(&format!("took {took:?}")) } else { Ok(()) }
}

#[test]
fn what_is_not_an_honest_release_is_refused_and_what_is_odd_is_installed() {
    transcript::play("download/hostile.txt");
}

#[test]
fn a_hostile_update_is_refused_whole_and_leaves_no_trace() {
    let image = Image::enabled("1.0.0");
    let (before, looks) = (image.tree_but_status(), facts(&image));
    let samples = corpus();
    assert!(INVALID.iter().chain(EITHER).all(|name| samples.iter().any(|sample| sample.0 == *name)));
    let wrong: Vec<String> = samples.iter().filter_map(|sample| refusal(&image, sample, &looks).err()).collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), samples.len(), wrong.join("\n"));
    assert_eq!(image.tree_but_status(), before);
    image.run(&["verify"]).ok();
}

#[test]
fn a_hostile_first_archive_leaves_nothing_but_the_note_of_it() {
    let sample = ["parent path", "symlink that leaves", "bomb of zeros", "duplicate agent", "cut in the middle"];
    for sample in corpus().iter().filter(|(name, _)| sample.contains(name)) {
        let image = Image::new("1.0.0");
        let args = image.enable_args();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        image.cluster.set_directive(Find::version("1.0.0"));
        image.release_bytes("1.0.0", &sample.1);
        let ran = image.run_below(MEMORY, &[&["--log-format", "json"], args.as_slice()].concat());
        assert_eq!(ran.status, 1, "{}: {ran:#?}", sample.0);
        assert!(fits(sample.0, &ran.error_code()), "{}: {ran:#?}", sample.0);
        let files: Vec<String> = image.tree().into_iter().filter(|line| !line.contains("/ ")).collect();
        let ours = |line: &String| line.contains("versions/.lock/") || line.contains("versions/updates.yaml ");
        assert!(files.iter().all(ours), "{}: {files:#?}", sample.0);
        let status = image.status();
        assert_eq!(status["agent_updates_enabled"], false, "{}", sample.0);
        assert_eq!(status["last_result"]["error_code"], ran.error_code(), "{}", sample.0);
    }
}

#[test]
fn odd_archives_are_installed_without_their_odd_modes_and_owners() {
    let trailer = "\nTOYAGENT {\"version\":\"1.0.0\",\"behaviour\":\"healthy\",\"schema\":1}\n";
    let teleport = [&agent_program(), trailer.as_bytes()].concat();
    for (name, bytes) in odd_but_fine_around(&teleport) {
        let image = Image::new("1.0.0");
        image.release_bytes("1.0.0", &bytes);
        let ran = image.enable(&[]);
        assert_eq!(ran.status, 0, "{name}: {ran:#?}");
        image.run(&["verify"]).ok();
        let mut dirs = vec![image.versions().join("1.0.0")];
        while let Some(dir) = dirs.pop() {
            for entry in std::fs::read_dir(&dir).unwrap() {
                let path = entry.unwrap().path();
                let meta = std::fs::symlink_metadata(&path).unwrap();
                let mode = meta.permissions().mode() & 0o7777;
                assert_eq!(mode & !0o755, 0, "{name}: {} has {mode:o}", path.display());
                let me = owner_of_root(&image);
                assert_eq!((meta.uid(), meta.gid()), me, "{name}: {}", path.display());
                if meta.is_dir() {
                    dirs.push(path);
                }
            }
        }
    }
}

#[test]
fn links_among_the_binaries_arrive_as_the_programs_they_lead_to() {
    let trailer = "\nTOYAGENT {\"version\":\"2.0.0\",\"behaviour\":\"healthy\",\"schema\":1}\n";
    let program = [&agent_program(), trailer.as_bytes()].concat();
    let image = Image::enabled("1.0.0");
    let helper = b"#!/bin/sh\necho tctl\n";
    let tar = hostile::release(&program).file("teleport/tctl", 0o755, helper);
    let tar = tar.hardlink("teleport/tsh", "teleport/tctl").symlink("teleport/tbot", "./tctl");
    image.release_bytes("2.0.0", &tar.gzip());
    image.run(&["update"]).ok();
    for name in ["tctl", "tsh", "tbot"] {
        let inside = format!("/var/lib/teleport/versions/2.0.0/bin/{name}");
        let link = image.path(&format!("/usr/local/bin/{name}"));
        assert_eq!(std::fs::read_link(link).unwrap(), std::path::Path::new(&inside));
        assert_eq!(std::fs::read(image.path(&inside)).unwrap(), helper, "{name}");
        assert_eq!(std::fs::symlink_metadata(image.path(&inside)).unwrap().permissions().mode() & 0o7777, 0o755);
    }
    image.run(&["verify"]).ok();
    std::fs::remove_file(image.versions().join("2.0.0/bin/tsh")).unwrap();
    image.run(&["verify"]).fails(1, "bin/tsh is missing");
    image.run(&["verify", "--repair"]).ok();
    assert_eq!(std::fs::read(image.versions().join("2.0.0/bin/tsh")).unwrap(), helper);
    // What does not arrive as it was packed is not installed at all, and what the host has stays.
    let tar = hostile::release(&program).pax(&[("SCHILY.xattr.security.capability", b"x")]);
    image.release_bytes("3.0.0", &tar.file("teleport/tsh", 0o755, helper).gzip());
    let before = image.tree_but_status();
    image.run(&["update"]).fails(1, "\"teleport/tsh\"");
    assert_eq!(image.tree_but_status(), before);
}

/// Who runs this test, as the image's own directory shows.
fn owner_of_root(image: &Image) -> (u32, u32) {
    let meta = std::fs::metadata(image.root()).unwrap();
    (meta.uid(), meta.gid())
}

#[test]
fn a_teleport_that_never_tells_its_version_is_given_up_and_killed() {
    let image = Image::new("1.0.0");
    image.settings("  health:\n    version: 1s\n");
    image.enable(&[]).ok();
    let before = image.tree_but_status();
    image.cluster.publish(&Archive::simple("2.0.0").behaviour("hangs-on-version"));
    image.cluster.set_directive(Find::version("2.0.0"));
    let ran = image.run(&["--log-format", "json", "update"]).refused("version_mismatch");
    // By the limit that is set, and not by any other.
    assert!(ran.stderr.contains("did not end within 1 s"), "{ran:#?}");
    assert_eq!(image.tree_but_status(), before);
    let staging = image.versions().join(".staging-2.0.0");
    let alive = std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .any(|process| std::fs::read_link(process.path().join("exe")).is_ok_and(|exe| exe.starts_with(&staging)));
    assert!(!alive, "the hanging teleport lives on");
}

/// The head of an executable for the machine with this ELF number, 64 bit.
fn elf(machine: u16) -> Vec<u8> {
    let mut bytes = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0".to_vec();
    bytes.extend(machine.to_le_bytes());
    bytes.resize(64, 0);
    bytes
}

#[test]
fn an_image_of_another_machine_gets_that_machines_archive_and_no_other_program() {
    const AARCH64: u16 = 183;
    let image = Image::new("1.0.0");
    std::fs::create_dir_all(image.path("/bin")).unwrap();
    std::fs::write(image.path("/bin/sh"), elf(AARCH64)).unwrap();
    // Under the right name, but a program for this machine.
    image.cluster.publish(&Archive::new("1.0.0", "oss", "arm64").agent(&agent_program(), "healthy", 1));
    let args = image.enable_args();
    let args: Vec<&str> = ["--log-format", "json"].into_iter().chain(args.iter().map(String::as_str)).collect();
    image.run(&args).refused("wrong_architecture");
    assert!(!image.versions().join("1.0.0").exists());
    assert!(!image.path("/usr/local/bin").exists());

    image.cluster.publish(&Archive::new("1.0.0", "oss", "arm64").agent(&elf(AARCH64), "healthy", 1));
    image.enable(&[]).ok();
    assert!(image.versions().join("1.0.0/sha256").exists());
    let archives = image.cluster.requests_to("-bin.tar.gz$");
    assert!(archives.iter().all(|request| request.path.ends_with("-linux-arm64-bin.tar.gz")), "{archives:#?}");
}

#[test]
fn an_agent_whose_loader_this_host_lacks_is_refused_with_the_loaders_name() {
    // A program of this host that wants a loader, which is then spelt wrongly: as any glibc program on a host of musl.
    let (real, wrong) = (b"/lib64/ld-linux-x86-64.so.2", b"/lib64/ld-linux-x86-64.so.9");
    let mut program = std::fs::read("/usr/bin/true").unwrap();
    let Some(at) = program.windows(real.len()).position(|bytes| bytes == real) else {
        eprintln!("skipped: /usr/bin/true is not linked with glibc here");
        return;
    };
    program[at..at + wrong.len()].copy_from_slice(wrong);
    let image = Image::new("1.0.0");
    image.cluster.publish(&Archive::simple("1.1.0").agent(&program, "healthy", 1));
    image.cluster.set_directive(Find::version("1.1.0"));
    image.enable(&[]).fails(1, "needs /lib64/ld-linux-x86-64.so.9, which this host does not have").says("glibc");
    assert!(!image.versions().join("1.1.0").exists());
}
