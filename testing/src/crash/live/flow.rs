//! One command in a cell whose agent runs, and what it must be like after the command was cut short.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use super::cell::{Cell, Ran, SOON, until};
use super::rows::{self, Row};
use super::whole::{self, Theirs};
use crate::cluster::server::Cluster;
use crate::crash::flow::Found;
use crate::crash::host::Updater;

/// What makes a change, makes it durable, or starts a program: the places to die at. By musl's names.
const CALLS: &str = "rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,unlinkat,rmdir,mkdir,mkdirat,fsync,\
                     fdatasync,pwrite64,ftruncate,fallocate,chmod,fchmod,fchmodat,chown,fchown,lchown,fchownat,flock,\
                     fork,vfork,clone,clone3,kill,exit_group";

/// What can fail on a bad or a full disk.
const FAULTS: &str = "write,pwrite64,rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,unlinkat,rmdir,mkdir,\
                      mkdirat,fsync,fdatasync,ftruncate,fallocate,chmod,fchmod,fchmodat,chown,fchown,lchown,fchownat";
/// What cannot be done on a full disk.
const GROWS: [&str; 9] =
    ["write", "pwrite64", "link", "linkat", "symlink", "symlinkat", "mkdir", "mkdirat", "fallocate"];

/// What steps in at calls; it leaves the programs alone that the updater starts, and the agent with them.
pub const STRACE: &str = "/usr/bin/strace";
/// Where the list of calls is written in the cell.
const TRACE: &str = "/tmp/trace";

/// Where a flow ends when the next run has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The new version in any case.
    New,
    /// The old one in any case: the new one is broken, and refused.
    Old,
    /// Either, as recovery found it.
    Either,
}

/// One command on a host whose agent runs.
#[derive(Debug)]
pub struct Flow {
    /// Its name in tables.
    pub name: &'static str,
    /// The files of the cell, its agent stopped.
    pub template: TempDir,
    /// The cluster's files.
    pub releases: TempDir,
    /// The cluster that answers.
    pub cluster: Cluster,
    /// The updater.
    pub updater: Updater,
    /// The command.
    pub line: &'static str,
    /// What comes next on such a host.
    pub next: &'static str,
    /// The version that is active before.
    pub old: &'static str,
    /// The version that the command wants; `None`: none.
    pub new: Option<&'static str>,
    /// Where it ends.
    pub end: End,
    /// The old version does not live: it fell, and that is what the command is for.
    pub fallen: bool,
    /// The command restores a database in any case, and thus loses no row at all.
    pub restores: bool,
    /// Its server asks for reports, and in the end it has the last one.
    pub reports: bool,
    /// The host's own script brings the new version. What it did stays when the run is cut short: settings tell the two states apart.
    pub by_script: bool,
    /// In one of the two states another agent stands in the place of our link.
    pub theirs: Option<(Found, Theirs)>,
}

/// Where a command is cut short: before its nth call of that name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    /// The system call.
    pub call: String,
    /// Counted from 1.
    pub nth: usize,
}

/// How a command is cut short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// It dies at once.
    Kill,
    /// It is asked to end: SIGTERM.
    Term,
    /// It is asked to end: SIGINT.
    Int,
}

/// How calls fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// This one, with EIO.
    Io,
    /// This one, with ENOSPC.
    NoSpace,
    /// From here on the disk is full.
    Full,
}

/// What comes after the cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// Everything dies; boot recovery, the agent by its link, the timer's run.
    Boot,
    /// The timer's run, with the agent as it is.
    NextRun,
}

impl Flow {
    /// Every place where the command can be cut short, in order.
    ///
    /// # Errors
    /// It cannot be run, or does not end as it should.
    pub fn points(&self) -> Result<Vec<Point>, String> {
        self.points_of(CALLS)
    }

    /// Every call of the command that can fail on a bad or a full disk, in order.
    ///
    /// # Errors
    /// As [`Flow::points`].
    pub fn faults(&self) -> Result<Vec<Point>, String> {
        self.points_of(FAULTS)
    }

