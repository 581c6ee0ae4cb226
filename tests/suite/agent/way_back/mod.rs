//! An agent that ran at the beginning of a run runs at its end, whatever a service manager, a file system or another process
//! refuses or delays (SPEC §§4, 6, 7).
//!
//! A table: each [`Trouble`] with each [`Flow`], by hand and by the unit, in a bed of its own. `make test` has some products of each
//! trouble, `cargo test way_back -- --include-ignored` has all.

mod beside;
mod fallen;
mod flow;
mod pairs;
mod table;
mod while_it_runs;

use crate::support::*;

/// Settings that wait briefly for whoever has the database open.
const SETTINGS: &str =
    "  watch: 1s\n  database_timeout: 2s\n  health:\n    stable: 1s\n    without_readiness: 2s\n    deadline: 8s\n";
/// The agent's database.
const DATABASE: &str = "/var/lib/teleport/proc/sqlite.db";

/// Where a run that is to go to a healthy version may end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// At the target: the trouble is none of ours.
    There,
    /// Before the first step: the agent was not touched.
    Untouched,
    /// Either of these two.
    ThereOrUntouched,
    /// At the target, or back at the version before.
    Anywhere,
    /// The same, and what is in the way keeps even the old agent down until it is mended.
    PerhapsDown,
}

/// What is in the way of a run.
#[derive(Debug)]
struct Trouble {
    /// For the bed's name.
    name: &'static str,
    /// How the host was made otherwise before, by a shell in the bed.
    host: &'static str,
    /// Further lines of the agent's unit from the trouble on.
    unit: &'static str,
    /// Brings the trouble about, by a shell in the bed.
    begin: &'static str,
    /// Ends it.
    mend: &'static str,
    /// A file that nothing may be renamed over while the trouble lasts.
    immutable: Option<&'static str>,
    /// How a run to a healthy version may end.
    ends: Ends,
}

impl Trouble {
    fn begin(&self, rig: &Rig) {
        if !self.unit.is_empty() {
            rig.drop_in(self.unit);
        }
        if !self.begin.is_empty() {
            rig.bed.sh(self.begin);
        }
        self.change_attributes(rig, "+i");
    }

    fn mend(&self, rig: &Rig) {
        self.change_attributes(rig, "-i");
        if !self.mend.is_empty() {
            rig.bed.sh(self.mend);
        }
        if !self.unit.is_empty() {
            rig.drop_in("");
        }
    }

    fn change_attributes(&self, rig: &Rig, change: &str) {
        let Some(path) = self.immutable else { return };
        let output = Command::new("chattr").arg(change).arg(rig.path(path)).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

/// The agent as the service manager and the kernel have it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Running {
    /// The unit's main process.
    pid: String,
    /// The version whose binary that is.
    version: String,
}

/// The agent that runs, after a start that may be on its way; everything about it must fit together.
#[track_caller]
fn agent(rig: &Rig, when: &str) -> Running {
    let ready = "systemctl is-active -q teleport && test -S /var/lib/teleport/debug.sock && test -s /run/teleport.pid";
    let patient = format!("n=0; until {ready}; do n=$((n+1)); test $n -lt 200 || exit 1; sleep 0.05; done");
    if !rig.bed.exec(&["sh", "-c", &patient]).status.success() {
        panic!("{when}: no agent runs\n{}", story(rig));
    }
    rig.bed.until("test \"$(systemctl show -p MainPID --value teleport)\" = \"$(cat /run/teleport.pid)\"", SOON);
    let pid = rig.pid();
    let exe = rig.bed.sh(&format!("readlink /proc/{pid}/exe"));
    assert_eq!(exe.trim(), rig.link(), "{when}: the agent that runs is not the linked one\n{}", story(rig));
    let version = exe.trim().trim_end_matches("/bin/teleport").rsplit('/').next().unwrap().to_owned();
    let schema = version.split('.').next().unwrap().to_owned();
    assert_eq!(rig.sql("PRAGMA user_version"), [schema], "{when}: a database of another version\n{}", story(rig));
    let writers =
        rig.bed.sh(&format!("find /proc/[0-9]*/fd -lname {DATABASE} -perm -u=w 2>/dev/null | cut -d/ -f3 | sort -u"));
    assert_eq!(writers.trim(), pid, "{when}: others than the main process write its database\n{}", story(rig));
    Running { pid, version }
}

/// What a failure is told with.
fn story(rig: &Rig) -> String {
    let told = rig.bed.exec(&[
        "sh",
        "-c",
        "systemctl status --no-pager -l teleport; systemctl list-jobs --no-pager; readlink /usr/local/bin/teleport; \
         journalctl --no-pager -o cat -n 60; teleport-update status",
    ]);
    String::from_utf8_lossy(&told.stdout).into_owned() + &String::from_utf8_lossy(&told.stderr)
}
