//! The texts of the units that we write: those of a suffixed installation, and a drop-in for its paths.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::context::Context;
use crate::inspect::node::{look, own_text};
use crate::plan::{Node, OWN_MARK};
use crate::report::Result;

/// Ours among the drop-ins of the service; early, so that an operator's comes after it.
const PATHS_DROP_IN: &str = "10-teleport-update-paths.conf";

/// Units that we write: those of a suffixed installation, and what its paths need.
pub(super) fn all(context: &Context, data_dir: &Path) -> Result<Vec<(PathBuf, String, Node)>> {
    let mut units = suffixed_units(context)?;
    units.extend(paths_drop_in(context, data_dir)?);
    Ok(units)
}

/// A drop-in of the service for links, versions or data that its confinement would keep it from writing. One that is no
/// longer needed stays as it is until `uninstall`.
fn paths_drop_in(context: &Context, data_dir: &Path) -> Result<Option<(PathBuf, String, Node)>> {
    let layout = &context.layout;
    let suffix = layout.suffix.as_ref().map(|suffix| format!("_{suffix}")).unwrap_or_default();
    let path =
        layout.real_path(Path::new(&format!("/etc/systemd/system/teleport-update{suffix}.service.d/{PATHS_DROP_IN}")));
    let node = look(&path, || own_text(layout, &path))?;
    let dirs: BTreeSet<PathBuf> = [&layout.link_dir, &layout.versions, data_dir]
        .into_iter()
        // Where they are, and not what links call them.
        .map(|dir| dir.strip_prefix(&layout.root).map_or_else(|_| dir.to_owned(), |rest| Path::new("/").join(rest)))
        .filter(|dir| is_kept_from_unit(dir))
        .collect();
    Ok(match (dirs.is_empty(), node) {
        (false, node) => Some((path, paths_text(&dirs), node)),
        (true, Node::Text(text)) => Some((path, text.clone(), Node::Text(text))),
        (true, _) => None,
    })
}

/// Whether `dir` is what `teleport-update.service` leaves read-only.
fn is_kept_from_unit(dir: &Path) -> bool {
    let below = |tops: &[&str]| tops.iter().any(|top| dir.starts_with(top));
    below(&["/usr", "/etc", "/boot", "/efi", "/home", "/root", "/run/user"])
        && !below(&["/usr/local", "/etc/systemd/system"])
}

fn paths_text(dirs: &BTreeSet<PathBuf>) -> String {
    // In unit files `%` begins a specifier.
    let list = |dir: &PathBuf| format!(" \"-{}\"", dir.display().to_string().replace('%', "%%"));
    let list: String = dirs.iter().map(list).collect();
    let list = list.trim_start();
    format!(
        "{OWN_MARK}: its links, versions or the agent's data are here.\n[Service]\n\
         # The same twice: systemd before 231 knows only the older name.\n\
         ReadWriteDirectories={list}\nReadWritePaths={list}\n"
    )
}

/// Timer, service and boot unit of a suffixed installation: the package's own serve only the default one.
fn suffixed_units(context: &Context) -> Result<Vec<(PathBuf, String, Node)>> {
    let Some(suffix) = &context.layout.suffix else {
        return Ok(Vec::new());
    };
    let service = include_str!("../../systemd/teleport-update.service")
        .replace("/teleport-update update", &format!("/teleport-update --install-suffix {suffix} update"))
        .replace("/teleport-update recover", &format!("/teleport-update --install-suffix {suffix} recover"));
    let recovery = include_str!("../../systemd/teleport-update-recover.service")
        .replace("/teleport-update recover", &format!("/teleport-update --install-suffix {suffix} recover"));
    let timer = include_str!("../../systemd/teleport-update.timer").to_owned();
    let files = [
        (format!("teleport-update_{suffix}.service"), service),
        (format!("teleport-update-recover_{suffix}.service"), recovery),
        (format!("teleport-update_{suffix}.timer"), timer),
    ];
    files
        .into_iter()
        .map(|(name, text)| {
            let text = format!("{OWN_MARK}; change it with `systemctl edit`.\n{text}")
                .replace("=teleport.service", &format!("=teleport_{suffix}.service"))
                .replace("=teleport-update-recover.service", &format!("=teleport-update-recover_{suffix}.service"))
                .replace("/var/lib/teleport/", &format!("/var/lib/teleport_{suffix}/"))
                .replace("/var/lib/teleport /usr/local", &format!("/var/lib/teleport_{suffix} /opt/teleport/{suffix}"));
            let inside = format!("/etc/systemd/system/{name}");
            let path = context.layout.real_path(Path::new(&inside));
            let node = look(&path, || own_text(&context.layout, &path))?;
            Ok((path, text, node))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_unit_leaves_read_only_needs_a_drop_in() {
        for dir in ["/usr/bin", "/usr", "/etc/teleport", "/home/teleport/data", "/root/x", "/boot"] {
            assert!(is_kept_from_unit(Path::new(dir)), "{dir}");
        }
        for dir in ["/usr/local/bin", "/opt/x/bin", "/var/lib/teleport", "/srv", "/etc/systemd/system", "/homes/x", "/"]
        {
            assert!(!is_kept_from_unit(Path::new(dir)), "{dir}");
        }
    }

    #[test]
    fn a_path_with_a_space_or_a_percent_sign_is_one_word_of_the_drop_in() {
        let text = paths_text(&["/home/a b".into(), "/usr/100%".into()].into());
        assert!(text.ends_with("\nReadWritePaths=\"-/home/a b\" \"-/usr/100%%\"\n"), "{text}");
    }
}
