//! rpm (Red Hat, SUSE, Amazon): its packages, and what it is told.

use std::path::Path;

use super::busy::Waiting;
use super::scripts::endangers;
use super::{Keep, NAMES, PURGE_TIMEOUT, Package, PackageTool, State, below, is_lock_message, judged, start};
use crate::host::command::{Command, Output, is_installed};
use crate::host::durable;
use crate::report::Result;

/// Where rpm keeps its database in an image, by distribution; the first with something in it counts.
const DATABASES: [&str; 3] = ["/usr/lib/sysimage/rpm", "/var/lib/rpm", "/usr/share/rpm"];

pub(super) fn installed(root: Option<&Path>) -> Result<Vec<Package>> {
    // Where there is no database, a query would make one.
    if database(root)?.is_none() || !is_installed("rpm") {
        return Ok(Vec::new());
    }
    let format = "@%{NAME}\\n";
    let output = start(&command(root)?.args(["-q", "--qf", format]).args(NAMES))?;
    // A name that is not installed is told on standard output, in the local language.
    Ok(output.stdout_text().lines().filter_map(parse).collect())
}

pub(super) fn parse(line: &str) -> Option<Package> {
    let name = line.strip_prefix('@')?.to_owned();
    Some(Package { name, tool: PackageTool::Rpm, state: State::Installed })
}

/// The flags that leave out the scriptlets of an rpm package that could delete what is to be kept.
pub(super) fn dangerous_sections(package: &Package, keep: Keep<'_>, root: Option<&Path>) -> Result<Vec<&'static str>> {
    let text = start(&command(root)?.args(["-q", "--scripts", &package.name]))?.stdout_text();
    let flags = [("preuninstall", "--nopreun"), ("postuninstall", "--nopostun")];
    Ok(flags
        .into_iter()
        .filter(|(section, _)| endangers(&section_of(&text, section), keep, root))
        .map(|(_, flag)| flag)
        .collect())
}

/// One scriptlet in the output of `rpm -q --scripts`, each headed by "postuninstall scriptlet (using /bin/sh):".
fn section_of(text: &str, section: &str) -> String {
    let is_head = |line: &&str| line.contains(" scriptlet (") || line.contains(" program:");
    let mut lines = text.lines().skip_while(|line| !(is_head(line) && line.starts_with(section)));
    let head = lines.next().unwrap_or_default();
    std::iter::once(head).chain(lines.take_while(|line| !is_head(line))).collect::<Vec<_>>().join("\n")
}

pub(super) fn command(root: Option<&Path>) -> Result<Command> {
    let command = Command::new("rpm").timeout(PURGE_TIMEOUT);
    let command = match root {
        None => command,
        Some(root) => command.arg("--root").arg(root),
    };
    // The image's distribution can keep it elsewhere than this host's.
    Ok(match database(root)? {
        Some(database) if root.is_some() => command.args(["--dbpath", &database]),
        _ => command,
    })
}

/// Where rpm has its database, if there is one. This host's rpm is asked itself: on a Debian it is root's home.
///
/// Errors: it cannot be asked, or the directory not be read: no package would be found.
fn database(root: Option<&Path>) -> Result<Option<String>> {
    let candidates = match root {
        Some(_) => DATABASES.map(str::to_owned).to_vec(),
        None if !is_installed("rpm") => return Ok(None),
        None => match start(&Command::new("rpm").args(["--eval", "%{_dbpath}"]))? {
            answer if answer.success() => vec![answer.stdout_text().trim().to_owned()],
            _ => return Ok(None),
        },
    };
    for database in candidates.into_iter().filter(|database| database.starts_with('/')) {
        if !durable::entries(&below(root, &database))?.is_empty() {
            return Ok(Some(database));
        }
    }
    Ok(None)
}

/// Runs rpm once nobody else is at work.
pub(super) fn run(command: &Command, root: Option<&Path>, waiting: &mut Waiting<'_>) -> Result<Output> {
    if let Some(database) = database(root)? {
        waiting.for_rpm(root, &database)?;
    }
    let output = start(command)?;
    let locked = is_lock_message(&output.stderr_text());
    judged(output, locked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_rpm_answer_is_read_and_the_not_installed_ones_are_skipped() {
        assert_eq!(parse("@teleport-ent").unwrap().name, "teleport-ent");
        assert_eq!(parse("package teleport is not installed"), None);
    }

    #[test]
    fn one_scriptlet_of_an_rpm_package_is_cut_out() {
        let text = "preuninstall scriptlet (using /bin/sh):\nsystemctl stop x\n\
                    postuninstall scriptlet (using /bin/sh):\nrm -rf /var/lib/teleport\n\
                    posttrans scriptlet (using /bin/sh):\ntrue\n";
        assert!(!section_of(text, "preuninstall").contains("rm"));
        assert!(section_of(text, "postuninstall").contains("rm -rf"));
        assert!(!section_of(text, "postuninstall").contains("true"));
        assert_eq!(section_of("", "postuninstall"), "");
    }
}
