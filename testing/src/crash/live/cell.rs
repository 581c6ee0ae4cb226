//! A cell: mount and process namespaces of its own around a root of plain files, with the host's `/usr` below it. The
//! updater works there as on a host (no `--root`), an agent really runs, and killing the cell's first process is a
//! power cut for everything in it. It takes some 20 ms to come up.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::mount::{MountFlags, MountPropagationFlags};
use rustix::thread::{LinkNameSpaceType, UnshareFlags};
use tempfile::TempDir;

use crate::crash::host::{Updater, copy_to, scratch, words};

/// Where the updater is in a cell.
pub const UPDATER: &str = "/opt/teleport-update";
/// The agent's pid file.
pub const PID_FILE: &str = "/run/teleport.pid";
/// Starts the agent, as the configured command does and an init would at boot. It returns when the agent is ready or
/// dead: of one that is only about to be executed nobody can know.
pub const START: &str = "rm -f /run/teleport.pid; \
    /usr/local/bin/teleport start --config=/etc/teleport.yaml --pid-file=/run/teleport.pid \
    >>/var/log/teleport.log 2>&1 </dev/null & \
    n=0; while [ $n -lt 50 ] && kill -0 $! 2>/dev/null && [ ! -s /run/teleport.pid ]; \
    do n=$((n+1)); sleep 0.01; done; true";
/// For what takes some milliseconds on an idle machine.
pub const SOON: Duration = Duration::from_secs(20);
/// No command of a test takes that long, also where the machine is busy.
const LONG: Duration = Duration::from_secs(90);
/// Between two looks.
const SLICE: Duration = Duration::from_millis(2);
/// The first process: it collects orphans, and does nothing else.
const INIT: &str = "while :; do sleep 1000 & wait $!; done";

/// A running cell. Dropping it kills everything in it and removes its files.
#[derive(Debug)]
pub struct Cell {
    /// `root` is the cell's root, `local` its `/usr/local`.
    dir: PathBuf,
    /// Removes the files.
    _own: Option<TempDir>,
    updater: Updater,
    init: Option<Init>,
}

/// The first process and its namespaces.
#[derive(Debug)]
struct Init {
    child: Child,
    mounts: File,
    pids: File,
}

