//! Runs a command, follows its threads and children, and steps in at its system calls.
//!
//! A seccomp filter stops only the calls that count; everything else runs at full speed. Calls are counted over all
//! threads of the command's own process. Its children are followed, as the filter is theirs too, and left alone.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use libc::{c_int, pid_t};
use rustix::fs::{MemfdFlags, memfd_create};

use crate::crash::ptrace::{self, Stopped};
use crate::crash::syscalls::{CHANGES, CLOCKS, Kind, Known, LOOKS, OLD_CHANGES, OLD_LOOKS, SENDS, Subject};

/// Longest time a command may take, seconds: one that hangs is killed and reported.
const DEADLINE: Duration = Duration::from_secs(60);
/// Most bytes of what is written that are kept.
const SAMPLE: usize = 160;

/// Which calls are stopped and counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Those that change something or make it durable.
    Changes,
    /// The same, and those that send through a socket: what a server does and answers.
    Answers,
    /// Those that only look.
    Looks,
    /// Those that ask for the time.
    Clock,
}

/// A call that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// From 1, over all threads, in the order in which they came.
    pub number: usize,
    /// The system call.
    pub name: &'static str,
    /// What it does.
    pub kind: Kind,
    /// Paths, or the path of the file that the descriptor is of.
    pub subject: String,
    /// The beginning of what is written.
    pub data: String,
}

impl std::fmt::Display for Call {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "call {} {}({})", self.number, self.name, self.subject)?;
        if self.subject.ends_with("/.journal")
            && let Some((_, record)) = self.data.split_once("{\"record\":\"")
        {
            write!(out, " {}", record.split('"').next().unwrap_or_default())?;
        }
        Ok(())
    }
}

/// What to do at a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Nothing.
    Pass,
    /// The process is killed; the call does not happen.
    Kill,
    /// The call does not happen and returns this error.
    Fail(c_int),
    /// Half of what it was to write is written.
    Short,
    /// The process gets this signal; the call happens.
    Signal(c_int),
    /// Its clock says so many seconds since 1970; others go on.
    Say(i64),
}

/// A command that has run.
#[derive(Debug)]
pub struct Traced {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// Every call that counted.
    pub calls: Vec<Call>,
    /// It was killed because it did not end.
    pub hung: bool,
}

/// Runs `command` to its end and asks `decide` at each call that counts.
///
/// # Panics
/// If it cannot be started or traced.
pub fn run(command: &mut Command, scope: Scope, decide: impl FnMut(&Call) -> Action) -> Traced {
    follow(command, scope, |_| {}, decide)
}

/// A command that runs in the background, under a thread of its own. It is killed when this is dropped.
#[derive(Debug)]
pub struct Running {
    pid: pid_t,
    thread: Option<std::thread::JoinHandle<Traced>>,
}

