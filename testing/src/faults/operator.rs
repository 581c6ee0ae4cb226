//! An operator who sends commands to any node, each with an id, again and again until it is answered.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::observer::Decided;
use super::world::{GROUPS, World};
use crate::crash::fleet::http::{Answer, Request};
use crate::crash::random::Random;

/// A command, of one group or of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    Start(&'static str),
    Halt(Option<&'static str>),
    Run(Option<&'static str>),
    MarkDone(&'static str),
    Rollback(&'static str),
}

impl Command {
    /// Any of them; back only where groups may turn round.
    fn any(random: &mut Random, turns: bool) -> Self {
        let group = GROUPS[random.below(GROUPS.len())];
        match random.below(if turns { 22 } else { 20 }) {
            0..6 => Self::Start(group),
            6..10 => Self::Halt(Some(group)),
            10 => Self::Halt(None),
            11..16 => Self::Run(Some(group)),
            16..19 => Self::Run(None),
            19 => Self::MarkDone(group),
            _ => Self::Rollback(group),
        }
    }

    fn words(self) -> (&'static str, String, Value) {
        let (name, group, more) = match self {
            Self::Start(group) => ("start", Some(group), json!({ "force": true })),
            Self::Halt(group) => ("halt", group, json!({ "all": group.is_none() })),
            Self::Run(group) => ("run", group, json!({ "all": group.is_none() })),
            Self::MarkDone(group) => ("mark_done", Some(group), json!({})),
            Self::Rollback(group) => ("rollback", Some(group), json!({ "all_started": false, "at_once": false })),
        };
        let mut command = more;
        command["groups"] = group.into_iter().collect();
        let subject = group.map_or_else(|| "all groups".to_owned(), |group| format!("group {group}"));
        (name, subject, json!({ name: command }))
    }
}

/// Sends commands while there is trouble.
pub(super) fn command_at_random(world: &World, random: &mut Random) {
    let (least, most) = world.plan.commands;
    while world.is_troubled.load(Ordering::Relaxed) {
        let command = Command::any(random, world.plan.turns);
        let one = world.commands.lock().unwrap();
        send(world, random, command);
        drop(one);
        std::thread::sleep(Duration::from_millis(least + random.below((most - least) as usize) as u64));
    }
}

/// A command until it is answered: whether it was done.
pub(super) fn send(world: &World, random: &mut Random, command: Command) -> bool {
    let (name, subject, body) = command.words();
    let ended = match command {
        Command::Run(group) => world.observer.goes_on(group),
        _ => None,
    };
    let is_done = write(world, random, "/v1/fleet/commands", &json!({ "command": body }), (name, &subject));
    match command {
        Command::Halt(group) if is_done => world.observer.stopped(group),
        // It was refused: the stop is as it was.
        Command::Run(group) if !is_done && ended.is_some() => world.observer.stopped(group),
        _ => {}
    }
    is_done
}

/// Something that is decided, with an id, until it is answered: whether it was done.
pub(super) fn write(
    world: &World,
    random: &mut Random,
    path: &str,
    body: &Value,
    (action, subject): (&str, &str),
) -> bool {
    let id = id(random);
    let mut body = body.clone();
    body["id"] = id.clone().into();
    let request = Request::post(path, &body);
    let begun = Instant::now();
    loop {
        let answer = world.nodes[random.below(world.nodes.len())].ask(&request);
        match answer {
            Some(Answer { status: 200, .. }) => {
                let record = (action.to_owned(), subject.to_owned());
                world.observer.decided(Decided { id, record, at: Instant::now(), may_be_lost: false });
                return true;
            }
            Some(answer) if answer.status < 500 && answer.status != 429 => return false,
            _ if begun.elapsed() > 2 * super::world::SOON => {
                let said = answer.map(|answer| answer.text());
                world.observer.violation(format!("{action} of {subject} is not answered: {said:?}"));
                return false;
            }
            _ => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// A UUID of a request.
fn id(random: &mut Random) -> String {
    let part = |random: &mut Random| random.below(1 << 32);
    let (one, two) = (part(random), part(random));
    format!("{one:08x}-0000-4000-8000-0000{two:08x}")
}
