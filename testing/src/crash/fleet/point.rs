//! One call of one decision is killed or fails, and what comes of it.

use std::path::Path;
use std::time::Instant;

use libc::{EIO, ENOSPC, EPIPE, c_int};
use serde_json::Value;

use super::decision::{Again, Durable, Ready};
use super::http::{Answer, Request};
use super::server::{LOOK, SOON, Server};
use super::view::{difference, fault, view};
use crate::crash::flow::Found;
use crate::crash::injector::{Action, Call};
use crate::crash::syscalls::Kind;

/// The id of a command that is never given.
const ASKED: &str = "6c1f2a4e-4b0d-4d0e-9a53-0a7d0d1a1aff";
/// Where the present rollout is shown.
const ROLLOUT: [&str; 2] = ["rollout", "rollouts"];

/// What happens, and at which call since the injector was armed; from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The server is killed before the call.
    Kill(usize),
    /// The call fails.
    Fail(usize, c_int),
    /// The call writes half.
    Short(usize),
    /// This call on files and all behind it fail, as far as that error can meet them.
    Lasting(usize, c_int),
}

impl Fault {
    pub(super) fn action(self, call: &Call) -> Action {
        match self {
            Self::Kill(number) if call.number == number => Action::Kill,
            Self::Fail(number, error) if call.number == number => Action::Fail(error),
            Self::Short(number) if call.number == number => Action::Short,
            Self::Lasting(number, error) if call.number >= number && can_meet(call.kind, error) => Action::Fail(error),
            _ => Action::Pass,
        }
    }

    fn is_kill(self) -> bool {
        matches!(self, Self::Kill(_))
    }
}

fn can_meet(kind: Kind, error: c_int) -> bool {
    // A full disk still removes, and locks.
    let needs_room = matches!(kind, Kind::Write | Kind::Create | Kind::Resize | Kind::Make | Kind::Name | Kind::Sync);
    let is_on_disk = !matches!(kind, Kind::Send | Kind::Lock);
    if error == ENOSPC { needs_room } else { is_on_disk }
}

/// A kill at each call, and one behind the last.
pub fn kills(ready: &Ready) -> Vec<Fault> {
    (1..=ready.calls.len() + 1).map(Fault::Kill).collect()
}

/// Each call fails in each way.
pub fn faults(ready: &Ready) -> Vec<Fault> {
    let of = |call: &Call| {
        let number = call.number;
        let mut faults = Vec::new();
        if call.kind == Kind::Send {
            faults.push(Fault::Fail(number, EPIPE));
        }
        for error in [EIO, ENOSPC].into_iter().filter(|error| can_meet(call.kind, *error)) {
            faults.extend([Fault::Fail(number, error), Fault::Lasting(number, error)]);
        }
        faults.extend((call.kind == Kind::Write).then_some(Fault::Short(number)));
        faults
    };
    ready.calls.iter().flat_map(of).collect()
}

/// Makes the decision with this fault, and what must hold afterwards.
///
/// # Errors
/// A violation.
pub fn try_at(ready: &Ready, point: Fault) -> Result<Found, String> {
    let dir = ready.copy();
    let named = |what: String| {
        let call =
            ready.calls.get(point_of(point) - 1).map_or_else(|| "behind the last call".to_owned(), Call::to_string);
        format!("{} {point:?} at {call}: {what}", ready.decision.name)
    };
    let found = if ready.request.is_none() {
        at_start(ready, dir.path(), point)
    } else if point.is_kill() {
        at_kill(ready, dir.path(), point)
    } else {
        at_error(ready, dir.path(), point)
    };
    found.map_err(named)
}

fn point_of(point: Fault) -> usize {
    match point {
        Fault::Kill(number) | Fault::Fail(number, _) | Fault::Short(number) | Fault::Lasting(number, _) => number,
    }
}

fn at_kill(ready: &Ready, dir: &Path, point: Fault) -> Result<Found, String> {
    let server = ready.start(dir);
    server.arm(Some(point));
    let answered = ask(ready, &server);
    if answered.is_some() {
        ready.until_durable(&server);
    }
    // Behind its last call, or behind the answer, it still lives.
    server.kill();
    let answered = answered.transpose()?;
    let server = ready.start(dir);
    let found = found(ready, &steady(ready, &server)?)?;
    if answered.is_some() && found == Found::Old && ready.decision.durable.is_answered() {
        return Err("it was answered, and is lost".to_owned());
    }
    whole(ready, &server)?;
    send_again(ready, &server, answered.as_ref(), found)?;
    made(ready, server, dir)?;
    Ok(found)
}

