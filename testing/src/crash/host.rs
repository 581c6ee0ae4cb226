//! The updater under test, the image it works on, and copies of that.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use tempfile::TempDir;

use crate::cluster::archive::Archive;
use crate::cluster::directive::Find;
use crate::cluster::server::Cluster;
use crate::crash::release::small;

/// The updater without its debug information: each run hashes its own program for the journal. Clones share the file.
#[derive(Debug, Clone)]
pub struct Updater {
    dir: Arc<TempDir>,
}

impl Updater {
    /// A slim copy of `program`.
    ///
    /// # Panics
    /// If `program` is no ELF file.
    pub fn new(program: &Path) -> Self {
        let dir = scratch().unwrap();
        let path = dir.path().join("teleport-update");
        let bytes = std::fs::read(program).unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        std::fs::write(&path, crate::cluster::toy::slim(&bytes)).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        Self { dir: Arc::new(dir) }
    }

    /// Where the copy is.
    pub fn path(&self) -> PathBuf {
        self.dir.path().join("teleport-update")
    }
}

/// An image below a temporary directory, and a cluster for it.
#[derive(Debug)]
pub struct Host {
    dir: TempDir,
    /// The cluster.
    pub cluster: Cluster,
    /// The updater.
    pub updater: Updater,
}

impl Host {
    /// An image on which nobody was yet; the cluster names 1.0.0.
    pub fn new(updater: &Updater) -> Self {
        let dir = scratch().unwrap();
        // The agent may have a user of its own, who has to get there.
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        for made in ["root/etc", "root/usr/local/bin", "root/var/lib/teleport/log", "cluster"] {
            std::fs::create_dir_all(dir.path().join(made)).unwrap();
        }
        // Not ours: it is neither changed nor lost, whatever happens.
        for (path, text) in [
            ("etc/hosts", "127.0.0.1 localhost\n"),
            ("usr/local/bin/other", "#!/bin/sh\n"),
            ("var/lib/teleport/host_uuid", "5f0c6f9c-0000-4000-8000-000000000001"),
            ("var/lib/teleport/log/events.log", "{}\n"),
        ] {
            std::fs::write(dir.path().join("root").join(path), text).unwrap();
        }
        let cluster = Cluster::start(&dir.path().join("cluster"));
        let host = Self { dir, cluster, updater: updater.clone() };
        host.release(&small("1.0.0"));
        host
    }

    /// The image's root.
    pub fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    /// A path in the image.
    pub fn path(&self, inside: &str) -> PathBuf {
        self.root().join(inside.trim_start_matches('/'))
    }

    /// Publishes `archive`, and lets the cluster name it.
    pub fn release(&self, archive: &Archive) {
        self.cluster.publish(archive);
        self.name(archive.version());
    }

    /// Lets the cluster name `version`.
    pub fn name(&self, version: &str) {
        self.cluster.set_directive(Find::version(version));
    }

    /// The arguments of an `enable` against this cluster.
    pub fn enable_args(&self) -> Vec<String> {
        let ca = self.cluster.ca_file().display().to_string();
        ["enable", "--proxy", &self.cluster.addr(), "--base-url", &self.cluster.base_url(), "--ca-file", &ca]
            .map(str::to_owned)
            .to_vec()
    }

    /// The updater's command line on an image below `root`. Of certificate authorities it sees only the cluster's: to
    /// read a distribution's hundred is a third of a run.
    pub fn command(&self, root: &Path, args: &[String]) -> Command {
        let mut command = Command::new(self.updater.path());
        command.env_clear().env("SSL_CERT_FILE", self.cluster.ca_file()).arg("--root").arg(root).args(args);
        command
    }

    /// Runs the updater on an image below `root`.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn run_on(&self, root: &Path, args: &[String]) -> Output {
        self.command(root, args).output().unwrap()
    }

    /// Runs the updater on this image.
    ///
    /// # Panics
    /// If it does not succeed.
    pub fn run(&self, args: &[String]) {
        let output = self.run_on(&self.root(), args);
        assert!(output.status.success(), "{args:?}: {output:?}");
    }
}

/// The words of a command line.
pub fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// A directory in memory, where a sync costs nothing: it is the order of calls that is tested, and there are thousands.
///
/// # Errors
/// It cannot be made.
pub fn scratch() -> io::Result<TempDir> {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }
}

/// A copy of the image below `root`, in memory.
///
/// # Panics
/// If it cannot be made.
pub fn copy(root: &Path) -> TempDir {
    let dir = scratch().unwrap();
    copy_to(root, dir.path()).unwrap();
    dir
}

/// Copies what is below `root` into the directory `to`: modes, times, owners and second names as they are.
///
/// # Errors
/// It cannot be copied.
pub fn copy_to(root: &Path, to: &Path) -> io::Result<()> {
    let output = Command::new("cp").arg("-a").arg(root.join(".")).arg(to).output()?;
    if output.status.success() {
        Ok(())
    } else {
        Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()))
    }
}
