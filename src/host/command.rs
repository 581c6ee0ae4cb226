//! External programs: bounded in time and output, in a session of their own, with a clean environment.
//!
//! The only place that starts a process. A program's own failure is no error here: the caller reads its [`Output`].

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use rustix::thread::{UnshareFlags, set_no_new_privs, set_thread_gid, set_thread_groups, set_thread_uid};

use crate::host::selinux;
use crate::host::signal::{Cancelled, Signals};
use crate::report::{Code, Error, IoContext, Result};

/// Bytes kept of each output stream; the rest is read and dropped, so that the program never blocks on us.
pub(crate) const OUTPUT_LIMIT: usize = 64 * 1024;
/// Time for a program without a time-out of its own: long for a loaded host, short for a person waiting.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
/// Between SIGTERM and SIGKILL: enough to remove temporary files.
const KILL_GRACE: Duration = Duration::from_secs(2);
/// Longest wait between two looks at the child: kernels before 5.3 have no pidfd to wake us.
const SLICE: Duration = Duration::from_millis(20);
/// Longest wait between two looks at our own signals.
const SIGNAL_SLICE: Duration = Duration::from_millis(200);
/// A freshly written program can be busy (ETXTBSY) while another child of ours is between fork and exec.
const BUSY_TRIES: u32 = 10;
/// The overflow ids: `nobody` on every Linux, whatever its user database says.
const NOBODY: u32 = 65534;
/// What a program gets as its PATH: root's usual one, whatever the caller's is.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Where our own tools are looked for, whatever the caller's PATH is. The system's directories come first: an executable of
/// an archive, or a wrapper of somebody's, must not take the place of `systemctl` or `dpkg`.
const TOOLS: [&str; 6] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/sbin", "/usr/local/bin"];

/// A program to be run.
#[derive(Debug, Clone, Default)]
#[must_use]
pub(crate) struct Command {
    program: PathBuf,
    args: Vec<OsString>,
    env: BTreeMap<OsString, OsString>,
    timeout: Duration,
    unprivileged: bool,
    detached: bool,
}

/// What a program that ended by itself left behind.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    /// Exit status or signal.
    pub status: ExitStatus,
    /// Standard output, at most [`OUTPUT_LIMIT`] bytes.
    pub stdout: Vec<u8>,
    /// Standard error, at most [`OUTPUT_LIMIT`] bytes.
    pub stderr: Vec<u8>,
    /// The command line, for messages.
    pub line: String,
}

impl Command {
    /// `program` is a path, or a name looked for in the system's directories; 60 s unless told otherwise.
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Self {
        Self { program: PathBuf::from(program.as_ref()), timeout: DEFAULT_TIMEOUT, ..Self::default() }
    }

    /// Adds one argument.
    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds one argument, `name` and `value` in one word: `--root=/srv/image`.
    pub(crate) fn flag(self, name: &str, value: impl AsRef<OsStr>) -> Self {
        let mut flag = OsString::from(name);
        flag.push(value);
        self.arg(flag)
    }

