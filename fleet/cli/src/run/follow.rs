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
use super::log::AGAIN;
use crate::args::{PrintFormat, WaitArgs, WaitGoal};
use crate::client::{ApiCall, ApiClient};
use crate::console::Screen;
use crate::failure::Failure;
use crate::show::reason::ReasonSubject;
use crate::show::text::{clean, second, time};
use crate::show::{status, value};

/// What hosts do changes counts and is no event: it is asked for so often, as the dashboard does.
const EVERY: Duration = Duration::from_secs(10);
/// Events that come together are one change.
const TOGETHER: Duration = Duration::from_millis(200);
/// The events to come: no record has a number above it.
const EVENTS: &str = "/v1/fleet/events?after=9223372036854775807&follow=true";

/// `status --watch`: until somebody ends it.
pub(super) fn watch(client: &ApiClient, screen: &mut Screen<'_>) -> Result<(), Failure> {
    let mut shown = Vec::new();
    follow(client, None, screen, |found, screen| {
        let mut block = Vec::new();
        let is_text = screen.format() == PrintFormat::Text;
        match screen.format() {
            PrintFormat::Text => status::text(&mut block, found.rollout.as_ref(), &found.stops, &screen.look())?,
            format => value::write_one(&mut block, format, &found.value)?,
        }
        let (is_first, is_new, is_in_place) = (shown.is_empty(), shown != block, screen.console.is_in_place);
        let text = String::from_utf8_lossy(&block);
        let frame = format!("As of {} UTC\n\n{text}", time(Timestamp::now()));
        if is_text && is_in_place {
            // Lines are written over, not the screen wiped: it does not flicker.
            let begin = if is_first { "\x1b[2J" } else { "" };
            write!(screen.out(), "{begin}\x1b[H{}\x1b[J", frame.replace('\n', "\x1b[K\n"))?;
        } else if is_text && is_new {
            write!(screen.out(), "{}{frame}", if is_first { "" } else { "\n" })?;
        } else if is_new {
            screen.out().write_all(&block)?;
        }
        shown = block;
        Ok(false)
    })
}

/// `wait`: until it is so, or cannot become so, or the time is over.
pub(super) fn wait(wait: &WaitArgs, client: &ApiClient, screen: &mut Screen<'_>) -> Result<(), Failure> {
    let (mut which, mut said) = (None, String::new());
    let goal = &wait.goal.text;
    let ended = follow(client, wait.timeout, screen, |found, screen| {
        let none = || Failure::new("no_rollout", "there is no rollout to wait for");
        let rollout = found.rollout.as_ref().ok_or_else(none)?;
        let target = clean(&rollout.spec.target_version);
        let this = (rollout.status.start_time.clone(), rollout.spec.target_version.clone());
        if *which.get_or_insert(this.clone()) != this {
            let message = format!("another rollout has begun, to {target}: the one that was waited for is over");
            return Err(Failure::new("rollout_ended", message));
        }
        let far = rollout.status.groups.iter().map(far).collect::<Vec<_>>().join(", ");
        let verdict = verdict(&wait.goal, found, rollout, screen);
        let is_reached = matches!(verdict, Ok(true));
        let is_worth = verdict.as_ref().map_or_else(|failure| failure.code == Failure::MISSED, |_| said != far);
        if is_worth || is_reached {
            let now = Timestamp::now();
            let line = json!({ "at": second(now), "for": goal, "state": if is_reached { "reached" } else { "waiting" },
                "target_version": rollout.spec.target_version, "groups": found.value["groups"] });
            let word = if is_reached { "reached" } else { "waits for" };
            match screen.format() {
                PrintFormat::Text => {
                    writeln!(screen.out(), "{} UTC {word} {}: {target}: {far}", time(now), clean(goal))?;
                }
                format => value::write_one(screen.out(), format, &line)?,
            }
            said = far;
        }
        verdict
    });
    let over = |failure: Failure| match failure.code.as_str() {
        Failure::TIMED_OUT => {
            Failure { message: format!("{} was not reached in time: {said}", clean(goal)), ..failure }
        }
        _ => failure,
    };
    ended.map_err(over)
}

/// A group in a few words.
fn far(group: &RolloutGroup) -> String {
    let count = format!("{} of {}", group.up_to_date_count, group.present_count);
    format!("{} {} ({count})", clean(&group.name), clean(&group.state))
}

/// Whether a group is so, or further on its way; `None`: it will not become so by itself.
fn stands(wanted: &str, is: &str) -> Option<bool> {
    let place = |state| ["unstarted", "canary", "active", "done"].iter().position(|step| *step == state);
    match (place(wanted), place(is)) {
        _ if wanted == is => Some(true),
        (Some(wanted), Some(is)) => Some(is > wanted),
        _ => (!["halted", "rolledback", "done"].contains(&is)).then_some(false),
    }
}

/// Whether it is so.
///
/// # Errors
/// It will not become so without somebody; there is no such group.
fn verdict(goal: &WaitGoal, found: &Found, rollout: &AgentRollout, screen: &Screen<'_>) -> Result<bool, Failure> {
    let missed = |message: String| Err(Failure::new(Failure::MISSED, message));
    let (all, is_halt) = (&rollout.status.groups, goal.group.is_none() && goal.state == "halted");
    if is_halt && rollout.is_immediate() {
        return Ok(rollout.status.state.as_deref() == Some("halted"));
    }
    let is_meant = |group: &&RolloutGroup| goal.group.as_ref().is_none_or(|name| *name == group.name);
    let groups: Vec<&RolloutGroup> = all.iter().filter(is_meant).collect();
    if groups.is_empty() {
        let names = all.iter().map(|group| clean(&group.name)).collect::<Vec<_>>().join(", ");
        let which = goal.group.as_ref().map_or_else(String::new, |name| format!(" {name:?}"));
        return Err(Failure::new("not_found", format!("there is no group{which} in the rollout: it has {names}")));
    }
    let stand: Vec<Option<bool>> = groups.iter().map(|group| stands(&goal.state, &group.state)).collect();
    let is_so = |stand: &Option<bool>| *stand == Some(true);
    if if is_halt { stand.iter().any(is_so) } else { stand.iter().all(is_so) } {
        return Ok(true);
    }
    // One that stopped keeps all from being done; all that ended keep any from halting.
    match groups.iter().zip(&stand).find(|(_, stand)| stand.is_none()) {
        Some((group, _)) if !is_halt || stand.iter().all(Option::is_none) => {
            let reason = group.reason().line(ReasonSubject::Group(&group.name), &screen.look().zone);
            missed(format!("{} is {}: {reason}", clean(&group.name), clean(&group.state)))
        }
        None if goal.state == "done" && found.stops.holds.all => {
            missed(fleet_wire::words::holds::lines(&found.stops.holds, |_| false).join("; "))
        }
        _ => Ok(false),
    }
}

/// Hands the rollout over now, and whenever something may have changed, until `each` says that it is enough. A server that has
/// answered may be away for a while, of which a line tells.
///
/// # Errors
/// Those of `each`; why the server does not answer; [`Failure::TIMED_OUT`] after `timeout`.
fn follow(
    client: &ApiClient,
    timeout: Option<Duration>,
    screen: &mut Screen<'_>,
    mut each: impl FnMut(&Found, &mut Screen<'_>) -> Result<bool, Failure>,
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
                pause = AGAIN.get(failures).or(AGAIN.last()).map_or(EVERY, |wait| Duration::from_millis(*wait));
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
fn note(screen: &mut Screen<'_>, line: &str) {
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
