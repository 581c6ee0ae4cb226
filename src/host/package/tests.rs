//! Which packages are left alone, and how a refusal of their manager is told.

use super::*;

#[test]
fn a_package_with_files_in_the_data_directory_is_refused_and_what_cannot_be_looked_at_is_not_gone() {
    let dir = tempfile::tempdir().unwrap();
    let dirs = vec![dir.path().to_owned()];
    let package = rpm::parse("@teleport").unwrap();
    let refused = |name: &str| refuse_shared_data(&package, &[dir.path().join(name)], keep_of(&[], &dirs), None);
    refused("gone").unwrap();
    durable::write(&dir.path().join("licence.pem"), b"x", 0o600).unwrap();
    assert!(refused("licence.pem").unwrap_err().what.contains("licence.pem"));
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
