//! `systemctl`, with what systemd 219 (RHEL 7) already understood: `show -p`, no `--now`, no `--value`, no JSON.

use std::path::PathBuf;
use std::time::Duration;

use super::command::{Command, Output};
use crate::report::{Code, Error, Result};

/// Beside what a unit's TimeoutStopSec= gives it: for what its stop itself waits for.
const STOP_MARGIN: Duration = Duration::from_secs(30);
/// For a unit that may take as long as it likes (TimeoutStopSec=infinity): then its stop is cancelled.
const LONGEST_STOP: Duration = Duration::from_secs(3600);
/// So often a stop can take TimeoutStopSec=: for ExecStop=, after SIGTERM, after SIGKILL (systemd.service(5)).
const STOP_PHASES: u32 = 3;
/// Everything else only waits for the manager or for an ExecReload= that sends a signal.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The service manager of the running host, or the unit files of an image.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Systemctl {
    /// `--root`: units are only enabled and disabled there.
    pub root: Option<PathBuf>,
}

/// What the manager says of a unit, in its own words.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UnitState {
    /// Its own name, where it was asked for by an alias; empty where the manager does not tell.
    pub id: String,
    /// `loaded`, `not-found`, `masked`, `error`, …
    pub load_state: String,
    /// `active`, `reloading`, `inactive`, `failed`, `activating`, `deactivating`.
    pub active_state: String,
    /// `running`, `dead`, `auto-restart`, `start-pre`, …
    pub sub_state: String,
    /// The main process; `None` while there is none.
    pub main_pid: Option<u32>,
    /// `enabled`, `disabled`, `static`, …; empty for a unit without a file.
    pub unit_file_state: String,
    /// Automatic restarts since the last start by hand; `None` before systemd 235.
    pub n_restarts: Option<u32>,
    /// `success`, `exit-code`, `signal`, `start-limit-hit`, …
    pub result: String,
    /// It has an ExecReload=.
    pub can_reload: bool,
    /// PIDFile= of the unit.
    pub pid_file: Option<PathBuf>,
    /// A start, stop or reload of it is queued or under way.
    pub has_job: bool,
    /// RefuseManualStart= or RefuseManualStop= forbids what an operator may do with a unit.
    pub refuses: Option<&'static str>,
    /// TimeoutStopSec= of the unit; `None` for `infinity`, or where the manager does not tell.
    pub stop_timeout: Option<Duration>,
    /// When it was active last, and when its main process has ended, in the manager's clock; 0 where it does not tell.
    pub active_exit: u64,
    /// See `active_exit`.
    pub main_exit: u64,
    /// Restart= of the unit has it started again after an end with success.
    pub restarts_success: bool,
    /// RestartSec= of the unit: between an end and the next automatic start; `None` for `infinity`.
    pub restart_after: Option<Duration>,
}

/// What a unit's main process is started with, in the manager's words.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StartLine {
    /// The words of ExecStart=, program included.
    pub arguments: String,
    /// The assignments of Environment=.
    pub environment: String,
    /// The files of EnvironmentFile=.
    pub environment_files: Vec<PathBuf>,
}

impl UnitState {
    /// Something of it runs.
    pub fn is_active(&self) -> bool {
        matches!(self.active_state.as_str(), "active" | "reloading" | "deactivating")
            || (self.active_state == "activating" && !self.is_auto_restart())
    }

    /// Nothing of it runs and nothing will by itself.
    pub fn is_inactive(&self) -> bool {
        matches!(self.active_state.as_str(), "inactive" | "failed" | "")
    }

    /// The manager gave it up.
    pub fn is_failed(&self) -> bool {
        self.active_state == "failed"
    }

    /// It ended and waits for RestartSec= to pass (`auto-restart-queued` since systemd 254).
    pub fn is_auto_restart(&self) -> bool {
        self.sub_state.starts_with("auto-restart")
    }

