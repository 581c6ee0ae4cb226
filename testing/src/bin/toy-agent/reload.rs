//! SIGHUP as Teleport does it: the program is started anew as a child, and the parent leaves when the child is ready.

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Sender;

use crate::agent::Event;

/// Set for the child of a reload; its standard input is then a socket to the parent.
const CHILD: &str = "TOYAGENT_RELOAD";

/// What the child says when it has taken over.
const READY: &[u8] = b"ready";

/// The child of a reload, until it is ready or dead.
#[derive(Debug)]
pub(crate) struct Successor {
    child: Child,
    number: u64,
}

impl Successor {
    /// Starts `program`, the path this process was called by: a link moved since then leads to the new version.
    ///
    /// # Errors
    /// What the operating system says.
    pub(crate) fn start(program: &str, words: &[String], number: u64, events: Sender<Event>) -> std::io::Result<Self> {
        let (mut ours, theirs) = UnixStream::pair()?;
        let child = Command::new(program)
            .args(words)
            .env(CHILD, std::process::id().to_string())
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .spawn()?;
        std::thread::spawn(move || {
            let mut word = [0; READY.len()];
            let ready = ours.read_exact(&mut word).is_ok() && word == READY;
            let _ = events.send(if ready { Event::SuccessorReady(number) } else { Event::SuccessorGone(number) });
        });
        Ok(Self { child, number })
    }

    /// Tells the successor of a first reload from that of a second.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Ends and reaps it.
    pub(crate) fn end(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Tells the parent, if this process is the child of a reload.
pub(crate) fn tell_parent() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    if let Ok(socket) = std::io::stdin().as_fd().try_clone_to_owned() {
        let _ = UnixStream::from(socket).write_all(READY);
    }
}