fn at_error(ready: &Ready, dir: &Path, point: Fault) -> Result<Found, String> {
    let server = ready.start(dir);
    server.arm(Some(point));
    let first = ask_unless_refused(ready, &server);
    let answered = match first {
        Err(refused) if !is_of_store(&refused) => {
            return Err(format!("answered {}: {}", refused.status, refused.text()));
        }
        Err(_) => None,
        Ok(answered) => answered,
    };
    if answered.is_some() {
        ready.until_durable(&server);
    }
    server.disarm();
    if server.has_ended() {
        return Err(format!("the server ended: {}", server.kill().stderr));
    }
    // An answer that was given stands, also where everything ends now.
    if answered.is_some() && ready.decision.durable.is_answered() {
        server.kill();
        let server = ready.start(dir);
        if found(ready, &steady(ready, &server)?)? == Found::Old {
            return Err("it was answered, and is lost".to_owned());
        }
        whole(ready, &server)?;
        send_again(ready, &server, answered.as_ref(), Found::New)?;
        made(ready, server, dir)?;
        return Ok(Found::New);
    }
    let shown = until_it_answers(ready, &server)?;
    whole(ready, &server)?;
    send_again(ready, &server, None, shown)?;
    made(ready, server, dir)?;
    Ok(shown)
}

/// The start itself is cut short: it may fail, in a line, and the next one shows all that was decided.
fn at_start(ready: &Ready, dir: &Path, point: Fault) -> Result<Found, String> {
    match Server::start_armed(&ready.program, dir, Some(point)) {
        Ok(server) => {
            server.disarm();
            if !point.is_kill() {
                until_it_answers(ready, &server)?;
            }
            server.kill();
        }
        Err(log) if log.contains("panicked") => return Err(format!("it panicked: {log}")),
        Err(log) if !point.is_kill() && !log.contains("error: ") => return Err(format!("it said no error: {log}")),
        Err(_) => {}
    }
    let server = ready.start(dir);
    found(ready, &steady(ready, &server)?)?;
    whole(ready, &server)?;
    Ok(Found::New)
}

fn is_of_store(answer: &Answer) -> bool {
    answer.status == 503 && answer.json()["error"]["code"] == "store_unavailable"
}

fn is_old(answer: &Answer) -> bool {
    answer.status == 409 && answer.json()["error"]["code"] == "old_sequence"
}

/// `Ok(None)`: no answer came; `Err`: another one than 200.
fn ask_unless_refused(ready: &Ready, server: &Server) -> Result<Option<Answer>, Answer> {
    let Some(answer) = ready.request.as_ref().and_then(|request| server.ask(request)) else { return Ok(None) };
    let is_right = answer.status == 200 && (ready.decision.is_answer)(&answer);
    if is_right { Ok(Some(answer)) } else { Err(answer) }
}

fn ask(ready: &Ready, server: &Server) -> Option<Result<Answer, String>> {
    let asked = ask_unless_refused(ready, server);
    asked.map_err(|refused| format!("answered {}: {}", refused.status, refused.text())).transpose()
}

/// Which of the two views this is, in a server that was just started. The step that follows a decision is one of its own: its
/// counts and reasons may come later.
fn found(ready: &Ready, shown: &Value) -> Result<Found, String> {
    let found = found_without(&ROLLOUT, ready, shown)?;
    stepped(ready, shown, found)?;
    Ok(found)
}

/// What the step decided is there whole or not at all, and never without what it follows from.
fn stepped(ready: &Ready, shown: &Value, found: Found) -> Result<(), String> {
    let is = |view: &Value| ready.decision.step.iter().all(|key| shown[*key] == view[*key]);
    let is_made = (ready.decision.is_made)(shown);
    let is_whole = if is_made { found == Found::New && is(&ready.new) } else { is(&ready.old) };
    if ready.decision.step.is_empty() || is_whole {
        return Ok(());
    }
    let (from_new, from_old) = (difference(shown, &ready.new), difference(shown, &ready.old));
    Err(format!("the step is there in part: unlike after ({from_new}), unlike before ({from_old})"))
}

