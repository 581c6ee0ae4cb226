//! One command on a prepared image, what may be found after it was cut short, and the check of that.

use std::path::Path;
use std::process::{Command, Output};

use rustix::fs::{FlockOperation, flock};
use serde_json::Value;
use tempfile::TempDir;

use crate::crash::host::{self, Host, words};
use crate::crash::state::{State, VERSIONS};
use crate::crash::tree::{difference, tree};

/// Parts of names that only a run in progress may have.
const UNFINISHED: [&str; 8] = [
    "/.staging-",
    "/.retired-",
    "/.teleport-update-tmp-",
    "/.journal",
    "/.updates.yaml.next",
    "/.backup.",
    "/.sqlite.db.teleport-update",
    "/.unmanaged",
];

/// Which of its two states a host was found in after recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// As before the command.
    Old,
    /// As if it had not been cut short.
    New,
}

/// One command on a prepared image.
#[derive(Debug)]
pub struct Flow {
    /// Its name in tables and on the command line.
    pub name: &'static str,
    /// The image before the command, and the cluster that answers it: both live as long as the flow.
    pub host: Host,
    /// The command.
    pub args: Vec<String>,
    /// What runs next on such a host.
    pub next: Vec<String>,
    /// Has the host reach the new state in any case; equal to `args` where it does so from either state.
    pub again: Vec<String>,
    /// Before the command.
    pub old: State,
    /// After it.
    pub new: State,
    /// The version that is active before the command is damaged, which is what the command is for.
    pub damaged: bool,
}

impl Flow {
    /// The command `args` on `host`, on which `from` is active before and `to` after it.
    ///
    /// # Panics
    /// If it does not succeed when nothing disturbs it.
    pub fn new(name: &'static str, host: Host, args: Vec<String>, from: Option<&str>, to: Option<&str>) -> Self {
        let old = State::of(&host.root(), from).unwrap();
        let done = host::copy(&host.root());
        let output = host.run_on(done.path(), &args);
        assert!(output.status.success(), "{name}: {output:?}");
        let new = State::of(done.path(), to).unwrap();
        assert_ne!(old, new, "{name} changes nothing");
        if let (Some(old), Some(new)) = (&old.database, &new.database) {
            assert_eq!(old.owner, new.owner, "{name} gives the database to another user");
        }
        Self { name, again: args.clone(), args, next: words("update"), old, new, host, damaged: false }
    }

    /// A copy of the image before the command, in memory.
    pub fn copy(&self) -> TempDir {
        host::copy(&self.host.root())
    }

    /// Copies the image before the command into the directory `dir`.
    ///
    /// # Errors
    /// It cannot be copied.
    pub fn copy_to(&self, dir: &Path) -> std::io::Result<()> {
        host::copy_to(&self.host.root(), dir)
    }

    /// Runs the updater on the image below `root`.
    pub fn run(&self, root: &Path, args: &[String]) -> Output {
        self.host.run_on(root, args)
    }

    /// `status` as JSON.
    ///
    /// # Errors
    /// It does not exit with 0, or prints something else.
    pub fn status(&self, root: &Path) -> Result<Value, String> {
        let output = self.succeeds(root, "status --format json")?;
        serde_json::from_slice(&output.stdout).map_err(|error| format!("status: {error}"))
    }

    /// Whether the image below `root` has the links, settings and database of `state`.
    pub fn is(&self, root: &Path, state: &State) -> bool {
        self.capture(root).is_ok_and(|now| self.contradiction(state, &now).is_none())
    }

