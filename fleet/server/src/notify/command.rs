//! A command: it gets a message as JSON on standard input, and the kind as `TELEPORT_FLEET_EVENT`.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::event::{Event, line};
use super::way::Way;

/// For the command. What takes longer goes into the background by itself.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Between two looks whether it has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Most bytes of its standard error that are kept.
const MAX_OUTPUT: usize = 4096;
/// Most characters of it in the log.
const SHOWN: usize = 300;
/// Where it finds programs: the server's own variables are none of its business.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A receiver that is a program.
pub(super) struct Command {
    words: Vec<String>,
    timeout: Duration,
}

impl Command {
    /// Runs the first word with the others as arguments. No shell reads them.
    pub(super) fn new(words: Vec<String>) -> Self {
        Self { words, timeout: TIMEOUT }
    }

    fn start(&self, kind: &str) -> Result<Child, String> {
        let (program, arguments) = self.words.split_first().ok_or("there is no command")?;
        #[allow(clippy::disallowed_methods, reason = "it has a time-out and a process group, see below")]
        let mut command = std::process::Command::new(program);
        command.args(arguments).env_clear().env("PATH", PATH).env("TELEPORT_FLEET_EVENT", kind).current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
        command.spawn().map_err(|error| format!("cannot run {program}: {error}"))
    }
}

impl Way for Command {
    fn tell(&self, event: &Event) -> Result<(), String> {
        let end = Instant::now() + self.timeout;
        let mut child = self.start(event.kind)?;
        // A message is shorter than a pipe is long; who does not read it needs not.
        let _ = child.stdin.take().map(|mut input| input.write_all(event.body().as_bytes()));
        let mut output = Output::of(child.stderr.take());
        let ended = wait(&mut child, &mut output, end);
        let said = output.line();
        match ended {
            Ok(Some(status)) if status.success() => Ok(()),
            Ok(Some(status)) => Err(format!("it ended with {status}: {said}")),
            Ok(None) => Err(format!("it did not end within {} s and was killed: {said}", self.timeout.as_secs())),
            Err(error) => Err(format!("it cannot be waited for: {error}")),
        }
    }

    fn takes_heads(&self) -> bool {
        false
    }
}

/// Waits until `end`; `None`: it had to be killed, with what it started.
fn wait(child: &mut Child, output: &mut Output, end: Instant) -> std::io::Result<Option<ExitStatus>> {
    loop {
        output.read();
        if let Some(status) = child.try_wait()? {
            output.read();
            return Ok(Some(status));
        }
        if Instant::now() >= end {
            let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            // It may end at this instant.
            let _ = group.map(|group| kill_process_group(group, Signal::KILL));
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// What a command says on standard error: the beginning is kept, all is read.
struct Output {
    pipe: Option<ChildStderr>,
    kept: Vec<u8>,
}

impl Output {
    fn of(pipe: Option<ChildStderr>) -> Self {
        // Processes that it leaves behind may have the pipe open for ever.
        let pipe = pipe.filter(|pipe| rustix::io::ioctl_fionbio(pipe, true).is_ok());
        Self { pipe, kept: Vec::new() }
    }

    /// What is there now, at most so much that a command which never stops is looked at in between.
    fn read(&mut self) {
        let mut part = [0; 4096];
        for _ in 0..256 {
            let Some(pipe) = &mut self.pipe else { return };
            match pipe.read(&mut part) {
                Ok(length @ 1..) => {
                    let room = MAX_OUTPUT.saturating_sub(self.kept.len()).min(length);
                    self.kept.extend_from_slice(part.get(..room).unwrap_or_default());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Ok(_) | Err(_) => self.pipe = None,
            }
        }
    }

    fn line(&self) -> String {
        let text = String::from_utf8_lossy(&self.kept);
        if text.trim().is_empty() { "it says nothing".to_owned() } else { line(text.trim(), SHOWN) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(script: &str, timeout: Duration) -> Result<(), String> {
        let words = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
        let event = Event::keyed("k", "group_done", jiff::Timestamp::UNIX_EPOCH, "t".to_owned(), json!({}));
        Command { words, timeout }.tell(&event)
    }

    #[test]
    fn a_command_that_ends_badly_hangs_or_talks_without_end_is_a_failure() {
        let long = Duration::from_secs(60);
        assert_eq!(run("grep -q group_done && test $TELEPORT_FLEET_EVENT = group_done", long), Ok(()));
        let failed = run("echo why >&2; exit 3", long).unwrap_err();
        assert!(failed.contains("exit status: 3: why"), "{failed}");
        let began = Instant::now();
        let hung = run("sleep 600 & sleep 600", Duration::from_millis(500)).unwrap_err();
        assert!(hung.contains("was killed") && began.elapsed() < long, "{hung}");
        let talks = run("yes >&2", Duration::from_millis(500)).unwrap_err();
        assert!(talks.len() < 2 * SHOWN + 100, "{talks}");
        // What it leaves behind keeps its standard error open.
        assert_eq!(run("sleep 90 & exit 0", long), Ok(()));
        assert!(began.elapsed() < Duration::from_secs(60));
    }
}
