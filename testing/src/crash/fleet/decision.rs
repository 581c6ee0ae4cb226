//! One decision on prepared data, and what the server shows before and after it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::http::{Answer, Request};
use super::server::{LOOK, SOON, Server};
use super::view::{fault, view};
use crate::crash::host::copy;
use crate::crash::injector::Call;

/// A decision.
#[derive(Debug, Clone, Copy)]
pub struct Decision {
    /// Its name on the command line.
    pub name: &'static str,
    /// Makes what the decision is about, and says by which request it is made; `None`: it is the start of the server.
    pub(super) prepare: fn(&Server) -> Option<Request>,
    /// Whether a server that shows this has made it.
    pub(super) is_made: fn(&Value) -> bool,
    /// What its answer, with status 200, must be.
    pub(super) is_answer: fn(&Answer) -> bool,
    /// When it is durable.
    pub(super) durable: Durable,
    /// Parts of a view that the step behind it changes, all of them at once.
    pub(super) step: &'static [&'static str],
    /// What the same request is answered once it was made.
    pub(super) again: Again,
    /// What must hold beside of a server that was started again.
    pub(super) holds: fn(&Server) -> Result<(), String>,
}

/// When a decision is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Durable {
    /// With its answer.
    Answered,
    /// With its answer; the step behind it, in which more is decided, comes soon.
    Stepped,
    /// Within a second after it.
    Soon,
    /// It leaves nothing behind.
    Never,
}

impl Durable {
    /// Whether what was answered is there.
    pub(super) fn is_answered(self) -> bool {
        matches!(self, Self::Answered | Self::Stepped)
    }
}

/// What a request is answered that was made before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    /// The same.
    Same,
    /// Something like it: it is a question.
    Alike,
    /// It is refused with 409: a secret is told once.
    Refused,
    /// It is refused with 409, as an old number: a host goes on from there.
    Old,
}

/// A decision whose data are prepared.
#[derive(Debug)]
pub struct Ready {
    pub(super) decision: Decision,
    pub(super) program: PathBuf,
    pub(super) request: Option<Request>,
    /// What a server shows that has not made it, and one that has.
    pub(super) old: Value,
    pub(super) new: Value,
    /// The calls of an undisturbed one.
    pub(super) calls: Vec<Call>,
    base: TempDir,
}

impl Ready {
    /// Prepares `decision` for the server `program`, and makes it once, undisturbed.
    ///
    /// # Panics
    /// If that does not do what it is about.
    pub fn new(decision: Decision, program: &Path) -> Self {
        let base = tempfile::tempdir().unwrap();
        let server = Server::start(program, base.path());
        let request = (decision.prepare)(&server);
        // A start reads what a killed server left in its log; everything else begins with a store that was closed.
        if request.is_some() {
            server.stop()
        } else {
            server.kill()
        };
        let _ = std::fs::remove_file(base.path().join("admin.sock"));
        let mut ready = Self {
            decision,
            program: program.to_owned(),
            request,
            old: Value::Null,
            new: Value::Null,
            calls: Vec::new(),
            base,
        };
        (ready.old, ready.new, ready.calls) = ready.undisturbed();
        let (old, new) = (&ready.old, &ready.new);
        let leaves = ready.request.is_some() && decision.durable != Durable::Never;
        assert_eq!(leaves, old != new, "{}: {old}", decision.name);
        assert!((decision.is_made)(new) && (!leaves || !(decision.is_made)(old)), "{}: {old}\n{new}", decision.name);
        ready
    }

    fn undisturbed(&self) -> (Value, Value, Vec<Call>) {
        let dir = self.copy();
        let (old, calls) = match &self.request {
            None => {
                let server = Server::start_armed(&self.program, dir.path(), None).unwrap();
                let calls = server.disarm();
                (view(&server).unwrap(), calls)
            }
            Some(request) => {
                let server = self.start(dir.path());
                let old = view(&server).unwrap();
                server.arm(None);
                let answer = server.ask(request).unwrap();
                assert!(answer.status == 200 && (self.decision.is_answer)(&answer), "{}", answer.text());
                self.until_durable(&server);
                let calls = server.disarm();
                server.kill();
                (old, calls)
            }
        };
        let server = self.start(dir.path());
        let new = view(&server).unwrap();
        fault(&server).unwrap();
        (old, new, calls)
    }

    /// A copy of the prepared data.
    pub(super) fn copy(&self) -> TempDir {
        copy(self.base.path())
    }

    /// Ends a server so that nothing is lost of what it answered.
    ///
    /// # Errors
    /// What was answered is not made in time.
    pub(super) fn end(&self, server: Server) -> Result<(), String> {
        if !matches!(self.decision.durable, Durable::Soon | Durable::Stepped) {
            server.kill();
            return Ok(());
        }
        let end = Instant::now() + SOON;
        while !(self.decision.is_made)(&view(&server)?) {
            if Instant::now() > end {
                return Err("it is not made in time".to_owned());
            }
            std::thread::sleep(LOOK);
        }
        if self.decision.durable == Durable::Stepped {
            server.kill();
        } else {
            // At an end in order all is kept that hosts said.
            server.stop();
        }
        Ok(())
    }

    /// A server on `dir`.
    pub(super) fn start(&self, dir: &Path) -> Server {
        Server::start(&self.program, dir)
    }

    /// Waits until what was answered is durable, or the server has ended, or cannot write.
    pub(super) fn until_durable(&self, server: &Server) {
        match self.decision.durable {
            Durable::Answered | Durable::Never => return,
            Durable::Stepped => return self.until_stepped(server),
            Durable::Soon => {}
        }
        let end = Instant::now() + WRITTEN_WITHIN;
        while !server.has_ended() && !server.has_synced() && Instant::now() < end {
            std::thread::sleep(LOOK);
        }
        // The core writes and answers one after the other.
        server.ask(&Request::get("/v1/fleet/counts"));
    }

    fn until_stepped(&self, server: &Server) {
        server.let_answers_pass();
        let end = Instant::now() + STEPPED_WITHIN;
        let is_made = || view(server).is_ok_and(|view| (self.decision.is_made)(&view));
        while !server.has_ended() && !is_made() && Instant::now() < end {
            std::thread::sleep(LOOK);
        }
    }
}

/// Until what hosts said is written (FLEET §7: a second), and that again for a loaded machine.
const WRITTEN_WITHIN: Duration = Duration::from_secs(2);
/// Until the step behind a report is done (FLEET §3: soon, which is a second), and that three times again for a loaded machine.
const STEPPED_WITHIN: Duration = Duration::from_secs(4);
