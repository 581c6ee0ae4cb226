//! A bed (`tests/beds/bed.sh`): a real systemd, for what needs one. The agent's data lie on the disk that is measured.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::beds;
use crate::bench::lab::Lab;

/// A running bed with the updater as its package leaves it. Dropping it takes it down.
#[derive(Debug)]
pub struct Bed {
    bed: beds::Bed,
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
        let data = lab.work().join("bed-data");
        std::fs::create_dir_all(data.join("versions"))?;
        let bind = format!("--bind={}:/var/lib/teleport", data.display());
        let Some(bed) = beds::Bed::up_with("bench", &[&bind]) else { return Ok(None) };
        let bed = Self { bed, data };
        bed.install(lab, settings)?;
        Ok(Some(bed))
    }

    fn install(&self, lab: &Lab, settings: &str) -> io::Result<()> {
        let bed = &self.bed;
        bed.put_updater(&lab.programs.updater);
        bed.put(&lab.server.ca, "/root/ca.pem");
        bed.write("/etc/hosts", "127.0.0.1 localhost\n", 0o644);
        bed.write("/etc/teleport.yaml", "teleport:\n  data_dir: /var/lib/teleport\n", 0o600);
        let text = format!("version: v1\nkind: agent_versions\nspec:\n{settings}");
        std::fs::write(self.data.join("versions/updates.yaml"), text)?;
        let (addr, base) = (&lab.server.addr, &lab.server.base_url);
        let ran = self.updater(&format!("enable --proxy {addr} --base-url {base} --ca-file /root/ca.pem"));
        if !ran.success {
            return Err(io::Error::other(format!("enable: {:?}", ran.log)));
        }
        self.exec("systemctl daemon-reload && systemctl enable --now teleport")?;
        self.until_ready();
        Ok(())
    }

    /// The agent's data directory, as seen from here.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// A path of the bed's own disk, as seen from here.
    pub fn path(&self, path: &str) -> PathBuf {
        self.bed.path(path)
    }

    /// Runs a line of shell in the bed to its end.
    ///
    /// # Errors
    /// It fails.
    pub fn exec(&self, line: &str) -> io::Result<()> {
        let output = self.bed.exec(&["sh", "-ec", line]);
        if output.status.success() { Ok(()) } else { Err(io::Error::other(format!("{line}: {output:?}"))) }
    }

    /// Runs the updater in a unit of its own, as the timer does.
    pub fn updater(&self, args: &str) -> Ran {
        let command: Vec<&str> =
            "teleport-update --debug --log-format json".split(' ').chain(args.split(' ')).collect();
        let output = self.bed.run(&command);
        let line = |line: &str| {
            let line: Value = serde_json::from_str(line).ok()?;
            let message = line["message"].as_str().unwrap_or_default().to_owned();
            Some(Line { time: line["time"].as_str()?.parse().ok()?, message })
        };
        let log = String::from_utf8_lossy(&output.stderr).lines().filter_map(line).collect();
        Ran { success: output.status.success(), log }
    }

    /// Waits until the agent answers.
    pub fn until_ready(&self) {
        let ready = "test -S /var/lib/teleport/debug.sock && kill -0 $(cat /run/teleport.pid)";
        self.bed.until(ready, Duration::from_secs(20));
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