/// A view into which no step falls.
fn steady(ready: &Ready, server: &Server) -> Result<Value, String> {
    let mut shown = view(server)?;
    if ready.decision.durable != Durable::Stepped {
        return Ok(shown);
    }
    loop {
        let again = view(server)?;
        if again == shown {
            return Ok(shown);
        }
        shown = again;
    }
}

/// The same of a server that goes on: what could not be removed goes with the next start.
fn found_running(ready: &Ready, shown: &Value) -> Result<Found, String> {
    let soon = (ready.decision.durable == Durable::Soon).then_some("hosts?limit=1000");
    let keys: Vec<_> = ROLLOUT.into_iter().chain(["files"]).chain(soon).collect();
    let found = found_without(&keys, ready, shown)?;
    stepped(ready, shown, found)?;
    Ok(found)
}

fn found_without(keys: &[&str], ready: &Ready, shown: &Value) -> Result<Found, String> {
    let decided = |view: &Value| {
        let mut view = view.clone();
        if let Some(all) = view.as_object_mut() {
            all.retain(|key, _| !keys.contains(&key.as_str()) && !ready.decision.step.contains(&key.as_str()));
        }
        view
    };
    let (shown, old, new) = (decided(shown), decided(&ready.old), decided(&ready.new));
    if shown == new {
        Ok(Found::New)
    } else if shown == old {
        Ok(Found::Old)
    } else {
        Err(format!("neither as after ({}) nor as before ({})", difference(&shown, &new), difference(&shown, &old)))
    }
}

fn whole(ready: &Ready, server: &Server) -> Result<(), String> {
    fault(server)?;
    (ready.decision.holds)(server)
}

/// Whether the store is open again: until then the server shows what it knew, and decides nothing.
fn opened(server: &Server) -> Result<(), String> {
    let halt = serde_json::json!({ "halt": { "groups": [], "all": true } });
    let body = serde_json::json!({ "id": ASKED, "command": halt, "dry_run": true });
    match server.ask(&Request::post("/v1/fleet/commands", &body)) {
        Some(answer) if !is_of_store(&answer) => Ok(()),
        answer => Err(format!("the store is not open: {answer:?}")),
    }
}

/// A server whose disk failed answers again.
fn until_it_answers(ready: &Ready, server: &Server) -> Result<Found, String> {
    let end = Instant::now() + SOON;
    loop {
        let shown = opened(server).and_then(|()| steady(ready, server)).and_then(|shown| found_running(ready, &shown));
        match shown {
            Ok(found) => return Ok(found),
            Err(what) if Instant::now() > end => return Err(format!("the disk works again: {what}")),
            Err(_) => std::thread::sleep(LOOK),
        }
    }
}

/// The same request is answered; in a while, where the store has to be opened again.
fn send_again(ready: &Ready, server: &Server, answered: Option<&Answer>, found: Found) -> Result<(), String> {
    let end = Instant::now() + SOON;
    let again = loop {
        match ask_unless_refused(ready, server) {
            Ok(Some(answer)) => break Ok(answer),
            Err(refused) if !is_of_store(&refused) => break Err(refused),
            _ if Instant::now() > end => return Err("the same request is not answered".to_owned()),
            _ => std::thread::sleep(LOOK),
        }
    };
    match (again, ready.decision.again) {
        (Ok(again), Again::Same) if answered.is_some_and(|first| *first != again) => {
            Err(format!("sent again it is answered otherwise: {}", again.text()))
        }
        (Ok(_), Again::Refused) if found == Found::New => Err("sent again it was made again".to_owned()),
        (Err(refused), Again::Refused) if found == Found::New && refused.status == 409 => Ok(()),
        (Ok(_), Again::Old) if found == Found::New => Err("sent again it was taken again".to_owned()),
        (Err(refused), Again::Old) if found == Found::New && is_old(&refused) => Ok(()),
        (Ok(_), _) => Ok(()),
        (Err(refused), _) => Err(format!("sent again it is answered {}: {}", refused.status, refused.text())),
    }
}

/// It is made now, whole and once, also for a server that is killed and started.
fn made(ready: &Ready, server: Server, dir: &Path) -> Result<(), String> {
    ready.end(server)?;
    let server = ready.start(dir);
    let shown = view(&server)?;
    if shown != ready.new {
        return Err(format!("it is not made once: {}", difference(&shown, &ready.new)));
    }
    whole(ready, &server)
}