    /// Whether the journal below `root` has the commit.
    pub fn is_committed(&self, root: &Path) -> bool {
        let journal = std::fs::read(root.join(VERSIONS).join(".journal")).unwrap_or_default();
        String::from_utf8_lossy(&journal).contains(r#"{"record":"commit"}"#)
    }

    /// Recovers as a boot would (or as the updater's unit does after a run that died), lets the next run come, and looks
    /// at everything that SPEC §8 promises. `what` names the point at which the command was cut short.
    ///
    /// # Errors
    /// A violation.
    pub fn check(&self, root: &Path, what: &str, boot: bool) -> Result<Found, String> {
        self.check_all(root, boot, false).map_err(|reason| format!("{}: {what}: {reason}", self.name))
    }

    /// The same after a run that met an error and ended by itself. A version that could not be removed then may stay
    /// until the next commit.
    ///
    /// # Errors
    /// A violation.
    pub fn check_after_error(&self, root: &Path, what: &str, boot: bool) -> Result<Found, String> {
        self.check_all(root, boot, true).map_err(|reason| format!("{}: {what}: {reason}", self.name))
    }

    fn check_all(&self, root: &Path, boot: bool, may_stay: bool) -> Result<Found, String> {
        self.succeeds(root, if boot { "recover --boot" } else { "recover" })?;
        let found = if boot { self.found_at_boot(root)? } else { self.found(root)? };
        if !boot {
            self.check_whole(root, found)?;
        }
        let next = self.succeeds_with(root, &self.next)?;
        // As the updater's unit does after each run.
        self.succeeds(root, "recover")?;
        let then = self.found(root)?;
        if self.args == self.next && then != Found::New {
            let said = String::from_utf8_lossy(&next.stderr);
            return Err(format!("the next run did not reach the new state: {}", said.trim_end()));
        }
        self.check_whole(root, then)?;
        if self.again != self.next {
            self.succeeds_with(root, &self.again)?;
        }
        if self.again == self.args {
            if self.found(root)? != Found::New {
                return Err("the same command did not reach the new state".to_owned());
            }
            if self.again != self.next {
                self.check_whole(root, Found::New)?;
            }
            self.check_converged(root, may_stay)?;
        }
        Ok(found)
    }

    /// The state that the image below `root` is in.
    ///
    /// # Errors
    /// It is between the two.
    pub fn found(&self, root: &Path) -> Result<Found, String> {
        let now = self.capture(root)?;
        // Where both would do it is the new one: only then is there more to check.
        match (self.contradiction(&self.new, &now), self.contradiction(&self.old, &now)) {
            (None, _) => Ok(Found::New),
            (_, None) => Ok(Found::Old),
            (Some(new), Some(old)) => Err(format!("neither old ({old}) nor new ({new})")),
        }
    }

    /// The same where a boot may have left the end of a committed run to the next one: settings that go with an
    /// installation are the last to go.
    ///
    /// # Errors
    /// It is between the two.
    pub fn found_at_boot(&self, root: &Path) -> Result<Found, String> {
        let is_last = self.new.version.is_none() && root.join(VERSIONS).join(".journal").exists();
        if is_last {
            let mut now = self.capture(root)?;
            now.settings.clone_from(&self.new.settings);
            if self.contradiction(&self.new, &now).is_none() {
                return Ok(Found::New);
            }
        }
        self.found(root)
    }

    /// What [`Flow::check`] asks of a host at rest in the state `found`: nothing is half done, and the updater says the
    /// truth about it.
    ///
    /// # Errors
    /// A violation.
    pub fn check_whole(&self, root: &Path, found: Found) -> Result<(), String> {
        let state = self.state(found);
        let now = self.capture(root)?;
        if let Some(contradiction) = self.contradiction(state, &now) {
            return Err(contradiction);
        }
        // That of the active version is of the last time it was left, and is made anew when it is left again.
        let active = active_dir(root);
        for (version, database) in state.snapshots.iter().filter(|(version, _)| Some(*version) != active.as_ref()) {
            if now.snapshots.get(version) != Some(database) {
                let has = now.snapshots.get(version);
                return Err(format!("snapshot of {version}: {has:?} in place of {database:?}"));
            }
        }
        let is_known = |line: &&String| self.old.versions.contains(line) || self.new.versions.contains(line);
        let strange: Vec<&String> = now.versions.iter().filter(|line| !is_known(line) && !is_evidence(line)).collect();
        let top = strange.iter().filter(|line| !strange.iter().any(|above| is_below(line, above)));
        // A first run that was undone leaves what it has been told, and why it failed.
        let strange: Vec<_> = top.filter(|line| line.as_str() != "updates.yaml 644").collect();
        if !strange.is_empty() {
            return Err(format!("left behind: {strange:?}"));
        }
        let all = tree(root).map_err(|error| format!("cannot read the image: {error}"))?;
        if let Some(left) = all.iter().find(|line| UNFINISHED.iter().any(|part| format!("/{line}").contains(part))) {
            return Err(format!("left behind: {left}"));
        }
        self.check_status(root, state)?;
        if let Some(version) = &state.version
            && !(self.damaged && found == Found::Old)
        {
            self.succeeds(root, "verify")?;
            check_agent(root, version)?;
        }
        check_lock(root)
    }

    fn check_status(&self, root: &Path, state: &State) -> Result<(), String> {
        let status = self.status(root)?;
        for key in ["agent_version_installed", "agent_version_linked"] {
            if status[key].as_str() != state.version.as_deref() {
                return Err(format!("status says {key}: {}, it is {:?}", status[key], state.version));
            }
        }
        for key in ["recovery_pending", "update_in_progress"] {
            if status[key] != false {
                return Err(format!("status says {key}: {}", status[key]));
            }
        }
        Ok(())
    }

    /// After the same command has run again: nothing more or less than after an undisturbed run.
    fn check_converged(&self, root: &Path, may_stay: bool) -> Result<(), String> {
        let stays = |line: &&String| may_stay && self.old.versions.contains(line) && !self.new.versions.contains(line);
        let without_evidence = |lines: &[String]| {
            lines.iter().filter(|line| !is_evidence(line) && !stays(line)).cloned().collect::<Vec<_>>()
        };
        let (now, wanted) = (without_evidence(&self.capture(root)?.versions), without_evidence(&self.new.versions));
        if now == wanted { Ok(()) } else { Err(format!("not as undisturbed: {}", difference(&wanted, &now))) }
    }

    fn state(&self, found: Found) -> &State {
        match found {
            Found::Old => &self.old,
            Found::New => &self.new,
        }
    }

    fn capture(&self, root: &Path) -> Result<State, String> {
        State::of(root, None)
    }

    /// What of `now` is not as in `state`. A damaged version is mended file by file, in any order.
    fn contradiction(&self, state: &State, now: &State) -> Option<String> {
        state.contradicts(now).or_else(|| {
            let mended = self.damaged && *state == self.new;
            (mended && state.programs != now.programs)
                .then(|| format!("programs: {}", difference(&state.programs, &now.programs)))
        })
    }

    fn succeeds(&self, root: &Path, line: &str) -> Result<Output, String> {
        self.succeeds_with(root, &words(line))
    }

    fn succeeds_with(&self, root: &Path, args: &[String]) -> Result<Output, String> {
        let output = self.run(root, args);
        if output.status.success() {
            Ok(output)
        } else {
            Err(format!(
                "{}: {}: {}{}",
                args.join(" "),
                output.status,
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr).trim_end()
            ))
        }
    }
}

