//! Labels whose values programs print, as the agent's configuration has them (RFD 0169): run at most once a period, as `nobody`,
//! without network, and only at the end of a run. What they printed is kept as lines of label, time (seconds since 1970), digest of
//! the command line and value, between tabs; a program that failed has an empty value.

use std::time::{Duration, Instant};

use protocol::Digest;
use protocol::report::MAX_LABEL;

use crate::config::agent::LabelCommand;
use crate::context::Context;
use crate::host::command::Command;
use crate::host::process;

/// Longest time of one program.
const EACH: Duration = Duration::from_secs(2);
/// Longest time of all: the report itself needs the rest.
const ALL: Duration = Duration::from_secs(4);
/// Most programs: what they print has to fit into the file that is read again.
const MOST: usize = 32;

/// Runs the programs whose last values are older than their periods; gives what is kept from now on. What is not configured any
/// more is forgotten; what there was no time for is as it was.
pub(super) fn refresh(context: &Context, printed: &str, end: Instant) -> String {
    let commands = context.agent_config().ok().flatten().unwrap_or_default().commands;
    let end = end.min(Instant::now() + ALL);
    let now = context.host.now().as_second();
    let mut kept = String::new();
    for command in commands.iter().filter(|command| is_label(&command.name)).take(MOST) {
        let start = format!("{}\t", command.name);
        let digest = Digest::of(command.command.join("\0").as_bytes()).to_string();
        let old = printed.lines().find(|line| line.starts_with(&start) && parts(line)[2] == digest);
        let left = end.saturating_duration_since(Instant::now());
        let may_run = !left.is_zero() && !context.signals.cancelled();
        let line = match old {
            Some(old) if !may_run || !is_old(parts(old)[1], command, now) => old.to_owned(),
            None if !may_run => continue,
            _ => format!("{start}{now}\t{digest}\t{}", value(&command.command, left.min(EACH)).unwrap_or_default()),
        };
        kept += &line;
        kept.push('\n');
    }
    kept
}

/// The labels in what is kept, and their values.
pub(super) fn labels(printed: &str) -> impl Iterator<Item = (String, String)> {
    let lines = printed.lines().map(parts).filter(|parts| !parts[3].is_empty());
    lines.map(|parts| (parts[0].to_owned(), parts[3].to_owned()))
}

fn parts(line: &str) -> [&str; 4] {
    let mut parts = line.splitn(4, '\t');
    [(); 4].map(|()| parts.next().unwrap_or_default())
}

/// A time that lies ahead was written by a clock that has been set back since.
fn is_old(at: &str, command: &LabelCommand, now: i64) -> bool {
    let age = at.parse().ok().and_then(|at: i64| u64::try_from(now - at).ok());
    age.is_none_or(|age| age >= command.period.as_secs())
}

fn value(words: &[String], timeout: Duration) -> Option<String> {
    let (program, args) = words.split_first()?;
    let output = process::adopting(|| Command::new(program).args(args).timeout(timeout).unprivileged().run()).ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    Some(text.trim().to_owned()).filter(|value| is_label(value))
}

/// One line, not longer than a report may have it.
fn is_label(text: &str) -> bool {
    (1..=MAX_LABEL).contains(&text.len()) && !text.chars().any(char::is_control)
}
