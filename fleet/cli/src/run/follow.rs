//! `status --watch` and `wait`: the rollout, whenever something changed.

use std::io::Read;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, TrySendError};
use std::thread;
use std::time::{Duration, Instant};

use fleet_wire::api::Code;
use fleet_wire::rollout::{AgentRollout, RolloutGroup};
use jiff::Timestamp;
use serde_json::json;

use super::agents::{self, Found};
use crate::args::{PrintFormat, WaitArgs, WaitGoal};
use crate::client::{ApiCall, ApiClient};
use crate::console::Screen;
use crate::failure::Failure;
use crate::show::reason::ReasonSubject;
use crate::show::text::{clean, time};
use crate::show::{status, value};

/// What hosts do changes counts and is no event: it is asked for so often, as the dashboard does.
const EVERY: Duration = Duration::from_secs(10);
/// Events that come together are one change.
const TOGETHER: Duration = Duration::from_millis(200);
/// Waits before a server that does not answer is asked again; then always the last.
const AGAIN: [Duration; 5] = [
    Duration::from_millis(200),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
];
/// The events to come: no record has a number above it.
const EVENTS: &str = "/v1/fleet/events?after=9223372036854775807&follow=true";

/// `status --watch`: until somebody ends it.
pub(super) fn watch(client: &ApiClient, screen: &mut Screen<'_, '_>) -> Result<(), Failure> {
    let mut shown = Vec::new();
    follow(client, None, screen, |found, screen| {
        let (format, look, is_in_place) = (screen.format(), screen.look(), screen.is_in_place());
        let mut block = Vec::new();
        match format {
            PrintFormat::Text => status::text(&mut block, found.rollout.as_ref(), &found.stops, &look)?,
            format => value::write_one(&mut block, format, &found.value)?,
        }
        let is_new = block != shown;
        if format == PrintFormat::Text && (is_in_place || is_new) {
            let text = String::from_utf8_lossy(&block);
            let frame = format!("As of {} UTC\n\n{text}", time(Timestamp::now()));
            // Lines are written over, not the screen wiped: it does not flicker.
            match is_in_place {
                true => {
                    let begin = if shown.is_empty() { "\x1b[2J" } else { "" };
                    write!(screen.out(), "{begin}\x1b[H{}\x1b[J", frame.replace('\n', "\x1b[K\n"))?;
                }
                false if shown.is_empty() => screen.out().write_all(frame.as_bytes())?,
                false => write!(screen.out(), "\n{frame}")?,
            }
        } else if is_new {
            screen.out().write_all(&block)?;
        }
        shown = block;
        Ok(false)
    })
}

/// `wait`: until it is so, or cannot become so, or the time is over.
pub(super) fn wait(wait: &WaitArgs, client: &ApiClient, screen: &mut Screen<'_, '_>) -> Result<(), Failure> {
    let (mut which, mut said) = (None, String::new());
    let goal = &wait.goal;
    let ended = follow(client, wait.timeout, screen, |found, screen| {
        let none = || Failure::new("no_rollout", "there is no rollout to wait for");
        let rollout = found.rollout.as_ref().ok_or_else(none)?;
        let this = (rollout.status.start_time.clone(), rollout.spec.target_version.clone());
        if *which.get_or_insert(this.clone()) != this {
            let message =
                format!("another rollout has begun, to {}: the one that was waited for is over", clean(&this.1));
            return Err(Failure::new("rollout_ended", message));
        }
        let groups = &rollout.status.groups;
        let far = groups.iter().map(far).collect::<Vec<_>>().join(", ");
        let verdict = verdict(goal, found, rollout, screen);
        let is_reached = matches!(verdict, Ok(true));
        let is_worth = verdict.as_ref().map_or_else(|failure| failure.code == Failure::MISSED, |_| said != far);
        if is_worth || is_reached {
            let now = Timestamp::now();
            let word = if is_reached { "reached" } else { "waits for" };
            match screen.format() {
                PrintFormat::Text => {
                    let target = clean(&this.1).into_owned();
                    writeln!(screen.out(), "{} UTC {word} {}: {target}: {far}", time(now), clean(&goal.to_string()))?;
                }
                format => {
                    let groups: Vec<_> = found.value["groups"].as_array().cloned().unwrap_or_default();
                    let state = if is_reached { "reached" } else { "waiting" };
                    let line = json!({ "at": now, "for": goal.to_string(), "state": state, "target_version": this.1,
                        "groups": groups });
                    value::write_one(screen.out(), format, &line)?;
                }
            }
            said = far;
        }
        verdict
    });
    ended.map_err(|failure| {
        let over = failure.code == Failure::TIMED_OUT;
        let message = if over {
            format!("{} was not reached in time: {said}", clean(&goal.to_string()))
        } else {
            failure.message
        };
        Failure { message, ..failure }
    })
}

/// A group in a few words.
fn far(group: &RolloutGroup) -> String {
    let count = format!("{} of {}", group.up_to_date_count, group.present_count);
    format!("{} {} ({count})", clean(&group.name), clean(&group.state))
}

