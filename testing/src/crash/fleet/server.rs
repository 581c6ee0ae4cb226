//! `teleport-fleet serve` under the injector, which is armed when a decision is about to be made.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::http::{self, Answer, On, Request};
use super::point::Fault;
use crate::crash::injector::{Action, Call, Running, Scope, Traced};
use crate::crash::syscalls::Kind;

/// For what happens soon, on a loaded machine.
pub(super) const SOON: Duration = Duration::from_secs(20);
/// Between two looks at what happens soon.
pub(super) const LOOK: Duration = Duration::from_millis(5);

/// What the injector does, and what it saw since it was armed.
#[derive(Debug, Default)]
struct Plan {
    is_armed: bool,
    /// What is looked at meanwhile does not count.
    answers_pass: bool,
    fault: Option<Fault>,
    calls: Vec<Call>,
}

impl Plan {
    fn decide(&mut self, call: &Call) -> Action {
        if !self.is_armed || (self.answers_pass && call.kind == Kind::Send) {
            return Action::Pass;
        }
        let number = self.calls.len() + 1;
        let call = Call { number, ..call.clone() };
        let action = self.fault.map_or(Action::Pass, |fault| fault.action(&call));
        self.calls.push(call);
        action
    }
}

/// A server with its data below a directory.
#[derive(Debug)]
pub struct Server {
    dir: PathBuf,
    /// Where hosts ask; empty where it did not start.
    address: String,
    plan: Arc<Mutex<Plan>>,
    running: Running,
}

impl Server {
    /// Starts `program` and waits until it answers.
    ///
    /// # Panics
    /// If it ends instead.
    pub fn start(program: &Path, dir: &Path) -> Self {
        Self::launch(program, dir, Plan::default()).unwrap_or_else(|log| panic!("the server did not start: {log}"))
    }

    /// The same with the injector armed before its first call.
    ///
    /// # Errors
    /// It ended instead: its log.
    pub(super) fn start_armed(program: &Path, dir: &Path, fault: Option<Fault>) -> Result<Self, String> {
        Self::launch(program, dir, Plan { is_armed: true, fault, ..Plan::default() })
    }

    fn launch(program: &Path, dir: &Path, plan: Plan) -> Result<Self, String> {
        let ready = dir.join("ready");
        let _ = std::fs::remove_file(&ready);
        let mut command = Command::new(program);
        command.env_clear().env("RUST_BACKTRACE", "1");
        command.args(["serve", "--plain", "--config", "/dev/null"]);
        command.args(["--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]);
        for (flag, name) in [("--data", "data"), ("--admin-socket", "admin.sock"), ("--ready-file", "ready")] {
            command.arg(flag).arg(dir.join(name));
        }
        let plan = Arc::new(Mutex::new(plan));
        let asked = Arc::clone(&plan);
        let running = Running::start(command, Scope::Answers, move |call| asked.lock().unwrap().decide(call));
        let mut server = Self { dir: dir.to_owned(), address: String::new(), plan, running };
        let end = Instant::now() + SOON;
        loop {
            let said = std::fs::read_to_string(&ready).unwrap_or_default();
            if let Some((address, _)) = said.strip_suffix('\n').and_then(|line| line.split_once(' ')) {
                server.address = address.to_owned();
                return Ok(server);
            }
            if server.running.has_ended() {
                return Err(server.running.end().stderr);
            }
            if Instant::now() > end {
                return Err(format!("it hangs: {}", server.kill().stderr));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Its data directory.
    pub(super) fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// From now on calls count, and `fault` happens.
    pub(super) fn arm(&self, fault: Option<Fault>) {
        *self.plan.lock().unwrap() = Plan { is_armed: true, fault, ..Plan::default() };
    }

    /// From now on answers do not count, and what else happens does: somebody looks what comes.
    pub(super) fn let_answers_pass(&self) {
        self.plan.lock().unwrap().answers_pass = true;
    }

    /// From now on everything works; the calls that counted.
    pub(super) fn disarm(&self) -> Vec<Call> {
        std::mem::take(&mut *self.plan.lock().unwrap()).calls
    }

    /// Whether it has synced something since calls count.
    pub(super) fn has_synced(&self) -> bool {
        self.plan.lock().unwrap().calls.iter().any(|call| call.kind == Kind::Sync)
    }

    /// Whether it has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.running.has_ended()
    }

    /// One request; `None`: no answer came, or not all of it.
    pub fn ask(&self, request: &Request) -> Option<Answer> {
        match request.on {
            On::Admin => http::on_socket(&self.dir.join("admin.sock"), request, http::PATIENCE),
            On::Public => http::on_address(&self.address, request, http::PATIENCE),
        }
    }

    /// A request that must be answered with 200.
    pub(super) fn done(&self, request: &Request) -> Value {
        let answer = self.ask(request).unwrap_or_else(|| panic!("no answer to {request:?}"));
        assert_eq!(answer.status, 200, "{request:?}: {}", answer.text());
        answer.json()
    }

    /// Waits for what comes soon.
    pub(super) fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        let end = Instant::now() + SOON;
        while !is_so() {
            assert!(Instant::now() < end, "not in time: {what}");
            std::thread::sleep(LOOK);
        }
    }

    /// SIGKILL.
    pub fn kill(self) -> Traced {
        self.running.signal(libc::SIGKILL);
        self.running.end()
    }

    /// SIGTERM; all that it knows is kept then.
    pub fn stop(self) -> Traced {
        self.running.signal(libc::SIGTERM);
        self.running.end()
    }
}
