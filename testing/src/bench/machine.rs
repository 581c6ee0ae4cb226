//! Where and when it was measured.

use std::path::Path;
use std::process::Command;

/// One line: processor, cores, memory, kernel, file system, hypervisor.
pub fn describe(work: &Path) -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let model = field(&cpuinfo, "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = field(&read("/proc/meminfo"), "MemTotal")
        .and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok())
        .map_or_else(String::new, |kib| format!(", {:.0} GiB of memory", kib / (1 << 20) as f64));
    let is_virtual = field(&cpuinfo, "flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
    let mhz = field(&cpuinfo, "cpu MHz").and_then(|text| text.parse::<f64>().ok());
    let ghz = mhz.map_or_else(String::new, |mhz| format!(" at {:.1} GHz", mhz / 1000.0));
    format!(
        "{model}{ghz}, {cores} cores{}{memory}, Linux {}, {}",
        if is_virtual { " of a virtual machine" } else { "" },
        read("/proc/sys/kernel/osrelease").trim(),
        file_system(work),
    )
}

/// The date, UTC.
pub fn today() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%d").to_string()
}

fn file_system(work: &Path) -> String {
    let found = Command::new("findmnt").args(["-nro", "FSTYPE,OPTIONS", "-T"]).arg(work).output();
    let text = found.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    let (kind, options) = text.split_once(' ').unwrap_or((&text, ""));
    format!("{kind} ({options})")
}
