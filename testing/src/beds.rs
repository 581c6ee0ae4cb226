//! Beds for tests: throw-away Debian systems with a real systemd as PID 1, by way of `bed.sh`.
//!
//! A machine that cannot host beds (not root, tools missing) skips:
//!
//! ```ignore
//! let Some(bed) = Bed::up("recovery") else { return };
//! bed.put("target/…/teleport-update", "/usr/lib/teleport-update/teleport-update");
//! assert!(bed.run(&["teleport-update", "status"]).status.success());
//! bed.cut();
//! bed.boot();
//! ```
//!
//! Beds share the host's network: a server of the test on 127.0.0.1 is reachable from within. This module does not hide
//! failures: everything but `run` and `exec`, which give back what the command did, panics with the bed's own words.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// One running (or cut, or halted) bed. Dropping it kills it and removes every trace.
#[derive(Debug)]
pub struct Bed {
    name: String,
    root: PathBuf,
}

impl Bed {
    /// A fresh bed, booted and ready; `None`, with the reason on stderr, where this machine cannot host one.
    ///
    /// `name` is made unique per process and call. With `CI=true` a machine on which we are root must host beds (or say
    /// `TELEPORT_UPDATE_NO_BEDS=1`): there a skipped test would go unseen for ever.
    pub fn up(name: &str) -> Option<Bed> {
        Self::up_with(name, &[])
    }

    /// Like [`Bed::up`], with further arguments for `systemd-nspawn` (`--private-network`, `--bind-ro=…`).
    pub fn up_with(name: &str, nspawn: &[&str]) -> Option<Bed> {
        Self::up_on("bookworm", name, nspawn)
    }

    /// Like [`Bed::up_with`], on a root of `root.sh`: `bullseye`, `bookworm-rpm`, ….
    pub fn up_on(root: &str, name: &str, nspawn: &[&str]) -> Option<Bed> {
        Self::up_from(root, None, name, nspawn)
    }

    /// The first boot of a host whose disk is the image `layer`, see [`Bed::layer`], over `root`.
    pub fn clone_of(root: &str, layer: &Path, name: &str, nspawn: &[&str]) -> Option<Bed> {
        Self::up_from(root, Some(layer), name, nspawn)
    }

    fn up_from(root: &str, layer: Option<&Path>, name: &str, nspawn: &[&str]) -> Option<Bed> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("{name}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let mut args = vec!["up", &name];
        args.extend(nspawn);
        let up = script_on(root, layer, &args);
        if up.status.code() == Some(77) {
            let why = text(&up.stderr);
            let must = why.contains("no beds here")
                && std::env::var("CI").is_ok_and(|ci| ci == "true")
                && std::env::var_os("TELEPORT_UPDATE_NO_BEDS").is_none()
                && rustix::process::geteuid().is_root();
            assert!(!must, "{why}");
            eprintln!("skipped: {}", why.trim());
            return None;
        }
        let root = PathBuf::from(succeed(&args, up).trim_end());
        Some(Bed { name, root })
    }

