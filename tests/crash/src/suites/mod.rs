//! The suites that need nothing but files.

pub mod fault;
pub mod kill;
pub mod lasting;
pub mod looks;
pub mod recovery;
pub mod signal;
pub mod written;

use std::path::Path;

use crate::flow::{Flow, Found};
use crate::injector::{self, Action, Call, Scope, Traced};
use crate::state::VERSIONS;

/// Every call that counts of an undisturbed run of `args` on a copy of the image below `root`.
pub fn points(flow: &Flow, root: &Path, args: &[String], scope: Scope) -> Vec<Call> {
    let root = crate::copy(root);
    let mut command = flow.host.command(root.path(), args);
    let mut traced = injector::run(&mut command, scope, |_| Action::Pass);
    for call in &mut traced.calls {
        call.subject = without(root.path(), &call.subject);
    }
    traced.calls
}

/// `text` with paths as seen from inside the image below `root`.
pub fn without(root: &Path, text: &str) -> String {
    text.replace(&root.display().to_string(), "")
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
    if traced.stderr.contains("broke:") || traced.stderr.contains("panicked") {
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