impl Drop for Init {
    fn drop(&mut self) {
        // The kernel kills the rest, and the wait lasts until they are gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Cell {
    /// The files of a cell on which nobody was yet, below a new directory.
    pub fn skeleton() -> io::Result<TempDir> {
        let dir = scratch()?;
        let made = ["dev", "etc", "opt", "proc", "root", "run", "tmp", "usr", "var/log", "var/tmp", "var/lib/teleport"];
        for made in made {
            std::fs::create_dir_all(dir.path().join("root").join(made))?;
        }
        for merged in ["bin", "sbin", "lib", "lib64"] {
            std::os::unix::fs::symlink(format!("usr/{merged}"), dir.path().join("root").join(merged))?;
        }
        std::fs::create_dir_all(dir.path().join("local/bin"))?;
        for (path, text) in [
            ("root/etc/passwd", "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/usr/sbin/nologin\n"),
            ("root/etc/group", "root:x:0:\nnogroup:x:65534:\n"),
            ("root/etc/hosts", "127.0.0.1 localhost\n"),
            ("root/etc/teleport.yaml", "teleport:\n  data_dir: /var/lib/teleport\n"),
            ("local/bin/other", "#!/bin/sh\n"),
        ] {
            std::fs::write(dir.path().join(path), text)?;
        }
        Ok(dir)
    }

    /// A running cell with a copy of the files in `template`.
    pub fn copy_of(template: &Path, updater: &Updater) -> io::Result<Self> {
        Self::copy_in(scratch()?, template, updater)
    }

    /// The same in the new directory `dir`, where it is not all the same what lies below the files.
    pub fn copy_in(dir: TempDir, template: &Path, updater: &Updater) -> io::Result<Self> {
        copy_to(template, dir.path())?;
        let mut cell = Self { dir: dir.path().to_owned(), _own: Some(dir), updater: updater.clone(), init: None };
        cell.init = Some(cell.start_init()?);
        Ok(cell)
    }

    /// The same on the files in `dir`, which stay, as after a boot.
    pub fn boot(dir: &Path, updater: &Updater) -> io::Result<Self> {
        let mut cell = Self { dir: dir.to_owned(), _own: None, updater: updater.clone(), init: None };
        cell.reboot()?;
        Ok(cell)
    }

    /// Ends everything in the cell at once, and copies what is left to the directory `to`.
    pub fn keep(mut self, to: &Path) -> io::Result<()> {
        self.init = None;
        copy_to(&self.dir, to)
    }

    /// Kills everything in the cell at once and boots it anew; the agent is not started.
    pub fn reboot(&mut self) -> io::Result<()> {
        self.init = None;
        let run = self.path("/run");
        std::fs::remove_dir_all(&run)?;
        std::fs::create_dir(&run)?;
        self.init = Some(self.start_init()?);
        Ok(())
    }

    /// A path of the cell as seen from outside.
    pub fn path(&self, inside: &str) -> PathBuf {
        match inside.strip_prefix("/usr/local") {
            Some(rest) => self.dir.join("local").join(rest.trim_start_matches('/')),
            None => self.dir.join("root").join(inside.trim_start_matches('/')),
        }
    }

    /// A path in the cell's `/proc`, which only a process in it sees in its place.
    pub fn proc(&self, inside: &str) -> PathBuf {
        self.mounted("proc").join(inside)
    }

    /// A path of the cell with what is mounted in it alone.
    fn mounted(&self, inside: &str) -> PathBuf {
        let init = self.init.as_ref().map_or(0, |init| init.child.id());
        PathBuf::from(format!("/proc/{init}/root")).join(inside.trim_start_matches('/'))
    }

    /// The updater with `args`, to be spawned within [`Cell::enter`].
    pub fn updater(&self, args: &[String]) -> Command {
        let mut command = self.command(&format!("{UPDATER}/teleport-update"));
        command.args(args);
        command
    }

    /// A program in the cell, to be spawned within [`Cell::enter`].
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin").stdin(Stdio::null());
        let root = c_string(&self.dir.join("root"));
        let mounts = self.init.as_ref().and_then(|init| init.mounts.try_clone().ok());
        let enter = move || {
            let mounts = mounts.as_ref().ok_or(io::ErrorKind::NotFound)?;
            rustix::thread::move_into_link_name_space(mounts.as_fd(), Some(LinkNameSpaceType::Mount))?;
            change_root(&root)
        };
        // SAFETY: system calls alone, on what was made ready before the fork.
        unsafe { command.pre_exec(enter) };
        command
    }