    /// Adds arguments.
    pub(crate) fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets a variable beside PATH, LANG and LC_ALL, which are all that the program gets otherwise.
    pub(crate) fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env.insert(name.as_ref().to_owned(), value.as_ref().to_owned());
        self
    }

    /// How long the program may run before it and its group are ended.
    pub(crate) fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Runs it as `nobody`, without groups, new privileges or network, and by descriptor: the directories above it
    /// may be closed to `nobody`, only the file itself must be executable. Without root, or where there is no such id
    /// (a rootless container), it runs as the caller.
    pub(crate) fn unprivileged(mut self) -> Self {
        self.unprivileged = true;
        self
    }

    /// Sends its output to /dev/null: what it leaves running must not die of SIGPIPE when we close our end.
    pub(crate) fn detached(mut self) -> Self {
        self.detached = true;
        self
    }

    /// Runs the program to its end. Processes that it leaves running, even with its output open, are not waited for.
    ///
    /// Errors ([`Code::Io`]): it cannot be started, or the time-out passed; both name the command.
    pub(crate) fn run(&self) -> Result<Output> {
        self.run_judged()?
    }

    /// The same, and tells whose fault it is that there is no output: by an outer error this host could not start it
    /// (processes, memory, descriptors, policies), by an inner one the file is no program here, or did not end in time.
    pub(crate) fn run_judged(&self) -> Result<Result<Output>> {
        let line = self.line();
        let stream = || if self.detached { Stdio::null() } else { Stdio::piped() };
        let (mut command, _kept_open) = self.prepare()?;
        command
            .env_clear()
            .env("PATH", PATH)
            .env("LANG", "C")
            .env("LC_ALL", "C")
            .envs(&self.env)
            .current_dir("/")
            .stdin(empty_input().at("cannot run", &line)?)
            .stdout(stream())
            .stderr(stream());
        let mut child = match spawn(&mut command) {
            Ok(child) => child,
            Err(error) if is_programs_fault(&error, Path::new(command.get_program())) => {
                return Ok(Err(error).at("cannot run", &line));
            }
            Err(error) => return Err(error).at("cannot run", &line),
        };
        let mut streams =
            [Stream::new(child.stdout.take().map(OwnedFd::from)), Stream::new(child.stderr.take().map(OwnedFd::from))];
        let deadline = Instant::now() + self.timeout;
        let status = match wait(&mut child, &mut streams, deadline).at("cannot wait for", &line)? {
            Some(status) => status,
            None => {
                end_group(&mut child, &mut streams);
                let what = format!("`{line}` did not end within {} s and was stopped", self.timeout.as_secs());
                return Ok(Err(Error::new(Code::Io, what)));
            }
        };
        let [stdout, stderr] = streams;
        Ok(Ok(Output { status, stdout: stdout.kept, stderr: stderr.kept, line }))
    }

    /// Runs the program until it ends (`true`), or until its time is over or `cancelled` says so: then it and its group are ended. It
    /// writes to the pipe `output`, of which the first [`OUTPUT_LIMIT`] bytes are given, and which it need not be alone to write to.
    ///
    /// Errors ([`Code::Io`]): it cannot be started.
    pub(crate) fn run_heard(&self, output: File, cancelled: Cancelled<'_>) -> Result<(bool, Vec<u8>)> {
        let line = self.line();
        let (mut command, _kept_open) = self.prepare()?;
        let end = || output.try_clone().at("cannot run", &line);
        command.env_clear().env("PATH", PATH).envs(&self.env).current_dir("/").stdout(end()?).stderr(end()?);
        command.stdin(empty_input().at("cannot run", &line)?);
        let mut child = spawn(&mut command).at("cannot run", &line)?;
        let mut streams = [Stream::new(Some(output.into()))];
        let deadline = Instant::now() + self.timeout;
        let is_over = loop {
            let slice = deadline.min(Instant::now() + SIGNAL_SLICE);
            if wait(&mut child, &mut streams, slice).at("cannot wait for", &line)?.is_some() {
                break true;
            }
            if cancelled() || Instant::now() >= deadline {
                end_group(&mut child, &mut streams);
                break false;
            }
        };
        let [output] = streams;
        Ok((is_over, output.kept))
    }

    /// Runs the program in our place: our terminal, environment and directory. SIGINT and SIGTERM that we receive are passed on.
    /// After one of the `limits` (in all, after a signal) it is told to end, and ended: the answer is `None` then. Without
    /// `limits` SIGTERM and SIGHUP are ours alone: the program goes on without us, and the answer is `None`.
    ///
    /// Errors ([`Code::Io`]): it cannot be started.
    pub(crate) fn run_attached(
        &self,
        limits: Option<(Duration, Duration)>,
        signals: &Signals,
    ) -> Result<Option<ExitStatus>> {
        let line = self.line();
        let (mut command, _kept_open) = self.prepare()?;
        command.envs(&self.env);
        let mut child = spawn(&mut command).at("cannot run", &line)?;
        let mut deadline = limits.map(|(whole, _)| Instant::now() + whole);
        let mut passed_on = None;
        loop {
            let slice = Instant::now() + SLICE;
            if let Some(status) = wait(&mut child, &mut [], slice).at("cannot wait for", &line)? {
                return Ok(Some(status));
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                end_group(&mut child, &mut []);
                return Ok(None);
            }
            let received = signals.received();
            let ends_us = [Signal::TERM, Signal::HUP].iter().any(|signal| received == Some(signal.as_raw()));
            if limits.is_none() && ends_us {
                return Ok(None);
            }
            if received.is_some() && received != passed_on {
                let stopped = limits.filter(|_| passed_on.is_none()).map(|(_, stop)| Instant::now() + stop);
                deadline = deadline.min(stopped.or(deadline));
                passed_on = received;
                signal_group(&child, received.and_then(Signal::from_named_raw).unwrap_or(Signal::TERM));
            }
        }
    }

    /// The command line as a person would write it, for messages; not quoted for a shell.
    pub(crate) fn line(&self) -> String {
        let words = std::iter::once(self.program.as_os_str()).chain(self.args.iter().map(OsString::as_os_str));
        words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
    }

    fn prepare(&self) -> Result<(std::process::Command, Option<File>)> {
        let drop_to_nobody = self.unprivileged && rustix::process::geteuid().is_root() && has_nobody();
        let program = tool(&self.program, &TOOLS);
        let file = if drop_to_nobody { Some(File::open(&program).at("cannot run", &program)?) } else { None };
        let by_handle = |file: &File| PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let program = file.as_ref().map_or(program, by_handle);
        #[expect(clippy::disallowed_methods, reason = "this is the wrapper")]
        let mut command = std::process::Command::new(program);
        command.args(&self.args);
        if file.is_some() {
            command.arg0(&self.program);
        }
        let descriptor = file.as_ref().map(AsRawFd::as_raw_fd);
        // Asked for here: after fork nothing may be allocated.
        let context = if self.unprivileged { selinux::check_context() } else { None };
        // SAFETY: after fork only async-signal-safe system calls are made, and no memory is allocated.
        unsafe {
            command.pre_exec(move || {
                rustix::process::setsid()?;
                // Before the ids: what is in /proc of a process that changed them is root's.
                if let Some(context) = &context {
                    selinux::set_exec_context(context)?;
                }
                if let Some(descriptor) = descriptor {
                    become_nobody(descriptor)?;
                }
                Ok(())
            });
        }
        Ok((command, file))
    }
}

