//! What the Go updater that came before left in its `update.yaml`, to be taken over by `enable` (SPEC §5).

use std::path::{Path, PathBuf};

use protocol::{Edition, Revision, Version};
use yaml::view::{View, read_document};

use crate::host::Layout;
use crate::report::Result;

/// The Go updater's settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GoUpdater {
    /// The proxy.
    pub proxy: Option<String>,
    /// Where its links are.
    pub path: Option<PathBuf>,
    /// The update group.
    pub group: Option<String>,
    /// The mirror.
    pub base_url: Option<String>,
    /// Whether it updates.
    pub enabled: bool,
    /// Whether it stays on one version.
    pub pinned: bool,
    /// What it has installed.
    pub active: Option<Revision>,
}

impl GoUpdater {
    /// Its configuration file for this installation.
    pub fn file(layout: &Layout) -> PathBuf {
        let name = layout.suffix.as_deref().unwrap_or("default");
        layout.real_path(&Path::new("/opt/teleport").join(name).join("update.yaml"))
    }

    /// Reads what its file leads to in this installation; `None` if it is not there. Errors: as [`GoUpdater::read`].
    pub fn of(layout: &Layout) -> Result<Option<Self>> {
        Self::read(&layout.behind(&Self::file(layout)))
    }

    /// Reads the file; `None` if it is not there. Errors: `config_invalid` with the line; `permission`, `io`.
    pub fn read(file: &Path) -> Result<Option<Self>> {
        let Some(root) = read_document(file, true)? else { return Ok(None) };
        let view = View::new(file, &root);
        view.check_kind("v1", "update_config")?;
        let (spec, active) = (view.at("spec")?, view.at("status.active")?);
        let text = |key: &str| -> Result<_> { Ok(spec.at(key)?.text()?.filter(|text| !text.is_empty())) };
        // Its word for "reset to nothing".
        let own = |value: Option<String>| value.filter(|value| value != "default");
        let version: Option<Version> = match active.at("version")? {
            version if version.text()?.is_some_and(|text| text.is_empty()) => None,
            version => version.parsed("a version")?,
        };
        let flags = active.at("flags")?.texts()?;
        let has = |name: &str| flags.iter().any(|flag| flag == name);
        let edition = match (has("FIPS"), has("Enterprise")) {
            (true, _) => Edition::EnterpriseFips,
            (false, true) => Edition::Enterprise,
            (false, false) => Edition::Oss,
        };
        Ok(Some(Self {
            proxy: text("proxy")?,
            path: text("path")?.map(PathBuf::from),
            group: own(text("group")?),
            base_url: own(text("base_url")?),
            enabled: spec.at("enabled")?.boolean()?.unwrap_or_default(),
            pinned: spec.at("pinned")?.boolean()?.unwrap_or_default(),
            active: version.map(|version| Revision { version, edition }),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::durable;

    #[test]
    fn its_settings_and_installed_version_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path(), None, None).unwrap();
        let file = GoUpdater::file(&layout);
        assert_eq!(file, dir.path().join("opt/teleport/default/update.yaml"));
        assert_eq!(GoUpdater::read(&file).unwrap(), None);
        durable::create_dir_all(file.parent().unwrap()).unwrap();
        let content = "version: v1\nkind: update_config\nspec:\n  proxy: p:443\n  path: /usr/local/bin\n  group: default\n  base_url: https://m\n  enabled: true\n  pinned: false\nstatus:\n  active:\n    version: 17.1.0\n    flags: [Enterprise, FIPS, Later]\n  skip: {version: 1.0.0}\n";
        durable::write(&file, content.as_bytes(), 0o644).unwrap();
        let found = GoUpdater::read(&file).unwrap().unwrap();
        assert_eq!(
            found,
            GoUpdater {
                proxy: Some("p:443".to_owned()),
                path: Some("/usr/local/bin".into()),
                group: None,
                base_url: Some("https://m".to_owned()),
                enabled: true,
                pinned: false,
                active: Some(Revision { version: "17.1.0".parse().unwrap(), edition: Edition::EnterpriseFips }),
            }
        );
    }
}