    /// The bed's name, which is also its host name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its root directory as the host sees it, also while the bed is cut or halted. Its `/run` and `/tmp` are not below.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// `path` (absolute, in the bed) as the host sees it.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").expect("an absolute path in the bed"))
    }

    /// Runs a command in a unit of its own inside, as `systemd-run --pipe --wait` does: PID 1's child, own cgroup.
    pub fn run<S: AsRef<OsStr>>(&self, command: &[S]) -> Output {
        self.inside("run", command)
    }

    /// Runs a command in the bed's namespaces, but not in its cgroups: cheaper, and works while systemd is busy.
    pub fn exec<S: AsRef<OsStr>>(&self, command: &[S]) -> Output {
        self.inside("exec", command)
    }

    /// [`Bed::run`] with `sh -c`; panics unless it exits 0; its stdout.
    pub fn sh(&self, line: &str) -> String {
        let output = self.run(&["sh", "-c", line]);
        succeed(&["run", &self.name, line], output)
    }

    /// Copies a file of the host, mode included, to `in_bed`; makes the directories.
    pub fn put(&self, from_host: impl AsRef<Path>, in_bed: impl AsRef<Path>) {
        let (from, to) = (from_host.as_ref(), self.parent_made(in_bed.as_ref()));
        // A running program cannot be overwritten, only replaced.
        std::fs::remove_file(&to).ok();
        std::fs::copy(from, &to).unwrap_or_else(|e| panic!("{} to {}: {e}", from.display(), to.display()));
    }

    /// Installs an updater and its units as the package does it.
    pub fn put_updater(&self, program: &Path) {
        self.put(program, "/usr/lib/teleport-update/teleport-update");
        self.sh("ln -sf ../lib/teleport-update/teleport-update /usr/bin/teleport-update");
        for unit in ["teleport-update.service", "teleport-update.timer", "teleport-update-recover.service"] {
            self.put(checkout(&format!("systemd/{unit}")), format!("/usr/lib/systemd/system/{unit}"));
        }
    }

    /// Writes `content` to `in_bed` with `mode`; makes the directories.
    pub fn write(&self, in_bed: impl AsRef<Path>, content: impl AsRef<[u8]>, mode: u32) {
        use std::os::unix::fs::PermissionsExt;
        let to = self.parent_made(in_bed.as_ref());
        std::fs::remove_file(&to).ok();
        std::fs::write(&to, content).unwrap_or_else(|e| panic!("{}: {e}", to.display()));
        std::fs::set_permissions(&to, std::fs::Permissions::from_mode(mode)).expect("mode");
    }

    /// Power cut: every process dies at once. Files stay as the kernel has them, unsynced pages included.
    pub fn cut(&self) {
        self.must("cut");
    }

    /// Boots a cut or halted bed from the same disk, until ready.
    pub fn boot(&self) {
        self.must("boot");
    }

    /// An orderly reboot, until ready.
    pub fn reboot(&self) {
        self.must("reboot");
    }

    /// An orderly shutdown.
    pub fn halt(&self) {
        self.must("halt");
    }

    /// Copies what a halted bed changed to the new directory `dir`: an image, for [`Bed::clone_of`].
    pub fn layer(&self, dir: &Path) {
        let args = ["layer", &self.name, dir.to_str().expect("a path of text")];
        succeed(&args, script(&args));
    }

    /// Polls a shell condition inside until it holds; panics, with its last output, after `deadline`.
    pub fn until(&self, condition: &str, deadline: Duration) {
        let end = Instant::now() + deadline;
        // The bed's own shell asks again: to enter a bed costs more than most conditions.
        let patient = format!("until ({condition}\n) >/dev/null 2>&1; do sleep 0.05; done");
        loop {
            let left = end.saturating_duration_since(Instant::now()).as_secs().max(1).to_string();
            if self.exec(&["timeout", &left, "sh", "-c", &patient]).status.success() {
                return;
            }
            // Its time is over, or the bed was cut, or is not up yet.
            let output = self.exec(&["sh", "-c", condition]);
            if output.status.success() {
                return;
            }
            let (out, err) = (text(&output.stdout), text(&output.stderr));
            assert!(Instant::now() < end, "not within {deadline:?} in {}: {condition}\n{out}{err}", self.name);
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    fn parent_made(&self, in_bed: &Path) -> PathBuf {
        let path = self.path(in_bed);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).unwrap_or_else(|e| panic!("{}: {e}", parent.display()));
        }
        path
    }

    fn inside<S: AsRef<OsStr>>(&self, verb: &str, command: &[S]) -> Output {
        let mut args = vec![OsStr::new(verb), OsStr::new(&self.name)];
        args.extend(command.iter().map(AsRef::as_ref));
        script(&args)
    }

    fn must(&self, verb: &str) -> String {
        let args = [verb, &self.name];
        succeed(&args, script(&args))
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        if std::thread::panicking() && std::env::var_os("KEEP_BEDS").is_some() {
            eprintln!("kept: bed {} ({})", self.name, self.root.display());
            return;
        }
        let down = script(&["down", &self.name]);
        // No panic here: it could be the second one.
        if !down.status.success() {
            eprintln!("bed {} did not go down: {}", self.name, text(&down.stderr));
        }
    }
}

/// A file of the checkout. Where the test runs, not where it was compiled: checkouts may share a target directory.
///
/// # Panics
/// If this is no checkout.
pub fn checkout(path: &str) -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let mut above = Path::new(&package).ancestors();
    above.find(|dir| dir.join("tests/beds").is_dir()).expect("a checkout").join(path)
}

fn script<S: AsRef<OsStr>>(args: &[S]) -> Output {
    script_on("bookworm", None, args)
}

fn script_on<S: AsRef<OsStr>>(root: &str, layer: Option<&Path>, args: &[S]) -> Output {
    let path = checkout("tests/beds/bed.sh");
    let mut command = Command::new(&path);
    command.env("BED_ROOT", root).env("BED_LAYER", layer.unwrap_or(Path::new("")));
    // Should this process be killed, the next bed sweeps up its own.
    if std::env::var_os("KEEP_BEDS").is_none() {
        command.env("BED_OWNER", std::process::id().to_string());
    }
    command.args(args).stdin(Stdio::null()).output().unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn succeed(args: &[&str], output: Output) -> String {
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "bed.sh {} ended with {}\n{out}{err}", args.join(" "), output.status);
    out
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