    /// Whether somebody asked for the last end of its main process: a stop leaves `active` first, and then the process ends; where
    /// that ends by itself it is the other way round. `Result` tells it not: it keeps the first failure, and a start limit has
    /// other words in each version. `None`: it is not known, for the process runs, or a disabled unit was forgotten.
    ///
    /// A successor that was taken over while its parent lived is not the manager's child: it never sees that one's end, and takes
    /// it for a success.
    pub fn was_stopped(&self) -> Option<bool> {
        match self.active_state.as_str() {
            // While a successor is taken over the stamps are of different lives.
            "active" | "reloading" => Some(false),
            // Some versions forget the stamp before ExecStartPre=. The count begins anew with a start by hand.
            "activating" if self.main_exit == 0 && self.n_restarts == Some(0) => Some(true),
            _ if self.active_exit == 0 => None,
            _ if self.main_exit != 0 => Some(self.active_exit < self.main_exit),
            "deactivating" => self.has_job.then_some(true),
            _ => (self.is_inactive() && self.result == "success" && self.restarts_success).then_some(true),
        }
    }

    /// It is started at boot.
    pub fn is_enabled(&self) -> bool {
        matches!(self.unit_file_state.as_str(), "enabled" | "enabled-runtime" | "linked-enabled" | "alias")
    }
}

impl Systemctl {
    /// The unit's present state. A unit that is not there has `load_state` `not-found`.
    pub(crate) fn show(&self, unit: &str) -> Result<UnitState> {
        let properties = PROPERTIES.iter().flat_map(|(property, _)| ["-p", *property]);
        let output = run(self.command("show").args(properties).arg(unit))?;
        Ok(parse_show(&output.stdout_text()))
    }

    /// What the unit's main process is started with; empty for a unit that is not there.
    pub(crate) fn start_line(&self, unit: &str) -> Result<StartLine> {
        let properties = ["-p", "ExecStart", "-p", "Environment", "-p", "EnvironmentFiles"];
        let output = run(self.command("show").args(properties).arg(unit))?;
        Ok(parse_start_line(&output.stdout_text()))
    }

    /// Queues the start and returns: waiting for it (`Type=notify`) would spend the deadline of the health check, which
    /// watches the unit anyway, and could deadlock when we run at boot as a part of the same transaction.
    pub(crate) fn start(&self, unit: &str) -> Result<()> {
        run(self.command("start").args(["--no-block", unit])).map(drop)
    }

    /// Stops and waits, as long as a unit with this TimeoutStopSec= may take.
    pub(crate) fn stop(&self, unit: &str, stop_timeout: Option<Duration>) -> Result<()> {
        run(self.command("stop").arg(unit).timeout(longest_stop(stop_timeout))).map(drop)
    }

    /// Runs the unit's ExecReload= and waits (`reload`); enables or disables the unit for the next boot (`enable`, `disable`),
    /// neither starting nor stopping it; forgets its failures and start limit, of which it need not have any (`reset-failed`).
    pub(crate) fn tell(&self, verb: &str, unit: &str) -> Result<()> {
        run(self.command(verb).arg(unit)).map(drop)
    }

    /// Queues a restart and returns, for the reasons of [`Systemctl::start`].
    pub(crate) fn restart(&self, unit: &str) -> Result<()> {
        run(self.command("restart").args(["--no-block", unit])).map(drop)
    }

    /// Has the manager read all unit files again.
    pub(crate) fn daemon_reload(&self) -> Result<()> {
        run(self.command("daemon-reload")).map(drop)
    }

    fn command(&self, verb: &str) -> Command {
        let command = Command::new("systemctl").arg("--no-ask-password").timeout(TIMEOUT);
        match &self.root {
            Some(root) => command.flag("--root=", root).arg(verb),
            None => command.arg(verb),
        }
    }
}

/// How long the stop of a unit with this TimeoutStopSec= may take.
pub(crate) fn longest_stop(stop_timeout: Option<Duration>) -> Duration {
    stop_timeout.map_or(LONGEST_STOP, |each| (each * STOP_PHASES + STOP_MARGIN).min(LONGEST_STOP))
}

