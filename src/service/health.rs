//! Looks at the agent after a service action and asks [`super::judge`] or [`super::watch`] until there is a verdict.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::judge::{HealthSettings, Judge, Main, Sample, UnitSample, Verdict};
use super::readiness::{self, Readiness};
use super::watch::Watcher;
use super::{MainHint, Service, pid_file_process, stopped, systemd};
use crate::host::process::{self, FileId, Process, ProcessId, Reaper};
use crate::report::{Code, Error, Result};

/// Between two looks at `/proc`.
const SLICE: Duration = Duration::from_millis(100);
/// Between two looks at first: a successor that dies at once lives for some tens of milliseconds.
const FIRST_SLICE: Duration = Duration::from_millis(25);
/// How long looks are that close together.
const FIRST: Duration = Duration::from_secs(3);
/// Between two runs of systemctl, which cost a process each.
const UNIT_EVERY: Duration = Duration::from_millis(500);
/// Between two questions to the agent.
const READINESS_EVERY: Duration = Duration::from_millis(250);

/// Whom to look at.
#[derive(Debug, Clone)]
pub struct Probe<'a> {
    /// What runs the agent.
    pub service: &'a Service,
    /// The new version's `teleport`, in the versions directory.
    pub new_binary: PathBuf,
    /// The agent's data directory, with its readiness socket.
    pub data_dir: PathBuf,
    /// The main process just before the reload ([`Service::reaper`]); `None` if there was no reload.
    pub before_reload: Option<Reaper>,
}

/// Judges the new version after the service action that just ended (SPEC §6, health). Takes some seconds for a verdict
/// on a good version, at most `deadline` plus `without_readiness` of the settings.
///
/// `served_before`: the agent answered on its socket before the update ([`Readiness::is_served`]).
/// `baseline_failing`: it was failing before; then the verdict is never `Failed`.
///
/// Errors: [`Code::Interrupted`] when `cancelled` says so; [`Code::Damaged`] when the new binary is not there;
/// [`Code::Permission`] when it cannot be seen what the main process runs.
pub fn observe(
    probe: &Probe<'_>,
    settings: HealthSettings,
    served_before: bool,
    baseline_failing: bool,
    cancelled: &dyn Fn() -> bool,
) -> Result<Verdict> {
    let mut judge = Judge::new(settings, served_before, baseline_failing);
    follow(probe, cancelled, |sample| judge.feed(sample))
}

/// Watches a version that was found healthy for another `settings.watch`; needs no lock (SPEC §6).
///
/// Errors as for [`observe`].
pub fn watch(probe: &Probe<'_>, settings: HealthSettings, cancelled: &dyn Fn() -> bool) -> Result<Verdict> {
    let mut watcher = Watcher::new(settings.watch);
    follow(probe, cancelled, |sample| watcher.feed(sample))
}

fn follow(
    probe: &Probe<'_>,
    cancelled: &dyn Fn() -> bool,
    mut feed: impl FnMut(&Sample) -> Option<Verdict>,
) -> Result<Verdict> {
    let mut sampler = Sampler::new(probe)?;
    loop {
        let sample = sampler.sample()?;
        if let Some(verdict) = feed(&sample) {
            return Ok(verdict);
        }
        if cancelled() {
            return Err(Error::new(Code::Interrupted, "interrupted while watching the new version"));
        }
        std::thread::sleep(if sample.at < FIRST { FIRST_SLICE } else { SLICE });
    }
}

/// A value that is asked for anew only after a while.
#[derive(Debug)]
struct Cached<T> {
    value: Option<T>,
    asked: Option<Instant>,
}

impl<T> Cached<T> {
    fn empty() -> Self {
        Self { value: None, asked: None }
    }

    /// Keeps the last value when `ask` has none.
    fn refresh(&mut self, every: Duration, ask: impl FnOnce() -> Option<T>) {
        if self.asked.is_none_or(|asked| asked.elapsed() >= every) {
            self.value = ask().or_else(|| self.value.take());
            self.asked = Some(Instant::now());
        }
    }
}

