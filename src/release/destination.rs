//! Which file of an archive goes where in a version directory (SPEC §4, layout). Pure.

use crate::store::contents::{AGENT, UNIT, UPDATERS};

/// Where the agent's unit lies in today's archives.
const UNIT_EXAMPLE: &str = "examples/systemd/teleport.service";

/// What becomes of one regular file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Destination {
    /// It is written there, relative to the version directory.
    At(String),
    /// It is left out, as the specification says.
    Left,
    /// Nobody here knows what it is for: the archive is refused, for this reason.
    Unknown(&'static str),
}

/// Where the file `path` (below the archive's prefix) with this tar mode goes. `components`: the only executables
/// wanted, beside the agent and an updater.
pub(super) fn destination(path: &str, mode: u32, components: Option<&[String]>) -> Destination {
    let is_executable = mode & 0o111 != 0;
    let wanted = |name: &str, place: String| {
        let is_wanted = name == AGENT
            || UPDATERS.contains(&name)
            || components.is_none_or(|wanted| wanted.iter().any(|component| component == name));
        if is_wanted { Destination::At(place) } else { Destination::Left }
    };
    match path.split_once('/') {
        Some(("examples" | "etc", _)) if [UNIT_EXAMPLE, UNIT].contains(&path) => Destination::At(UNIT.to_owned()),
        Some(("examples", _)) => Destination::Left,
        Some(("share", _)) => Destination::At(path.to_owned()),
        Some(("bin", name)) if is_executable && !name.contains('/') => wanted(name, path.to_owned()),
        Some(("bin" | "etc", _)) => Destination::Unknown("no program or unit that this updater knows"),
        Some(_) if is_executable => Destination::Unknown("a program in a folder that this updater does not know"),
        None if path.starts_with("install") => Destination::Left,
        None if is_executable && !is_documentation(path) => wanted(path, format!("bin/{path}")),
        // Data: kept below its own name.
        _ => Destination::At(format!("share/{path}")),
    }
}

fn is_documentation(name: &str) -> bool {
    name == "VERSION" || ["README", "CHANGELOG", "LICENSE"].iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_todays_archives_and_of_the_rfds_has_its_place() {
        let at = |path: &str| Destination::At(path.to_owned());
        let unknown = Destination::Unknown("no program or unit that this updater knows");
        let elsewhere = Destination::Unknown("a program in a folder that this updater does not know");
        for (path, mode, expected) in [
            ("teleport", 0o755, at("bin/teleport")),
            ("fdpass-teleport", 0o755, at("bin/fdpass-teleport")),
            ("tsh", 0o644, at("share/tsh")),
            ("examples/systemd/teleport.service", 0o644, at("etc/systemd/teleport.service")),
            ("examples/systemd/fips/teleport.service", 0o644, Destination::Left),
            ("examples/script", 0o755, Destination::Left),
            ("install", 0o755, Destination::Left),
            ("install-selinux.sh", 0o755, Destination::Left),
            ("README.md", 0o644, at("share/README.md")),
            ("CHANGELOG.md", 0o644, at("share/CHANGELOG.md")),
            ("VERSION", 0o644, at("share/VERSION")),
            ("LICENSE-community", 0o644, at("share/LICENSE-community")),
            ("bin/teleport", 0o755, at("bin/teleport")),
            ("bin/notes", 0o644, unknown.clone()),
            ("bin/sub/tool", 0o755, unknown.clone()),
            ("etc/systemd/teleport.service", 0o644, at("etc/systemd/teleport.service")),
            ("etc/cron.d/x", 0o644, unknown),
            ("share/doc/x", 0o644, at("share/doc/x")),
            ("sub/tool", 0o755, elsewhere),
            ("sub/data", 0o644, at("share/sub/data")),
            ("NOTICE", 0o644, at("share/NOTICE")),
        ] {
            assert_eq!(destination(path, mode, None), expected, "{path}");
        }
    }

    #[test]
    fn components_limit_the_helpers_but_never_the_agent_or_the_updater() {
        let only = ["tbot".to_owned()];
        let is_put = |path| matches!(destination(path, 0o755, Some(&only)), Destination::At(_));
        assert!(is_put("teleport") && is_put("tbot") && is_put("teleport-update") && is_put("bin/teleport-updater"));
        assert!(!is_put("tsh") && !is_put("bin/tctl"));
    }
}
