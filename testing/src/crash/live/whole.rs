//! What SPEC §8 promises of a host at rest whose agent lives.

use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use serde_json::Value;

use super::cell::{Cell, until};
use super::flow::{status, succeeds, text};
use super::rows::{self, VERSIONS};
use crate::crash::tree::{difference, tree};

/// For the end of a predecessor, which lives on for some milliseconds.
const SHORTLY: Duration = Duration::from_secs(10);
/// Parts of names that only a run in progress may have.
const UNFINISHED: [&str; 9] = [
    ".staging-",
    ".retired-",
    ".teleport-update-tmp-",
    ".journal",
    ".installer",
    ".updates.yaml.next",
    ".backup.",
    ".sqlite.db.teleport-update",
    UNMANAGED,
];

/// Where what is replaced of others is kept as long as there is a way back to it.
pub const UNMANAGED: &str = ".unmanaged";
/// The agent, whoever put it there.
pub const AGENT: &str = "/usr/local/bin/teleport";

/// An agent that is none of ours, in the place of our link.
#[derive(Debug)]
pub struct Theirs {
    /// What it is.
    pub version: &'static str,
    /// The version that is active all the same, by the settings.
    pub active: Option<&'static str>,
    /// Everything below `/usr/local`.
    pub local: Vec<String>,
}

/// The version that the agent's link leads into.
pub fn link(cell: &Cell) -> Option<String> {
    let target = std::fs::read_link(cell.path(AGENT)).ok()?;
    let inside = target.strip_prefix(VERSIONS).ok()?;
    Some(inside.iter().next()?.to_string_lossy().into_owned())
}

/// The host is wholly on `version` (`None`: on none), whose agent lives unless it fell. Its `status`.
///
/// # Errors
/// A violation.
pub fn check(cell: &Cell, version: Option<&str>, lives: bool) -> Result<Value, String> {
    left_behind(cell, None)?;
    check_ours(cell, version, lives)
}

/// The same where `version` fell, and there is a way back to an agent that is none of ours.
///
/// # Errors
/// A violation.
pub fn check_fallen(cell: &Cell, version: Option<&str>) -> Result<Value, String> {
    if !cell.path(VERSIONS).join(UNMANAGED).exists() {
        return Err("the way back is gone".to_owned());
    }
    left_behind(cell, Some(UNMANAGED))?;
    check_ours(cell, version, false)
}

/// The host is wholly on an agent that is none of ours. Its `status`.
///
/// # Errors
/// A violation.
pub fn check_theirs(cell: &Cell, theirs: &Theirs) -> Result<Value, String> {
    left_behind(cell, None)?;
    let status = at_rest(cell, theirs.active, None)?;
    let local = tree(&cell.path("/usr/local")).map_err(text)?;
    if local != theirs.local {
        return Err(format!("what is not ours was changed: {}", difference(&theirs.local, &local)));
    }
    agent(cell, theirs.version, AGENT)?;
    if status["agent_running"] != true {
        return Err(format!("status says agent_running: {}", status["agent_running"]));
    }
    Ok(status)
}

/// The script that was to replace `active` ran in part, in whole or not at all: nothing is pending, and one agent lives. Its `status`.
///
/// # Errors
/// A violation.
pub fn check_between(cell: &Cell, active: &str) -> Result<Value, String> {
    left_behind(cell, None)?;
    let status = at_rest(cell, Some(active), link(cell).as_deref())?;
    match cell.agents()[..] {
        [_] => Ok(status),
        ref others => Err(format!("agents: {others:?}")),
    }
}

fn check_ours(cell: &Cell, version: Option<&str>, lives: bool) -> Result<Value, String> {
    let status = at_rest(cell, version, version)?;
    links(cell, version)?;
    let others = std::fs::read_to_string(cell.path("/usr/local/bin/other")).map_err(text)?;
    if others != "#!/bin/sh\n" {
        return Err("what is not ours was changed".to_owned());
    }
    match version {
        None if cell.agents().is_empty() => {
            rows::schema(cell)?;
        }
        None => return Err("an agent runs, and nothing is installed".to_owned()),
        Some(version) => {
            succeeds(cell, "verify")?;
            if lives {
                agent(cell, version, &format!("{VERSIONS}/{version}/bin/teleport"))?;
                let status = self::status(cell)?;
                if status["agent_version_running"].as_str() != Some(version) {
                    return Err(format!("status says {} runs", status["agent_version_running"]));
                }
            }
        }
    }
    Ok(status)
}