    /// Runs `work` so that every process that this thread spawns in it is born into the cell's process namespace.
    /// The thread cannot start threads meanwhile.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn enter<T>(&self, work: impl FnOnce() -> T) -> io::Result<T> {
        let init = self.init.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let _back = OwnPids::kept()?;
        rustix::thread::move_into_link_name_space(init.pids.as_fd(), Some(LinkNameSpaceType::ProcessID))?;
        Ok(work())
    }

    /// Runs the updater to its end.
    ///
    /// # Errors
    /// It cannot be started, or does not end.
    pub fn run(&self, line: &str) -> io::Result<Ran> {
        self.finish(self.updater(&words(line)))
    }

    /// Spawns `command` in the cell, and waits for its end. Not for its children's, which may hold its output open.
    ///
    /// # Errors
    /// It cannot be started, or does not end.
    pub fn finish(&self, command: Command) -> io::Result<Ran> {
        self.spawn(command)?.end()
    }

    /// Spawns `command` in the cell.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn spawn(&self, mut command: Command) -> io::Result<Running> {
        let said = tempfile::tempfile_in(&self.dir)?;
        command.stdout(said.try_clone()?).stderr(said.try_clone()?);
        let child = self.enter(|| command.spawn())??;
        Ok(Running { child, said })
    }

    /// Runs the updater once for each of `lines`, all starting at the same instant.
    ///
    /// # Errors
    /// One cannot be started, or does not end.
    pub fn run_at_once(&self, lines: &[&str]) -> io::Result<Vec<Ran>> {
        self.sh("rm -f /run/gate; mkfifo /run/gate")?;
        let start = |line: &&str| {
            let mut command = self.command("/bin/sh");
            command.args(["-c", &format!(": </run/gate; exec {UPDATER}/teleport-update {line}")]);
            self.spawn(command)
        };
        let mut running = lines.iter().map(start).collect::<io::Result<Vec<_>>>()?;
        let stat = |run: &Running| std::fs::read_to_string(format!("/proc/{}/stat", run.pid().as_raw_nonzero()));
        let sleeps = |run: &Running| stat(run).is_ok_and(|stat| stat.contains(") S "));
        let _ = until(SOON, || running.iter().all(sleeps));
        // Open until the last one is through.
        let gate = File::options().write(true).open(self.path("/run/gate"))?;
        let ran = running.drain(..).map(Running::end).collect();
        drop(gate);
        ran
    }

    /// Runs a line of shell to its end.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn sh(&self, line: &str) -> io::Result<Ran> {
        let mut command = self.command("/bin/sh");
        command.args(["-c", line]);
        self.finish(command)
    }

    /// Starts the agent as an init would, if its link leads somewhere, and waits until it is ready.
    ///
    /// # Errors
    /// It does not become ready.
    pub fn start_agent(&self) -> Result<(), String> {
        if self.agent().is_some() {
            return Ok(());
        }
        self.sh(START).map_err(|error| error.to_string())?;
        until(SOON, || self.agent().is_some()).map_err(|_| {
            let log = std::fs::read_to_string(self.path("/var/log/teleport.log")).unwrap_or_default();
            format!("the agent does not start: {}", log.lines().last().unwrap_or_default())
        })
    }

    /// The living process that the pid file names, as numbered in the cell.
    pub fn agent(&self) -> Option<u32> {
        let text = std::fs::read_to_string(self.path(PID_FILE)).ok()?;
        let pid = text.trim().parse().ok()?;
        self.agents().contains(&pid).then_some(pid)
    }

    /// Every living process `teleport start` of the cell.
    pub fn agents(&self) -> Vec<u32> {
        let numbers = std::fs::read_dir(self.proc("")).into_iter().flatten().flatten();
        let mut pids: Vec<u32> = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        pids.retain(|pid| {
            let line = std::fs::read(self.proc(&format!("{pid}/cmdline"))).unwrap_or_default();
            let words: Vec<&[u8]> = line.split(|byte| *byte == 0).take(2).collect();
            words.first().is_some_and(|program| program.ends_with(b"/teleport")) && words.get(1) == Some(&&b"start"[..])
        });
        pids
    }

    /// Whether the process `pid` of the cell runs the file at `path`, by its inode.
    pub fn runs(&self, pid: u32, path: &str) -> bool {
        use std::os::unix::fs::MetadataExt;
        let id = |path: &Path| std::fs::metadata(path).map(|found| (found.dev(), found.ino())).ok();
        let exe = id(&self.proc(&format!("{pid}/exe")));
        exe.is_some() && exe == id(&self.mounted(path))
    }

    /// Whether the program of process `pid` has the bytes of the file at `path`.
    pub fn runs_copy(&self, pid: u32, path: &str) -> bool {
        let exe = std::fs::read(self.proc(&format!("{pid}/exe"))).ok();
        exe.is_some() && exe == std::fs::read(self.mounted(path)).ok()
    }

    fn start_init(&self) -> io::Result<Init> {
        let root = self.dir.join("root");
        let mount = |from: &Path, below: &str| (c_string(from), c_string(&root.join(below)));
        let usr = mount(Path::new("/usr"), "usr");
        let updater = self.updater.path();
        let binds = [
            mount(Path::new("/dev"), "dev"),
            mount(&self.dir.join("local"), "usr/local"),
            mount(updater.parent().unwrap_or(&updater), "opt/teleport-update"),
        ];
        std::fs::create_dir_all(root.join("opt/teleport-update"))?;
        let (proc, root) = (c_string(&root.join("proc")), c_string(&root));
        let mut command = Command::new("/bin/sh");
        command.args(["-c", INIT]).env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let enter = move || {
            // Should the test be killed, nobody else would end the cell.
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
            // SAFETY: the mount namespace is this process's own from here on; it shares no memory with others.
            unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }?;
            rustix::mount::mount_change(c"/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
            rustix::mount::mount_bind(usr.0.as_c_str(), usr.1.as_c_str())?;
            rustix::mount::mount_remount(usr.1.as_c_str(), MountFlags::BIND | MountFlags::RDONLY, c"")?;
            for (from, to) in &binds {
                rustix::mount::mount_bind(from.as_c_str(), to.as_c_str())?;
            }
            rustix::mount::mount(c"proc", proc.as_c_str(), c"proc", MountFlags::empty(), None::<&CStr>)?;
            change_root(&root)
        };
        // SAFETY: system calls alone, on what was made ready before the fork.
        unsafe { command.pre_exec(enter) };
        let back = OwnPids::kept()?;
        // SAFETY: only children of this thread are concerned.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWPID) }?;
        let child = command.spawn()?;
        drop(back);
        let space = |name: &str| File::open(format!("/proc/{}/ns/{name}", child.id()));
        let (mounts, pids) = (space("mnt")?, space("pid")?);
        Ok(Init { mounts, pids, child })
    }
}