impl Output {
    /// True when the program ended with status 0.
    pub(crate) fn success(&self) -> bool {
        self.status.success()
    }

    /// Standard output as text; what is not UTF-8 is replaced.
    pub(crate) fn stdout_text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard error as text; what is not UTF-8 is replaced.
    pub(crate) fn stderr_text(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Itself if the status is 0, else an error with `code`, the command and its last words.
    pub(crate) fn or_fail(self, code: Code) -> Result<Self> {
        if self.success() {
            return Ok(self);
        }
        let words = [&self.stderr, &self.stdout]
            .into_iter()
            .find_map(|bytes| {
                let text = String::from_utf8_lossy(bytes).into_owned();
                text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
            })
            .unwrap_or_else(|| self.status.to_string());
        Err(Error::new(code, format!("`{}` failed: {words}", self.line)))
    }
}

/// `program` itself if it is a path, else where `dirs` have it first; the bare name where they do not.
fn tool(program: &Path, dirs: &[&str]) -> PathBuf {
    let is_program = |path: &PathBuf| rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok() && path.is_file();
    let found = || dirs.iter().map(|dir| Path::new(dir).join(program)).find(is_program);
    let is_name = program.components().count() == 1 && !program.is_absolute();
    if is_name { found().unwrap_or_else(|| program.to_owned()) } else { program.to_owned() }
}

/// One captured output stream, read without ever blocking.
struct Stream {
    file: Option<File>,
    kept: Vec<u8>,
}

impl Stream {
    fn new(fd: Option<OwnedFd>) -> Self {
        let file = fd.filter(|fd| rustix::io::ioctl_fionbio(fd, true).is_ok()).map(File::from);
        Self { file, kept: Vec::new() }
    }