fn run(command: Command) -> Result<Output> {
    command.run().map_err(|error| Error { code: Code::ServiceFailed, ..error })?.or_fail(Code::ServiceFailed)
}

/// Takes a property's value over.
type SetProperty = fn(&mut UnitState, &str);

/// The properties read, and what becomes of each; a systemd that does not know one leaves its line out.
const PROPERTIES: [(&str, SetProperty); 18] = [
    ("Id", |state, value| value.clone_into(&mut state.id)),
    ("LoadState", |state, value| value.clone_into(&mut state.load_state)),
    ("ActiveState", |state, value| value.clone_into(&mut state.active_state)),
    ("SubState", |state, value| value.clone_into(&mut state.sub_state)),
    ("MainPID", |state, value| state.main_pid = value.parse().ok().filter(|pid| *pid > 0)),
    ("UnitFileState", |state, value| value.clone_into(&mut state.unit_file_state)),
    ("NRestarts", |state, value| state.n_restarts = value.parse().ok()),
    ("Result", |state, value| value.clone_into(&mut state.result)),
    ("CanReload", |state, value| state.can_reload = value == "yes"),
    ("PIDFile", |state, value| state.pid_file = Some(PathBuf::from(value)).filter(|path| path.is_absolute())),
    ("RestartUSec", |state, value| state.restart_after = parse_span(value)),
    // `0` where older ones have none.
    ("Job", |state, value| state.has_job = !matches!(value, "" | "0")),
    ("CanStart", |state, value| refuse(state, value, "RefuseManualStart=yes")),
    ("CanStop", |state, value| refuse(state, value, "RefuseManualStop=yes")),
    ("TimeoutStopUSec", |state, value| state.stop_timeout = parse_span(value)),
    ("ActiveExitTimestampMonotonic", |state, value| state.active_exit = value.parse().unwrap_or(0)),
    ("ExecMainExitTimestampMonotonic", |state, value| state.main_exit = value.parse().unwrap_or(0)),
    ("Restart", |state, value| state.restarts_success = matches!(value, "always" | "on-success")),
];

fn refuse(state: &mut UnitState, value: &str, what: &'static str) {
    state.refuses = if value == "no" { Some(what) } else { state.refuses };
}

fn parse_show(text: &str) -> UnitState {
    let mut state = UnitState::default();
    for (name, value) in text.lines().filter_map(|line| line.split_once('=')) {
        if let Some((_, set)) = PROPERTIES.iter().find(|(known, _)| *known == name) {
            set(&mut state, value);
        }
    }
    state
}

fn parse_start_line(text: &str) -> StartLine {
    let mut line = StartLine::default();
    for (name, value) in text.lines().filter_map(|line| line.split_once('=')) {
        match name {
            "ExecStart" => {
                let words = value.split_once("argv[]=").map_or("", |(_, words)| words);
                words.split_once(" ; ").map_or(words, |(words, _)| words).clone_into(&mut line.arguments);
            }
            "Environment" => value.clone_into(&mut line.environment),
            // `/etc/default/teleport (ignore_errors=yes)`, a line each.
            "EnvironmentFiles" => {
                let file = value.rsplit_once(" (").map_or(value, |(file, _)| file);
                line.environment_files.extend(Some(PathBuf::from(file)).filter(|file| file.is_absolute()));
            }
            _ => {}
        }
    }
    line
}