/// A process in a cell. Dropping it kills it.
#[derive(Debug)]
pub struct Running {
    child: Child,
    said: File,
}

/// How a process ended.
#[derive(Debug)]
pub struct Ran {
    /// Its exit status; `None`: killed by a signal.
    pub code: Option<i32>,
    /// What it printed, both streams as they came.
    pub said: String,
}

impl Running {
    /// Its number outside of the cell.
    pub fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.child)
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let _ = rustix::process::kill_process(self.pid(), signal);
    }

    /// Whether it still runs.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn is_alive(&mut self) -> io::Result<bool> {
        self.child.try_wait().map(|status| status.is_none())
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// It does not end in a minute and a half; then it is killed.
    pub fn end(mut self) -> io::Result<Ran> {
        let end = Instant::now() + LONG;
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if Instant::now() >= end {
                return Err(io::Error::new(io::ErrorKind::TimedOut, format!("hangs: {}", self.said()?)));
            }
            std::thread::sleep(SLICE);
        };
        Ok(Ran { code: status.code(), said: self.said()? })
    }

    /// What it has printed so far.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn said(&self) -> io::Result<String> {
        let mut bytes = vec![0; usize::try_from(self.said.metadata()?.len()).unwrap_or(0)];
        // Not by the file's own place, which the process writes at.
        self.said.read_exact_at(&mut bytes, 0)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Puts this thread's children back into our own process namespace.
struct OwnPids(File);

impl OwnPids {
    fn kept() -> io::Result<Self> {
        File::open("/proc/thread-self/ns/pid").map(Self)
    }
}

impl Drop for OwnPids {
    fn drop(&mut self) {
        let back = rustix::thread::move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::ProcessID));
        assert!(back.is_ok() || std::thread::panicking(), "cannot leave a cell: {back:?}");
    }
}

/// What was waited for did not come in time.
#[derive(Debug, Clone, Copy)]
pub struct Late;

/// Looks until `condition` holds.
///
/// # Errors
/// It does not within `deadline`.
pub fn until(deadline: Duration, condition: impl Fn() -> bool) -> Result<(), Late> {
    let end = Instant::now() + deadline;
    while !condition() {
        if Instant::now() >= end {
            return Err(Late);
        }
        std::thread::sleep(SLICE);
    }
    Ok(())
}

fn change_root(root: &CStr) -> io::Result<()> {
    rustix::process::chroot(root)?;
    rustix::process::chdir(c"/")?;
    Ok(())
}

fn c_string(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("no name has a zero byte")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_has_its_own_processes_and_files_and_a_reboot_ends_them() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let skeleton = Cell::skeleton().unwrap();
        let updater = Updater::new(Path::new("/bin/sh"));
        let mut cell = Cell::copy_of(skeleton.path(), &updater).unwrap();
        let said = cell.sh("echo $$; ls /proc/1/exe; touch /usr/x 2>&1; touch /usr/local/x; sleep 1000 >/dev/null 2>&1 & echo $! >/run/p").unwrap().said;
        assert!(said.starts_with("3\n") || said.starts_with("2\n"), "{said}");
        assert!(said.contains("Read-only"), "{said}");
        assert!(cell.path("/usr/local/x").exists() && !Path::new("/usr/local/x").exists());
        let sleeper: u32 = std::fs::read_to_string(cell.path("/run/p")).unwrap().trim().parse().unwrap();
        assert!(cell.proc(&sleeper.to_string()).exists());
        cell.reboot().unwrap();
        assert!(!cell.path("/run/p").exists() && !cell.proc(&sleeper.to_string()).exists());
        let ours = Command::new("/bin/sh").args(["-c", "echo $$"]).output().unwrap();
        assert_ne!(String::from_utf8(ours.stdout).unwrap().trim(), "2", "this thread is back outside");
    }
}
