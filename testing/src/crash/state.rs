//! A state of an image that is whole, and what of an image decides which state it is in.

use std::collections::BTreeMap;
use std::path::Path;

use crate::crash::database::{self, Database};
use crate::crash::tree::{difference, tree};

/// Where versions are in an image.
pub const VERSIONS: &str = "var/lib/teleport/versions";

/// What is captured of an image at rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// The active version; `None`: nothing is managed.
    pub version: Option<String>,
    /// Every link, file and mode outside the versions directory, the database aside; directories of ours may stay behind.
    pub outside: Vec<String>,
    /// Lines of `spec` in `updates.yaml`, sorted.
    pub settings: Vec<String>,
    /// The live database.
    pub database: Option<Database>,
    /// By version directory, the database of each snapshot that may be restored.
    pub snapshots: BTreeMap<String, Option<Database>>,
    /// Path, mode, size and digest of what the versions consist of; descriptions with times in them and snapshots aside.
    pub programs: Vec<String>,
    /// Names and modes in the versions directory, the lock aside.
    pub versions: Vec<String>,
}

impl State {
    /// Captures the image below `root`, where `version` is active.
    ///
    /// # Errors
    /// Something cannot be read, or a database is not a good one.
    pub fn of(root: &Path, version: Option<&str>) -> Result<Self, String> {
        let io = |error: std::io::Error| format!("cannot read the image: {error}");
        let top = root.join(VERSIONS);
        let all = if top.exists() { tree(&top).map_err(io)? } else { Vec::new() };
        let all: Vec<String> = all.into_iter().filter(|line| !line.starts_with(".lock/")).collect();
        Ok(Self {
            version: version.map(str::to_owned),
            outside: outside(root)?,
            settings: settings(root)?,
            database: database::read(&database::of_image(root))?,
            snapshots: snapshots(&top)?,
            programs: all.iter().filter(|line| is_program(line)).cloned().collect(),
            versions: all.iter().map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect(),
        })
    }

    /// What of `now` is not as in this state: links, settings and database. `None` if they agree.
    pub fn contradicts(&self, now: &Self) -> Option<String> {
        if now.outside != self.outside {
            Some(format!("outside: {}", difference(&self.outside, &now.outside)))
        } else if now.settings != self.settings {
            Some(format!("settings: {}", difference(&self.settings, &now.settings)))
        } else if now.database != self.database {
            Some(format!("database: {:?} in place of {:?}", now.database, self.database))
        } else {
            None
        }
    }
}

/// Everything but the versions directory, the database, and directories that are not another user's.
fn outside(root: &Path) -> Result<Vec<String>, String> {
    let all = tree(root).map_err(|error| format!("cannot read the image: {error}"))?;
    let is_own_dir = |line: &str| line.split_once("/ ").is_some_and(|(_, mode)| !mode.contains(':'));
    let is_inside = |line: &str| [VERSIONS, database::PATH, database::OWN_PATH].iter().any(|top| line.starts_with(top));
    Ok(all.into_iter().filter(|line| !is_own_dir(line) && !is_inside(line)).collect())
}

/// The lines of `spec`, the block between its key and the next one at the margin.
fn settings(root: &Path) -> Result<Vec<String>, String> {
    let text = match std::fs::read_to_string(root.join(VERSIONS).join("updates.yaml")) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(format!("updates.yaml: {error}")),
    };
    let spec = text.lines().skip_while(|line| *line != "spec:").skip(1);
    let mut lines: Vec<String> = spec.take_while(|line| line.starts_with(' ')).map(str::to_owned).collect();
    // A first run that was undone leaves a file that says only that nothing is enabled.
    lines.retain(|line| line.trim() != "enabled: false");
    lines.sort();
    Ok(lines)
}

/// The databases of the snapshots in `versions` that are described and not marked as failed.
fn snapshots(versions: &Path) -> Result<BTreeMap<String, Option<Database>>, String> {
    let mut found = BTreeMap::new();
    let Ok(entries) = std::fs::read_dir(versions) else { return Ok(found) };
    for entry in entries {
        let entry = entry.map_err(|error| error.to_string())?;
        let dir = entry.path().join("backup");
        let Ok(description) = std::fs::read_to_string(dir.join("backup.yaml")) else { continue };
        if !description.contains("failed: true") {
            let database = database::read(&dir.join("sqlite.db"))?;
            found.insert(entry.file_name().to_string_lossy().into_owned(), database);
        }
    }
    Ok(found)
}

fn is_program(line: &str) -> bool {
    let path = line.split(' ').next().unwrap_or_default();
    let inside = path.split_once('/').is_some_and(|(_, inside)| !inside.is_empty());
    inside && !path.contains("/backup") && !path.ends_with("/manifest.json") && !path.ends_with('/')
}