    fn points_of(&self, calls: &str) -> Result<Vec<Point>, String> {
        let (cell, _) = self.living()?;
        let (ran, points) = self.listed(&cell, self.line, calls)?;
        let wanted = if self.end == End::Old { Some(1) } else { Some(0) };
        if ran.code != wanted && !self.fallen {
            return Err(format!("undisturbed it ended with {:?}: {}", ran.code, ran.said));
        }
        Ok(points)
    }

    /// Cuts the command short at `point`, lets come what comes after it, and looks at everything.
    ///
    /// # Errors
    /// A violation.
    pub fn check(&self, point: &Point, after: After) -> Result<Found, String> {
        self.check_all(point, None, after)
            .map_err(|reason| format!("{}: {} {} {after:?}: {reason}", self.name, point.call, point.nth))
    }

    /// The same with the recovery cut short as well, at `second`.
    ///
    /// # Errors
    /// A violation.
    pub fn check_twice(&self, point: &Point, second: &Point, after: After) -> Result<Found, String> {
        self.check_all(point, Some(second), after).map_err(|reason| {
            let (first, nth) = (&point.call, point.nth);
            format!("{}: {first} {nth}, {} {} {after:?}: {reason}", self.name, second.call, second.nth)
        })
    }

    /// Every place where the recovery from a cut at `point` can itself be cut short.
    ///
    /// # Errors
    /// It cannot be run.
    pub fn points_of_recovery(&self, point: &Point, after: After) -> Result<Vec<Point>, String> {
        let (mut cell, _) = self.living()?;
        self.cut(&cell, self.line, point, Cut::Kill)?;
        if after == After::Boot {
            cell.reboot().map_err(text)?;
        }
        Ok(self.listed(&cell, recovery(after), CALLS)?.1)
    }

    /// Runs the updater to its end, and lists the `calls` that it makes.
    fn listed(&self, cell: &Cell, line: &str, calls: &str) -> Result<(Ran, Vec<Point>), String> {
        let ran = self.traced(cell, line, &["-o", TRACE, "-e", &format!("trace={calls}")])?;
        let trace = std::fs::read_to_string(cell.path(TRACE)).map_err(text)?;
        let mut points: Vec<Point> = Vec::new();
        for call in trace.lines().filter_map(|line| line.split_once('(')).map(|(call, _)| call) {
            let nth = 1 + points.iter().filter(|point| point.call == call).count();
            points.push(Point { call: call.to_owned(), nth });
        }
        Ok((ran, points))
    }

    /// Asks the command to end at `point`, as an operator or a shutdown does; it must leave a whole host by itself.
    ///
    /// # Errors
    /// A violation.
    pub fn check_asked(&self, point: &Point, cut: Cut) -> Result<Found, String> {
        let asked = || {
            let (cell, before) = self.living()?;
            let ran = self.cut(&cell, self.line, point, cut)?;
            let found = self.ended(&cell, &before, &ran)?;
            self.goes_on(&cell, &before, found)
        };
        asked().map_err(|reason| format!("{}: {} {} {cut:?}: {reason}", self.name, point.call, point.nth))
    }

    /// Lets the call at `points[index]` fail, or all from there on; the command must end by itself, and what it leaves is for the
    /// next one to bring to an end.
    ///
    /// # Errors
    /// A violation.
    pub fn check_fault(&self, points: &[Point], index: usize, fault: Fault) -> Result<Found, String> {
        let failed = || {
            let (cell, before) = self.living()?;
            let ran = self.fail(&cell, points, index, fault)?;
            if !matches!(ran.code, Some(0 | 1)) {
                return Err(format!("it ended with {:?}: {}", ran.code, ran.said));
            }
            succeeds(&cell, "recover")?;
            let found = self.found(&cell)?;
            self.check_whole(&cell, found, &before)
                .and_then(|()| self.goes_on(&cell, &before, found))
                .map_err(|reason| format!("{reason}: {}", ran.said))
        };
        let at = &points[index];
        failed().map_err(|reason| format!("{}: {} {} {fault:?}: {reason}", self.name, at.call, at.nth))
    }