    fn drain(&mut self) {
        let mut buffer = [0; 4096];
        // Bounded: a grandchild that writes for ever must not keep us here.
        for _ in 0..256 {
            let Some(file) = &mut self.file else { return };
            match file.read(&mut buffer) {
                Ok(0) => self.file = None,
                Ok(count) => {
                    let room = OUTPUT_LIMIT - self.kept.len();
                    self.kept.extend_from_slice(&buffer[..count.min(room)]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.file = None,
            }
        }
    }
}

/// An input at its end. A host without /dev/null (a bare chroot) can still run programs.
fn empty_input() -> io::Result<Stdio> {
    match File::open("/dev/null") {
        Ok(null) => Ok(null.into()),
        Err(_) => std::io::pipe().map(|(reader, _)| reader.into()),
    }
}

/// Whether `program` could not be executed for what it is: no program, for another machine, or its interpreter is not there.
fn is_programs_fault(error: &io::Error, program: &Path) -> bool {
    match error.raw_os_error() {
        Some(libc::ENOEXEC | libc::ELIBBAD) => true,
        // Of a program that is there it says that its interpreter is not.
        Some(libc::ENOENT) => program.exists(),
        _ => false,
    }
}

fn spawn(command: &mut std::process::Command) -> io::Result<Child> {
    let mut tries = 0;
    loop {
        match command.spawn() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy && tries < BUSY_TRIES => {
                tries += 1;
                std::thread::sleep(SLICE);
            }
            other => return other,
        }
    }
}

/// Waits for the child until `deadline`, reading its output meanwhile; `None` when the deadline passed.
fn wait(child: &mut Child, streams: &mut [Stream], deadline: Instant) -> io::Result<Option<ExitStatus>> {
    let pidfd = pid_of(child).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    loop {
        streams.iter_mut().for_each(Stream::drain);
        if let Some(status) = child.try_wait()? {
            streams.iter_mut().for_each(Stream::drain);
            return Ok(Some(status));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        let left = if pidfd.is_some() { left } else { left.min(SLICE) };
        let mut watched: Vec<PollFd<'_>> = streams
            .iter()
            .filter_map(|stream| stream.file.as_ref())
            .map(AsFd::as_fd)
            .chain(pidfd.as_ref().map(AsFd::as_fd))
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        match poll(&mut watched, Timespec::try_from(left).ok().as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn end_group(child: &mut Child, streams: &mut [Stream]) {
    signal_group(child, Signal::TERM);
    let ended = wait(child, streams, Instant::now() + KILL_GRACE);
    // The group outlives its leader when a grandchild ignored SIGTERM.
    signal_group(child, Signal::KILL);
    if !matches!(ended, Ok(Some(_))) {
        let _ = wait(child, streams, Instant::now() + KILL_GRACE);
    }
}

fn signal_group(child: &Child, signal: Signal) {
    if let Some(pid) = pid_of(child) {
        let _ = kill_process_group(pid, signal);
    }
}

fn pid_of(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

/// False in a user namespace without that id: its root is an ordinary user outside.
fn has_nobody() -> bool {
    ["/proc/self/uid_map", "/proc/self/gid_map"]
        .iter()
        .all(|file| std::fs::read_to_string(file).map_or(true, |map| has_id(&map, NOBODY)))
}

/// Whether a map of user_namespaces(7) has `id`.
fn has_id(map: &str, id: u32) -> bool {
    map.lines().any(|line| {
        let numbers: Vec<u32> = line.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        matches!(numbers[..], [first, _, count] if id >= first && id - first < count)
    })
}

/// Runs between fork and exec.
fn become_nobody(descriptor: i32) -> io::Result<()> {
    // SAFETY: NEWNET does not touch memory or descriptors; a kernel that refuses leaves us the network, nothing worse.
    let _ = unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) };
    let nobody = (rustix::process::Uid::from_raw(NOBODY), rustix::process::Gid::from_raw(NOBODY));
    set_thread_groups(&[])?;
    set_thread_gid(nobody.1)?;
    set_thread_uid(nobody.0)?;
    set_no_new_privs(true)?;
    // SAFETY: the parent keeps the file open until the child has been started.
    let file = unsafe { std::os::fd::BorrowedFd::borrow_raw(descriptor) };
    // A script's interpreter opens the descriptor again after exec.
    fcntl_setfd(file, FdFlags::empty())?;
    Ok(())
}

/// True when `name` is in root's usual PATH.
pub(crate) fn is_installed(name: &str) -> bool {
    PATH.split(':').any(|dir| Path::new(dir).join(name).is_file())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::host::durable;

    fn shell(script: &str) -> Command {
        Command::new("/bin/sh").args(["-c", script])
    }

    #[test]
    fn a_tool_is_looked_for_in_the_systems_directories_first_and_a_path_is_taken_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let (system, local) = (dir.path().join("usr/bin"), dir.path().join("usr/local/bin"));
        let dirs = [system.to_str().unwrap(), local.to_str().unwrap()];
        let put = |dir: &Path, mode| {
            crate::host::durable::create_dir_all(dir).unwrap();
            crate::host::durable::write(&dir.join("dpkg"), b"", mode).unwrap();
        };
        assert_eq!(tool(Path::new("dpkg"), &dirs), Path::new("dpkg"));
        put(&local, 0o755);
        assert_eq!(tool(Path::new("dpkg"), &dirs), local.join("dpkg"));
        put(&system, 0o755);
        assert_eq!(tool(Path::new("dpkg"), &dirs), system.join("dpkg"));
        put(&system, 0o644);
        assert_eq!(tool(Path::new("dpkg"), &dirs), local.join("dpkg"), "what cannot be run is no tool");
        assert_eq!(tool(Path::new("/x/dpkg"), &dirs), Path::new("/x/dpkg"));
        assert!(
            TOOLS.iter().position(|dir| dir.starts_with("/usr/local")) > TOOLS.iter().position(|dir| *dir == "/bin")
        );
    }

    #[test]
    fn output_and_status_come_back_apart() {
        let output = shell("echo out; echo err >&2; exit 3").run().unwrap();
        assert_eq!((output.stdout_text().as_str(), output.stderr_text().as_str()), ("out\n", "err\n"));
        assert_eq!(output.status.code(), Some(3));
        let error = output.or_fail(Code::ServiceFailed).unwrap_err();
        assert!(error.to_string().ends_with("failed: err"), "{error}");
    }

    #[test]
    fn a_program_that_cannot_be_one_is_told_from_a_host_that_cannot_start_any() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, content: &[u8]| {
            let path = dir.path().join(name);
            durable::write(&path, content, 0o755).unwrap();
            Command::new(path)
        };
        for (name, content) in [("none", &b"\x7fELF nothing"[..]), ("interpreter", b"#!/nonexistent/sh\n")] {
            assert!(file(name, content).run_judged().unwrap().is_err(), "{name}");
            assert!(file(name, content).unprivileged().run_judged().unwrap().is_err(), "{name}");
        }
        assert!(shell("sleep 9").timeout(Duration::from_millis(50)).run_judged().unwrap().is_err());
        // Nothing was started: it is not there, or must not be executed.
        assert!(Command::new(dir.path().join("absent")).run_judged().is_err());
        durable::write(&dir.path().join("closed"), b"#!/bin/sh\n", 0o644).unwrap();
        assert!(Command::new(dir.path().join("closed")).run_judged().is_err());
    }

    #[test]
    fn the_environment_is_only_what_was_given() {
        let output = shell("env | sort").env("X", "1").run().unwrap();
        let text = output.stdout_text();
        let names: Vec<&str> = text.lines().filter_map(|line| line.split('=').next()).collect();
        assert_eq!(names, ["LANG", "LC_ALL", "PATH", "PWD", "X"]);
    }

    #[test]
    fn more_output_than_the_limit_is_dropped_and_does_not_block() {
        let output = shell("head -c 3000000 /dev/zero").run().unwrap();
        assert!(output.success());
        assert_eq!(output.stdout.len(), OUTPUT_LIMIT);
    }

    #[test]
    fn a_grandchild_that_holds_the_output_open_is_not_waited_for() {
        let output = shell("sleep 300 & echo $!").run().unwrap();
        let number: u32 = output.stdout_text().trim().parse().unwrap();
        // It may still be on its way to be a sleep, without arguments.
        assert!(crate::host::process::Process::by_pid(number).unwrap().is_some());
        let pid = i32::try_from(number).ok().and_then(Pid::from_raw).unwrap();
        rustix::process::kill_process(pid, Signal::KILL).unwrap();
    }

    #[test]
    fn a_time_out_ends_the_whole_group_and_names_the_command() {
        let dir = tempfile::tempdir().unwrap();
        let pid_file = dir.path().join("pid");
        let script = format!("trap '' TERM; sleep 3000 & echo $! >{}; wait; wait", pid_file.display());
        // A busy machine may need longer than the first of these to start the child.
        for seconds in [0.3, 3.0, 30.0] {
            let error = shell(&script).timeout(Duration::from_secs_f64(seconds)).run().unwrap_err();
            assert!(error.what.contains("sleep 3000") && error.what.contains("did not end"), "{error}");
            if std::fs::metadata(&pid_file).is_ok_and(|meta| meta.len() > 0) {
                break;
            }
        }
        let pid: u32 = std::fs::read_to_string(&pid_file).unwrap().trim().parse().unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        while crate::host::process::Process::by_pid(pid).unwrap().is_some() {
            assert!(Instant::now() < deadline, "{pid} is alive");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error_with_its_name() {
        assert!(Command::new("/no/such").run().unwrap_err().what.contains("/no/such"));
    }

    #[test]
    fn an_unprivileged_program_runs_as_nobody_below_a_closed_directory() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        let script = dir.path().join("show");
        crate::host::durable::write(&script, b"#!/bin/sh\nid -u; id -G; cat /proc/net/dev | wc -l\n", 0o755).unwrap();
        let elf = dir.path().join("id");
        crate::host::durable::copy_synced(Path::new("/usr/bin/id"), &elf, 0o755).unwrap();

        let output = Command::new(&script).unprivileged().run().unwrap();
        let lines: Vec<String> = output.stdout_text().lines().map(str::to_owned).collect();
        assert_eq!(lines[..2], ["65534", "65534"], "{}", output.stderr_text());
        assert_eq!(Command::new(&elf).arg("-u").unprivileged().run().unwrap().stdout_text(), "65534\n");
    }

    #[test]
    fn a_user_namespace_of_one_id_has_no_nobody() {
        assert!(has_id("         0          0 4294967295\n", NOBODY));
        assert!(has_id("0 1000 1\n1 100000 65536\n", NOBODY));
        assert!(!has_id("         0       1000          1\n", NOBODY));
        assert!(!has_id("", NOBODY));
    }

    #[test]
    fn an_attached_programs_status_is_passed_on() {
        assert_eq!(attached("exit 7", LONG, LONG, &Signals::never()).unwrap().code(), Some(7));
    }

    #[test]
    fn a_signal_is_passed_on_to_an_attached_program_and_one_that_does_not_end_is_ended() {
        let signals = Signals::never();
        signals.raise(rustix::process::Signal::TERM.as_raw());
        let (deaf, soon) = ("trap '' TERM; sleep 60", Duration::from_millis(50));
        assert_eq!(attached(deaf, soon, LONG, &Signals::never()), None);
        assert_eq!(attached(deaf, LONG, soon, &signals), None);
        let status = attached("sleep 60", LONG, LONG, &signals).unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(15));
    }

    const LONG: Duration = Duration::from_secs(60);

    fn attached(script: &str, limit: Duration, stop: Duration, signals: &Signals) -> Option<ExitStatus> {
        shell(script).run_attached(Some((limit, stop)), signals).unwrap()
    }
}