/// The version directory that the agent's link leads into.
fn active_dir(root: &Path) -> Option<String> {
    let target = std::fs::read_link(root.join("usr/local/bin/teleport")).ok()?;
    let inside = target.strip_prefix("/").ok()?.strip_prefix(VERSIONS).ok()?.to_owned();
    Some(inside.iter().next()?.to_string_lossy().into_owned())
}

/// What a version that was switched to and given up wrote stays beside its snapshot.
fn is_evidence(line: &str) -> bool {
    line.contains("/backup")
}

/// Whether the line of a path is below the directory of another line.
fn is_below(line: &str, above: &str) -> bool {
    let directory = above.split(' ').next().unwrap_or_default();
    directory.ends_with('/') && line != above && line.starts_with(directory)
}

/// The unit's binary is there, whole, and of `version`.
fn check_agent(root: &Path, version: &str) -> Result<(), String> {
    let link = root.join("usr/local/bin/teleport");
    let target = std::fs::read_link(&link).map_err(|error| format!("{}: {error}", link.display()))?;
    let binary = root.join(target.strip_prefix("/").unwrap_or(&target));
    let output = Command::new(&binary).env_clear().arg("version").output();
    let output = output.map_err(|error| format!("{}: {error}", binary.display()))?;
    let said = String::from_utf8_lossy(&output.stdout);
    if output.status.success() && said.contains(version) {
        Ok(())
    } else {
        Err(format!("{} is not {version}: {said}", binary.display()))
    }
}

/// Nobody holds the lock.
fn check_lock(root: &Path) -> Result<(), String> {
    let path = root.join(VERSIONS).join(".lock");
    let Ok(file) = std::fs::File::open(&path) else { return Ok(()) };
    flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|error| format!("{}: {error}", path.display()))
}