impl Running {
    /// Starts `command` and asks `decide`, from another thread, at each call that counts.
    ///
    /// # Panics
    /// If it cannot be started or traced.
    pub fn start(mut command: Command, scope: Scope, decide: impl FnMut(&Call) -> Action + Send + 'static) -> Self {
        let (started, pid) = mpsc::channel();
        // Only the thread that started a process may trace it.
        let thread = std::thread::spawn(move || {
            follow(&mut command, scope, |pid| started.send(pid).unwrap_or_default(), decide)
        });
        Self { pid: pid.recv().unwrap(), thread: Some(thread) }
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(std::thread::JoinHandle::is_finished)
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: c_int) {
        // Its number may be another process's by now.
        if !self.has_ended() {
            ptrace::kill(self.pid, signal);
        }
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// If the tracer did.
    pub fn end(mut self) -> Traced {
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.signal(libc::SIGKILL);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn follow(
    command: &mut Command,
    scope: Scope,
    started: impl FnOnce(pid_t),
    mut decide: impl FnMut(&Call) -> Action,
) -> Traced {
    let known: HashMap<i64, &Known> = known(scope).into_iter().map(|known| (known.number, known)).collect();
    let filter = ptrace::filter(&self::known(scope));
    let (mut stdout, mut stderr) = (memory(), memory());
    command.stdin(Stdio::null());
    command.stdout(stdout.try_clone().unwrap()).stderr(stderr.try_clone().unwrap());
    let main = ptrace::spawn(command, filter, scope == Scope::Clock).unwrap();
    started(main);
    let watch = Watchdog::over(main);
    let memory = ptrace::memory(main).unwrap();
    let mut run = Run { main, scope, memory, own: HashMap::new() };
    run.own.insert(main, true);
    let mut calls: Vec<Call> = Vec::new();
    let mut status = None;
    while let Some((pid, change)) = ptrace::wait().unwrap() {
        if !libc::WIFSTOPPED(change) {
            run.own.remove(&pid);
            if pid == main {
                status = Some(ExitStatus::from_raw(change));
            }
            continue;
        }
        let mut signal = 0;
        match (libc::WSTOPSIG(change), change >> 16) {
            (_, libc::PTRACE_EVENT_SECCOMP) => {
                if run.is_own(pid)
                    && let Ok(stopped) = ptrace::stopped(pid)
                    && let Some(known) = known.get(&stopped.number)
                    && let Some(call) = run.describe(calls.len() + 1, known, &stopped)
                {
                    let action = decide(&call);
                    calls.push(call);
                    run.act(pid, known, &stopped, action);
                }
            }
            (libc::SIGTRAP, event) if event != 0 => {}
            // The first stop of a thread or process that was attached when it was made.
            (libc::SIGSTOP, _) if !run.own.contains_key(&pid) => {
                run.is_own(pid);
            }
            (other, _) => signal = other,
        }
        // One that was killed meanwhile is gone: its end comes next.
        let _ = ptrace::go_on(pid, signal);
    }
    let hung = watch.end();
    Traced { status: status.unwrap(), stdout: text(&mut stdout), stderr: text(&mut stderr), calls, hung }
}

fn known(scope: Scope) -> Vec<&'static Known> {
    match scope {
        Scope::Changes => CHANGES.iter().chain(OLD_CHANGES).collect(),
        Scope::Answers => CHANGES.iter().chain(OLD_CHANGES).chain(SENDS).collect(),
        Scope::Looks => LOOKS.iter().chain(OLD_LOOKS).collect(),
        Scope::Clock => CLOCKS.iter().collect(),
    }
}

/// A file in memory: unlike a pipe it never fills up while nobody reads.
fn memory() -> File {
    memfd_create("output", MemfdFlags::CLOEXEC).unwrap().into()
}

fn text(file: &mut File) -> String {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A traced process.
struct Run {
    main: pid_t,
    scope: Scope,
    memory: File,
    /// By thread, whether it is one of the command's own process.
    own: HashMap<pid_t, bool>,
}

impl Run {
    fn is_own(&mut self, pid: pid_t) -> bool {
        let main = self.main;
        *self.own.entry(pid).or_insert_with(|| std::fs::exists(format!("/proc/{main}/task/{pid}")).unwrap_or(false))
    }

    /// `None` for what does not count: writes to pipes and our own captured output, and to sockets where those do not count.
    fn describe(&self, number: usize, known: &Known, stopped: &Stopped) -> Option<Call> {
        let argument = |index: usize| stopped.arguments[index];
        let mut kind = known.kind;
        let subject = match known.subject {
            Subject::Path(path) => self.path_at(libc::AT_FDCWD as u64, argument(path)),
            Subject::At(dir, path) => self.path_at(argument(dir), argument(path)),
            Subject::Two(from, to) => {
                let path = |index| self.path_at(libc::AT_FDCWD as u64, argument(index));
                format!("{} -> {}", path(from), path(to))
            }
            Subject::TwoAt(from_dir, from, to_dir, to) => {
                let from = self.path_at(argument(from_dir), argument(from));
                format!("{from} -> {}", self.path_at(argument(to_dir), argument(to)))
            }
            Subject::Fd(fd) => {
                let path = self.descriptor(argument(fd));
                if self.scope == Scope::Answers && path.starts_with("socket:") {
                    kind = Kind::Send;
                } else if matches!(known.kind, Kind::Write | Kind::Read) && !is_file(&path) {
                    return None;
                }
                path
            }
            Subject::Nothing => String::new(),
        };
        let data = match (kind, known.name) {
            (Kind::Write, "write" | "pwrite64") => {
                let length = usize::try_from(argument(2)).unwrap_or(0).min(SAMPLE);
                String::from_utf8_lossy(&self.bytes(argument(1), length)).into_owned()
            }
            _ => String::new(),
        };
        Some(Call { number, name: known.name, kind, subject, data })
    }

    fn path_at(&self, dir: u64, path: u64) -> String {
        let path = self.string(path);
        // A name below an open directory is that directory's: the number says nothing from one run to the next.
        if let Some(handle) = path.strip_prefix("/proc/self/fd/") {
            let (fd, rest) = handle.split_once('/').map_or((handle, None), |(fd, rest)| (fd, Some(rest)));
            let open = fd.parse().map_or_else(|_| path.clone(), |fd| self.descriptor(fd));
            return rest.map_or_else(|| open.clone(), |rest| format!("{open}/{rest}"));
        }
        if path.starts_with('/') || dir as c_int == libc::AT_FDCWD {
            return path;
        }
        format!("{}/{path}", self.descriptor(dir))
    }

    fn descriptor(&self, fd: u64) -> String {
        let link = std::fs::read_link(format!("/proc/{}/fd/{}", self.main, fd as c_int));
        link.map_or_else(|_| format!("descriptor {}", fd as c_int), |path| path.display().to_string())
    }

    fn bytes(&self, address: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let read = self.memory.read_at(&mut bytes, address).unwrap_or(0);
        bytes.truncate(read);
        bytes
    }

    fn string(&self, address: u64) -> String {
        let bytes = self.bytes(address, libc::PATH_MAX as usize);
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }

    fn act(&self, pid: pid_t, known: &Known, stopped: &Stopped, action: Action) {
        match action {
            Action::Pass => {}
            Action::Kill => ptrace::kill(self.main, libc::SIGKILL),
            Action::Fail(error) => ptrace::skip(pid, error).unwrap(),
            Action::Short => {
                if let Some(length) = known.length {
                    let half = (stopped.arguments[length] / 2).max(1);
                    ptrace::set_argument(pid, length, half).unwrap();
                }
            }
            Action::Signal(signal) => ptrace::kill(self.main, signal),
            Action::Say(seconds) if stopped.arguments[0] == libc::CLOCK_REALTIME as u64 => {
                let time = [seconds.to_ne_bytes(), [0; 8]].concat();
                self.memory.write_all_at(&time, stopped.arguments[1]).unwrap();
                ptrace::skip(pid, 0).unwrap();
            }
            Action::Say(_) => {}
        }
    }
}

/// A file on a file system, and not a socket, a pipe, a terminal or memory.
fn is_file(path: &str) -> bool {
    path.starts_with('/')
        && !["/memfd:", "/dev/null", "/dev/pts/", "/proc/"].iter().any(|other| path.starts_with(other))
}

/// Kills a process that does not end by itself.
struct Watchdog {
    ended: mpsc::Sender<()>,
    thread: std::thread::JoinHandle<bool>,
}

impl Watchdog {
    fn over(pid: pid_t) -> Self {
        let (ended, wait) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let is_late = wait.recv_timeout(DEADLINE).is_err();
            if is_late {
                ptrace::kill(pid, libc::SIGKILL);
            }
            is_late
        });
        Self { ended, thread }
    }

    /// Whether it had to.
    fn end(self) -> bool {
        let _ = self.ended.send(());
        self.thread.join().unwrap()
    }
}
