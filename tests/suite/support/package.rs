//! The packages, built by `packaging/build.sh` out of the programs under test: once for all tests of a build.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Rig, updater};
use protocol::Digest;
use testing::beds::{Bed, checkout};

/// What is packaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Product {
    /// The agent's updater.
    Updater,
    /// The rollout server.
    Fleet,
}

/// Of the times in the package, seconds: 2026-01-01.
const BUILD_TIME: &str = "1767225600";

impl Product {
    /// The name of program and package.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Updater => "teleport-update",
            Self::Fleet => "teleport-fleet",
        }
    }

    /// The program under test.
    pub(crate) fn program(self) -> PathBuf {
        let program = updater().with_file_name(self.name());
        let program = if let Self::Updater = self { updater() } else { program };
        assert!(program.exists(), "{} is missing: make build", program.display());
        program
    }

    fn description(self) -> PathBuf {
        checkout(match self {
            Self::Updater => "packaging/package.conf",
            Self::Fleet => "packaging/fleet/package.conf",
        })
    }

    /// The Debian package of `version`; `None`, saying why, where its tools are missing.
    pub(crate) fn deb(self, version: &str) -> Option<PathBuf> {
        Some(self.built(version)?.join(format!("{}_{version}_amd64.deb", self.name())))
    }

    /// The rpm of `version`; `None`, saying why, where its tools are missing.
    pub(crate) fn rpm(self, version: &str) -> Option<PathBuf> {
        Some(self.built(version)?.join(format!("{}-{version}-1.x86_64.rpm", self.name())))
    }

    /// A directory with the packages of `version`, and SHA256SUMS. Its name tells from what they were built.
    pub(crate) fn built(self, version: &str) -> Option<PathBuf> {
        for tool in ["dpkg-deb", "rpmbuild"] {
            if !Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success()) {
                eprintln!("skipped: {tool} is missing (make setup-packages)");
                return None;
            }
        }
        let cache = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let dir = cache.join(format!("packages-{version}-{}", self.key()));
        let lock = std::fs::File::create(cache.join("packages.lock")).unwrap();
        lock.lock().unwrap();
        if !dir.exists() {
            let making = cache.join("packages.new");
            std::fs::remove_dir_all(&making).ok();
            self.build(version, &self.program(), &making);
            std::fs::rename(&making, &dir).unwrap();
        }
        Some(dir)
    }

    /// Runs `packaging/build.sh` for one binary (stripped: what a debugger wants would be most of the package).
    pub(crate) fn build(self, version: &str, binary: &Path, out: &Path) {
        self.build_in(&std::env::temp_dir(), version, binary, out);
    }

    /// The same, with its temporary files in `work`.
    pub(crate) fn build_in(self, work: &Path, version: &str, binary: &Path, out: &Path) {
        let stripped = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        succeed(Command::new("strip").arg("-o").arg(&stripped).arg(binary));
        let mut named = std::ffi::OsString::from("amd64=");
        named.push(&stripped);
        let script = checkout("packaging/build.sh");
        succeed(
            Command::new(script)
                .env("TMPDIR", work)
                // A commit between two builds is not what they are compared for.
                .env("SOURCE_DATE_EPOCH", BUILD_TIME)
                .arg("--of")
                .arg(self.description())
                .arg("--out")
                .arg(out)
                .args(["--version", version, "--level", "0", "--binary"])
                .arg(named),
        );
    }

    /// Everything that goes into a package, as a short name.
    fn key(self) -> String {
        let program = Digest::of(&std::fs::read(self.program()).unwrap()).to_string();
        let mut parts = vec![self.name().to_owned(), program, BUILD_TIME.to_owned()];
        for top in ["packaging", "systemd", "selinux"] {
            parts.extend(super::tree(&checkout(top)));
        }
        for file in ["CHANGELOG.md", "LICENSE"] {
            parts.push(Digest::of(&std::fs::read(checkout(file)).unwrap()).to_string());
        }
        Digest::of(parts.join("\n").as_bytes()).to_string()[..16].to_owned()
    }
}

/// The updater's Debian package of `version`; `None`, saying why, where its tools are missing.
pub(crate) fn deb(version: &str) -> Option<PathBuf> {
    Product::Updater.deb(version)
}

/// The updater's rpm of `version`; `None`, saying why, where its tools are missing.
pub(crate) fn rpm(version: &str) -> Option<PathBuf> {
    Product::Updater.rpm(version)
}

/// A directory with the updater's packages of `version`, and SHA256SUMS.
pub(crate) fn built(version: &str) -> Option<PathBuf> {
    Product::Updater.built(version)
}

fn succeed(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {output:?}");
}

impl Rig {
    /// A bed on `root` with the package of `version` installed by dpkg.
    pub(crate) fn with_deb(root: &str, name: &str, version: &str) -> Option<Self> {
        let deb = deb(version)?;
        let rig = Self::bare(root, name)?;
        install_deb(&rig.bed, &deb);
        Some(rig)
    }

    /// A bed with rpm in which the package of `version` is installed by rpm.
    pub(crate) fn with_rpm(name: &str, version: &str) -> Option<Self> {
        let rpm = rpm(version)?;
        let rig = Self::bare("bookworm-rpm", name)?;
        install_rpm(&rig.bed, &rpm);
        Some(rig)
    }
}

/// Installs, upgrades or downgrades.
pub(crate) fn install_deb(bed: &Bed, deb: &Path) {
    bed.put(deb, "/root/package.deb");
    bed.sh("DEBIAN_FRONTEND=noninteractive dpkg -i /root/package.deb </dev/null");
}

/// Installs, upgrades or downgrades.
pub(crate) fn install_rpm(bed: &Bed, rpm: &Path) {
    bed.put(rpm, "/root/package.rpm");
    // --nodeps: the bed's /bin/sh comes from dpkg.
    bed.sh("rpm -U --oldpackage --nodeps --force-debian /root/package.rpm </dev/null");
}

/// A flat apt repository with `deb` in it, in the bed at `/srv/apt`, and no other one known to its apt.
pub(crate) fn with_repository(bed: &Bed, deb: &Path) {
    let dir = tempfile::tempdir().unwrap();
    let name = deb.file_name().unwrap();
    std::fs::copy(deb, dir.path().join(name)).unwrap();
    let packages = Command::new("dpkg-scanpackages").arg("--multiversion").arg(".").current_dir(dir.path()).output();
    let packages = packages.expect("dpkg-scanpackages (make setup-packages)");
    assert!(packages.status.success(), "{packages:?}");
    bed.write("/srv/apt/Packages", packages.stdout, 0o644);
    bed.put(deb, Path::new("/srv/apt").join(name));
    bed.sh("rm -f /etc/apt/sources.list /etc/apt/sources.list.d/*");
}
