//! How a new version is watched until its verdict.

use std::cell::Cell;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use super::super::{Commands, Reloaded, Service, StopProof};
use super::*;
use crate::host::durable;
use crate::host::process::Process;

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
            plain_binary: link,
            database: dir.path().join("sqlite.db"),
            at_boot: false,
        };
        Self { dir, service, proof }
    }

    fn link(&self, version: &str) {
        let target = self.dir.path().join("versions").join(version).join("bin/teleport");
        durable::symlink(&target, &self.dir.path().join("teleport")).unwrap();
    }

    fn start(&self, version: &str) {
        self.link(version);
        self.service.start().unwrap();
    }

    /// Once the shell that started it has become the agent.
    fn main_pid(&self) -> u32 {
        self.main_pid_after(0)
    }

    /// Once another process than `before` is the agent: between the two the pid file names nobody.
    fn main_pid_after(&self, before: u32) -> u32 {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            match self.service.main_pid().unwrap() {
                Some(pid) if pid != before => return pid,
                _ => assert!(Instant::now() < deadline),
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
        for left in self.proof.see_some().unwrap_or_default().ours {
            kill(left.pid);
        }
    }
}

fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}

const QUICK: HealthSettings = HealthSettings {
    stable: Duration::from_millis(200),
    without_readiness: Duration::from_millis(400),
    deadline: Duration::from_millis(1500),
};

/// For what is found healthy long before: a machine that builds meanwhile may stop us for longer than [`QUICK`] allows.
const PATIENT: HealthSettings = HealthSettings { deadline: Duration::from_secs(20), ..QUICK };

#[test]
fn an_agent_run_by_commands_is_started_found_healthy_watched_and_proven_stopped() {
    let bed = Bed::new();
    bed.link("2.0.0");
    assert!(!bed.service.state(&bed.proof).unwrap().running);
    bed.service.start().unwrap();
    let verdict = observe(&bed.probe("2.0.0"), PATIENT, false, false, &|| false).unwrap();
    assert!(matches!(verdict, Verdict::Healthy { .. }), "{verdict:?}");
    let verdict = watch(&bed.probe("2.0.0"), Duration::from_millis(300), &|| false).unwrap();
    assert!(matches!(verdict, Verdict::Healthy { .. }), "{verdict:?}");
    let state = bed.service.state(&bed.proof).unwrap();
    assert!(state.running && state.enabled && !state.failed && state.unmanaged.is_empty());
    assert_eq!(state.main_pid, bed.service.main_pid().unwrap());
    bed.service.stop(&bed.proof, Duration::from_secs(10)).unwrap();
    assert!(!bed.service.state(&bed.proof).unwrap().enabled);
}

