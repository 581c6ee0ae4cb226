//! The host's own script, which installs in our place (DIRECTIVES §4): whose it is, which bytes run and with what, and whether the
//! agent runs the version then. No script comes over the wire.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use protocol::installer::InstallerOrder;
use protocol::{Digest, Version};
use rustix::fs::{Mode, OFlags};

use super::super::Site;
use super::{reload, service};
use crate::host::command::{self, Command};
use crate::host::process::{self, FileId};
use crate::host::{durable, machine, ownership, signal, trust};
use crate::plan::Plan;
use crate::release::check;
use crate::report::{Code, Error, IoContext, Result};
use crate::service::readiness;

/// Where the host has its scripts.
const SCRIPTS: &str = "/etc/teleport-update/installers";
/// Largest script, bytes.
const MAX_SCRIPT: u64 = 1 << 20;
/// How long a script may run by default, and at most (DIRECTIVES §4).
const USUAL: Duration = Duration::from_secs(15 * 60);
const LONGEST: Duration = Duration::from_secs(60 * 60);
/// Below the versions directory: what runs, where it writes to, and its status.
const PLACE: &str = ".installer";
/// So long an agent that a script has restarted or reloaded may take to be another, before we reload it.
const SETTLE: Duration = Duration::from_secs(3);
/// Between two looks at it.
const LOOK: Duration = Duration::from_millis(250);
/// What a script that is to end has for that.
const GRACE: Duration = Duration::from_secs(2);
/// How long a program may take to tell its version.
const ANSWER: Duration = Duration::from_secs(20);
/// Runs the script with no input, and tells its status.
const RUN: &str = r#""$@" >"$0/output" 2>&1 </dev/null; echo $? >"$0/status""#;
/// The same as a unit, to its end: systemd-run before 220 does not wait, and the unit may not have begun when it ends.
const AS_UNIT: &str = r#"said=$(systemd-run --unit "$0" --service-type oneshot -- "$@" 2>&1) || echo "$said"
[ -e "$4/status" ] || sleep 1
while [ "$(systemctl show --property ActiveState "$0.service")" = ActiveState=activating ]; do sleep 1; done"#;

/// Runs the script of `order` for `plan`, and makes sure that the agent runs the version then. What the script has started ends with it.
///
/// Errors: `script_failed`, `script_no_effect`; `interrupted`; those of the host.
pub(in crate::execute) fn run(site: &Site<'_>, plan: &Plan, order: &InstallerOrder) -> Result<()> {
    let bytes = read(site, order)?;
    let served = readiness::probe(&site.data_dir).is_served();
    carry_out(site, order, &bytes)?;
    effect(site, plan, order, served)
}

/// Looks at the script of `order` as [`run`] does, and runs the one beside it that tries it out, `NAME.dry-run`, where there is one.
/// Called under the lock.
///
/// Errors: as [`run`].
pub(crate) fn dry_run(site: &Site<'_>, order: &InstallerOrder) -> Result<()> {
    read(site, order)?;
    let order = InstallerOrder { name: format!("{}.dry-run", order.name), sha256: None, ..order.clone() };
    if !durable::exists(&site.layout.followed(Path::new(SCRIPTS)).join(&order.name))? {
        return Ok(());
    }
    let bytes = read(site, &order)?;
    carry_out(site, &order, &bytes)
}

/// Runs these bytes to their end. What they have started ends with them.
fn carry_out(site: &Site<'_>, order: &InstallerOrder, bytes: &[u8]) -> Result<()> {
    let ran = started(site, order, bytes);
    let status = durable::read_limited(&place(site).join("status"), 16).ok().flatten();
    end(site)?;
    let (is_over, output) = ran?;
    for line in String::from_utf8_lossy(&output).lines() {
        let line: String = line.chars().filter(|char| !char.is_control()).collect();
        site.report.info(&format!("{}: {line}", named(order)));
    }
    if site.signals.cancelled() {
        return Err(Error::new(Code::Interrupted, format!("interrupted: {} was ended", named(order))));
    }
    if !is_over {
        return Err(failed(order, &format!("did not end within {} s, and was ended", limit(order).as_secs())));
    }
    match status.as_deref().map(String::from_utf8_lossy).as_deref().map(str::trim) {
        Some("0") => Ok(()),
        Some(status) => {
            let signal = status.parse().ok().filter(|status| *status > 128).map(|status: u32| status - 128);
            let by = signal.map(|signal| format!(" (signal {signal})")).unwrap_or_default();
            Err(failed(order, &format!("ended with status {status}{by}")))
        }
        None => Err(failed(order, "could not be started, or was killed")),
    }
}

