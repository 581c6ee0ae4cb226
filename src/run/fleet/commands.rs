//! Labels whose values programs print, as the agent's configuration has them (RFD 0169): run at most once a period, as `nobody`,
//! without network, and only at the end of a run.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use protocol::Digest;
use protocol::report::MAX_LABEL;

use crate::config::agent::LabelCommand;
use crate::config::fleet_host::Printed;
use crate::context::Context;
use crate::host::command::Command;

/// Longest time of one program.
const EACH: Duration = Duration::from_secs(2);
/// Longest time of all: the report itself needs the rest.
const ALL: Duration = Duration::from_secs(4);
/// Most programs: what they print has to fit into the file that is read again.
const MOST: usize = 32;

/// Runs the programs whose last values are older than their periods. What is not configured any more is forgotten; what there was
/// no time for is as it was.
pub(super) fn refresh(context: &Context, printed: &mut BTreeMap<String, Printed>, end: Instant) {
    let commands = context.agent_config().ok().flatten().unwrap_or_default().commands;
    let end = end.min(Instant::now() + ALL);
    let now = context.host.now();
    printed.retain(|name, old| commands.iter().any(|new| new.name == *name && digest(new) == old.of));
    let fits = |command: &&LabelCommand| (1..=MAX_LABEL).contains(&command.name.len());
    for command in commands.iter().filter(fits).take(MOST) {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || context.signals.cancelled() {
            return;
        }
        if printed.get(&command.name).is_none_or(|old| is_old(old, command, now)) {
            let value = value(&command.command, left.min(EACH));
            printed.insert(command.name.clone(), Printed { of: digest(command), value, at: now });
        }
    }
}

fn digest(command: &LabelCommand) -> String {
    Digest::of(command.command.join("\0").as_bytes()).to_string()
}

/// A time that lies ahead was written by a clock that has been set back since.
fn is_old(old: &Printed, command: &LabelCommand, now: Timestamp) -> bool {
    let age = now.duration_since(old.at);
    age.is_negative() || age >= SignedDuration::try_from(command.period).unwrap_or(SignedDuration::MAX)
}

fn value(words: &[String], timeout: Duration) -> Option<String> {
    let (program, args) = words.split_first()?;
    let output = Command::new(program).args(args).timeout(timeout).unprivileged().run().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    let is_label = |value: &String| value.len() <= MAX_LABEL && !value.chars().any(char::is_control);
    Some(text.trim().to_owned()).filter(is_label)
}
