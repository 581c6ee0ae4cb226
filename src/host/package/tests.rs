//! Packages found and purged, in images that the host's own dpkg and rpm make.

use super::*;
use crate::host::command::is_installed;

const AT_ONCE: Wait<'static> = Wait { longest: Duration::ZERO, tell: &|_| {} };

/// An image with toy packages, made by the host's own dpkg.
struct Image {
    dir: tempfile::TempDir,
}

impl Image {
    /// `None` without root or dpkg.
    fn new() -> Option<Self> {
        if !super::super::machine::is_root() || !is_installed("dpkg-deb") {
            return None;
        }
        let image = Self { dir: tempfile::tempdir().unwrap() };
        for dir in ["info", "updates"] {
            durable::create_dir_all(&image.path("/var/lib/dpkg").join(dir)).unwrap();
        }
        for file in ["status", "available"] {
            durable::write(&image.path("/var/lib/dpkg").join(file), b"", 0o644).unwrap();
        }
        durable::create_dir_all(&image.path("/var/log")).unwrap();
        durable::create_dir_all(&image.path("/var/lib/teleport")).unwrap();
        durable::write(&image.path("/var/lib/teleport/host_uuid"), b"u", 0o600).unwrap();
        Some(image)
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    fn path(&self, inside: &str) -> PathBuf {
        below(Some(&self.root()), inside)
    }

    fn install(&self, name: &str, control: &str, files: &[(&str, &str)]) {
        let tree = self.dir.path().join(name);
        let head = format!(
            "Package: {name}\nVersion: 1.2.3\nArchitecture: all\nMaintainer: x <x@x>\nDescription: x\n{control}"
        );
        for (path, text) in files.iter().chain(&[("DEBIAN/control", head.as_str())]) {
            let path = tree.join(path);
            durable::create_dir_all(path.parent().unwrap()).unwrap();
            let mode = if path.ends_with("DEBIAN/postrm") { 0o755 } else { 0o644 };
            durable::write(&path, text.as_bytes(), mode).unwrap();
        }
        let deb = self.dir.path().join(format!("{name}.deb"));
        Command::new("dpkg-deb").args(["--root-owner-group", "-b"]).arg(&tree).arg(&deb).run().unwrap();
        dpkg::command(Some(&self.root())).arg("-i").arg(&deb).run().unwrap().or_fail(Code::Io).unwrap();
    }

    fn purge(&self) -> Result<()> {
        let files = [self.path("/etc/teleport.yaml")];
        let dirs = [self.path("/var/lib/teleport")];
        let copies = self.dir.path().join("copies");
        let keep = Keep { files: &files, dirs: &dirs, copies: &copies, link_dir: &self.path("/usr/local/bin") };
        let found = installed(Some(&self.root()))?;
        purge(&found[0], keep, Some(&self.root()), AT_ONCE)?;
        assert!(!copies.exists());
        Ok(())
    }
}

const AGENT: [(&str, &str); 4] = [
    ("etc/teleport.yaml", "packaged\n"),
    ("usr/local/bin/teleport", "x"),
    ("DEBIAN/conffiles", "/etc/teleport.yaml\n"),
    ("DEBIAN/postrm", "#!/bin/sh\nrm -rf /var/lib/teleport\n"),
];

#[test]
fn a_purge_leaves_the_configuration_and_the_data_byte_for_byte() {
    let Some(image) = Image::new() else { return };
    image.install("teleport", "", &AGENT);
    let config = image.path("/etc/teleport.yaml");
    durable::write(&config, b"mine\n", 0o640).unwrap();
    durable::chown(&config, 7, 8).unwrap();
    let found = installed(Some(&image.root())).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].state, found[0].name.as_str()), (State::Installed, "teleport"));

    image.purge().unwrap();
    assert_eq!(installed(Some(&image.root())).unwrap(), []);
    assert_eq!(std::fs::read(&config).unwrap(), b"mine\n");
    let kept = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&config).unwrap());
    assert_eq!(kept & 0o7777, 0o640);
    assert_eq!(std::os::unix::fs::MetadataExt::gid(&std::fs::metadata(&config).unwrap()), 8);
    assert!(image.path("/var/lib/teleport/host_uuid").exists());
    assert!(!image.path("/usr/local/bin/teleport").exists());
}

#[test]
fn a_package_that_another_one_needs_is_not_touched() {
    let Some(image) = Image::new() else { return };
    image.install("teleport", "", &AGENT);
    image.install("needs-it", "Depends: teleport\n", &[]);
    let error = image.purge().unwrap_err();
    assert_eq!(error.code, Code::PackageFailed);
    assert!(error.what.contains("needs-it depends on teleport"), "{error}");
    assert!(image.path("/usr/local/bin/teleport").exists());
    assert!(image.path("/var/lib/dpkg/info/teleport.postrm").exists());
}