/// `status` says that `active` is installed and `linked` linked, that no run is at work or was cut short, and nothing that
/// is not so.
fn at_rest(cell: &Cell, active: Option<&str>, linked: Option<&str>) -> Result<Value, String> {
    let status = status(cell)?;
    for (key, version) in [("agent_version_installed", active), ("agent_version_linked", linked)] {
        if status[key].as_str() != version {
            return Err(format!("status says {key}: {}, it is {version:?}", status[key]));
        }
    }
    for key in ["recovery_pending", "update_in_progress"] {
        if status[key] != false {
            return Err(format!("status says {key}: {}", status[key]));
        }
    }
    lock_is_free(cell)?;
    for rows in status["kept_databases"].as_array().into_iter().flatten() {
        let path = rows["path"].as_str().unwrap_or_default();
        if !cell.path(path).join("backup.yaml").exists() {
            return Err(format!("status tells of rows in {path}, which is not there"));
        }
    }
    Ok(status)
}

/// One agent, of that version, which is the program at `path`, with a database of its schema.
fn agent(cell: &Cell, version: &str, path: &str) -> Result<(), String> {
    let alone = until(SHORTLY, || cell.agents().len() == 1 && cell.agent().is_some());
    let Some(pid) = cell.agent() else {
        return Err(format!("the agent does not run; processes {:?}", cell.agents()));
    };
    if alone.is_err() {
        return Err(format!("more than one agent: {:?}", cell.agents()));
    }
    // What is none of ours may come back as a copy, from another file system; who runs it is not stopped for that.
    if !cell.runs(pid, path) && (path != AGENT || !cell.runs_copy(pid, path)) {
        return Err(format!("the agent that runs is not {version}"));
    }
    let schema: i64 = version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or_default();
    match rows::schema(cell)? {
        found if found == schema => Ok(()),
        found => Err(format!("schema {found} under {version}")),
    }
}

/// Every link of ours leads into that version.
fn links(cell: &Cell, version: Option<&str>) -> Result<(), String> {
    for dir in ["/usr/local/bin", "/usr/local/lib/systemd/system"] {
        for entry in std::fs::read_dir(cell.path(dir)).into_iter().flatten().flatten() {
            let Ok(target) = std::fs::read_link(entry.path()) else { continue };
            let Ok(inside) = target.strip_prefix(VERSIONS) else { continue };
            let leads_to = inside.iter().next().map(|name| name.to_string_lossy().into_owned());
            if leads_to.as_deref() != version || !cell.path(&target.display().to_string()).exists() {
                return Err(format!("{} leads to {}, on {version:?}", entry.path().display(), target.display()));
            }
        }
    }
    match version {
        Some(version) if link(cell).as_deref() != Some(version) => Err("the agent's link is gone".to_owned()),
        _ => Ok(()),
    }
}

fn left_behind(cell: &Cell, may_stay: Option<&str>) -> Result<(), String> {
    let tops = ["/var/lib/teleport", "/usr/local", "/etc"].map(|top| cell.path(top));
    let mut found = Vec::new();
    tops.iter().for_each(|top| walk(top, &mut found));
    found.retain(|path| may_stay.is_none_or(|stays| !path.ends_with(stays)));
    if found.is_empty() { Ok(()) } else { Err(format!("left behind: {found:?}")) }
}

fn walk(dir: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if UNFINISHED.iter().any(|part| name.starts_with(part)) {
            found.push(entry.path().display().to_string());
        } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            walk(&entry.path(), found);
        }
    }
}

/// Nobody holds the lock.
pub fn lock_is_free(cell: &Cell) -> Result<(), String> {
    let path = cell.path(VERSIONS).join(".lock");
    let Ok(file) = std::fs::File::open(&path) else { return Ok(()) };
    flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|error| format!("{}: {error}", path.display()))
}
