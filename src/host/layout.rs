//! Where everything is (SPEC §1): below `--root`, and for an `--install-suffix`.

use std::path::{Path, PathBuf};

use super::path::NOWHERE;
use super::{machine, path};
use crate::report::{Code, Error, Result};

/// The agent's data directory unless `teleport.yaml` says otherwise, as seen from inside the root.
pub(crate) const DEFAULT_DATA_DIR: &str = "/var/lib/teleport";
/// Where the links of an installation without a suffix go unless it says otherwise; the archive's unit starts the agent from
/// there (RFD 0169).
pub(crate) const USUAL_LINK_DIR: &str = "/usr/local/bin";
/// User names, passwords and tokens, in the versions directory.
pub(crate) const CREDENTIALS: &str = ".credentials";
/// The agent's database below its data directory.
pub(crate) const DATABASE: &str = "proc/sqlite.db";

/// Where systemd looks for units, the first first (systemd.unit(5)).
pub(crate) const UNIT_DIRS: [&str; 6] = [
    "/etc/systemd/system.control",
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];

/// What [`fits_unit`] does not allow, for a message.
pub(crate) const NOT_IN_UNIT: &str = "blanks, quotes, $, % or \\";

/// Whether the command lines of a unit can name a program in `dir` as it is: what this refuses has a meaning there
/// (systemd.service(5), "Command lines"), and systemd would not start the agent.
pub(crate) fn fits_unit(dir: &Path) -> bool {
    let has_meaning = |char: char| char.is_whitespace() || char.is_control() || "\"'$%\\".contains(char);
    dir.to_str().is_some_and(|text| !text.contains(has_meaning))
}

/// The paths of one installation. Fields are real paths (below `root`); [`Layout::path_inside`] gives what a program
/// in the image would call them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// `--root`, or `/`.
    pub root: PathBuf,
    /// `--install-suffix`.
    pub suffix: Option<String>,
    /// The versions directory, all links followed.
    pub versions: PathBuf,
    /// Where the links to the version's binaries go, all links followed.
    pub link_dir: PathBuf,
    /// `teleport.service`: a link to the version's unit, or a generated file for a suffix.
    pub unit_file: PathBuf,
    /// The agent's configuration; may be a link.
    pub agent_config: PathBuf,
    /// The unit's name, with `.service`.
    pub unit: String,
    /// The versions directory as links lead to it: where it is a link itself, its name stays in use.
    versions_name: PathBuf,
    /// The same of the link directory.
    link_dir_name: PathBuf,
    /// The versions directory before any link in its path was followed.
    versions_inside: PathBuf,
}

