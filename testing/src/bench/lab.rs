//! What all measurements share: the programs, the cluster, and a directory on the disk that is measured.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::mount::{MountFlags, UnmountFlags};
use serde_json::json;
use tempfile::TempDir;

use crate::bench::run::output;
use crate::bench::server::{Release, Server};
use crate::bench::sysupdate::Sysupdate;
use crate::crash::Updater;

/// Memory for a file system of its own: the largest archive and what it unpacks to, with room.
const MEMORY: &std::ffi::CStr = c"size=8g,mode=755";

/// Bytes of padding by which the size of an archive is found out.
const TRIAL: u64 = 4_000_000;

/// The programs that are measured, and those that help.
#[derive(Debug, Clone)]
pub struct Programs {
    /// The updater, as it is delivered.
    pub updater: PathBuf,
    /// The stand-in for the agent.
    pub agent: PathBuf,
    /// `test-cluster`.
    pub cluster: PathBuf,
    /// `test-limit`.
    pub limit: PathBuf,
}

/// The laboratory.
#[derive(Debug)]
pub struct Lab {
    /// The programs.
    pub programs: Programs,
    /// The updater, where a cell finds it.
    pub updater: Updater,
    /// The cluster.
    pub server: Server,
    /// Another packaged updater, or why there is none.
    pub sysupdate: Result<Sysupdate, String>,
    memory: Memory,
    /// On the file system that is measured.
    work: TempDir,
}

/// A file system in memory. Dropping it unmounts it.
#[derive(Debug)]
struct Memory(PathBuf);

impl Drop for Memory {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, UnmountFlags::DETACH);
    }
}

/// An archive of a size that is measured.
#[derive(Debug, Clone)]
pub struct Sized {
    /// As it is called: "180 MB".
    pub label: String,
    /// What the cluster serves.
    pub release: Release,
    /// The sizes of its files, bytes.
    pub files: Vec<u64>,
}

impl Sized {
    /// Bytes, unpacked.
    pub fn unpacked(&self) -> u64 {
        self.files.iter().sum()
    }
}

impl Lab {
    /// Starts the cluster with its files below `parent`, the directory whose file system is measured.
    ///
    /// # Errors
    /// It does not start.
    pub fn open(programs: Programs, parent: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(parent)?;
        sweep(parent)?;
        let work = tempfile::Builder::new().prefix("work-").tempdir_in(parent)?;
        let dir = work.path().join("cluster");
        let server = Server::start(&programs.cluster, &dir, &programs.agent, &programs.updater)?;
        // Before the name space of the other updater is made, which would not see it.
        let memory = Memory(work.path().join("memory"));
        std::fs::create_dir(&memory.0)?;
        rustix::mount::mount("bench", &memory.0, "tmpfs", MountFlags::empty(), MEMORY)?;
        let sysupdate = Sysupdate::start(work.path(), &server).map_err(|error| error.to_string());
        let updater = Updater::new(&programs.updater);
        Ok(Self { programs, updater, server, sysupdate, memory, work })
    }

    /// The directory on the file system that is measured.
    pub fn work(&self) -> &Path {
        self.work.path()
    }

    /// The root of a file system of its own, in memory, where every byte in use is that of the run at hand.
    pub fn memory(&self) -> &Path {
        &self.memory.0
    }

    /// Publishes `version` with an archive of about `megabytes` (10^6 bytes).
    ///
    /// # Errors
    /// What the cluster says.
    pub fn publish(&self, version: &str, megabytes: u64) -> io::Result<Sized> {
        let bare = self.server.publish(version, json!({}))?;
        // The padding's own ratio is known to a few percent only: tried on a little first.
        let trial = self.server.publish(version, json!({ "padding": TRIAL }))?;
        let missing = (megabytes * 1_000_000).saturating_sub(bare.size) as f64;
        let padding = (missing * TRIAL as f64 / (trial.size - bare.size) as f64) as u64;
        let release = self.server.publish(version, json!({ "padding": padding }))?;
        let listed = output(Command::new("tar").arg("-tvzf").arg(&release.path))?;
        let of_file = |line: &str| line.split_whitespace().nth(2).filter(|_| line.starts_with('-'))?.parse().ok();
        let files = listed.lines().filter_map(of_file).collect();
        let sized = Sized { label: format!("{megabytes} MB"), release, files };
        if let Ok(sysupdate) = &self.sysupdate {
            sysupdate.offer(&sized.release, &self.server)?;
        }
        Ok(sized)
    }

    /// What is due is written, and the archive is in the page cache: every run begins alike.
    ///
    /// # Errors
    /// The archive cannot be read.
    pub fn settle(&self, sized: &Sized) -> io::Result<()> {
        rustix::fs::syncfs(std::fs::File::open(self.work())?)?;
        io::copy(&mut std::fs::File::open(&sized.release.path)?, &mut io::sink()).map(drop)
    }
}

/// Removes what a bench that was killed has left.
fn sweep(parent: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(parent)? {
        let path = entry?.path();
        if path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"work-")) {
            let _ = rustix::mount::unmount(path.join("memory"), UnmountFlags::DETACH);
            output(Command::new("rm").args(["-rf", "--one-file-system"]).arg(path))?;
        }
    }
    Ok(())
}