/// The script's bytes, read once, if they are root's alone and those that are meant.
///
/// Errors: `script_failed`, with the reason.
pub(in crate::execute) fn read(site: &Site<'_>, order: &InstallerOrder) -> Result<Vec<u8>> {
    let file = site.layout.followed(Path::new(SCRIPTS)).join(&order.name);
    let wrong = |what: &str| failed(order, &format!("is not run: {}: {what}", file.display()));
    trust::check_way(site.layout, Path::new(SCRIPTS)).map_err(|error| wrong(&error.what))?;
    for dir in file.ancestors().skip(1) {
        let meta = dir.metadata().map_err(|error| wrong(&error.to_string()))?;
        if !ownership::is_closed(dir, &meta) {
            return Err(wrong(&format!("users other than root could add to {}", dir.display())));
        }
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::open(&file, flags, Mode::empty()).map_err(|error| match error {
        rustix::io::Errno::LOOP => wrong("it is a link"),
        error => wrong(&std::io::Error::from(error).to_string()),
    })?;
    let opened = File::from(opened);
    let meta = opened.metadata().at("cannot look at", &file)?;
    if !meta.is_file() {
        return Err(wrong("it is no file"));
    }
    if !ownership::is_closed(&file, &meta) {
        let (owner, mode) = (meta.uid(), meta.mode() & 0o7777);
        return Err(wrong(&format!("users other than root could change it (owner {owner}, mode {mode:o})")));
    }
    let mut bytes = Vec::new();
    opened.take(MAX_SCRIPT + 1).read_to_end(&mut bytes).at("cannot read", &file)?;
    if bytes.len() as u64 > MAX_SCRIPT {
        return Err(wrong("it is larger than 1 MiB"));
    }
    match order.sha256 {
        Some(pinned) if pinned != Digest::of(&bytes) => {
            Err(wrong(&format!("its SHA-256 is {}, and {pinned} is meant", Digest::of(&bytes))))
        }
        _ => Ok(bytes),
    }
}

/// Ends what is left of a script, and removes what it ran from. May be repeated; at boot nothing is left to be ended.
///
/// Errors: `io`.
pub(in crate::execute) fn end(site: &Site<'_>) -> Result<()> {
    if machine::is_systemd_booted() && !site.boot {
        let unit = format!("{}.service", unit(site));
        let systemctl = |words: &[&str]| Command::new("systemctl").args(words).arg(&unit).run();
        let runs = || {
            systemctl(&["is-active"])
                .is_ok_and(|output| !matches!(output.stdout_text().trim(), "inactive" | "failed" | "unknown"))
        };
        for signal in ["--signal=TERM", "--signal=KILL"] {
            if runs() {
                let _ = systemctl(&["kill", signal]);
                let end = Instant::now() + GRACE;
                while runs() && Instant::now() < end {
                    signal::pause(LOOK);
                }
            }
        }
        // One that was killed is kept as failed, and its name is needed again.
        let _ = systemctl(&["stop"]);
        let _ = systemctl(&["reset-failed"]);
    } else if !site.boot {
        // Of a run that was killed: who leads the script's group is known by what it was started with.
        let place = place(site).into_os_string().into_encoded_bytes();
        for process in process::all()? {
            if process.args()?.contains(&place) {
                process::kill_group(process.pid);
            }
        }
    }
    durable::remove_tree(&place(site))
}

/// Runs these bytes, and no others: whether they came to their end, and what they printed.
fn started(site: &Site<'_>, order: &InstallerOrder, bytes: &[u8]) -> Result<(bool, Vec<u8>)> {
    end(site)?;
    let place = place(site);
    durable::create_dir(&place, 0o700)?;
    let (script, output) = (place.join("script"), place.join("output"));
    durable::write_synced(&script, bytes, 0o700)?;
    let read = durable::pipe(&output)?;
    let mut words = vec!["/bin/sh".into(), "-c".into(), RUN.into(), place.into_os_string()];
    words.extend(["/usr/bin/env", "-i"].map(Into::into));
    words.push(format!("PATH={}", command::PATH).into());
    words.extend(order.env.iter().map(|(name, value)| format!("{name}={value}").into()));
    words.extend(Some(&order.shell).filter(|shell| !shell.is_empty()).map(Into::into));
    words.push(script.into_os_string());
    let command = if machine::is_systemd_booted() {
        Command::new("/bin/sh").args(["-c", AS_UNIT, &unit(site)]).args(words)
    } else {
        Command::new("/bin/sh").args(words.drain(1..))
    };
    process::adopting(|| command.timeout(limit(order)).run_heard(read, &|| site.signals.cancelled()))
}

/// Waits until the agent runs the version, reloads it once if it does not, and has it judged as after each update.
fn effect(site: &Site<'_>, plan: &Plan, order: &InstallerOrder, served: bool) -> Result<()> {
    let Some(to) = &plan.to else { return Ok(()) };
    let no_effect = |what: String| {
        let what = format!("{} ended with success, but {what}", named(order));
        Error::new(Code::ScriptNoEffect, what).advise("see the script's output in the log of this run")
    };
    let (mut begun, mut is_reloaded, mut seen) = (Instant::now(), false, None);
    loop {
        let agent = running(site, &mut seen)?;
        let is_there = |agent: &Agent| agent.version.as_ref() == Some(&to.version) && agent.program.is_some();
        if let Some(Agent { pid, program: Some(program), .. }) = agent.as_ref().filter(|agent| is_there(agent)) {
            match service::health_verdict(site, program, served, false) {
                Err(error) if matches!(error.code, Code::Unhealthy | Code::ServiceFailed | Code::Damaged) => {
                    let now = running(site, &mut seen)?;
                    let is_same = now.is_some_and(|now| now.pid == *pid && now.program.as_ref() == Some(program));
                    // A reload that the script asked for may replace it late: then the next one is judged.
                    if is_same || begun.elapsed() >= site.health.deadline {
                        return Err(no_effect(error.what));
                    }
                }
                // Scripts do not flush what they write, and what the settings say to run is there after a power cut.
                verdict => return verdict.and_then(|()| durable::sync_file_system(program)),
            }
        }
        if site.signals.cancelled() {
            return Err(Error::new(Code::Interrupted, "interrupted while waiting for the agent"));
        }
        if begun.elapsed() >= site.health.deadline {
            let runs = match &agent {
                None => "no agent runs".to_owned(),
                Some(Agent { program: None, .. }) => "the agent runs a program that is no longer there".to_owned(),
                Some(Agent { version: None, .. }) => "the agent runs an unknown version".to_owned(),
                Some(Agent { version: Some(version), .. }) => format!("the agent runs {version}"),
            };
            return Err(no_effect(format!("{runs} after {} s, and not {}", begun.elapsed().as_secs(), to.version)));
        }
        if begun.elapsed() >= SETTLE.min(site.health.deadline / 4) && agent.is_some() && !is_reloaded {
            (begun, is_reloaded) = (Instant::now(), true);
            reload(site).unwrap_or_else(|error| site.report.warn(&error.to_string()));
        }
        signal::pause(LOOK);
    }
}

/// The agent's process.
struct Agent {
    pid: u32,
    /// What it says that it is.
    version: Option<Version>,
    /// Its file; `None`: another one was put in its place.
    program: Option<PathBuf>,
}

/// The agent; each program is asked once for its version.
fn running(site: &Site<'_>, seen: &mut Option<(FileId, Option<Version>)>) -> Result<Option<Agent>> {
    let state = site.service.state(&site.stop_proof())?;
    let Some(pid) = state.main_pid.or(state.unmanaged.first().copied()) else { return Ok(None) };
    let program = PathBuf::from(format!("/proc/{pid}/exe"));
    let Some(file) = FileId::of(&program) else { return Ok(None) };
    let version = match seen.take().filter(|(known, _)| *known == file) {
        Some((_, version)) => version,
        None => {
            let told = Command::new(&program).arg("version").timeout(ANSWER).unprivileged().run();
            told.ok().and_then(|output| check::told(&output.stdout_text())).map(|revision| revision.version)
        }
    };
    let program = Some(site.layout.followed(&program)).filter(|program| FileId::of(program) == Some(file));
    *seen = Some((file, version.clone()));
    Ok(Some(Agent { pid, version, program }))
}

fn limit(order: &InstallerOrder) -> Duration {
    match order.timeout_seconds {
        0 => USUAL,
        seconds => Duration::from_secs(seconds.into()).min(LONGEST),
    }
}

fn unit(site: &Site<'_>) -> String {
    site.layout.unit.replacen("teleport", "teleport-update-installer", 1).trim_end_matches(".service").to_owned()
}

fn place(site: &Site<'_>) -> PathBuf {
    site.layout.versions.join(PLACE)
}

fn named(order: &InstallerOrder) -> String {
    format!("local-script/{}", order.name)
}

fn failed(order: &InstallerOrder, what: &str) -> Error {
    Error::new(Code::ScriptFailed, format!("{} {what}", named(order)))
}