    fn fail(&self, cell: &Cell, points: &[Point], index: usize, fault: Fault) -> Result<Ran, String> {
        let once =
            |error: &str| vec![format!("inject={}:error={error}:when={}", points[index].call, points[index].nth)];
        let full = |call: &&str| {
            let before = points[..index].iter().filter(|point| point.call == **call).count();
            format!("inject={call}:error=ENOSPC:when={}+", before + 1)
        };
        let injected = match fault {
            Fault::Io => once("EIO"),
            Fault::NoSpace => once("ENOSPC"),
            Fault::Full => GROWS.iter().map(full).collect(),
        };
        let trace = format!("trace={FAULTS}");
        let mut words = vec!["-o", "/dev/null", "-e", &trace];
        words.extend(injected.iter().flat_map(|inject| ["-e", inject.as_str()]));
        self.traced(cell, self.line, &words)
    }

    /// Lets the command run to its end, and looks at everything.
    ///
    /// # Errors
    /// A violation.
    pub fn check_undisturbed(&self) -> Result<Found, String> {
        let (cell, before) = self.living()?;
        let ran = cell.run(self.line).map_err(text)?;
        let ended = self.ended(&cell, &before, &ran).and_then(|found| match (self.end, found) {
            (End::Old, Found::New) | (End::New, Found::Old) => Err(format!("it ended on {found:?}")),
            _ => Ok(found),
        });
        ended.map_err(|reason| format!("{}: {reason}: {}", self.name, ran.said))
    }

    /// After a run that ended by itself; its status tells where.
    fn ended(&self, cell: &Cell, before: &[Row], ran: &Ran) -> Result<Found, String> {
        let found = self.found(cell)?;
        let fits = match (ran.code, found) {
            // What fell in its watch is a failure, and led back.
            (Some(1), Found::New) => self.fallen,
            (Some(0), Found::Old) => false,
            (Some(0 | 1), _) => true,
            _ => false,
        };
        if !fits {
            return Err(format!("it ended with {:?} on {found:?}: {}", ran.code, ran.said));
        }
        self.check_whole(cell, found, before)?;
        let (acknowledged, live, kept) = (rows::acknowledged(cell), rows::live(cell)?, rows::kept(cell)?);
        match acknowledged.iter().find(|row| !live.contains(*row) && !kept.contains(*row)) {
            // The agent wrote on while it was looked: only what was there before counts.
            Some(row) if before.contains(row) => Err(format!("{row:?} is nowhere")),
            _ => Ok(found),
        }
    }

    fn check_all(&self, point: &Point, second: Option<&Point>, after: After) -> Result<Found, String> {
        let (mut cell, before) = self.living()?;
        let mut said = self.cut(&cell, self.line, point, Cut::Kill)?.said;
        if after == After::Boot {
            cell.reboot().map_err(text)?;
        }
        if let Some(second) = second {
            said += &self.cut(&cell, recovery(after), second, Cut::Kill)?.said;
            if after == After::Boot {
                cell.reboot().map_err(text)?;
            }
        }
        let checked = self.recovered(&cell, &before, after);
        checked.map_err(|reason| {
            let log = std::fs::read_to_string(cell.path("/var/log/teleport.log")).unwrap_or_default();
            let log: Vec<&str> = log.lines().rev().take(4).collect();
            format!("{reason}\n    cut: {}\n    agent: {log:?}", said.trim().replace('\n', " | "))
        })
    }

    /// After the cut.
    fn recovered(&self, cell: &Cell, before: &[Row], after: After) -> Result<Found, String> {
        let found = match after {
            After::Boot => {
                succeeds(cell, "recover --boot")?;
                let found = self.found(cell)?;
                // The agent starts in any case; where a version fell it may fall again.
                if cell.path(whole::AGENT).symlink_metadata().is_ok() {
                    cell.start_agent()?;
                    self.check_rows(cell, found, before)?;
                }
                if self.fallen && found == Found::Old {
                    until(SOON, || cell.agents().is_empty()).map_err(|_| "the fallen version lives")?;
                }
                found
            }
            After::NextRun => {
                succeeds(cell, "recover")?;
                let found = self.found(cell)?;
                self.check_whole(cell, found, before)?;
                found
            }
        };
        self.goes_on(cell, before, found)
    }