#[test]
fn a_successor_that_dies_before_the_first_look_is_a_failure_long_before_the_deadline() {
    let bed = Bed::forking();
    bed.start("1.0.0");
    let old = bed.main_pid();
    wait_for_trap(old);
    // The new version's program does nothing at all.
    let new_binary = bed.probe("2.0.0").new_binary;
    durable::remove_file(&new_binary).unwrap();
    durable::copy_synced(Path::new("/bin/false"), &new_binary, 0o755).unwrap();
    bed.link("2.0.0");
    let before_reload = bed.service.reaper().unwrap();
    bed.service.reload().unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    while !before_reload.unwrap().has_reaped().unwrap() {
        assert!(Instant::now() < deadline);
        std::thread::yield_now();
    }
    let probe = Probe { before_reload, ..bed.probe("2.0.0") };
    let verdict = observe(&probe, HealthSettings::default(), false, false, &|| false).unwrap();
    // The rule that judged: at the deadline it would be another.
    let reason = "the new version exited immediately after the reload; the old version keeps running".to_owned();
    assert_eq!(verdict, Verdict::Failed { reason });
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
fn an_agent_of_commands_that_has_not_written_its_pid_file_yet_is_seen_to_be_there() {
    let bed = Bed::running("/bin/sh", "start");
    durable::write(&bed.dir.path().join("start"), b"exec 3<>fifo; read x <&3; read y <&3", 0o755).unwrap();
    let Service::Commands(commands) = &bed.service else { unreachable!() };
    let fifo = bed.dir.path().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    bed.start("2.0.0");
    bed.main_pid();
    durable::remove_file(&commands.pid_file).unwrap();
    let probe = bed.probe("2.0.0");
    let mut sampler = Sampler::new(&probe, JUDGING.longest).unwrap();
    let sample = sampler.look(Duration::ZERO, Duration::ZERO).unwrap();
    assert_eq!((sample.main, sample.new_alive.len()), (None, 1));
    // Its next line ends it.
    std::fs::OpenOptions::new().write(true).open(&fifo).unwrap().write_all(b"x\ny\n").unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    while !sampler.look(Duration::ZERO, Duration::ZERO).unwrap().new_alive.is_empty() {
        assert!(Instant::now() < deadline);
        std::thread::yield_now();
    }
}

#[test]
fn what_another_user_starts_of_the_new_version_says_nothing_about_it() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let bed = Bed::running("/bin/sh", "start");
    std::fs::set_permissions(bed.dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    durable::create_dir_all(&bed.dir.path().join("proc")).unwrap();
    let probe = bed.probe("2.0.0");
    let start = |user: u32| {
        let mut command = std::process::Command::new(&probe.new_binary);
        // It must start no program: its child would look like itself until then.
        command.args(["-c", "read line", "start"]).stdin(std::process::Stdio::piped()).uid(user).gid(user);
        command.spawn().unwrap()
    };
    let (mut nobodys, mut roots) = (start(65534), start(0));
    let mut sampler = Sampler::new(&probe, JUDGING.longest).unwrap();
    let seen = sampler.look(Duration::ZERO, Duration::ZERO).unwrap().new_alive;
    for child in [&mut nobodys, &mut roots] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert_eq!(seen.iter().map(|id| id.pid).collect::<Vec<_>>(), [roots.id()]);
}

#[test]
fn a_cancelled_judgement_ends() {
    let bed = Bed::new();
    bed.start("1.0.0");
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
    bed.start("1.0.0");
    let pid = bed.main_pid();
    wait_for_trap(pid);
    (bed, pid)
}

#[test]
fn a_predecessor_that_still_serves_its_connections_is_stopped_with_its_successor() {
    let (bed, old) = running_forking(None);
    assert_eq!(bed.service.reload().unwrap(), Reloaded::Reloaded);
    bed.main_pid_after(old);
    assert!(Process::by_pid(old).unwrap().is_some());
    bed.service.stop(&bed.proof, Duration::from_secs(10)).unwrap();
    assert!(Process::by_pid(old).unwrap().is_none());
}

#[test]
fn a_successor_that_takes_over_while_the_agent_is_stopped_is_stopped_too() {
    // The reload comes to its end in the middle of the command, which then removes the successor's pid file.
    let stop = "p=$(cat pid); kill -HUP $p; while [ $(cat pid) = $p ]; do :; done; kill $p; rm pid";
    let (bed, _) = running_forking(Some(stop));
    bed.service.stop(&bed.proof, Duration::from_secs(10)).unwrap();
    assert_eq!(bed.proof.see_some().unwrap().ours, []);
}

#[test]
fn an_agent_that_is_no_kin_of_the_stopped_one_is_left_alone_and_told() {
    // One has this database open for writing, and one an own: only the first is the agent.
    for (database, is_agent) in [("sqlite.db", true), ("own.db", false)] {
        let bed = Bed::forking();
        bed.link("1.0.0");
        let line = format!("cd {}; exec 3<>{database}; ./teleport start & :", bed.dir.path().display());
        assert!(std::process::Command::new("sh").args(["-c", &line]).status().unwrap().success());
        let by_hand = bed.main_pid();
        wait_for_trap(by_hand);
        bed.service.start().unwrap();
        // It writes the pid file a second time, itself.
        let agent = bed.main_pid_after(by_hand);
        wait_for_trap(agent);
        let stopped = bed.service.stop(&bed.proof, Duration::from_millis(500));
        assert!(Process::by_pid(by_hand).unwrap().is_some(), "{database}");
        // No agent is stopped in vain.
        assert_eq!(Process::by_pid(agent).unwrap().is_some(), is_agent, "{database}");
        match stopped {
            Err(error) => assert!(is_agent && error.what.contains(&format!("pid {by_hand} (teleport")), "{error}"),
            Ok(()) => assert!(!is_agent),
        }
        kill(by_hand);
    }
}

#[test]
fn another_program_that_opens_the_database_during_a_stop_is_told_and_not_ended() {
    // Its first argument is that of an agent. It inherits the open file: one that it opens itself might come too late.
    let stranger = "mkdir other; echo 'while [ -e start ]; do sleep 1; done' >other/start; : >sqlite.db; \
                    cd other; exec 3<../sqlite.db; { sh start & echo $! >../stranger; }";
    let (bed, _) = running_forking(Some(&format!("kill $(cat pid); rm pid; {stranger}")));
    bed.service.stop(&bed.proof, Duration::from_secs(10)).unwrap();
    let error = bed.service.wait_for_strangers(&bed.proof, Duration::from_millis(500), &|| false).unwrap_err();
    let stranger = durable::read_limited(&bed.dir.path().join("stranger"), 16).unwrap().unwrap();
    let stranger = String::from_utf8(stranger).unwrap();
    assert!(error.what.contains(&format!("pid {} (sh", stranger.trim())), "{error}");
    assert!(Process::by_pid(stranger.trim().parse().unwrap()).unwrap().is_some());
}

#[test]
fn an_agent_outside_the_service_is_no_stopped_agent() {
    let mut bed = Bed::new();
    if let Service::Commands(commands) = &mut bed.service {
        commands.start = format!("exec 3<>{}; {}", bed.proof.database.display(), commands.start);
    }
    bed.start("1.0.0");
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
