//! What the directory of a version is called.

use std::fmt;
use std::path::Path;

use protocol::{Edition, Revision, Version};
use serde::{Deserialize, Serialize};

/// Where the first snapshot and the plain binaries of an unmanaged agent are kept until the commit (SPEC §5).
pub(crate) const UNMANAGED: &str = ".unmanaged";

/// The name of a directory below the versions directory: `<VERSION>` or `<VERSION>_<edition>` (SPEC §1), or [`UNMANAGED`].
///
/// One that was read may be anything: [`VersionDir::parse`] says whether it is a version's, and the journal refuses one that
/// leads elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct VersionDir(String);

impl VersionDir {
    /// The name that was found or read.
    pub(crate) fn named(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The one for what is kept of an agent that is none of our versions.
    pub(crate) fn unmanaged() -> Self {
        Self::named(UNMANAGED)
    }

    /// `<VERSION>`: what a version is called unless another edition of it has that name.
    pub(crate) fn of_version(version: &Version) -> Self {
        Self(version.to_string())
    }

    /// `<VERSION>_<edition>`: what it is called then.
    pub(crate) fn of_edition(version: &Version, edition: Edition) -> Self {
        Self(format!("{version}_{edition}"))
    }

    /// What `revision` may be called: by its version, by its edition too.
    pub(crate) fn candidates(revision: &Revision) -> [Self; 2] {
        [Self::of_version(&revision.version), Self::of_edition(&revision.version, revision.edition)]
    }

    /// The directory of `versions` that `path` is, or is in.
    pub(crate) fn of_path(path: &Path, versions: &Path) -> Option<Self> {
        let name = path.strip_prefix(versions).ok()?.components().next()?;
        Some(Self::named(name.as_os_str().to_string_lossy()))
    }

    /// The name.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is [`UNMANAGED`].
    pub(crate) fn is_unmanaged(&self) -> bool {
        self.0 == UNMANAGED
    }

    /// The part that is a version, if it is a version's, and the edition.
    pub(crate) fn parts(&self) -> (&str, Option<&str>) {
        self.0.split_once('_').map_or((self.as_str(), None), |(version, edition)| (version, Some(edition)))
    }

    /// The version, and the edition where the name has one; anything else is not ours to touch.
    pub(crate) fn parse(&self) -> Option<(Version, Option<Edition>)> {
        let (version, edition) = self.parts();
        let edition = edition.map(str::parse).transpose().ok()?;
        let parsed: Version = version.parse().ok()?;
        (parsed.to_string() == version).then_some((parsed, edition))
    }
}

impl AsRef<Path> for VersionDir {
    fn as_ref(&self) -> &Path {
        self.0.as_ref()
    }
}

impl fmt::Display for VersionDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
impl From<&str> for VersionDir {
    fn from(name: &str) -> Self {
        Self::named(name)
    }
}

#[cfg(test)]
impl PartialEq<&str> for VersionDir {
    fn eq(&self, name: &&str) -> bool {
        self.0 == *name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_revision_is_called_leads_back_to_it_and_other_names_are_not_ours() {
        let version: Version = "16.0.0-rc.1".parse().unwrap();
        let revision = Revision { version: version.clone(), edition: Edition::EnterpriseFips };
        let [by_version, by_edition] = VersionDir::candidates(&revision);
        assert_eq!((by_version.as_str(), by_edition.as_str()), ("16.0.0-rc.1", "16.0.0-rc.1_enterprise-fips"));
        assert_eq!(by_version.parse(), Some((version.clone(), None)));
        assert_eq!(by_edition.parse(), Some((version, Some(Edition::EnterpriseFips))));
        for other in ["", ".", "..", UNMANAGED, "v1.0.0", "1.0", "1.0.0_", "1.0.0_x", "1.0.0_oss_oss", ".staging-1.0.0"]
        {
            assert_eq!(VersionDir::from(other).parse(), None, "{other}");
        }
    }

    #[test]
    fn it_is_written_as_its_text_and_read_whatever_that_is() {
        for name in ["1.0.0", UNMANAGED, "../x"] {
            let text = serde_json::to_string(name).unwrap();
            assert_eq!(serde_json::to_string(&VersionDir::from(name)).unwrap(), text);
            assert_eq!(serde_json::from_str::<VersionDir>(&text).unwrap(), name);
        }
    }

    #[test]
    fn a_path_is_in_the_first_directory_below() {
        let of = |path: &str| VersionDir::of_path(Path::new(path), Path::new("/v"));
        assert_eq!([of("/v/1.0.0"), of("/v/1.0.0/bin/tsh")], [Some("1.0.0".into()), Some("1.0.0".into())]);
        assert_eq!([of("/v"), of("/w/1.0.0"), of("v/1.0.0")], [None, None, None]);
    }
}
