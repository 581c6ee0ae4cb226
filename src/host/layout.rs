//! Where everything is (SPEC §1): below `--root`, and for an `--install-suffix`.

use std::collections::VecDeque;
use std::path::{Component, Path, PathBuf};

use super::machine;
use crate::report::{Code, Error, Result};

/// The agent's data directory unless `teleport.yaml` says otherwise, as seen from inside the root.
pub const DEFAULT_DATA_DIR: &str = "/var/lib/teleport";
/// The package's own copy of this program, as seen from inside the root.
pub const BOOTSTRAP: &str = "/usr/lib/teleport-update/teleport-update";
/// Links followed before a path counts as a loop (the kernel's own limit).
const MAX_LINKS: usize = 40;

/// The paths of one installation. Fields are real paths (below `root`); [`Layout::inside`] gives what a program
/// in the image would call them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// `--root`, or `/`.
    pub root: PathBuf,
    /// `--install-suffix`.
    pub suffix: Option<String>,
    /// The versions directory.
    pub versions: PathBuf,
    /// Where the links to the version's binaries go.
    pub link_dir: PathBuf,
    /// `teleport.service`: a link to the version's unit, or a generated file for a suffix.
    pub unit_file: PathBuf,
    /// The agent's configuration.
    pub agent_config: PathBuf,
    /// The unit's name, with `.service`.
    pub unit: String,
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
        let (state, config, links, unit_file, unit) = match suffix {
            None => (
                "/var/lib/teleport".to_owned(),
                "/etc/teleport.yaml".to_owned(),
                "/usr/local/bin".to_owned(),
                "/usr/local/lib/systemd/system/teleport.service".to_owned(),
                "teleport.service".to_owned(),
            ),
            Some(suffix) => (
                format!("/var/lib/teleport_{suffix}"),
                format!("/etc/teleport_{suffix}.yaml"),
                format!("/opt/teleport/{suffix}/bin"),
                format!("/etc/systemd/system/teleport_{suffix}.service"),
                format!("teleport_{suffix}.service"),
            ),
        };
        // An image whose /usr is sealed, /usr/local included: a unit with another path is a file of its own anyway.
        let is_sealed = || machine::mount(&resolve(&root, Path::new(&unit_file))).is_ok_and(|mount| mount.read_only);
        let unit_file = match suffix {
            None if link_dir.is_some() && is_sealed() => "/etc/systemd/system/teleport.service".to_owned(),
            _ => unit_file,
        };
        let link_dir = link_dir.map_or_else(|| PathBuf::from(links), Path::to_owned);
        Ok(Self {
            versions: resolve(&root, &Path::new(&state).join("versions")),
            link_dir: resolve(&root, &link_dir),
            unit_file: resolve(&root, &PathBuf::from(unit_file)),
            agent_config: resolve(&root, &PathBuf::from(config)),
            root,
            suffix: suffix.map(str::to_owned),
            unit,
        })
    }

    /// True when this is an image being baked and not the running host.
    pub fn is_image(&self) -> bool {
        self.root != Path::new("/")
    }

    /// True if `--path` would choose another directory than `dir`, where links or the agent's unit go: for links always; for
    /// the unit unless it is in `/etc` already.
    pub fn is_movable(&self, dir: &Path) -> bool {
        dir == self.link_dir || !self.inside(dir).starts_with("/etc")
    }

    /// The real path of `inside`, a path as a program in the image sees it; links in it are followed inside the root.
    pub fn real(&self, inside: &Path) -> PathBuf {
        resolve(&self.root, inside)
    }

    /// What a program in the image calls `real`.
    pub fn inside(&self, real: &Path) -> PathBuf {
        match real.strip_prefix(&self.root) {
            Ok(rest) => Path::new("/").join(rest),
            Err(_) => real.to_owned(),
        }
    }

    /// `updates.yaml`.
    pub fn config_file(&self) -> PathBuf {
        self.versions.join("updates.yaml")
    }

    /// The agent's data directory when `teleport.yaml` names none.
    pub fn default_data_dir(&self) -> PathBuf {
        match &self.suffix {
            None => self.real(Path::new(DEFAULT_DATA_DIR)),
            Some(suffix) => self.real(Path::new(&format!("{DEFAULT_DATA_DIR}_{suffix}"))),
        }
    }
}

/// Resolves every link in the directory part of `inside` as if `root` were `/`, so that an image's absolute link never
/// leads out of the image. The last component is not followed; what does not exist is taken as it is.
fn resolve(root: &Path, inside: &Path) -> PathBuf {
    let (Some(parent), Some(name)) = (inside.parent(), inside.file_name()) else {
        return root.to_owned();
    };
    let mut todo: VecDeque<std::ffi::OsString> = parent
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            _ => None,
        })
        .collect();
    let mut found: Vec<std::ffi::OsString> = Vec::new();
    let mut links = 0;
    while let Some(part) = todo.pop_front() {
        if part == ".." {
            found.pop();
            continue;
        }
        let mut here = root.to_owned();
        here.extend(&found);
        here.push(&part);
        match std::fs::read_link(&here) {
            Ok(target) if links < MAX_LINKS => {
                links += 1;
                if target.is_absolute() {
                    found.clear();
                }
                for component in target.components().rev() {
                    match component {
                        Component::Normal(name) => todo.push_front(name.to_owned()),
                        Component::ParentDir => todo.push_front("..".into()),
                        _ => {}
                    }
                }
            }
            _ => found.push(part),
        }
    }
    let mut real = root.to_owned();
    real.extend(&found);
    real.push(name);
    real
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
        assert_eq!(layout.inside(&layout.versions), Path::new("/data/lib/teleport/versions"));
    }

    #[test]
    fn a_link_out_of_the_image_by_dots_stays_in_it() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("var")).unwrap();
        std::os::unix::fs::symlink("../../../../tmp", root.path().join("var/lib")).unwrap();
        let layout = Layout::new(root.path(), None, None).unwrap();
        assert_eq!(layout.versions, root.path().join("tmp/teleport/versions"));
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