impl Layout {
    /// The layout below `root`, for `suffix` (`[A-Za-z0-9-]+`), with `link_dir` in place of the default one.
    pub fn new(root: &Path, suffix: Option<&str>, link_dir: Option<&Path>) -> Result<Self> {
        if let Some(suffix) = suffix
            && (suffix.is_empty()
                || suffix.len() > 64
                || !suffix.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'))
        {
            return Err(Error::new(Code::Usage, format!("--install-suffix {suffix:?} is not usable in file names"))
                .advise("use letters, digits and hyphens"));
        }
        let root = std::path::absolute(root)
            .map_err(|error| Error::new(Code::Usage, format!("--root {}: {error}", root.display())))?;
        let name = suffix.map_or("teleport".to_owned(), |suffix| format!("teleport_{suffix}"));
        let links = suffix.map_or(USUAL_LINK_DIR.to_owned(), |suffix| format!("/opt/teleport/{suffix}/bin"));
        // An image whose /usr is sealed, /usr/local included: a unit with another path is a file of its own anyway.
        let usual = Path::new("/usr/local/lib/systemd/system");
        let is_sealed = || machine::mount(&path::followed(&root, usual)).map(|mount| mount.read_only);
        let is_in_etc = suffix.is_some() || (link_dir.is_some() && is_sealed()?);
        let unit_dir = if is_in_etc { Path::new("/etc/systemd/system") } else { usual };
        let unit = format!("{name}.service");
        let versions = Path::new("/var/lib").join(&name).join("versions");
        let link_dir = link_dir.unwrap_or(Path::new(&links));
        let name_inside = |inside: &Path| {
            let name = path::name(&root, inside);
            name.strip_prefix(&root).map_or_else(|_| NOWHERE.into(), |rest| Path::new("/").join(rest))
        };
        Ok(Self {
            versions: path::followed(&root, &versions),
            versions_name: name_inside(&versions),
            versions_inside: versions,
            link_dir: path::followed(&root, link_dir),
            link_dir_name: name_inside(link_dir),
            unit_file: path::name(&root, &unit_dir.join(&unit)),
            agent_config: path::name(&root, &Path::new("/etc").join(format!("{name}.yaml"))),
            root,
            suffix: suffix.map(str::to_owned),
            unit,
        })
    }

    /// True when this is an image being baked and not the running host.
    pub fn is_image(&self) -> bool {
        self.root != Path::new("/")
    }

    /// What the link directory is besides, where that is a place that links must not be put in: with them there, a move would
    /// not find its versions, or systemd its units. `data_dir`: the agent's data directory, real path.
    pub(crate) fn reserved(&self, data_dir: &Path) -> Option<&'static str> {
        let (dir, state) = (&self.link_dir, super::durable::parent(&self.versions));
        let is_for_units = |place: &&str| dir.starts_with(self.followed(Path::new(place)));
        let reserved = [
            (*dir == self.root, "the root directory"),
            (dir.starts_with(&self.versions), "in the versions directory"),
            (dir == state || dir == data_dir, "the agent's data directory"),
            (UNIT_DIRS.iter().any(is_for_units), "a directory of systemd's units"),
        ];
        reserved.into_iter().find_map(|(is_it, what)| is_it.then_some(what))
    }

    /// Whether `real` is behind links that lead in a circle.
    pub(crate) fn is_nowhere(real: &Path) -> bool {
        real.starts_with(NOWHERE)
    }

    /// The real path of the name `inside`, a path as a program in the image sees it: links on the way to it are followed
    /// inside the root, and what stands there may be a link that is to be replaced.
    pub fn real_path(&self, inside: &Path) -> PathBuf {
        path::name(&self.root, inside)
    }

    /// The real path of what `inside` leads to, for what is opened: all links are followed inside the root.
    pub fn followed(&self, inside: &Path) -> PathBuf {
        path::followed(&self.root, inside)
    }

    /// The real path of what the real path `real` leads to, if that is a link.
    pub fn behind(&self, real: &Path) -> PathBuf {
        let inside = real.strip_prefix(&self.root);
        inside.map_or_else(|_| NOWHERE.into(), |rest| self.followed(&Path::new("/").join(rest)))
    }

    /// What a program in the image calls `real`.
    pub fn path_inside(&self, real: &Path) -> PathBuf {
        for (place, name) in [(&self.versions, &self.versions_name), (&self.link_dir, &self.link_dir_name)] {
            match real.strip_prefix(place) {
                Ok(rest) if rest == Path::new("") => return name.clone(),
                Ok(rest) => return name.join(rest),
                Err(_) => {}
            }
        }
        real.strip_prefix(&self.root).map_or_else(|_| real.to_owned(), |rest| Path::new("/").join(rest))
    }

    /// The versions directory as everybody calls it, before any link in its path is followed.
    pub fn versions_inside(&self) -> &Path {
        &self.versions_inside
    }

    /// `updates.yaml`.
    pub fn config_file(&self) -> PathBuf {
        self.versions.join("updates.yaml")
    }

    /// The agent's database in `data_dir`, a real path.
    pub fn database(&self, data_dir: &Path) -> PathBuf {
        self.agents(&data_dir.strip_prefix(&self.root).unwrap_or(data_dir).join(DATABASE))
    }

    /// The real path of a place that may be the agent's user's: in an image all links are followed, on a host those alone
    /// that nobody but root can exchange. What lies behind another is worked on with its owner's rights ([`super::acting`]).
    pub fn agents(&self, inside: &Path) -> PathBuf {
        path::own_path(&self.root, inside)
    }

    /// The agent's data directory when `teleport.yaml` names none.
    pub fn default_data_dir(&self) -> PathBuf {
        self.agents(&self.default_data_dir_name())
    }

