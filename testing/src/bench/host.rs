//! The host that the updater works on: a cell, in which it runs as from its timer, without `--root`. No agent runs in
//! it, so that no verdict is waited for: what is measured is the update itself, from the question to the last sync.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::bench::lab::Lab;
use crate::crash::live::cell::{Cell, UPDATER};

/// The certificates that every host has; the cluster's authority is added to them, as a public one would be there.
const BUNDLE: &str = "etc/ssl/certs/ca-certificates.crt";

/// Which authorities a host knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Roots {
    /// Those of a distribution, and the cluster's with them.
    System,
    /// The cluster's alone, given by `--ca-file`.
    Own,
}

/// The files of a host on which one version is installed and enabled; the hosts that are measured are copies.
#[derive(Debug)]
pub struct Template {
    dir: TempDir,
}

impl Template {
    /// A host that `enable` brought to `version`, which the cluster must serve.
    ///
    /// # Errors
    /// `enable` fails.
    pub fn new(lab: &Lab, version: &str, roots: Roots) -> io::Result<Self> {
        let skeleton = Cell::skeleton()?;
        let root = skeleton.path().join("root");
        let mut args = format!("enable --proxy {} --base-url {}", lab.server.addr, lab.server.base_url);
        match roots {
            Roots::System => {
                crate::bench::run::output(Command::new("cp").args(["-a", "/etc/ssl"]).arg(root.join("etc")))?;
                let mut bundle = std::fs::read(root.join(BUNDLE))?;
                bundle.extend(std::fs::read(&lab.server.ca)?);
                std::fs::write(root.join(BUNDLE), bundle)?;
            }
            Roots::Own => args += " --ca-file /etc/cluster-ca.pem",
        }
        std::fs::copy(&lab.server.ca, root.join("etc/cluster-ca.pem"))?;
        lab.server.name(version)?;
        let cell = Cell::copy_of(skeleton.path(), &lab.updater)?;
        let ran = cell.run(&args)?;
        if ran.code != Some(0) {
            return Err(io::Error::other(format!("enable: {}", ran.said)));
        }
        let dir = tempfile::tempdir_in(lab.work())?;
        cell.keep(dir.path())?;
        Ok(Self { dir })
    }

    /// A host of its own, with its files in a new directory below `parent`.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn host(&self, lab: &Lab, parent: &Path) -> io::Result<Host> {
        let dir = tempfile::tempdir_in(parent)?;
        Ok(Host { cell: Cell::copy_in(dir, self.dir.path(), &lab.updater)? })
    }
}

/// A host that is measured. Dropping it removes it.
#[derive(Debug)]
pub struct Host {
    cell: Cell,
}

impl Host {
    /// Starts `program` with `args` on the host, `updater` for the updater; it says nothing.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(&self, program: &str, args: &[&str]) -> io::Result<Child> {
        let updater = format!("{UPDATER}/teleport-update");
        let args = args.iter().map(|arg| if *arg == "updater" { &updater } else { *arg });
        let mut command = self.cell.command(if program == "updater" { &updater } else { program });
        command.args(args).stdout(Stdio::null()).stderr(std::fs::File::create(self.said())?);
        self.cell.enter(|| command.spawn())?
    }

    /// What the last program said on its standard error.
    pub fn said(&self) -> PathBuf {
        self.cell.path("/run/said")
    }

    /// The version that the agent's link leads to.
    pub fn linked(&self) -> String {
        let target = std::fs::read_link(self.cell.path("/usr/local/bin/teleport")).unwrap_or_default();
        let dir = target.parent().and_then(Path::parent).and_then(Path::file_name);
        dir.unwrap_or_default().to_string_lossy().into_owned()
    }

    /// How many system calls `program` with `args`, and what it starts, make; by strace.
    ///
    /// # Errors
    /// It cannot be started, fails, or strace does.
    pub fn system_calls(&self, program: &str, args: &[&str]) -> io::Result<u64> {
        let strace = [&["-f", "-c", "-o", "/run/strace", program], args].concat();
        let status = self.start("/usr/bin/strace", &strace)?.wait()?;
        let report = std::fs::read_to_string(self.cell.path("/run/strace"))?;
        let calls = crate::bench::run::system_calls(&report).filter(|_| status.success());
        calls.ok_or_else(|| io::Error::other(format!("strace: {status}: {report}")))
    }
}
