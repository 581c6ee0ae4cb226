//! Where each link and the unit belong.

use std::path::{Path, PathBuf};

use super::OWN_MARK;
use super::facts::{Facts, Installed, Name, is_linked, is_updater_name, part_of};
use super::step::{Node, Part, Placement};
use crate::store::VersionDir;
use crate::store::contents::{UNIT, UPDATER, UPDATER_OF_THE_RFD};

/// Names assumed for a version that is not unpacked yet.
const USUAL_BINARIES: [&str; 4] = ["teleport", "tsh", "tctl", "tbot"];

/// Every link but the agent's, updaters included, also those that already are as they shall be.
pub(super) fn placements(facts: &Facts, to_dir: &VersionDir, installed: Option<&Installed>) -> Vec<Placement> {
    // Before the download the damaged copy's names, or the active version's, are the best guess.
    let guess = facts.installed.iter().find(|known| known.dir == *to_dir && !known.binaries.is_empty());
    let guess = guess.or_else(|| facts.find(facts.active.as_ref()?)).map(|known| known.binaries.clone());
    let binaries = installed.map(|installed| installed.binaries.clone()).or(guess);
    let binaries = binaries.unwrap_or_else(|| USUAL_BINARIES.map(str::to_owned).to_vec());
    let mut wanted: Vec<(String, Node)> = binaries
        .iter()
        .filter(|name| name.as_str() != "teleport" && !is_updater_name(name) && is_linked(&facts.components, name))
        .map(|name| (name.clone(), Node::Link(facts.target(to_dir, &format!("bin/{name}")))))
        .collect();
    if installed.is_some() {
        wanted.extend(updater_links(facts, installed));
    }
    let place =
        |name: &str, was: Node, now: Node| Placement { path: facts.link_dir.join(name), was, now, part: part_of(name) };
    let mut placements: Vec<Placement> =
        wanted.iter().map(|(name, now)| place(name, facts.node(name), now.clone())).collect();
    let is_foreign = |name: &Name| facts.foreign_links.iter().any(|(path, _)| path.ends_with(&name.name));
    let is_left = |name: &&Name| {
        (name.ours || is_foreign(name))
            && name.name != "teleport"
            && !wanted.iter().any(|(wanted, _)| *wanted == name.name)
    };
    if installed.is_some() {
        let left = facts.names.iter().filter(is_left);
        placements.extend(left.map(|name| place(&name.name, name.node.clone(), Node::Absent)));
    }
    placements
}

/// Our own links: to the new version's updater if it speaks our protocol, else they stay on the newest that does. One that
/// was only unpacked, or failed, has not proven itself.
pub(super) fn updater_links(facts: &Facts, to: Option<&Installed>) -> Vec<(String, Node)> {
    let in_use = |installed: &Installed| {
        let linked = facts.dir_of(&facts.node(UPDATER)).as_ref() == Some(&installed.dir);
        linked || [&facts.active, &facts.previous].into_iter().flatten().any(|revision| *revision == installed.revision)
    };
    let newest = || {
        facts
            .installed
            .iter()
            .filter(|installed| installed.updater.is_some() && installed.marker.is_some() && in_use(installed))
            .max_by(|a, b| a.revision.version.cmp(&b.revision.version).then(a.install_time.cmp(&b.install_time)))
    };
    let Some(source) = to.filter(|installed| installed.updater.is_some()).or_else(newest) else {
        return Vec::new();
    };
    let Some(file) = &source.updater else {
        return Vec::new();
    };
    let target = Node::Link(facts.target(&source.dir, file));
    let mut names = vec![UPDATER.to_owned()];
    if file.ends_with(UPDATER_OF_THE_RFD) {
        names.push(UPDATER_OF_THE_RFD.to_owned());
    }
    names.into_iter().map(|name| (name, target.clone())).collect()
}

pub(super) fn unit_placement(facts: &Facts, to_dir: &VersionDir, installed: Option<&Installed>) -> Option<Placement> {
    let unit = &facts.unit;
    let now = match installed {
        Some(Installed { unit: None, .. }) => return None,
        _ if unit.linked => Node::Link(facts.target(to_dir, UNIT)),
        Some(Installed { unit: Some(text), .. }) => {
            let text = unit.edits.iter().fold(text.clone(), |text, (from, to)| text.replace(from, to));
            Node::Text(format!("{OWN_MARK}; change it with `systemctl edit`.\n{text}"))
        }
        None => return None,
    };
    Some(Placement { path: unit.path.clone(), was: unit.node.clone(), now, part: Part::Unit })
}

/// Links that enable the unit follow the version, as the unit itself does. Where the unit is a file with other paths in
/// it they lead to that file, and one in a directory of units goes: it would have systemd load the version's own unit.
pub(super) fn enablement_placements<'a>(
    facts: &'a Facts,
    to_dir: &VersionDir,
    installed: Option<&Installed>,
) -> impl Iterator<Item = Placement> + 'a {
    let target = if facts.unit.linked { facts.target(to_dir, UNIT) } else { facts.unit.inside.clone() };
    let now_of = move |path: &PathBuf| {
        if facts.unit.linked || !is_unit_itself(path) { Node::Link(target.clone()) } else { Node::Absent }
    };
    let has_unit = installed.is_none_or(|installed| installed.unit.is_some());
    // One that leads to the unit's own place stays right.
    let moves = facts.enablement.iter().filter(move |(_, was)| has_unit && facts.dir_of(was).is_some());
    moves.map(move |(path, was)| Placement {
        path: path.clone(),
        was: was.clone(),
        now: now_of(path),
        part: Part::Unit,
    })
}

/// Whether systemd loads the unit by `path`; a link in `*.wants` only names it.
pub(super) fn is_unit_itself(path: &Path) -> bool {
    let extension = path.parent().and_then(Path::extension);
    !extension.is_some_and(|extension| extension == "wants" || extension == "requires")
}

/// Links to a version's own unit that systemd would load in place of the file with the paths of this installation.
pub(crate) fn masking_links(facts: &Facts) -> impl Iterator<Item = &PathBuf> {
    let masks = |(path, was): &&(PathBuf, Node)| is_unit_itself(path) && facts.dir_of(was).is_some();
    facts.enablement.iter().filter(move |link| !facts.unit.linked && masks(link)).map(|(path, _)| path)
}

/// A link of ours in another link directory goes.
pub(super) fn removal((path, was): &(PathBuf, Node)) -> Placement {
    let part = path.file_name().map_or(Part::Helper, |name| part_of(&name.to_string_lossy()));
    Placement { path: path.clone(), was: was.clone(), now: Node::Absent, part }
}

/// A unit of ours that is enabled: the service is started by its timer alone.
pub(super) fn is_installable(unit: &str) -> bool {
    unit.ends_with(".timer") || unit.starts_with("teleport-update-recover")
}
