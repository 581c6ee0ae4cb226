//! A bed (`tests/beds/bed.sh`): a real systemd, for what needs one. The agent's data lie on the disk that is measured.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use jiff::Timestamp;
use serde_json::Value;

use crate::bench::lab::Lab;
use crate::bench::run::output;
use crate::bench::shell::{checkout, script};

/// A running bed with the updater as its package leaves it. Dropping it takes it down.
#[derive(Debug)]
pub struct Bed {
    name: String,
    root: PathBuf,
    data: PathBuf,
}

/// A line of the updater's log.
#[derive(Debug, Clone)]
pub struct Line {
    /// When.
    pub time: Timestamp,
    /// What.
    pub message: String,
}

/// A run of the updater.
#[derive(Debug)]
pub struct Ran {
    /// It ended with 0.
    pub success: bool,
    /// Its log.
    pub log: Vec<Line>,
}

impl Bed {
    /// A bed on which `enable` has brought the cluster's version, whose agent runs. `None`: there can be none here.
    ///
    /// # Errors
    /// It does not come up.
    pub fn up(lab: &Lab, settings: &str) -> io::Result<Option<Self>> {
        if !script("bed.sh").arg("can").status()?.success() {
            return Ok(None);
        }
        let name = format!("bench-{}", std::process::id());
        let data = lab.work().join("bed-data");
        std::fs::create_dir_all(data.join("versions"))?;
        let bind = format!("--bind={}:/var/lib/teleport", data.display());
        // From here on Drop takes it down.
        let mut bed = Self { name, root: PathBuf::new(), data };
        bed.root = output(script("bed.sh").args(["up", &bed.name, &bind]))?.trim().into();
        bed.install(lab, settings)?;
        Ok(Some(bed))
    }

    fn install(&self, lab: &Lab, settings: &str) -> io::Result<()> {
        let put = |from: &Path, to: &str| {
            let to = self.root.join(to);
            to.parent().map_or(Ok(()), std::fs::create_dir_all)?;
            std::fs::copy(from, to).map(drop)
        };
        put(&lab.programs.updater, "usr/lib/teleport-update/teleport-update")?;
        for unit in ["teleport-update.service", "teleport-update.timer", "teleport-update-recover.service"] {
            put(&checkout(&format!("systemd/{unit}")), &format!("usr/lib/systemd/system/{unit}"))?;
        }
        put(&lab.server.ca, "root/ca.pem")?;
        std::fs::write(self.root.join("etc/hosts"), "127.0.0.1 localhost\n")?;
        std::fs::write(self.root.join("etc/teleport.yaml"), "teleport:\n  data_dir: /var/lib/teleport\n")?;
        std::os::unix::fs::symlink(
            "../lib/teleport-update/teleport-update",
            self.root.join("usr/bin/teleport-update"),
        )?;
        let text = format!("version: v1\nkind: agent_versions\nspec:\n{settings}");
        std::fs::write(self.data.join("versions/updates.yaml"), text)?;
        let (addr, base) = (&lab.server.addr, &lab.server.base_url);
        let ran = self.updater(&format!("enable --proxy {addr} --base-url {base} --ca-file /root/ca.pem"))?;
        if !ran.success {
            return Err(io::Error::other(format!("enable: {:?}", ran.log)));
        }
        self.exec(&["systemctl", "daemon-reload"])?;
        self.exec(&["systemctl", "enable", "--now", "teleport"])?;
        self.until_ready()
    }

    /// The agent's data directory, as seen from here.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// A path of the bed's own disk, as seen from here.
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Runs a command in the bed to its end.
    ///
    /// # Errors
    /// It fails.
    pub fn exec<S: AsRef<OsStr>>(&self, command: &[S]) -> io::Result<String> {
        output(script("bed.sh").args(["exec", &self.name]).args(command))
    }

    /// Runs the updater in a unit of its own, as the timer does.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn updater(&self, args: &str) -> io::Result<Ran> {
        let mut command = script("bed.sh");
        command.args(["run", &self.name, "teleport-update", "--debug", "--log-format", "json"]).args(args.split(' '));
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let mut log = Vec::new();
        for line in child.stderr.take().into_iter().flat_map(|stream| BufReader::new(stream).lines()) {
            let Ok(line) = serde_json::from_str::<Value>(&line?) else { continue };
            let Some(time) = line["time"].as_str().and_then(|time| time.parse().ok()) else { continue };
            log.push(Line { time, message: line["message"].as_str().unwrap_or_default().to_owned() });
        }
        Ok(Ran { success: child.wait()?.success(), log })
    }

    /// Waits until the agent answers.
    ///
    /// # Errors
    /// It does not.
    pub fn until_ready(&self) -> io::Result<()> {
        let look = "n=0; until test -S /var/lib/teleport/debug.sock && test -s /run/teleport.pid; \
                    do n=$((n+1)); test $n -lt 2000; sleep 0.01; done";
        self.exec(&["sh", "-ec", look]).map(drop)
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        if let Err(error) = output(script("bed.sh").args(["down", &self.name])) {
            eprintln!("test-bench: {error}");
        }
    }
}

impl Ran {
    /// Seconds from the agent's reload or start, its beginning, to the verdict on the new version.
    pub fn verdict(&self) -> Option<f64> {
        // With `--debug` each step has a line.
        let is = |line: &Line, what: &[&str]| {
            let step = line.message.strip_prefix("done: ").or_else(|| line.message.strip_prefix("failed: "));
            step.is_some_and(|step| what.iter().any(|what| step.starts_with(what)))
        };
        let is_verdict =
            |line: &&Line| line.message.starts_with("failed: ") || is(line, &["wait until the new version is healthy"]);
        let action = self.log.iter().position(|line| is(line, &["reload the agent", "start the agent"]))?;
        // A line says that its step is done: it began with the line of the step before.
        let begun = self.log[..action].iter().rfind(|line| line.message.starts_with("done: "))?;
        let verdict = self.log[action..].iter().find(is_verdict)?;
        Some(verdict.time.duration_since(begun.time).as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_lasts_from_the_service_action_to_its_line() {
        let log = |lines: &[(i64, &str)]| {
            let line = |(second, message): &(i64, &str)| Line {
                time: Timestamp::from_second(*second).unwrap(),
                message: (*message).to_owned(),
            };
            Ran { success: true, log: lines.iter().map(line).collect() }
        };
        let lines = [
            (1, "done: link a"),
            (1, "linked 2.0.0: 1 link or unit"),
            (2, "done: reload the agent (SIGHUP)"),
            (2, "reloaded the agent"),
            (7, "done: wait until the new version is healthy"),
        ];
        assert_eq!(log(&lines).verdict(), Some(6.0));
        let lines = [(1, "done: link a"), (4, "failed: start the agent"), (9, "rolled back")];
        assert_eq!(log(&lines).verdict(), Some(3.0));
        assert_eq!(log(&lines[..1]).verdict(), None);
    }
}