    /// The next run, and one more, after a host was `found` whole.
    fn goes_on(&self, cell: &Cell, before: &[Row], found: Found) -> Result<Found, String> {
        let ran = cell.run(self.next).map_err(text)?;
        if !matches!(ran.code, Some(0 | 1)) || (ran.code == Some(1) && self.end == End::New && !self.fallen) {
            return Err(format!("`{}` after it: {:?}: {}", self.next, ran.code, ran.said));
        }
        // As the updater's unit does after each run.
        succeeds(cell, "recover")?;
        let then = self.found(cell)?;
        let wanted = match self.end {
            End::New => Found::New,
            End::Old => Found::Old,
            End::Either => found,
        };
        if then != wanted {
            return Err(format!("{then:?} after the next run: {}", ran.said));
        }
        self.check_whole(cell, then, before)?;
        let agent = cell.agent();
        let again = cell.run(self.next).map_err(text)?;
        if again.code != Some(0) || self.found(cell)? != then || cell.agent() != agent {
            return Err(format!("it does not converge: {:?}: {}", again.code, again.said));
        }
        if self.reports {
            reported(cell).map_err(|reason| format!("{reason}: {}", again.said))?;
        }
        Ok(found)
    }

    /// A cell in which the agent runs and writes, and what it had acknowledged.
    fn living(&self) -> Result<(Cell, Vec<Row>), String> {
        let cell = Cell::copy_of(self.template.path(), &self.updater).map_err(text)?;
        if !self.fallen {
            let known = rows::acknowledged(&cell).len();
            cell.start_agent()?;
            until(SOON, || rows::acknowledged(&cell).len() > known).map_err(|_| "the agent does not write")?;
        }
        let before = rows::acknowledged(&cell);
        Ok((cell, before))
    }

    fn cut(&self, cell: &Cell, line: &str, point: &Point, cut: Cut) -> Result<Ran, String> {
        let signal = match cut {
            Cut::Kill => "KILL",
            Cut::Term => "TERM",
            Cut::Int => "INT",
        };
        let inject = format!("inject={}:signal={signal}:when={}", point.call, point.nth);
        let trace = format!("trace={}", point.call);
        self.traced(cell, line, &["-o", "/dev/null", "-e", &trace, "-e", &inject])
    }

    /// Runs the updater below strace: its own calls, not those of the programs that it starts.
    fn traced(&self, cell: &Cell, line: &str, strace: &[&str]) -> Result<Ran, String> {
        let inner = cell.updater(&crate::crash::host::words(line));
        let mut command: Command = cell.command(STRACE);
        command.arg("-qq").args(strace).arg("--").arg(inner.get_program()).args(inner.get_args());
        cell.finish(command).map_err(text)
    }

    /// The version that link and settings agree on.
    pub(super) fn found(&self, cell: &Cell) -> Result<Found, String> {
        if self.by_script {
            let is_old = status(cell)?["agent_version_installed"] == self.old;
            return Ok(if is_old { Found::Old } else { Found::New });
        }
        let link = whole::link(cell);
        let is_theirs = cell.path(whole::AGENT).symlink_metadata().is_ok_and(|meta| meta.is_file());
        match (&self.theirs, link.as_deref()) {
            (Some((found, _)), None) if is_theirs => Ok(*found),
            (Some((Found::Old, _)), Some(version)) if version == self.old => Err("our link is back".to_owned()),
            (_, Some(version)) if version == self.old => Ok(Found::Old),
            (None | Some((Found::Old, _)), version) if version == self.new => Ok(Found::New),
            (_, other) => Err(format!("the link leads to {other:?}")),
        }
    }

