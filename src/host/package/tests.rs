//! Which packages are left alone, and how a refusal of their manager is told.

use super::*;

#[test]
fn a_package_with_files_in_the_data_directory_is_refused() {
    if !crate::host::command::is_installed("dpkg-query") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let write = |path: &str, text: &str| {
        let file = root.join(path);
        durable::create_dir_all(file.parent().unwrap()).unwrap();
        durable::write(&file, text.as_bytes(), 0o644).unwrap();
    };
    let head = "Version: 1.2.3\nArchitecture: all\nMaintainer: x <x@x>\nDescription: x\n";
    write("var/lib/dpkg/status", &format!("Package: teleport\nStatus: install ok installed\n{head}"));
    write("var/lib/dpkg/info/teleport.list", "/.\n/var/lib/teleport/licence.pem\n");
    write("var/lib/teleport/licence.pem", "x");
    let (dirs, copies) = ([root.join("var/lib/teleport")], root.join("copies"));
    let keep = Keep { files: &[], dirs: &dirs, copies: &copies, link_dir: root };
    let found = installed(Some(root)).unwrap();
    let error = purge(&found[0], keep, Some(root), Waiting::at_most(Duration::ZERO, &|_| {})).unwrap_err();
    assert!(error.what.contains("licence.pem, in the agent's data directory"), "{error}");
    assert!(root.join("var/lib/teleport/licence.pem").exists());
}

#[test]
fn a_packages_file_that_cannot_be_looked_at_is_not_taken_for_gone() {
    let dir = tempfile::tempdir().unwrap();
    let dirs = vec![dir.path().to_owned()];
    let package = rpm::parse("@teleport").unwrap();
    let refused = |name: &str| refuse_shared_data(&package, &[dir.path().join(name)], keep_of(&[], &dirs), None);
    refused("gone").unwrap();
    assert_eq!(refused(&"x".repeat(300)).unwrap_err().code, Code::Io);
    // And a package manager's own directory is not empty because it could not be read.
    let image = dir.path().join("x".repeat(300));
    assert!(rpm::installed(Some(&image)).is_err() && dpkg::installed(Some(&image)).is_err());
}

#[test]
fn a_database_on_a_read_only_file_system_is_not_taken_for_a_locked_one() {
    let told = |words: &str| {
        let status = std::os::unix::process::ExitStatusExt::from_raw(1 << 8);
        let output = Output { status, stdout: Vec::new(), stderr: words.into(), line: "rpm -e teleport".into() };
        judged(output, is_lock_message(words)).unwrap_err().to_string()
    };
    for words in [
        "error: can't create transaction lock on /usr/lib/sysimage/rpm/.rpm.lock (Read-only file system)",
        "dpkg: error: unable to lock the dpkg frontend: locked by another process? Read-only file system",
    ] {
        let told = told(words);
        assert!(told.contains("transactional-update pkg remove") && !told.contains(busy::TRY_AGAIN), "{told}");
    }
    for words in [
        "error: can't create transaction lock on /x (Resource temporarily unavailable)",
        "dpkg: error: dpkg frontend lock was locked by another process with pid 7",
    ] {
        let told = told(words);
        assert!(told.contains("another package manager is at work") && told.contains(busy::TRY_AGAIN), "{told}");
    }
}

fn keep_of<'a>(files: &'a [PathBuf], dirs: &'a [PathBuf]) -> Keep<'a> {
    Keep { files, dirs, copies: Path::new("/nowhere"), link_dir: Path::new("/nowhere") }
}