struct Sampler<'a> {
    service: &'a Service,
    data_dir: &'a Path,
    before_reload: Option<Reaper>,
    new_file: FileId,
    start: Instant,
    unit: Cached<(UnitSample, MainHint)>,
    readiness: Cached<Readiness>,
    /// Every process of the new binary that was or wanted to become the main process.
    known: BTreeSet<ProcessId>,
}

impl<'a> Sampler<'a> {
    fn new(probe: &'a Probe<'a>) -> Result<Self> {
        let new_file = FileId::of(&probe.new_binary)
            .ok_or_else(|| Error::new(Code::Damaged, format!("{} is not there", probe.new_binary.display())))?;
        Ok(Self {
            service: probe.service,
            data_dir: &probe.data_dir,
            before_reload: probe.before_reload,
            new_file,
            start: Instant::now(),
            unit: Cached::empty(),
            readiness: Cached::empty(),
            known: BTreeSet::new(),
        })
    }

    fn sample(&mut self) -> Result<Sample> {
        let (unit, hint) = self.look_at_unit();
        let main = self.main(&hint);
        match &main {
            // Which version it is of cannot be told, and so nothing be said against the new one.
            Some(unseen) if unseen.hidden => return Err(stopped::hidden(unseen)),
            Some(process) if self.is_new(process) => drop(self.known.insert(process.id())),
            Some(old) => self.known.extend(self.successors(old)),
            None => {}
        }
        self.known.retain(|id| id.is_alive());
        let main = main.map(|process| Main { id: process.id(), is_new: self.known.contains(&process.id()) });
        let readiness = main.is_some_and(|main| main.is_new).then(|| {
            self.readiness.refresh(READINESS_EVERY, || Some(readiness::ask(self.data_dir)));
            self.readiness.value.clone().unwrap_or(Readiness::NoSocket)
        });
        let reaped = self.before_reload.is_some_and(|old| old.has_reaped());
        Ok(Sample { at: self.start.elapsed(), main, new_alive: self.known.clone(), reaped, unit, readiness })
    }

    fn look_at_unit(&mut self) -> (Option<UnitSample>, MainHint) {
        match self.service {
            Service::Systemd(systemd) => {
                self.unit.refresh(UNIT_EVERY, || {
                    let state = systemd.show().ok()?;
                    let sample = UnitSample {
                        failed: state.is_failed().then(|| state.result.clone()),
                        auto_restart: state.is_auto_restart(),
                        active: state.is_active(),
                        restarts: state.n_restarts,
                        stopped: state.active_state == "inactive" && state.result == "success",
                    };
                    Some((sample, systemd::hint(&state)))
                });
                self.unit.value.clone().map_or_else(Default::default, |(sample, hint)| (Some(sample), hint))
            }
            Service::Commands(commands) => {
                // Its stop command removes the pid file, a crash leaves it.
                let sample = UnitSample { stopped: !commands.pid_file.exists(), ..UnitSample::default() };
                (Some(sample), MainHint { pid_file: Some(commands.pid_file.clone()), main_pid: None })
            }
            Service::None => Default::default(),
        }
    }

    /// The pid file's process if it is the new one: systemd learns of a successor only when the old main process ends.
    fn main(&self, hint: &MainHint) -> Option<Process> {
        let by_file = hint.pid_file.as_deref().and_then(pid_file_process);
        match by_file {
            Some(process) if self.is_new(&process) || hint.main_pid.is_none() => Some(process),
            _ => hint.main_pid.and_then(Process::by_pid),
        }
    }

    /// Children of the old main process that run the new binary in the same way: not the helpers of a session.
    fn successors(&self, old: &Process) -> Vec<ProcessId> {
        let children = process::all().into_iter().filter(|process| process.ppid == old.pid && self.is_new(process));
        children.filter(|process| process.args() == old.args()).map(|process| process.id()).collect()
    }

