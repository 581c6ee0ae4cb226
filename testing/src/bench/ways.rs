//! The ways to bring a version to the disk: the updater, what an operator could use in its place, and the limit.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::bench::host::{Host, Template};
use crate::bench::lab::{Lab, Sized};

/// A way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Way {
    /// `teleport-update update`.
    Update,
    /// Download, hash and measure, unpack; one after the other.
    Passes,
    /// All at once, in a shell.
    Pipe,
    /// `systemd-sysupdate update`.
    Sysupdate,
    /// Inflating alone.
    Inflate,
    /// Writing alone.
    Write,
}

/// Today's updater, as shell: archive to disk, digest, size unpacked, unpacking. The archive goes before the sync, so
/// that it need not be written: that is in its favour.
const PASSES: &str = r#"
curl -fsS --cacert "$CA" -o archive "$URL"
curl -fsS --cacert "$CA" "$URL.sha256" | sed 's/ .*/  archive/' | sha256sum -c --quiet
gzip -dc archive | wc -c >size
mkdir new
tar -xzf archive -C new
rm archive
sync -f new
"#;

/// What a careful operator writes. The digest is known only after everything is unpacked: nothing may use `new` before.
const PIPE: &str = r#"
mkdir new
mkfifo sum
sha256sum <sum >found &
curl -fsS --cacert "$CA" "$URL" | tee sum | tar -xz -C new
wait $!
wanted=$(curl -fsS --cacert "$CA" "$URL.sha256")
read -r found _ <found
[ "$found" = "${wanted%% *}" ]
sync -f new
"#;

impl Way {
    /// Those of an archive's bytes, in the order of a round.
    pub const ALL: [Self; 6] = [Self::Update, Self::Passes, Self::Pipe, Self::Sysupdate, Self::Inflate, Self::Write];

    /// In tables and plots.
    pub fn label(self) -> &'static str {
        match self {
            Self::Update => "teleport-update",
            Self::Passes => "three passes",
            Self::Pipe => "curl | tee | tar",
            Self::Sysupdate => "systemd-sysupdate",
            Self::Inflate => "limit: inflating",
            Self::Write => "limit: writing",
        }
    }

    /// Whether it does the whole work.
    pub fn is_whole(self) -> bool {
        !matches!(self, Self::Inflate | Self::Write)
    }
}

/// A way that is ready to be started, in a directory of its own. Dropping it removes what it wrote.
#[derive(Debug)]
pub enum Ready<'a> {
    /// The updater on a host.
    Host(Host, &'a Sized),
    /// A program in an empty directory.
    Program(Command, TempDir, PathBuf),
}

impl<'a> Ready<'a> {
    /// `way` to `sized`, below `parent`; the updater on a copy of `template`.
    ///
    /// # Errors
    /// It cannot be made ready.
    pub fn new(lab: &Lab, template: &Template, way: Way, sized: &'a Sized, parent: &Path) -> io::Result<Self> {
        if way == Way::Update {
            lab.server.name(&sized.release.version)?;
            return Ok(Self::Host(template.host(lab, parent)?, sized));
        }
        let dir = tempfile::tempdir_in(parent)?;
        let shell = |script: &str| {
            let mut command = Command::new("bash");
            command.args(["-euo", "pipefail", "-c", script]).current_dir(dir.path());
            command.env("URL", format!("{}/{}", lab.server.base_url, sized.release.name)).env("CA", &lab.server.ca);
            command
        };
        let limit = || {
            let mut command = Command::new(&lab.programs.limit);
            command.current_dir(dir.path());
            command
        };
        let mut command = match way {
            Way::Passes => shell(PASSES),
            Way::Pipe => shell(PIPE),
            Way::Sysupdate => match &lab.sysupdate {
                Ok(sysupdate) => sysupdate.command(&sized.release, dir.path())?,
                Err(why) => return Err(io::Error::other(why.clone())),
            },
            Way::Inflate => {
                let mut command = limit();
                command.arg("inflate").arg(&sized.release.path);
                command
            }
            Way::Update | Way::Write => {
                let mut command = limit();
                command.args(["write", "."]).args(sized.files.iter().map(u64::to_string));
                command
            }
        };
        let said = dir.path().join("said");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        Ok(Self::Program(command, dir, said))
    }

    /// Starts it.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(&mut self) -> io::Result<Child> {
        match self {
            Self::Host(host, _) => host.start("updater", &["update"]),
            Self::Program(command, _, said) => command.stderr(std::fs::File::create(said)?).spawn(),
        }
    }

    /// Adds what was said to an error; and an updater that went nowhere is one.
    ///
    /// # Errors
    /// That of `outcome`, or that the updater went nowhere.
    pub fn judge<T>(&self, outcome: io::Result<T>) -> io::Result<T> {
        let said = match self {
            Self::Host(host, _) => host.said(),
            Self::Program(_, _, said) => said.clone(),
        };
        let said = || std::fs::read_to_string(&said).unwrap_or_default();
        match (self, outcome) {
            (Self::Host(host, sized), Ok(_)) if host.linked() != sized.release.version => {
                Err(io::Error::other(format!("the host is on {:?}: {}", host.linked(), said())))
            }
            (_, outcome) => outcome.map_err(|error| io::Error::other(format!("{error}: {}", said()))),
        }
    }

    /// How many system calls it makes, with all that it starts; by strace.
    ///
    /// # Errors
    /// It fails, or strace does.
    pub fn system_calls(&mut self) -> io::Result<u64> {
        match self {
            Self::Host(host, _) => host.system_calls("updater", &["update"]),
            Self::Program(command, dir, said) => {
                let report = dir.path().join("strace");
                let mut strace = Command::new("strace");
                strace.args(["-f", "-c", "-o"]).arg(&report).arg(command.get_program()).args(command.get_args());
                strace.envs(command.get_envs().filter_map(|(key, value)| Some((key, value?))));
                if let Some(dir) = command.get_current_dir() {
                    strace.current_dir(dir);
                }
                let status = strace.stdout(Stdio::null()).stderr(std::fs::File::create(said)?).status()?;
                let calls =
                    crate::bench::run::system_calls(&std::fs::read_to_string(report)?).filter(|_| status.success());
                calls.ok_or_else(|| io::Error::other(format!("strace ended with {status}")))
            }
        }
    }
}