/// Whether it is so.
///
/// # Errors
/// It will not become so without somebody; there is no such group.
fn verdict(goal: &WaitGoal, found: &Found, rollout: &AgentRollout, screen: &Screen<'_, '_>) -> Result<bool, Failure> {
    /// On the way to done; and what is no place on it.
    const WAY: [&str; 4] = ["unstarted", "canary", "active", "done"];
    const STOPPED: [&str; 2] = ["halted", "rolledback"];
    let groups = &rollout.status.groups;
    let missed = |message: String| Err(Failure::new(Failure::MISSED, message));
    let of_group = |group: &RolloutGroup| {
        let reason = group.reason().line(ReasonSubject::Group(&group.name), &screen.look().zone);
        missed(format!("{} is {}: {reason}", clean(&group.name), clean(&group.state)))
    };
    let stopped = |group: &&RolloutGroup| STOPPED.contains(&group.state.as_str());
    match goal {
        WaitGoal::Done | WaitGoal::Halted if rollout.is_immediate() => {
            let is_halted = rollout.status.state.as_deref() == Some("halted");
            match goal {
                WaitGoal::Halted => Ok(is_halted),
                _ => missed("the schedule is immediate: there are no groups that could be done".to_owned()),
            }
        }
        WaitGoal::Done => match groups.iter().find(stopped) {
            Some(group) => of_group(group),
            None if groups.iter().all(|group| group.state == "done") => Ok(true),
            None if found.stops.holds.all => {
                missed(fleet_wire::words::holds::lines(&found.stops.holds, |_| false).join("; "))
            }
            None => Ok(false),
        },
        WaitGoal::Halted => match groups.iter().any(|group| group.state == "halted") {
            false if groups.iter().all(|group| ["done", "rolledback"].contains(&group.state.as_str())) => {
                missed(format!("the rollout is over: {}", groups.iter().map(far).collect::<Vec<_>>().join(", ")))
            }
            is_halted => Ok(is_halted),
        },
        WaitGoal::Group(name, wanted) => {
            let Some(group) = groups.iter().find(|group| group.name == *name) else {
                let names: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
                let message = format!("there is no group {name:?} in the rollout: it has {}", names.join(", "));
                return Err(Failure::new("not_found", message));
            };
            let place = |state: &str| WAY.iter().position(|step| *step == state);
            match (place(wanted), place(&group.state)) {
                _ if group.state == *wanted => Ok(true),
                (Some(wanted), Some(is)) => Ok(is > wanted),
                (None, Some(_)) if group.state != "done" => Ok(false),
                // A state that only a newer server knows is no end.
                _ if group.state != "done" && !stopped(&group) => Ok(false),
                _ => of_group(group),
            }
        }
    }
}

/// Hands the rollout over now, and whenever something may have changed, until `each` says that it is enough. A server that has
/// answered may be away for a while, of which a line tells.
///
/// # Errors
/// Those of `each`; why the server does not answer; [`Failure::TIMED_OUT`] after `timeout`.
fn follow<'a, 'b>(
    client: &ApiClient,
    timeout: Option<Duration>,
    screen: &mut Screen<'a, 'b>,
    mut each: impl FnMut(&Found, &mut Screen<'a, 'b>) -> Result<bool, Failure>,
) -> Result<(), Failure> {
    let begin = Instant::now();
    let (mut events, mut failures, mut is_known) = (None, 0_usize, false);
    loop {
        // First the ear, then the look: nothing falls between them.
        events = events.or_else(|| listen(client));
        let mut pause = EVERY;
        match agents::rollout(client) {
            Ok(found) => {
                if failures > 0 {
                    note(screen, &format!("{} UTC {client} answers again", time(Timestamp::now())));
                }
                (failures, is_known) = (0, true);
                if each(&found, screen)? {
                    return Ok(());
                }
                screen.out().flush()?;
            }
            Err(failure) if is_known && may_pass(&failure) => {
                if failures == 0 {
                    note(screen, &format!("{} UTC {failure}; it is asked again", time(Timestamp::now())));
                }
                events = None;
                pause = AGAIN.get(failures).or(AGAIN.last()).copied().unwrap_or(EVERY);
                failures += 1;
            }
            Err(failure) => return Err(failure),
        }
        if let Some(timeout) = timeout {
            let left = timeout.saturating_sub(begin.elapsed());
            if left.is_zero() {
                return Err(Failure::new(Failure::TIMED_OUT, ""));
            }
            pause = pause.min(left);
        }
        let heard = events.as_ref().map(|events: &Receiver<()>| events.recv_timeout(pause));
        match heard {
            None => thread::sleep(pause),
            Some(Err(RecvTimeoutError::Timeout)) => {}
            Some(Ok(())) => thread::sleep(TOGETHER),
            Some(Err(RecvTimeoutError::Disconnected)) => {
                events = None;
                thread::sleep(TOGETHER);
            }
        }
    }
}

/// A server that starts, or a proxy before one.
fn may_pass(failure: &Failure) -> bool {
    [Failure::UNREACHABLE, Failure::NO_ANSWER, Failure::BAD_ANSWER].contains(&failure.code.as_str())
        || failure.is(Code::Overloaded)
        || failure.is(Code::StoreUnavailable)
}

/// A word for people, beside what programs read.
fn note(screen: &mut Screen<'_, '_>, line: &str) {
    // There is nobody else to tell when this cannot be written.
    let _ = writeln!(screen.console.err, "{}", clean(line));
}

/// Hears that something was decided; `None`: the server has no place for another listener.
fn listen(client: &ApiClient) -> Option<Receiver<()>> {
    let mut answer = client.open(&ApiCall::get(EVENTS)).ok()?;
    let (tell, heard) = mpsc::sync_channel(1);
    thread::spawn(move || {
        let mut chunk = [0; 4096];
        while matches!(answer.read(&mut chunk), Ok(1..)) {
            if matches!(tell.try_send(()), Err(TrySendError::Disconnected(()))) {
                return;
            }
        }
    });
    Some(heard)
}