    fn is_new(&self, process: &Process) -> bool {
        process.exe_id() == Some(self.new_file)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::super::{Commands, Reloaded, StopProof};
    use super::*;
    use crate::host::durable;

    /// Two versions of an agent that only sleeps, run by commands.
    struct Bed {
        dir: tempfile::TempDir,
        service: Service,
        proof: StopProof,
    }

    impl Bed {
        fn new() -> Self {
            Self::running("/bin/sleep", "60")
        }

        /// An agent that starts its successor on SIGHUP, as Teleport does; with a file `broken` beside it the successor
        /// dies.
        fn forking() -> Self {
            let bed = Self::running("/bin/sh", "start");
            let script = "cd $(dirname $0)\n[ -e broken ] && sleep 0.2 && exit 1\necho $$ >pid\n\
                          trap './teleport start &' HUP\nwhile :; do sleep 1 & wait $!; done\n";
            durable::write(&bed.dir.path().join("start"), script.as_bytes(), 0o755).unwrap();
            bed
        }

        fn running(program: &str, args: &str) -> Self {
            let dir = tempfile::tempdir().unwrap();
            for version in ["1.0.0", "2.0.0"] {
                let binary = dir.path().join("versions").join(version).join("bin/teleport");
                durable::create_dir_all(binary.parent().unwrap()).unwrap();
                durable::copy_synced(Path::new(program), &binary, 0o755).unwrap();
            }
            let pid_file = dir.path().join("pid");
            let link = dir.path().join("teleport");
            let start = format!("cd {} && {{ ./teleport {args} & echo $! >pid; }}", dir.path().display());
            let stop = format!("kill $(cat {0}) && rm {0}", pid_file.display());
            let service = Service::Commands(Commands { start, stop: Some(stop), reload: None, pid_file });
            let proof = StopProof {
                versions_dir: dir.path().join("versions"),
                plain_binary: Some(link),
                database: dir.path().join("sqlite.db"),
                at_boot: false,
            };
            Self { dir, service, proof }
        }

        fn link(&self, version: &str) {
            let target = self.dir.path().join("versions").join(version).join("bin/teleport");
            durable::symlink(&target, &self.dir.path().join("teleport")).unwrap();
        }

        /// Once the shell that started it has become the agent.
        fn main_pid(&self) -> u32 {
            let deadline = Instant::now() + Duration::from_secs(10);
            loop {
                match self.service.main_pid() {
                    Some(pid) => return pid,
                    None => assert!(Instant::now() < deadline),
                }
                std::thread::yield_now();
            }
        }

        fn probe(&self, version: &str) -> Probe<'_> {
            let new_binary = self.dir.path().join("versions").join(version).join("bin/teleport");
            let data_dir = self.dir.path().to_owned();
            Probe { service: &self.service, new_binary, data_dir, before_reload: None }
        }
    }

