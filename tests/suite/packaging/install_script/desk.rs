//! A desk for the script: a PATH with one way to download and a package manager that only takes notes, and a server.

use std::os::unix::process::CommandExt;

use crate::packaging::old_packages::toys;
use crate::support::*;

/// Shells that the script is for, as far as this machine has them.
pub(super) const SHELLS: [&[&str]; 4] = [&["dash"], &["busybox", "ash"], &["mksh"], &["bash", "--posix"]];
/// Ways to download over https with a look at the certificate.
pub(super) const FETCHERS: [&str; 5] = ["curl", "wget", "python3", "perl", "openssl"];
/// What every system has.
const BASIC: [&str; 20] = [
    "cat",
    "cp",
    "dirname",
    "expr",
    "grep",
    "head",
    "id",
    "mkdir",
    "mktemp",
    "printf",
    "rm",
    "sed",
    "sh",
    "sha256sum",
    "sleep",
    "tail",
    "tr",
    "uname",
    "wc",
    "env",
];
/// Bytes that do not compress and do not fit into a small file system.
const PAYLOAD: usize = 200_000;

pub(super) struct Desk {
    dir: tempfile::TempDir,
    shell: &'static [&'static str],
    pub cluster: Cluster,
}

/// The script.
pub(super) fn script() -> PathBuf {
    beds::checkout("packaging/install.sh")
}

/// Sends SIGINT to the child's process group.
pub(super) fn interrupt(child: &Child) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process_group(pid, rustix::process::Signal::INT).unwrap();
}

fn find(tool: &str) -> Option<PathBuf> {
    ["/usr/bin", "/bin", "/usr/sbin", "/sbin"].iter().map(|dir| Path::new(dir).join(tool)).find(|path| path.is_file())
}

