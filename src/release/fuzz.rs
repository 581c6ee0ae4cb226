//! What fuzz targets and the replay of their corpus reach of this room's private parts; nothing else uses it.

use std::io::BufRead;
use std::path::Path;

use super::Limits;
use super::archive_path::ArchivePath;
use super::destination::{Destination, destination};
use super::unpack::{self, Rules};
use crate::host::tree::Tree;
use crate::report::Result;
use crate::store::manifest::FileEntry;
use protocol::Edition;

/// Unpacks an archive into the new directory `dir`, as staging does. Errors: those of staging; `dir` stays as it is.
pub fn unpack(
    raw: impl BufRead,
    dir: &Path,
    edition: Edition,
    components: Option<Vec<String>>,
    limits: Limits,
) -> Result<Vec<FileEntry>> {
    let rules = Rules { edition, components, limits };
    unpack::unpack(raw, Tree::create(dir)?, &rules)
}

/// An entry's name as it is understood. Errors: `archive_hostile`.
pub fn archive_path(name: &[u8]) -> Result<String> {
    ArchivePath::parse(name).map(|path| path.as_str().to_owned())
}

/// Where the link `name` leads inside the archive's folder `top`; `None` if it leaves it. Errors: `archive_hostile`.
pub fn link_target(name: &[u8], target: &[u8], is_hard: bool, top: &str) -> Result<Option<String>> {
    Ok(ArchivePath::parse(name)?.link_target(target, is_hard, top))
}

/// Where a file below the archive's folder goes in a version; `None` if it is left out, or refuses the archive.
pub fn place_of(path: &str, mode: u32, components: Option<&[String]>) -> Option<String> {
    match destination(path, mode, components) {
        Destination::At(to) => Some(to),
        Destination::Left | Destination::Unknown(_) => None,
    }
}