    /// The same as it is called.
    pub fn default_data_dir_name(&self) -> PathBuf {
        let suffix = self.suffix.as_ref();
        suffix.map_or(DEFAULT_DATA_DIR.into(), |suffix| format!("{DEFAULT_DATA_DIR}_{suffix}").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_images_absolute_link_stays_in_the_image() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("data/lib")).unwrap();
        std::fs::create_dir_all(root.path().join("var")).unwrap();
        std::os::unix::fs::symlink("/data/lib", root.path().join("var/lib")).unwrap();
        let layout = Layout::new(root.path(), None, None).unwrap();
        assert_eq!(layout.versions, root.path().join("data/lib/teleport/versions"));
        assert_eq!(layout.path_inside(&layout.versions), Path::new("/data/lib/teleport/versions"));
    }

    #[test]
    fn a_link_at_any_place_of_a_path_stays_in_the_image_and_a_loop_is_nowhere() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        for (target, link) in [("/a", "one"), ("../../../b", "a/two"), ("/../a/b", "a/b/three"), ("/loop", "loop")] {
            std::os::unix::fs::symlink(target, root.join(link)).unwrap();
        }
        for (inside, name_of, leads_to) in [
            ("/one", "one", "a"),
            ("/one/two", "a/two", "b"),
            ("/a/b/three", "a/b/three", "a/b"),
            ("/one/b/three/../two/x", "b/x", "b/x"),
            ("/", "", ""),
        ] {
            let real = |path: &str| if path.is_empty() { root.to_owned() } else { root.join(path) };
            assert_eq!(path::name(root, Path::new(inside)), real(name_of), "{inside}");
            assert_eq!(path::followed(root, Path::new(inside)), real(leads_to), "{inside}");
        }
        let nowhere = path::followed(root, Path::new("/loop/x"));
        assert!(!nowhere.starts_with(root) && std::fs::create_dir_all(&nowhere).is_err());
    }

    #[test]
    fn directories_that_are_links_keep_their_names_inside() {
        let root = tempfile::tempdir().unwrap();
        for dir in ["var/lib/teleport", "usr/local", "srv/versions", "opt/bin"] {
            std::fs::create_dir_all(root.path().join(dir)).unwrap();
        }
        std::os::unix::fs::symlink("/srv/versions", root.path().join("var/lib/teleport/versions")).unwrap();
        std::os::unix::fs::symlink("../../opt/bin", root.path().join("usr/local/bin")).unwrap();
        let layout = Layout::new(root.path(), None, None).unwrap();
        assert_eq!(layout.versions, root.path().join("srv/versions"));
        assert_eq!(layout.link_dir, root.path().join("opt/bin"));
        let inside = layout.path_inside(&layout.versions.join("1.0.0/bin"));
        assert_eq!(inside, Path::new("/var/lib/teleport/versions/1.0.0/bin"));
        assert_eq!(layout.path_inside(&layout.link_dir), Path::new("/usr/local/bin"));
        assert_eq!(layout.behind(&root.path().join("usr/local/bin/x")), root.path().join("opt/bin/x"));
    }

    #[test]
    fn a_suffix_that_could_leave_its_directory_is_refused() {
        for bad in ["", "a/b", "..", "a b", "ä"] {
            assert_eq!(Layout::new(Path::new("/"), Some(bad), None).unwrap_err().code, Code::Usage, "{bad:?}");
        }
    }

    #[test]
    fn a_suffix_has_its_own_paths_everywhere() {
        let layout = Layout::new(Path::new("/"), Some("dev"), None).unwrap();
        assert_eq!(layout.versions, Path::new("/var/lib/teleport_dev/versions"));
        assert_eq!(layout.link_dir, Path::new("/opt/teleport/dev/bin"));
        assert_eq!(layout.unit_file, Path::new("/etc/systemd/system/teleport_dev.service"));
        assert_eq!(layout.agent_config, Path::new("/etc/teleport_dev.yaml"));
        assert_eq!(layout.default_data_dir(), Path::new("/var/lib/teleport_dev"));
    }
}