impl Desk {
    /// `None`, saying so, where this machine lacks the shell or the fetcher (`busybox`: its wget).
    pub(super) fn new(shell: &'static [&'static str], fetcher: &str) -> Option<Self> {
        for tool in [shell[0], fetcher, "dpkg-deb"] {
            if find(tool).is_none() {
                eprintln!("skipped: no {tool}");
                return None;
            }
        }
        if fetcher == "perl"
            && !Command::new("perl").args(["-MIO::Socket::SSL", "-e", "1"]).output().unwrap().status.success()
        {
            eprintln!("skipped: perl has no IO::Socket::SSL");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        for part in ["bin", "tmp", "cluster"] {
            std::fs::create_dir(dir.path().join(part)).unwrap();
        }
        let cluster = Cluster::start(&dir.path().join("cluster"));
        let desk = Self { dir, shell, cluster };
        for tool in BASIC {
            assert!(desk.link(tool), "no {tool}");
        }
        if fetcher == "busybox" {
            symlink(find("busybox").unwrap(), desk.bin("wget")).unwrap();
        } else {
            assert!(desk.link(fetcher));
        }
        // `--public-key` needs it; a fetcher that is preferred to it stays preferred.
        if fetcher == "curl" {
            desk.link("openssl");
        }
        desk.fake("id", "echo 0");
        let notes = desk.at("notes");
        desk.fake(
            "dpkg",
            &format!(
                "if [ \"$1\" = --print-architecture ]; then echo amd64; exit; fi\necho \"$*\" >{}\n\
                 for last; do :; done\nprintf '%s\\n' \"$1\" \"${{last##*/}}\" >>{}\ncp \"$last\" {}",
                desk.at("words").display(),
                notes.display(),
                desk.at("given").display()
            ),
        );
        desk.fake("dpkg-query", "exit 1");
        Some(desk)
    }

    /// A path in the directory that the script is run in.
    pub(super) fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(super) fn bin(&self, tool: &str) -> PathBuf {
        self.at("bin").join(tool)
    }

    /// Puts this machine's own `tool` on the PATH; false if it has none.
    pub(super) fn link(&self, tool: &str) -> bool {
        find(tool).is_some_and(|path| symlink(path, self.bin(tool)).is_ok())
    }

    /// Puts a program with this body on the PATH.
    pub(super) fn fake(&self, tool: &str, body: &str) {
        std::fs::remove_file(self.bin(tool)).ok();
        std::fs::write(self.bin(tool), format!("#!/bin/sh\n{body}\n")).unwrap();
        std::fs::set_permissions(self.bin(tool), PermissionsExt::from_mode(0o755)).unwrap();
    }

    /// A file of the operator's.
    pub(super) fn file(&self, name: &str, text: &str) -> String {
        std::fs::write(self.at(name), text).unwrap();
        self.at(name).display().to_string()
    }

    /// Publishes packages of these versions, other architectures' and formats' names among them, with their SHA256SUMS.
    pub(super) fn publish(&self, versions: &[&str]) {
        let mut list = String::new();
        for version in versions {
            let deb = self.cluster.cdn().join(format!("teleport-update_{version}_amd64.deb"));
            let noise: Vec<u8> = (0..PAYLOAD as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
            let control = "Architecture: amd64\n";
            toys::deb(&deb, "teleport-update", version, control, "", &[], &[("usr/share/toy".into(), noise, 0o644)]);
            let sum = protocol::Digest::of(&std::fs::read(&deb).unwrap());
            let name = deb.file_name().unwrap().to_str().unwrap();
            list += &format!("{}  teleport-update_{version}_arm64.deb\n{sum}  {name}\n", "1".repeat(64));
            list += &format!("{}  teleport-update-{version}-1.x86_64.rpm\n", "2".repeat(64));
        }
        std::fs::write(self.cluster.cdn().join("SHA256SUMS"), list).unwrap();
    }

    /// Signs the present SHA256SUMS.
    pub(super) fn sign(&self, signer: &Signer) {
        let list = std::fs::read(self.cluster.cdn().join("SHA256SUMS")).unwrap();
        let sum = protocol::Digest::of(&list).to_string();
        let bytes: Vec<u8> = (0..64).step_by(2).map(|at| u8::from_str_radix(&sum[at..at + 2], 16).unwrap()).collect();
        std::fs::write(self.cluster.cdn().join("SHA256SUMS.sig"), signer.sign(&bytes.try_into().unwrap())).unwrap();
    }

    pub(super) fn url(&self) -> String {
        self.cluster.base_url()
    }

    pub(super) fn ca(&self) -> String {
        self.cluster.ca_file().display().to_string()
    }

    /// dpkg-query answers that this version is installed.
    pub(super) fn pretend_installed(&self, version: &str) {
        self.fake(
            "dpkg-query",
            &format!(
                "for last; do :; done\n[ $last = teleport-update ] || exit 1\nprintf 'install ok installed {version}'"
            ),
        );
    }

    fn command(&self, script: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(find(self.shell[0]).unwrap());
        command.args(&self.shell[1..]).arg(script).args(args);
        command.env_clear().env("PATH", self.at("bin")).env("TMPDIR", self.at("tmp")).env("HOME", self.at("tmp"));
        command.current_dir(self.dir.path()).stdin(Stdio::null()).process_group(0);
        command
    }

    /// Runs the script against the server, without `enable`.
    pub(super) fn run(&self, more: &[&str]) -> Ran {
        let (url, ca) = (self.url(), self.ca());
        let args: Vec<&str> =
            ["--url", &url, "--ca-file", &ca, "--no-enable"].into_iter().chain(more.iter().copied()).collect();
        self.run_with(&args)
    }

    /// Runs the script with these arguments alone.
    pub(super) fn run_with(&self, args: &[&str]) -> Ran {
        Ran::of(&self.command(&script(), args).output().unwrap())
    }

    /// Runs another script, on a host that knows where its packages are even without arguments.
    pub(super) fn run_text(&self, text: &[u8], args: &[&str]) -> Ran {
        std::fs::write(self.at("cut.sh"), text).unwrap();
        let mut command = self.command(&self.at("cut.sh"), args);
        Ran::of(&command.env("TELEPORT_UPDATE_URL", self.cluster.cdn()).output().unwrap())
    }

    /// As [`Desk::run`], without waiting.
    pub(super) fn spawn(&self, more: &[&str]) -> Child {
        let (url, ca) = (self.url(), self.ca());
        let mut command = self.command(&script(), &["--url", &url, "--ca-file", &ca, "--no-enable"]);
        command.args(more).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Polls until `condition` holds.
    pub(super) fn until(&self, what: &str, condition: impl Fn() -> bool) {
        let end = Instant::now() + Duration::from_secs(20);
        while !condition() {
            assert!(Instant::now() < end, "not in time: {what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// What dpkg was asked for: pairs of its first argument and the package's name.
    pub(super) fn installed(&self) -> Vec<String> {
        let notes = std::fs::read_to_string(self.at("notes")).unwrap_or_default();
        notes.lines().map(str::to_owned).collect()
    }

    /// The bytes that dpkg was given last.
    pub(super) fn installed_bytes(&self) -> Vec<u8> {
        std::fs::read(self.at("given")).unwrap()
    }

    /// What is left in the directory for temporary files.
    pub(super) fn left(&self) -> Vec<String> {
        std::fs::read_dir(self.at("tmp"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into())
            .collect()
    }

    /// Makes the directory for temporary files smaller than a package; `None` where we may not.
    pub(super) fn small_tmp(&self) -> Option<Mounted> {
        let path = self.at("tmp");
        let made = Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "toy"]).arg(&path).output().unwrap();
        if !made.status.success() {
            eprintln!("skipped: may not mount");
            return None;
        }
        Some(Mounted(path))
    }
}

/// Unmounts when dropped.
pub(super) struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        Command::new("umount").arg(&self.0).status().ok();
    }
}
