//! The updater of systemd itself, for the same bytes: a `url-tar` transfer into a directory. Not every Debian has it,
//! so it runs in a mount namespace over a root of `tests/beds/root.sh` that does, on the same disk.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::beds::checkout;
use crate::bench::run::output;
use crate::bench::server::{Release, Server};

/// The root that has it: Debian 13, `systemd-container`.
const ROOT: &str = "trixie-sysupdate";
const PROGRAM: &str = "/usr/lib/systemd/systemd-sysupdate";
/// Where the host's own tree is within the namespace: paths of runs are the same in there.
const HOST: &str = "/host";

/// Keeps the mounts until it is killed, and says when they are made. `$1`: the root, which nobody writes to; `$2`: an
/// empty directory; `$3`: the cluster's authority.
const MOUNTS: &str = r#"
set -eu
mount --make-rprivate /
mount -t tmpfs -o mode=755 sysupdate "$2"
mkdir "$2/upper" "$2/work" "$2/root"
mount -t overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" sysupdate "$2/root"
mkdir -p "$2/root/host"
mount --rbind / "$2/root/host"
mount --rbind /dev "$2/root/dev"
mount --rbind /sys "$2/root/sys"
mount -t proc proc "$2/root/proc"
cat "$3" >>"$2/root/etc/ssl/certs/ca-certificates.crt"
echo "127.0.0.1 localhost" >"$2/root/etc/hosts"
echo ready
exec sleep infinity
"#;

/// A namespace with `systemd-sysupdate`. Dropping it ends it.
#[derive(Debug)]
pub struct Sysupdate {
    keeper: Child,
    dir: PathBuf,
    /// As it says itself: "systemd 257".
    pub version: String,
}

impl Sysupdate {
    /// Makes the namespace, with its own directory below `work`.
    ///
    /// # Errors
    /// There is no such root here, or it cannot be mounted.
    pub fn start(work: &Path, server: &Server) -> io::Result<Self> {
        let root = output(Command::new(checkout("tests/beds/root.sh")).arg(ROOT))?;
        let dir = work.join("sysupdate");
        std::fs::create_dir_all(dir.join("mounts"))?;
        let mut command = Command::new("unshare");
        command.args(["--mount", "--kill-child", "sh", "-c", MOUNTS, "sh", root.trim()]);
        command.arg(dir.join("mounts")).arg(&server.ca).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut keeper = command.spawn()?;
        let mut said = String::new();
        if let Some(out) = keeper.stdout.take() {
            io::BufRead::read_line(&mut io::BufReader::new(out), &mut said)?;
        }
        let mut found = Self { keeper, dir, version: String::new() };
        if said.trim() != "ready" {
            return Err(io::Error::other("its root cannot be mounted"));
        }
        let said = output(found.inside().args([PROGRAM, "--version"]))?;
        said.lines().next().unwrap_or_default().split(" (").next().unwrap_or_default().clone_into(&mut found.version);
        Ok(found)
    }

    /// Lays `release` out as sysupdate wants it: a directory of the CDN with `SHA256SUMS`.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn offer(&self, release: &Release, server: &Server) -> io::Result<()> {
        let (cdn, definitions) = (server.cdn().join(&release.version), self.definitions(release));
        std::fs::create_dir_all(&cdn)?;
        std::fs::create_dir_all(&definitions)?;
        let _ = std::fs::remove_file(cdn.join(&release.name));
        std::fs::hard_link(&release.path, cdn.join(&release.name))?;
        std::fs::write(cdn.join("SHA256SUMS"), format!("{}  {}\n", release.sha256, release.name))?;
        let pattern = release.name.replace(&release.version, "@v");
        let url = format!("{}/{}/", server.base_url, release.version);
        // Digests are verified; the signature of SHA256SUMS by GnuPG is not asked for.
        let text = format!(
            "[Transfer]\nVerify=no\n\n[Source]\nType=url-tar\nPath={url}\nMatchPattern={pattern}\n\n\
             [Target]\nType=directory\nPath=/target\nMatchPattern=teleport-@v\nMode=0755\n"
        );
        std::fs::write(definitions.join("teleport.transfer"), text)
    }

    /// An update to `release` in the directory `target`, with a sync at its end as every other way has it.
    ///
    /// # Errors
    /// The directory cannot be prepared.
    pub fn command(&self, release: &Release, target: &Path) -> io::Result<Command> {
        let mut command = self.inside();
        let definitions = self.definitions(release);
        let script = format!(
            "mkdir -p /target; mount --bind '{HOST}{}' /target; {PROGRAM} --definitions='{HOST}{}' update; \
             sync -f /target; umount /target",
            target.display(),
            definitions.display()
        );
        command.args(["/bin/sh", "-ec", &script]);
        Ok(command)
    }

    fn definitions(&self, release: &Release) -> PathBuf {
        self.dir.join(&release.version)
    }

    /// A command in the namespace; the program and its arguments are still to come.
    fn inside(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LANG", "C.UTF-8");
        command.arg("-t").arg(self.keeper.id().to_string()).arg("-m");
        command.arg("chroot").arg(self.dir.join("mounts/root"));
        command
    }
}

impl Drop for Sysupdate {
    fn drop(&mut self) {
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}
