//! The versions that processes run.

use std::path::Path;

use crate::host::layout::DATABASE;
use crate::host::{durable, machine, process};
use crate::plan::facts::Installed;
use crate::report::Result;
use crate::store::VersionDir;

/// The directories of versions that processes run.
#[derive(Debug, Default)]
pub(super) struct InUse {
    pub by_the_agents: Vec<VersionDir>,
    pub by_others: Vec<VersionDir>,
}

impl InUse {
    /// The versions that processes run; all of them where root may not see what some process runs. (Others see little, and
    /// remove nothing; and of what shields itself although no capability is missing, the name tells.)
    pub(super) fn of(versions: &Path, installed: &[Installed], data_dir: &Path) -> Result<Self> {
        let real = durable::real(versions)?;
        let owners = process::owners(&data_dir.join(DATABASE))?;
        let sees_all = process::may_see_all();
        let is_ours = |process: &process::Process| {
            let binaries = || installed.iter().flat_map(|installed| &installed.binaries);
            // The kernel cuts names at 15 bytes.
            binaries().any(|name| !process.comm.is_empty() && name.starts_with(&process.comm))
        };
        let mut used = Self::default();
        for process in process::all()? {
            let is_agents = process.is_of(&owners);
            let process = if is_agents { process.behind_emulator()? } else { process };
            let dir = process.exe.as_deref().and_then(|exe| VersionDir::of_path(exe, &real));
            let dirs: Vec<VersionDir> = match dir {
                Some(dir) => vec![dir],
                None if process.hidden && machine::is_root() && (!sees_all || is_ours(&process)) => {
                    installed.iter().map(|installed| installed.dir.clone()).collect()
                }
                None => continue,
            };
            let users = if is_agents { &mut used.by_the_agents } else { &mut used.by_others };
            users.extend(dirs);
        }
        for dirs in [&mut used.by_the_agents, &mut used.by_others] {
            dirs.sort();
            dirs.dedup();
        }
        Ok(used)
    }
}