/// A span of time as systemd shows it (systemd.time(7)): `100ms`, `1min 30s`, `0`.
fn parse_span(text: &str) -> Option<Duration> {
    text.split_ascii_whitespace().try_fold(Duration::ZERO, |sum, part| {
        let digits = part.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(part.len());
        let (number, unit) = part.split_at(digits);
        let micros = match unit {
            "us" | "" => 1,
            "ms" => 1_000,
            "s" => 1_000_000,
            "min" => 60_000_000,
            "h" => 3_600_000_000,
            "d" => 86_400_000_000,
            _ => return None,
        };
        Some(sum + Duration::from_micros(number.parse::<u64>().ok()?.checked_mul(micros)?))
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_running_unit_of_a_present_systemd_is_read() {
        let state = parse_show(
            "PIDFile=/run/teleport.pid\nNRestarts=2\nMainPID=4711\nResult=success\nLoadState=loaded\n\
             ActiveState=active\nSubState=running\nUnitFileState=enabled\nCanReload=yes\n",
        );
        assert!(state.load_state == "loaded" && state.is_active() && state.is_enabled() && state.can_reload);
        assert_eq!((state.main_pid, state.n_restarts), (Some(4711), Some(2)));
        assert_eq!(state.pid_file.as_deref(), Some(Path::new("/run/teleport.pid")));
    }

    #[test]
    fn what_a_unit_starts_is_read_with_its_environment() {
        let line = parse_start_line(
            "ExecStart={ path=/usr/local/bin/teleport ; argv[]=/usr/local/bin/teleport start --data-dir=/d ; \
             ignore_errors=no ; start_time=[n/a] ; pid=0 ; code=(null) ; status=0/0 }\n\
             Environment=A=b TELEPORT_DATA_DIR=/e\nEnvironmentFiles=/etc/default/teleport (ignore_errors=yes)\n",
        );
        assert_eq!(line.arguments, "/usr/local/bin/teleport start --data-dir=/d");
        assert_eq!(line.environment, "A=b TELEPORT_DATA_DIR=/e");
        assert_eq!(line.environment_files, [PathBuf::from("/etc/default/teleport")]);
        assert_eq!(parse_start_line("Environment=\n"), StartLine::default());
    }

    #[test]
    fn a_span_of_time_is_read_as_systemd_writes_it() {
        let spans = [("100ms", 100), ("5s", 5_000), ("1min 30s", 90_000), ("2h 1s 500ms", 7_201_500), ("0", 0)];
        for (text, millis) in spans {
            assert_eq!(parse_span(text), Some(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(parse_span("1.5s"), None);
        assert_eq!(parse_span("infinity"), None);
        assert_eq!(parse_span("1w"), None);
    }

    #[test]
    fn a_unit_that_is_not_there_and_a_systemd_without_restart_counter_are_read() {
        let state = parse_show("MainPID=0\nLoadState=not-found\nActiveState=inactive\nSubState=dead\nPIDFile=\n");
        assert!(state.load_state != "loaded" && state.is_inactive() && !state.is_enabled());
        assert_eq!((state.main_pid, state.n_restarts, state.pid_file), (None, None, None));
    }

    #[test]
    fn waiting_for_the_next_restart_is_neither_active_nor_inactive() {
        for sub in ["auto-restart", "auto-restart-queued"] {
            let state = parse_show(&format!("ActiveState=activating\nSubState={sub}\n"));
            assert!(!state.is_active() && !state.is_inactive() && state.is_auto_restart());
        }
    }

    #[test]
    fn a_unit_is_enabled_in_an_image() {
        if !crate::host::command::is_installed("systemctl") {
            return;
        }
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("usr/local/lib/systemd/system");
        crate::host::durable::create_dir_all(&dir).unwrap();
        let unit = b"[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n";
        crate::host::durable::write(&dir.join("teleport.service"), unit, 0o644).unwrap();
        let wants = root.path().join("etc/systemd/system/multi-user.target.wants/teleport.service");
        let of_image = Systemctl { root: Some(root.path().to_owned()) };
        of_image.tell("enable", "teleport.service").unwrap();
        assert!(wants.symlink_metadata().is_ok());
        of_image.tell("disable", "teleport.service").unwrap();
        assert!(wants.symlink_metadata().is_err());
        let error = of_image.tell("enable", "no-such.service").unwrap_err();
        assert_eq!(error.code, Code::ServiceFailed);
        assert!(error.what.contains("no-such.service"), "{error}");
    }
}
