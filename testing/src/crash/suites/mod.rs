//! The suites that need nothing but files.

pub mod fault;
pub mod kill;
pub mod lasting;
pub mod looks;
pub mod recovery;
pub mod recovery_fault;
pub mod signal;
pub mod written;

use std::path::Path;

use crate::crash::flow::{Flow, Found};
use crate::crash::host::words;
use crate::crash::injector::{self, Action, Call, Scope, Traced};
use crate::crash::state::VERSIONS;
use crate::crash::suite::{Options, Row};

/// Every call that counts of an undisturbed run of `args` on a copy of the image below `root`.
pub fn points(flow: &Flow, root: &Path, args: &[String], scope: Scope) -> Vec<Call> {
    let root = crate::crash::copy(root);
    let mut command = flow.host.command(root.path(), args);
    let mut traced = injector::run(&mut command, scope, |_| Action::Pass);
    for call in &mut traced.calls {
        call.subject = without(root.path(), &call.subject);
    }
    traced.calls
}

/// A looking call, by what it looks at: the number of processes in `/proc` changes how many come before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    name: &'static str,
    subject: String,
    nth: usize,
    ways: usize,
}

impl Look {
    /// The looking calls of an undisturbed run of `args` on a copy of the image below `root`.
    pub fn all(flow: &Flow, root: &Path, args: &[String]) -> Vec<Self> {
        let mut seen = std::collections::BTreeMap::new();
        let calls = points(flow, root, args, Scope::Looks).into_iter();
        let looks = calls.map(|call| {
            let nth = seen.entry((call.name, call.subject.clone())).or_insert(0);
            *nth += 1;
            Self { name: call.name, subject: call.subject, nth: *nth, ways: call.kind.errors().len() }
        });
        looks.collect()
    }

    /// Whether it looks at something that is in the image.
    pub fn is_inside(&self) -> bool {
        ["/var/", "/etc/teleport", "/usr/local/"].iter().any(|top| self.subject.starts_with(top))
    }

    /// What it looks at.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// How often the same was looked at, with this one.
    pub fn nth(&self) -> usize {
        self.nth
    }

    /// This look with each error that it can meet, by number.
    pub fn each_way(&self) -> impl Iterator<Item = (Self, usize)> + use<> {
        let look = self.clone();
        (0..self.ways).map(move |way| (look.clone(), way))
    }

    /// Lets this look fail in a run of `args` on the image below `root`.
    fn fail(&self, flow: &Flow, root: &Path, args: &[String], way: usize) -> Disturbed {
        let mut count = 0;
        disturb(flow, root, args, Scope::Looks, |call| {
            let is_this = call.name == self.name && without(root, &call.subject) == self.subject;
            count += usize::from(is_this);
            if is_this && count == self.nth {
                Action::Fail(call.kind.errors()[way % call.kind.errors().len()])
            } else {
                Action::Pass
            }
        })
    }
}

/// `text` with paths as seen from inside the image below `root`.
pub fn without(root: &Path, text: &str) -> String {
    text.replace(&root.display().to_string(), "")
}

/// Recoveries of flows that were killed: `flows` names them, each with every how manieth point it is killed at.
fn crashes(options: &Options, flows: &[(&str, usize)], suite: impl Fn(&Flow, usize) -> Row) -> Vec<Row> {
    let names: Vec<&str> = flows.iter().map(|(name, _)| *name).collect();
    let every = |name: &str| flows.iter().find(|(known, _)| *known == name).map_or(1, |(_, every)| *every);
    options.flows(&names).map(|flow| suite(&flow, every(flow.name))).collect()
}

/// Kills `flow` at every `every`th point, the last first, and has `explore` try its recovery: given are the image, how it
/// was killed, and the command that recovers it, by turns as at a boot.
fn each_crash(flow: &Flow, every: usize, mut explore: impl FnMut(&Path, &str, &[String]) -> Row) -> Row {
    let count = points(flow, &flow.host.root(), &flow.args, Scope::Changes).len();
    let mut row = Row { name: flow.name.to_owned(), ..Row::default() };
    for number in (1..=count).rev().step_by(every) {
        let crashed = flow.copy();
        let killed = disturb(flow, crashed.path(), &flow.args, Scope::Changes, kill_at(number));
        let recover = words(if (number / every).is_multiple_of(2) { "recover --boot" } else { "recover" });
        row.add(explore(crashed.path(), &killed.what, &recover));
    }
    row
}

/// Kills at the call of this number.
fn kill_at(number: usize) -> impl Fn(&Call) -> Action {
    move |call| if call.number == number { Action::Kill } else { Action::Pass }
}

/// A run in which `decide` stepped in.
struct Disturbed {
    traced: Traced,
    /// What was done and at which call, for violations; empty if nothing was.
    what: String,
}

/// Runs `args` on the image below `root`.
fn disturb(
    flow: &Flow,
    root: &Path,
    args: &[String],
    scope: Scope,
    mut decide: impl FnMut(&Call) -> Action,
) -> Disturbed {
    let mut what = String::new();
    let traced = injector::run(&mut flow.host.command(root, args), scope, |call| {
        let action = decide(call);
        if action != Action::Pass && what.is_empty() {
            what = without(root, &format!("{} at {call}", name(action)));
        }
        action
    });
    Disturbed { traced, what }
}

fn name(action: Action) -> String {
    match action {
        Action::Fail(error) => std::io::Error::from_raw_os_error(error).to_string(),
        Action::Signal(libc::SIGTERM) => "SIGTERM".to_owned(),
        Action::Signal(libc::SIGINT) => "SIGINT".to_owned(),
        other => format!("{other:?}").to_lowercase(),
    }
}

/// What is asked of a run that met an error: it ends with 1, one error line, and a whole state; or with 0 and the new
/// state. A journal that it leaves open is for the next run to close.
///
/// # Errors
/// A violation, without its point.
fn ended_well(flow: &Flow, root: &Path, traced: &Traced) -> Result<Option<Found>, String> {
    let said = || without(root, traced.stderr.trim_end());
    if traced.hung {
        return Err(format!("it did not end: {}", said()));
    }
    if traced.stderr.contains("internal error") || traced.stderr.contains("panicked") {
        return Err(format!("a panic: {}", said()));
    }
    let errors = traced.stderr.lines().filter(|line| line.starts_with("error: ")).count();
    let expected = match (traced.status.code(), errors) {
        (Some(0), 0) => Some(Found::New),
        (Some(1), 1) => None,
        (code, lines) => return Err(format!("exit status {code:?} with {lines} error lines: {}", said())),
    };
    if !root.join(VERSIONS).join(".journal").exists() {
        let found = flow.found(root).map_err(|reason| format!("{reason}, after: {}", said()))?;
        if expected.is_some_and(|expected| expected != found) {
            return Err(format!("exit status 0 and the old state: {}", said()));
        }
    }
    Ok(expected)
}

/// [`ended_well`], then recovery and all that is promised.
fn check_after_error(flow: &Flow, root: &Path, run: &Disturbed, boot: bool) -> Result<Found, String> {
    let expected =
        ended_well(flow, root, &run.traced).map_err(|reason| format!("{}: {}: {reason}", flow.name, run.what))?;
    let found = flow.check_after_error(root, &run.what, boot)?;
    match expected {
        Some(expected) if expected != found => {
            let said = without(root, run.traced.stderr.trim_end());
            Err(format!("{}: {}: exit status 0, and recovered to the old state: {said}", flow.name, run.what))
        }
        _ => Ok(found),
    }
}
