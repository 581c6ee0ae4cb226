//! dpkg (Debian, Ubuntu): its packages, and what it is told.

use std::path::{Path, PathBuf};

use super::busy::Waiting;
use super::scripts::endangers;
use super::{
    Keep, NAMES, PURGE_TIMEOUT, Package, PackageTool, READ_LIMIT, State, below, is_lock_message, judged, start,
};
use crate::host::command::{Command, Output, is_installed};
use crate::host::durable;
use crate::report::{Code, Error, Result};

/// dpkg's database.
pub(super) const DATABASE: &str = "/var/lib/dpkg";

pub(super) fn installed(root: Option<&Path>) -> Result<Vec<Package>> {
    let status = below(root, Path::new(DATABASE).join("status"));
    if !durable::exists(&status)? {
        return Ok(Vec::new());
    }
    if !is_installed("dpkg-query") {
        return match durable::read_limited(&status, READ_LIMIT)? {
            Some(text) if names_in_status(&text) => {
                let file = status.display();
                let what = format!("{file} lists a Teleport package, but dpkg is not installed here to remove it");
                Err(Error::new(Code::PackageFailed, what)
                    .advise("install dpkg on this host, or remove the package from within the image"))
            }
            _ => Ok(Vec::new()),
        };
    }
    let format = "${Package}\\t${db:Status-Status}\\n";
    let query = Command::new("dpkg-query").flag("--admindir=", below(root, DATABASE));
    // Its status is 1 when any of the names is unknown.
    let output = start(&query.args(["-W", "-f", format]).args(NAMES))?;
    Ok(output.stdout_text().lines().filter_map(parse).collect())
}

fn names_in_status(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    text.lines().filter_map(|line| line.strip_prefix("Package: ")).any(|name| NAMES.contains(&name.trim()))
}

pub(super) fn parse(line: &str) -> Option<Package> {
    let (name, status) = line.split_once('\t')?;
    let state = match status {
        "not-installed" => return None,
        "installed" | "triggers-pending" | "triggers-awaited" => State::Installed,
        "config-files" => State::ConfigFiles,
        _ => State::Broken,
    };
    Some(Package { name: name.to_owned(), tool: PackageTool::Dpkg, state })
}

/// The maintainer scripts of a dpkg package that could delete what is to be kept.
pub(super) fn dangerous_scripts(package: &Package, keep: Keep<'_>, root: Option<&Path>) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for script in ["prerm", "postrm"] {
        let path = below(root, DATABASE).join(format!("info/{}.{script}", package.name));
        if let Some(text) = durable::read_limited(&path, READ_LIMIT)?
            && endangers(&String::from_utf8_lossy(&text), keep, root)
        {
            found.push(path);
        }
    }
    Ok(found)
}

pub(super) fn command(root: Option<&Path>) -> Command {
    let command = Command::new("dpkg").env("DEBIAN_FRONTEND", "noninteractive").timeout(PURGE_TIMEOUT);
    match root {
        None => command,
        Some(root) => command
            .flag("--root=", root)
            // It would follow an absolute link to this host's own.
            .flag("--admindir=", below(Some(root), DATABASE))
            // Its log would otherwise be this host's.
            .flag("--log=", below(Some(root), "/var/log/dpkg.log")),
    }
}

/// Runs dpkg, again and again while another package manager holds its lock.
pub(super) fn run(command: &Command, waiting: &mut Waiting<'_>) -> Result<Output> {
    loop {
        let output = start(command)?;
        let text = output.stderr_text();
        let locked = is_lock_message(&text);
        if output.success() || !locked || !waiting.goes_on(text.lines().next().unwrap_or_default()) {
            return judged(output, locked);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_of_a_dpkg_package_is_told() {
        let state = |line: &str| parse(line).map(|package| package.state);
        assert_eq!(state("teleport\tinstalled"), Some(State::Installed));
        assert_eq!(state("teleport\tconfig-files"), Some(State::ConfigFiles));
        assert_eq!(state("teleport\thalf-installed"), Some(State::Broken));
        assert_eq!(state("teleport\tnot-installed"), None);
    }
}