#[test]
fn a_package_with_files_in_the_data_directory_is_refused() {
    let Some(image) = Image::new() else { return };
    image.install("teleport", "", &[("var/lib/teleport/licence.pem", "x")]);
    let error = image.purge().unwrap_err();
    assert!(error.what.contains("licence.pem"), "{error}");
    assert!(image.path("/var/lib/teleport/licence.pem").exists());
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
fn a_held_package_is_purged_and_only_configuration_files_are_too() {
    let Some(image) = Image::new() else { return };
    image.install("teleport", "", &AGENT[..3]);
    // What `apt-mark hold` writes.
    let status = image.path("/var/lib/dpkg/status");
    let text = std::fs::read_to_string(&status).unwrap().replace("install ok installed", "hold ok installed");
    durable::write(&status, text.as_bytes(), 0o644).unwrap();
    assert_eq!(installed(Some(&image.root())).unwrap()[0].state, State::Installed);
    image.purge().unwrap();

    image.install("teleport", "", &AGENT[..3]);
    dpkg::command(Some(&image.root())).args(["--remove", "teleport"]).run().unwrap().or_fail(Code::Io).unwrap();
    assert_eq!(installed(Some(&image.root())).unwrap()[0].state, State::ConfigFiles);
    image.purge().unwrap();
    assert!(image.path("/etc/teleport.yaml").exists());
    assert_eq!(installed(Some(&image.root())).unwrap(), []);
}

#[test]
fn a_database_on_a_read_only_file_system_is_not_taken_for_a_locked_one() {
    for words in [
        "error: can't create transaction lock on /usr/lib/sysimage/rpm/.rpm.lock (Read-only file system)",
        "dpkg: error: unable to lock the dpkg frontend: locked by another process? Read-only file system",
    ] {
        assert!(!is_lock_message(words), "{words}");
        let status = std::os::unix::process::ExitStatusExt::from_raw(1 << 8);
        let output = Output { status, stdout: Vec::new(), stderr: words.into(), line: "rpm -e teleport".into() };
        let error = judged(output, is_lock_message(words)).unwrap_err().to_string();
        assert!(error.contains("transactional-update pkg remove") && !error.contains(busy::TRY_AGAIN), "{error}");
    }
    assert!(is_lock_message("error: can't create transaction lock on /x (Resource temporarily unavailable)"));
}

#[test]
fn a_locked_database_is_waited_for_and_told() {
    let Some(image) = Image::new() else { return };
    image.install("teleport", "", &AGENT[..3]);
    let lock = std::fs::OpenOptions::new().write(true).open(image.path("/var/lib/dpkg/lock-frontend")).unwrap();
    // dpkg's lock is fcntl's, which only another process is stopped by: dpkg is one.
    rustix::fs::fcntl_lock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    let error = image.purge().unwrap_err();
    assert!(error.to_string().contains("another package manager is at work"), "{error}");
    drop(lock);
    image.purge().unwrap();
}

#[test]
fn an_rpm_package_is_purged_without_its_dangerous_scriptlet_and_leaves_the_configuration() {
    if !super::super::machine::is_root() || !is_installed("rpmbuild") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let spec = dir.path().join("teleport.spec");
    let text = "Name: teleport\nVersion: 1.2.3\nRelease: 1\nSummary: x\nLicense: x\nBuildArch: noarch\n\
                %description\nx\n%install\nmkdir -p %{buildroot}/etc\necho packaged >%{buildroot}/etc/teleport.yaml\n\
                %files\n%config(noreplace) /etc/teleport.yaml\n%postun\nrm -rf /var/lib/teleport\n";
    durable::write(&spec, text.as_bytes(), 0o644).unwrap();
    let top = format!("_topdir {}", dir.path().join("build").display());
    let build = Command::new("rpmbuild").args(["-bb", "--define", &top]).arg(&spec);
    build.run().unwrap().or_fail(Code::Io).unwrap();
    let rpm_file = dir.path().join("build/RPMS/noarch/teleport-1.2.3-1.noarch.rpm");
    let root = dir.path().join("root");
    durable::create_dir_all(&root.join("var/lib/rpm")).unwrap();
    assert_eq!(installed(Some(&root)).unwrap(), []);
    let install = Command::new("rpm").arg("--root").arg(&root).args(["--dbpath", "/var/lib/rpm", "--nodeps", "-i"]);
    install.arg(&rpm_file).run().unwrap().or_fail(Code::Io).unwrap();
    let config = root.join("etc/teleport.yaml");
    durable::write(&config, b"mine\n", 0o640).unwrap();

    let found = installed(Some(&root)).unwrap();
    assert_eq!((found.len(), found[0].name.as_str(), found[0].tool), (1, "teleport", PackageTool::Rpm));
    let (files, dirs) = (vec![config.clone()], vec![root.join("var/lib/teleport")]);
    let copies = dir.path().join("copies");
    let keep = Keep { files: &files, dirs: &dirs, copies: &copies, link_dir: &root.join("usr/local/bin") };
    assert_eq!(rpm::dangerous_sections(&found[0], keep, Some(&root)).unwrap(), ["--nopostun"]);
    purge(&found[0], keep, Some(&root), AT_ONCE).unwrap();
    assert_eq!(installed(Some(&root)).unwrap(), []);
    assert_eq!(std::fs::read(&config).unwrap(), b"mine\n");
    assert!(!root.join("etc/teleport.yaml.rpmsave").exists());
}

fn keep_of<'a>(files: &'a [PathBuf], dirs: &'a [PathBuf]) -> Keep<'a> {
    Keep { files, dirs, copies: Path::new("/nowhere"), link_dir: Path::new("/nowhere") }
}