    impl Drop for Bed {
        fn drop(&mut self) {
            for left in self.proof.leftovers().unwrap_or_default() {
                let pid = rustix::process::Pid::from_raw(left.pid as i32).unwrap();
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    }

    const QUICK: HealthSettings = HealthSettings {
        stable: Duration::from_millis(200),
        without_readiness: Duration::from_millis(400),
        deadline: Duration::from_millis(1500),
        watch: Duration::from_millis(300),
    };

    #[test]
    fn an_agent_run_by_commands_is_started_found_healthy_watched_and_proven_stopped() {
        let bed = Bed::new();
        bed.link("2.0.0");
        assert!(!bed.service.state(&bed.proof).unwrap().running);
        bed.service.start().unwrap();
        let verdict = observe(&bed.probe("2.0.0"), QUICK, false, false, &|| false).unwrap();
        assert!(matches!(verdict, Verdict::Healthy { .. }), "{verdict:?}");
        let verdict = watch(&bed.probe("2.0.0"), QUICK, &|| false).unwrap();
        assert!(matches!(verdict, Verdict::Healthy { .. }), "{verdict:?}");
        let state = bed.service.state(&bed.proof).unwrap();
        assert!(state.running && state.enabled && !state.failed && state.unmanaged.is_empty());
        assert_eq!(state.main_pid, bed.service.main_pid());
        bed.service.stop(&bed.proof, Duration::from_secs(10)).unwrap();
        assert!(!bed.service.state(&bed.proof).unwrap().enabled);
    }

    #[test]
    fn the_old_version_going_on_is_a_failure_at_the_deadline() {
        let bed = Bed::new();
        bed.link("1.0.0");
        bed.service.start().unwrap();
        let verdict = observe(&bed.probe("2.0.0"), QUICK, false, false, &|| false).unwrap();
        assert_eq!(verdict, Verdict::Failed { reason: "the old version still runs after 1 s".to_owned() });
        let verdict = observe(&bed.probe("2.0.0"), QUICK, false, true, &|| false).unwrap();
        assert!(matches!(verdict, Verdict::Unproven { .. }), "{verdict:?}");
    }

    #[test]
    fn a_successor_that_takes_over_after_a_reload_is_healthy_beside_its_predecessor() {
        let bed = Bed::forking();
        bed.link("1.0.0");
        bed.service.start().unwrap();
        let old = bed.main_pid();
        wait_for_trap(old);
        bed.link("2.0.0");
        assert_eq!(bed.service.reload().unwrap(), Reloaded::Reloaded);
        let settings = HealthSettings { deadline: Duration::from_secs(20), ..QUICK };
        let verdict = observe(&bed.probe("2.0.0"), settings, false, false, &|| false).unwrap();
        assert!(matches!(verdict, Verdict::Healthy { .. }), "{verdict:?}");
        assert!(Process::by_pid(old).is_some() && bed.service.main_pid() != Some(old));
        let state = bed.service.state(&bed.proof).unwrap();
        assert!(state.running && !state.failed);
    }

    #[test]
    fn a_successor_that_dies_after_a_reload_is_a_failure_within_five_seconds() {
        let bed = Bed::forking();
        bed.link("1.0.0");
        bed.service.start().unwrap();
        wait_for_trap(bed.main_pid());
        bed.link("2.0.0");
        durable::write(&bed.dir.path().join("broken"), b"", 0o644).unwrap();
        bed.service.reload().unwrap();
        let start = Instant::now();
        let verdict = observe(&bed.probe("2.0.0"), HealthSettings::default(), false, false, &|| false).unwrap();
        let reason = "the new version ended soon after its start, the old one runs on".to_owned();
        assert_eq!(verdict, Verdict::Failed { reason });
        assert!(start.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn a_successor_that_dies_before_the_first_look_is_a_failure_within_five_seconds() {
        let bed = Bed::forking();
        bed.link("1.0.0");
        bed.service.start().unwrap();
        let old = bed.main_pid();
        wait_for_trap(old);
        // The new version's program does nothing at all.
        let new_binary = bed.probe("2.0.0").new_binary;
        durable::remove_file(&new_binary).unwrap();
        durable::copy_synced(Path::new("/bin/false"), &new_binary, 0o755).unwrap();
        bed.link("2.0.0");
        let before_reload = bed.service.reaper();
        bed.service.reload().unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        while !before_reload.unwrap().has_reaped() {
            assert!(Instant::now() < deadline);
            std::thread::yield_now();
        }
        let start = Instant::now();
        let probe = Probe { before_reload, ..bed.probe("2.0.0") };
        let verdict = observe(&probe, HealthSettings::default(), false, false, &|| false).unwrap();
        let reason = "the new version died at once after the reload, the old one runs on".to_owned();
        assert_eq!(verdict, Verdict::Failed { reason });
        assert!(start.elapsed() < Duration::from_secs(5));
    }

    /// Until the process catches SIGHUP (bit 0 of SigCgt).
    fn wait_for_trap(pid: u32) {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim();
            if u64::from_str_radix(caught, 16).unwrap() & 1 == 1 {
                return;
            }
            assert!(Instant::now() < deadline);
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_cancelled_judgement_ends() {
        let bed = Bed::new();
        bed.link("1.0.0");
        bed.service.start().unwrap();
        let asked = Cell::new(0);
        let error = observe(&bed.probe("2.0.0"), HealthSettings::default(), false, false, &|| {
            asked.set(asked.get() + 1);
            asked.get() > 2
        });
        assert_eq!(error.unwrap_err().code, Code::Interrupted);
    }

    /// An agent under `stop` that can be reloaded, and its number.
    fn running_forking(stop: Option<&str>) -> (Bed, u32) {
        let mut bed = Bed::forking();
        if let (Some(line), Service::Commands(commands)) = (stop, &mut bed.service) {
            commands.stop = Some(format!("cd {}; {line}", bed.dir.path().display()));
        }
        bed.link("1.0.0");
        bed.service.start().unwrap();
        let pid = bed.main_pid();
        wait_for_trap(pid);
        (bed, pid)
    }

    #[test]
    fn a_predecessor_that_still_serves_its_connections_is_stopped_with_its_successor() {
        let (bed, old) = running_forking(None);
        assert_eq!(bed.service.reload().unwrap(), Reloaded::Reloaded);
        while bed.service.main_pid() == Some(old) {
            std::thread::yield_now();
        }
        assert!(Process::by_pid(old).is_some());
        bed.service.stop(&bed.proof, Duration::from_secs(10)).unwrap();
        assert!(Process::by_pid(old).is_none());
    }

    #[test]
    fn a_successor_that_takes_over_while_the_agent_is_stopped_is_stopped_too() {
        // The reload comes to its end in the middle of the command, which then removes the successor's pid file.
        let stop = "p=$(cat pid); kill -HUP $p; while [ $(cat pid) = $p ]; do :; done; kill $p; rm pid";
        let (bed, _) = running_forking(Some(stop));
        bed.service.stop(&bed.proof, Duration::from_secs(10)).unwrap();
        assert_eq!(bed.proof.agents(), []);
    }

    #[test]
    fn an_agent_that_is_no_kin_of_the_stopped_one_is_left_alone_and_told() {
        let bed = Bed::forking();
        bed.link("1.0.0");
        bed.service.start().unwrap();
        let by_hand = bed.main_pid();
        bed.service.start().unwrap();
        while matches!(bed.service.main_pid(), Some(pid) if pid == by_hand) {
            std::thread::yield_now();
        }
        let error = bed.service.stop(&bed.proof, Duration::from_millis(500)).unwrap_err();
        assert!(error.what.contains(&format!("pid {by_hand} (teleport")), "{error}");
        assert!(Process::by_pid(by_hand).is_some());
    }

    #[test]
    fn an_agent_outside_the_service_is_no_stopped_agent() {
        let bed = Bed::new();
        bed.link("1.0.0");
        bed.service.start().unwrap();
        let pid = bed.main_pid();
        let error = Service::None.stop(&bed.proof, Duration::ZERO).unwrap_err();
        assert_eq!(error.code, Code::AgentNotStopped);
        assert!(error.what.contains(&format!("pid {pid} (teleport")), "{error}");
    }

    #[test]
    fn a_pid_file_with_a_reused_number_is_no_running_agent() {
        let bed = Bed::new();
        let Service::Commands(commands) = &bed.service else { unreachable!() };
        durable::write(&commands.pid_file, b"1\n", 0o644).unwrap();
        let state = bed.service.state(&bed.proof).unwrap();
        assert!(!state.running && state.failed && state.enabled);
    }
}
