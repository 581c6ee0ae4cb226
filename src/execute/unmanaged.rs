//! What a run has replaced of others: kept in `.unmanaged` as long as there is a way back to it (SPEC §5).

use std::path::{Path, PathBuf};

use super::steps::packages::PACKAGE_COPIES;
use crate::database::backup::{Backup, DATABASE_FILE};
use crate::database::directory;
use crate::host::durable;
use crate::plan::{Database, Plan};
use crate::report::{Code, Error, IoContext, Result};
use crate::store::UNMANAGED;

/// The plan that was carried out, which says what stood where.
const PLAN: &str = "plan.json";
/// Largest such file that is read, bytes: a link or unit is some hundred.
const MAX_PLAN: u64 = 1024 * 1024;

/// Notes `plan`, which is committed and watched: its failure leads back to what is kept.
pub(super) fn remember(versions: &Path, plan: &Plan) -> Result<()> {
    let broken = |error: serde_json::Error| {
        Error::new(Code::Io, format!("cannot record what this installation replaced: {error}"))
    };
    let text = serde_json::to_vec(plan).map_err(broken)?;
    let kept = versions.join(UNMANAGED);
    durable::create_dir_all(&kept)?;
    durable::write(&kept.join(PLAN), &text, durable::FILE_MODE)
}

/// The plan that `remember` noted; `None` where there is no way back.
pub(crate) fn noted(versions: &Path) -> Result<Option<Plan>> {
    let file = versions.join(UNMANAGED).join(PLAN);
    let text = durable::read_limited(&file, MAX_PLAN)?;
    Ok(text.and_then(|text| serde_json::from_slice(&text).ok()))
}

/// Removes what was kept. Not copies that a package's removal needs: one that was cut short has the only good ones there.
pub(crate) fn forget(versions: &Path) -> Result<()> {
    let kept = versions.join(UNMANAGED);
    if !durable::exists(&kept)? {
        return Ok(());
    }
    if let Some(plan) = noted(versions)? {
        keep_rows(versions, &plan)?;
    }
    if !durable::exists(&kept.join(PACKAGE_COPIES))? {
        return durable::remove_tree(&kept);
    }
    for entry in std::fs::read_dir(&kept).at("cannot read", &kept)? {
        let entry = entry.at("cannot read", &kept)?;
        if entry.file_name() != PACKAGE_COPIES {
            durable::remove_tree(&entry.path())?;
        }
    }
    Ok(())
}

/// Rows that a restore has replaced are in no version's snapshot, nor is a damaged database: they stay with the version that
/// was gone to. Where the live database was kept only a damaged one: it will be written to, and what there was may be all
/// there is to recover from. Gives their place.
pub(super) fn keep_rows(versions: &Path, plan: &Plan) -> Result<Option<PathBuf>> {
    // The way back restores what is kept there.
    let Some(to) = plan.to_dir.as_ref().filter(|to| !to.is_unmanaged()) else { return Ok(None) };
    let (taken, to) = (directory::of(&versions.join(UNMANAGED)), versions.join(to));
    if plan.database != Database::Restore && !Backup::is_failed(&taken)? {
        return Ok(None);
    }
    let is_there = durable::exists(&taken.join(DATABASE_FILE))? && durable::exists(&to)?;
    is_there.then(|| directory::set_aside(&to, &taken)).transpose()
}
