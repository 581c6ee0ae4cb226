//! Whether a move has room on every file system that it writes to, asked before its first side effect and again before its
//! switch (SPEC §4, space).

use std::path::{Path, PathBuf};

use super::Site;
use crate::database::backup::DATABASE_FILE;
use crate::database::{self, directory};
use crate::host::{durable, machine};
use crate::plan::{Node, Plan, Step};
use crate::release::space::RESERVE;
use crate::report::{Code, Error, Result};

/// Inodes of an unpacked version: releases have some dozen files.
const VERSION_INODES: u64 = 200;
/// Inodes of everything else: links, a snapshot, journal, settings, their temporary names.
const INODES: u64 = 32;
/// Journal and settings, bytes.
const RECORDS: u64 = 1 << 20;

/// What is needed at one place.
struct Need {
    path: PathBuf,
    bytes: u64,
    inodes: u64,
}

/// Checks that `plan` fits. `version`: the bytes of a version that is still to be unpacked.
///
/// Errors: [`Code::NoSpace`].
pub(crate) fn check(site: &Site<'_>, plan: &Plan, version: Option<u64>) -> Result<()> {
    check_for(site, plan, version, database::room_for_copy(&site.database()))
}

/// The same for a database of `rows` bytes.
pub(super) fn check_for(site: &Site<'_>, plan: &Plan, version: Option<u64>, rows: u64) -> Result<()> {
    for need in per_file_system(needs(site, plan, version, rows))? {
        let at = need.path.display();
        let no_space = |what: String| {
            Err(Error::new(Code::NoSpace, format!("{at} has {what} are needed"))
                .advise("free space on that file system and run the command again"))
        };
        // Small records need no reserve: a link can be put right on a disk that is all but full.
        let needed = if need.bytes > RECORDS { need.bytes.saturating_add(RESERVE) } else { need.bytes };
        let free = machine::free_bytes(&need.path)?;
        if free < needed {
            return no_space(format!("{} MB free, {} MB", free / 1_000_000, needed.div_ceil(1_000_000)));
        }
        match machine::free_inodes(&need.path)? {
            Some(free) if free < need.inodes => return no_space(format!("{free} inodes free, {}", need.inodes)),
            _ => {}
        }
    }
    Ok(())
}

fn needs(site: &Site<'_>, plan: &Plan, version: Option<u64>, rows: u64) -> Vec<Need> {
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |meta| meta.len());
    let mut versions = Need { path: site.layout.versions.clone(), bytes: RECORDS, inodes: INODES };
    let mut data = Need { path: site.data_dir.clone(), bytes: 0, inodes: INODES };
    if let Some(bytes) = version {
        versions.bytes = versions.bytes.saturating_add(bytes);
        versions.inodes += VERSION_INODES;
    }
    let mut links = Vec::new();
    for step in &plan.switch {
        match step {
            // A copy there, and where the run is undone one beside the database.
            Step::Snapshot { .. } => {
                versions.bytes = versions.bytes.saturating_add(rows);
                data.bytes = data.bytes.max(rows);
            }
            Step::PrepareRestore { dir } => {
                data.bytes = data.bytes.max(size(&directory::of(&site.version_dir(dir)).join(DATABASE_FILE)));
            }
            Step::Place(place) | Step::LinkAgent { place, .. } => {
                // The name's own directory: a link that stands there can lead out of an image.
                let dir = durable::parent(&place.path);
                // Kept by a second name, or by a copy where that is another file system.
                let is_kept = matches!(place.was, Node::Kept(_));
                if is_kept && !machine::same_file_system(dir, &versions.path).unwrap_or(false) {
                    versions.bytes = versions.bytes.saturating_add(size(&place.path));
                }
                // A way back puts it where it was: by rename, or by a copy.
                let returned = match &place.now {
                    Node::Kept(kept) if !machine::same_file_system(kept, dir).unwrap_or(false) => size(kept),
                    _ => 0,
                };
                links.push(Need { path: dir.to_owned(), bytes: returned, inodes: 1 });
            }
            _ => {}
        }
    }
    [versions, data].into_iter().filter(|need| need.bytes > 0).chain(links).collect()
}

/// Sums up what lies on one file system.
fn per_file_system(needs: Vec<Need>) -> Result<Vec<Need>> {
    let mut sums: Vec<(u64, Need)> = Vec::new();
    for need in needs {
        let device = machine::device(&need.path)?;
        match sums.iter_mut().find(|(known, _)| *known == device) {
            Some((_, sum)) => {
                sum.bytes = sum.bytes.saturating_add(need.bytes);
                sum.inodes += need.inodes;
            }
            None => sums.push((device, need)),
        }
    }
    Ok(sums.into_iter().map(|(_, need)| need).collect())
}
