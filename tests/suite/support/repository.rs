//! Small debs and rpms, and repositories of packages for a bed's own apt and dnf.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use testing::beds::Bed;

fn put(path: &Path, bytes: impl AsRef<[u8]>, mode: u32) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

/// Builds any deb at `file`.
pub(crate) fn deb(
    file: &Path,
    name: &str,
    version: &str,
    control: &str,
    conffiles: &str,
    scripts: &[(&str, String)],
    files: &[(String, Vec<u8>, u32)],
) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let head = format!(
        "Package: {name}\nVersion: {version}\nMaintainer: Nobody <nobody@example.com>\nDescription: toy\n{control}"
    );
    put(&root.join("DEBIAN/control"), head, 0o644);
    std::fs::set_permissions(root.join("DEBIAN"), PermissionsExt::from_mode(0o755)).unwrap();
    put(&root.join("DEBIAN/conffiles"), conffiles, 0o644);
    for (script, text) in scripts {
        put(&root.join("DEBIAN").join(script), text, 0o755);
    }
    for (path, bytes, mode) in files {
        put(&root.join(path), bytes, *mode);
    }
    must(Command::new("dpkg-deb").args(["--root-owner-group", "-Znone", "-b"]).args([&*root, file]));
}

/// Builds any rpm in `dir`; `head` are further lines of its description.
pub(crate) fn rpm(
    dir: &Path,
    name: &str,
    version: &str,
    head: &str,
    scripts: &[(&str, String)],
    files: &[(String, Vec<u8>, u32)],
) -> PathBuf {
    let work = tempfile::tempdir().unwrap();
    let tree = work.path().join("tree");
    let mut spec = format!(
        "Name: {name}\nVersion: {version}\nRelease: 1\nSummary: toy\nLicense: none\nBuildArch: noarch\nAutoReqProv: no\n{head}\n\
         %global __os_install_post %{{nil}}\n%global _binary_payload w0.gzdio\n%global _binaries_in_noarch_packages_terminate_build 0\n\
         %description\ntoy\n%install\ncp -a {}/. %{{buildroot}}/\n",
        tree.display()
    );
    std::fs::create_dir_all(&tree).unwrap();
    for (script, text) in scripts.iter().filter(|(_, text)| !text.is_empty()) {
        writeln!(spec, "%{script} -p /bin/sh\n{text}").unwrap();
    }
    spec.push_str("%files\n");
    for (path, bytes, mode) in files {
        put(&tree.join(path), bytes, *mode);
        let kind = if path.starts_with("etc/") { "%config(noreplace) " } else { "" };
        writeln!(spec, "%attr({mode:o},root,root) {kind}/{path}").unwrap();
    }
    for dir in ["", "/system", "/system/bin", "/system/lib", "/system/lib/systemd", "/system/lib/systemd/system"] {
        if tree.join(format!("opt/teleport{dir}")).is_dir() {
            writeln!(spec, "%dir /opt/teleport{dir}").unwrap();
        }
    }
    let spec_file = work.path().join("toy.spec");
    put(&spec_file, spec, 0o644);
    let top = format!("_topdir {}", work.path().display());
    must(Command::new("rpmbuild").args(["-bb", "--quiet", "--define", &top]).arg(&spec_file));
    let file = dir.join(format!("{name}-{version}-1.noarch.rpm"));
    std::fs::copy(work.path().join("RPMS/noarch").join(file.file_name().unwrap()), &file).unwrap();
    file
}

fn must(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
}

/// Makes `debs` the only repository of the bed's apt.
pub(crate) fn apt_repository(bed: &Bed, debs: &[PathBuf]) {
    let mut index = String::new();
    for deb in debs {
        let control = Command::new("dpkg-deb").arg("-f").arg(deb).output().unwrap();
        let name = deb.file_name().unwrap().to_str().unwrap();
        let bytes = std::fs::read(deb).unwrap();
        let sum = protocol::Digest::of(&bytes);
        let control = String::from_utf8(control.stdout).unwrap();
        write!(index, "{control}Filename: ./{name}\nSize: {}\nSHA256: {sum}\n\n", bytes.len()).unwrap();
        bed.put(deb, format!("/srv/apt/{name}"));
    }
    bed.write("/srv/apt/Packages", index, 0o644);
    bed.sh("rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/*");
    bed.write("/etc/apt/sources.list.d/toy.list", "deb [trusted=yes] file:/srv/apt ./\n", 0o644);
    bed.sh("apt-get update");
}

/// Makes `rpms` the only repository of the bed's dnf.
pub(crate) fn dnf_repository(bed: &Bed, rpms: &[PathBuf]) {
    for rpm in rpms {
        bed.put(rpm, format!("/srv/yum/{}", rpm.file_name().unwrap().to_str().unwrap()));
    }
    bed.write("/etc/yum.repos.d/toy.repo", "[toy]\nname=toy\nbaseurl=file:///srv/yum\ngpgcheck=0\n", 0o644);
    // What a Red Hat has and this bed's packages of Debian do not tell rpm.
    bed.write(
        "/etc/dnf/dnf.conf",
        "[main]\nreleasever=1\ngpgcheck=0\ninstall_weak_deps=False\nclean_requirements_on_remove=True\n",
        0o644,
    );
    bed.write("/etc/dnf/vars/releasever", "1\n", 0o644);
    bed.sh("createrepo_c -q /srv/yum && dnf -q clean all");
}

/// What scripts need on an rpm system, provided by nothing in this bed.
pub(crate) fn shim(dir: &Path) -> PathBuf {
    rpm(dir, "bed-shim", "1", "Provides: /bin/sh\nProvides: systemd", &[], &[])
}