    fn check_whole(&self, cell: &Cell, found: Found, before: &[Row]) -> Result<(), String> {
        let version = match found {
            Found::Old => Some(self.old),
            Found::New => self.new,
        };
        let fell = self.fallen && found == Found::Old;
        let status = match &self.theirs {
            Some(_) if self.by_script && found == Found::Old => whole::check_between(cell, self.old)?,
            Some((theirs_when, theirs)) if *theirs_when == found => whole::check_theirs(cell, theirs)?,
            Some(_) if fell => whole::check_fallen(cell, version)?,
            _ => whole::check(cell, version, !fell)?,
        };
        let refused: BTreeSet<&str> =
            status["refused"].as_array().into_iter().flatten().filter_map(|one| one["version"].as_str()).collect();
        if version.is_some_and(|version| refused.contains(version)) {
            return Err(format!("{version:?} runs, and is refused"));
        }
        self.check_rows(cell, found, before)
    }

    fn check_rows(&self, cell: &Cell, found: Found, before: &[Row]) -> Result<(), String> {
        // First what was acknowledged: the agent writes on.
        let acknowledged = rows::acknowledged(cell);
        let live = rows::live(cell)?;
        let goes_back = self.restores && found == Found::New;
        let must: Vec<Row> = if goes_back {
            let dir = self.new.unwrap_or(whole::UNMANAGED);
            rows::in_snapshot(self.template.path(), dir)?.into_iter().collect()
        } else {
            before.to_vec()
        };
        let lost: Vec<&Row> = must.iter().filter(|row| !live.contains(*row)).collect();
        if !lost.is_empty() {
            return Err(format!("{} of {} rows are lost: {:?}", lost.len(), must.len(), lost.first()));
        }
        // A broken version is tried again by the next run, and only what its last try left is kept.
        if self.end != End::Old {
            let kept = rows::kept(cell)?;
            let gone: Vec<&Row> =
                acknowledged.iter().filter(|row| !live.contains(*row) && !kept.contains(*row)).collect();
            if !gone.is_empty() {
                return Err(format!("{} acknowledged rows are nowhere: {:?}", gone.len(), gone.first()));
            }
        }
        Ok(())
    }
}

/// The server has taken this host's last report, and its key is whole and nobody else's.
pub(super) fn reported(cell: &Cell) -> Result<(), String> {
    let status = status(cell)?;
    if !status["report"].as_str().is_some_and(|report| report.starts_with("taken ")) {
        return Err(format!("the last report: {}", status["report"]));
    }
    let path = cell.path(rows::VERSIONS).join(".fleet-host");
    let mode = std::fs::metadata(&path).map_err(text)?.permissions().mode() & 0o7777;
    let kept: Value = serde_json::from_slice(&std::fs::read(&path).map_err(text)?).map_err(text)?;
    let is_key = kept["seed"].as_str().is_some_and(|seed| seed.len() == 64);
    let is_said = kept["server"]["said"] == kept["last"] && !kept["last"].is_null();
    if mode == 0o600 && is_key && is_said {
        Ok(())
    } else {
        Err(format!(".fleet-host, {mode:o}: {}", without_key(kept)))
    }
}

fn without_key(mut kept: Value) -> Value {
    kept["seed"] = Value::Null;
    kept
}

fn recovery(after: After) -> &'static str {
    match after {
        After::Boot => "recover --boot",
        After::NextRun => "recover",
    }
}

/// Runs the updater; it must end with 0.
pub(super) fn succeeds(cell: &Cell, line: &str) -> Result<String, String> {
    let ran = cell.run(line).map_err(text)?;
    match ran.code {
        Some(0) => Ok(ran.said),
        code => Err(format!("`{line}` ended with {code:?}: {}", ran.said)),
    }
}

/// `status` as JSON.
pub(super) fn status(cell: &Cell) -> Result<Value, String> {
    let said = succeeds(cell, "status --format json")?;
    let json = said.find('{').map_or("", |start| &said[start..]);
    serde_json::from_str(json).map_err(|error| format!("status: {error}: {said}"))
}

pub(super) fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
