//! One run of a program: how long it takes, or, in another run, what it needs meanwhile.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Between two looks at a program that is watched, not timed.
const SLICE: Duration = Duration::from_millis(2);

/// What a program needed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Needs {
    /// Peak resident memory of its first process, bytes.
    pub own_memory: u64,
    /// The largest sum, at one time, of the peaks of all its living processes, bytes.
    pub memory: u64,
    /// Peak use of the file system, bytes above what was used before.
    pub disk_peak: u64,
    /// What it left there, bytes.
    pub disk_left: u64,
}

impl Needs {
    /// Disk that was needed only for a time, bytes.
    pub fn disk_temporary(&self) -> u64 {
        self.disk_peak.saturating_sub(self.disk_left)
    }
}

/// How long the program that `start` starts takes, to its end.
///
/// # Errors
/// It cannot be started, or fails.
pub fn timed(start: impl FnOnce() -> io::Result<Child>) -> io::Result<Duration> {
    let begun = Instant::now();
    let mut child = start()?;
    let status = child.wait()?;
    let took = begun.elapsed();
    if status.success() { Ok(took) } else { Err(io::Error::other(format!("ended with {status}"))) }
}

/// What the program that `start` starts needs, of memory and of the file system around `disk`, which must be its alone.
///
/// # Errors
/// It cannot be started, or fails.
pub fn needs(disk: &Path, start: impl FnOnce() -> io::Result<Child>) -> io::Result<Needs> {
    let before = used(disk)?;
    let mut found = Needs::default();
    let mut child = start()?;
    let status = loop {
        // Before the look, so that the last look is at a program that still runs.
        let ended = child.try_wait()?;
        if let Some(status) = ended {
            break status;
        }
        let peaks = peaks(child.id());
        found.own_memory = found.own_memory.max(peaks.get(&child.id()).copied().unwrap_or(0));
        found.memory = found.memory.max(peaks.values().sum());
        found.disk_peak = found.disk_peak.max(used(disk)?.saturating_sub(before));
        std::thread::sleep(SLICE);
    };
    found.disk_left = used(disk)?.saturating_sub(before);
    if status.success() { Ok(found) } else { Err(io::Error::other(format!("ended with {status}"))) }
}

/// How many system calls all processes made, by strace's summary `report`.
pub fn system_calls(report: &str) -> Option<u64> {
    let total = report.lines().rev().find(|line| line.trim_end().ends_with(" total"))?;
    // "100.00    0.001234           5       234        12 total": errors may be missing.
    total.split_whitespace().nth(3)?.parse().ok()
}

/// Bytes in use on the file system around `path`.
fn used(path: &Path) -> io::Result<u64> {
    let found = rustix::fs::statvfs(path)?;
    Ok((found.f_blocks - found.f_bfree) * found.f_frsize)
}

/// The peak resident memory of the process and of each of its living descendants, bytes. The kernel counts it per
/// program: what a process was before its `execve` is not in it.
fn peaks(pid: u32) -> HashMap<u32, u64> {
    let mut found = HashMap::new();
    let mut left = vec![pid];
    while let Some(pid) = left.pop() {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        found.insert(pid, kib.unwrap_or(0) << 10);
        for task in std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            left.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
    }
    found
}

/// Runs a helper to its end; its standard output.
///
/// # Errors
/// It cannot be started, or fails: then with its own words.
pub fn output(command: &mut Command) -> io::Result<String> {
    let output = command.output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(io::Error::other(format!("{command:?} ended with {}: {said}", output.status)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_of_strace_is_read_with_and_without_errors() {
        let head = "% time     seconds  usecs/call     calls    errors syscall\n";
        let with = format!("{head}------ ---\n100.00    0.002345           3       728        41 total\n");
        let without = format!("{head}------ ---\n100.00    0.000045           1        30           total\n");
        assert_eq!((system_calls(&with), system_calls(&without)), (Some(728), Some(30)));
        assert_eq!(system_calls("strace: nothing"), None);
    }

    #[test]
    fn memory_is_of_the_program_and_of_what_it_started() {
        let mut cat = Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let found = peaks(std::process::id());
        drop(cat.stdin.take());
        cat.wait().unwrap();
        assert!(found[&std::process::id()] > 1 << 20, "{found:?}");
        assert!(found.contains_key(&cat.id()), "{found:?}");
    }
}
