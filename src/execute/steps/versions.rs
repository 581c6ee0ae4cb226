//! Steps on versions: checked before they are used, removed when they are not.

use super::super::Site;
use crate::database::evidence;
use crate::report::{Code, Error, Result};
use crate::store::manifest::Manifest;
use crate::store::{VersionDir, publish};

pub(in crate::execute) fn verify(site: &Site<'_>, dir: &VersionDir) -> Result<()> {
    let version_dir = site.version_dir(dir);
    let differences = Manifest::read(&version_dir)?.verify(&version_dir)?;
    match differences.first() {
        None => Ok(()),
        Some(first) => {
            let (shown, count) = (version_dir.display(), differences.len());
            let what = format!("{shown} differs from its manifest: {first} (differences: {count})");
            Err(Error::new(Code::Damaged, what).advise("it will be downloaded again"))
        }
    }
}

/// Removes a version, but not yet what failed runs of it wrote.
pub(in crate::execute) fn retire(site: &Site<'_>, dir: &VersionDir) -> Result<()> {
    let version_dir = site.version_dir(dir);
    let (stays, goes): (Vec<_>, Vec<_>) =
        evidence::of(&version_dir)?.into_iter().partition(|place| evidence::is_kept(place, site.host.now()));
    for place in goes {
        let what = "removing the database of a failed version, kept for 30 days";
        site.report.notice(&format!("{what}: {}", place.display()));
    }
    if stays.is_empty() { publish::retire(&site.layout.versions, dir) } else { publish::strip(&version_dir, &stays) }
}
