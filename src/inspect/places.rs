//! Whether the places that the settings name can be this installation's: that of its links, that of the agent's data.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::config::Updates;
use crate::context::{Context, data_dir_of};
use crate::host::layout::DEFAULT_DATA_DIR;
use crate::host::{Layout, durable, trust};
use crate::report::{Code, Error, Result};

/// Another installation below this root.
struct Neighbour {
    layout: Layout,
    /// Its agent's data directory, real path, all links followed; `None` where it cannot be told.
    data_dir: Option<PathBuf>,
    /// It has an active version.
    is_active: bool,
}

impl Neighbour {
    fn told(&self) -> String {
        format!("the installation that {} starts", self.layout.unit)
    }
}

/// What speaks against them, whoever set them; a hand may have.
///
/// Errors: as [`Context::data_dir`].
pub(crate) fn unusable(context: &Context) -> Result<Option<Error>> {
    let (layout, data_dir) = (&context.layout, context.data_dir()?);
    let neighbours = neighbours(layout)?;
    Ok(reserved_link_dir(layout, &data_dir, &neighbours)
        .or_else(|| no_link_dir(context))
        .or_else(|| open_link_dir(context))
        .or_else(|| reserved_data_dir(layout, &data_dir, &neighbours))
        .or_else(|| no_data_dir(&data_dir))
        .or_else(|| taken_link(layout, &neighbours)))
}

/// Another installation on this host that has the same data directory: what one restores, the other loses.
///
/// Errors: as [`Context::data_dir`].
pub(crate) fn shared_data(context: &Context) -> Result<Option<Error>> {
    let data_dir = context.data_dir()?;
    let ours = context.layout.behind(&data_dir);
    let neighbours = neighbours(&context.layout)?;
    let shared = neighbours.iter().find(|other| other.is_active && other.data_dir.as_ref() == Some(&ours));
    Ok(shared.map(|other| {
        let what = format!("{} is also the data directory of {}", data_dir.display(), other.told());
        Error::new(Code::OtherDataDir, what)
            .advise("give each installation its own: data_dir in its teleport.yaml, or --data-dir")
    }))
}

/// The link directory is one in which links must not be.
fn reserved_link_dir(layout: &Layout, data_dir: &Path, neighbours: &[Neighbour]) -> Option<Error> {
    let dir = &layout.link_dir;
    let is_others = |other: &Neighbour| {
        dir.starts_with(&other.layout.versions)
            || *dir == durable::parent(&other.layout.versions)
            || other.data_dir.as_ref() == Some(dir)
    };
    let what = match layout.reserved(data_dir) {
        Some(what) => what.to_owned(),
        None => format!("a directory of {}", neighbours.iter().find(|other| is_others(other))?.told()),
    };
    let what = format!("the links to the binaries cannot be in {}: it is {what}", layout.path_inside(dir).display());
    let how = "choose a directory for them alone: `teleport-update enable --path DIR`";
    Some(Error::new(Code::PathTaken, what).advise(how))
}

/// The link directory, or the one of the unit, cannot be made: something else stands in its place or on its way.
fn no_link_dir(context: &Context) -> Option<Error> {
    let layout = &context.layout;
    let in_the_way = |dir: &Path| Some((dir.to_owned(), no_directory(dir)?));
    let (dir, why) = in_the_way(&layout.link_dir).or_else(|| in_the_way(durable::parent(&layout.unit_file)))?;
    let shown = match &context.path {
        Some(path) if dir == layout.link_dir => path.clone(),
        _ => layout.path_inside(&dir),
    };
    let how = "move away what is in its place, or choose another directory: `teleport-update enable --path DIR`";
    Some(Error::new(Code::PathTaken, format!("no link can be made in {}: {why}", shown.display())).advise(how))
}

/// Others can change what is in the link directory that was chosen, from where root starts the agent.
fn open_link_dir(context: &Context) -> Option<Error> {
    let error = trust::check_programs(&context.layout, context.path.as_deref()?).err()?;
    let how = "make root the owner and remove write permission for group and others, or choose another directory: \
               `teleport-update enable --path DIR`";
    Some(error.advise(how))
}

/// The data directory is one whose files are others'.
fn reserved_data_dir(layout: &Layout, data_dir: &Path, neighbours: &[Neighbour]) -> Option<Error> {
    let dir = layout.behind(data_dir);
    let mut versions = neighbours.iter().map(|other| &other.layout.versions).chain([&layout.versions]);
    let what = if dir == layout.root {
        "the root directory"
    } else if versions.any(|versions| dir.starts_with(versions)) {
        "in a versions directory, whose files are removed"
    } else {
        return None;
    };
    let what = format!("the agent's data directory cannot be {}: it is {what}", data_dir.display());
    Some(Error::new(Code::ConfigInvalid, what).advise(CORRECT_DATA_DIR))
}

/// The agent's data directory is something else: its database would be taken for none.
fn no_data_dir(data_dir: &Path) -> Option<Error> {
    let why = no_directory(data_dir)?;
    let what = if Layout::is_nowhere(data_dir) {
        format!("cannot use the agent's data directory (data_dir): {why}")
    } else {
        format!("cannot use the agent's data directory {}: {why}", data_dir.display())
    };
    Some(Error::new(Code::ConfigInvalid, what).advise(CORRECT_DATA_DIR))
}

/// What an operator can do about a data directory that is none.
const CORRECT_DATA_DIR: &str = "correct data_dir in teleport.yaml, or in updates.yaml, or the links on its way";

/// Why `dir` is no directory and none can be made there.
fn no_directory(dir: &Path) -> Option<String> {
    if Layout::is_nowhere(dir) {
        return Some("its symlinks lead in a circle".to_owned());
    }
    match std::fs::metadata(dir) {
        Ok(meta) if meta.is_dir() => None,
        Ok(_) => Some("it is not a directory".to_owned()),
        // Not there yet, or not for our eyes.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => None,
        Err(error) => Some(error.to_string()),
    }
}

/// Where the agent's link goes stands the link of another installation.
fn taken_link(layout: &Layout, neighbours: &[Neighbour]) -> Option<Error> {
    let link = layout.link_dir.join("teleport");
    // What cannot be looked at stops the move elsewhere.
    let target = layout.real_path(&durable::link_at(&link).ok()??);
    let whose = neighbours.iter().find(|other| target.starts_with(&other.layout.versions))?;
    let what = format!("{} is a link of {}", layout.path_inside(&link).display(), whose.told());
    let how = "choose another directory (`teleport-update enable --path DIR`), or uninstall that installation";
    Some(Error::new(Code::PathTaken, what).advise(how))
}

/// The other installations of this root that have settings. One whose settings cannot be read has at least its directories.
fn neighbours(ours: &Layout) -> Result<Vec<Neighbour>> {
    let mut found = Vec::new();
    for entry in durable::entries(&ours.followed(durable::parent(Path::new(DEFAULT_DATA_DIR))))? {
        let name = entry.file_name().to_string_lossy().into_owned();
        let suffix = match name.strip_prefix("teleport") {
            Some("") => None,
            Some(rest) if rest.starts_with('_') => Some(rest[1..].to_owned()),
            _ => continue,
        };
        let Ok(layout) = Layout::new(&ours.root, suffix.as_deref(), None) else { continue };
        if suffix == ours.suffix || !durable::exists(&layout.config_file()).unwrap_or_default() {
            continue;
        }
        let updates = Updates::read(&layout.config_file()).ok();
        let spec = updates.as_ref().map(Updates::spec);
        let data_dir = data_dir_of(&layout, spec.and_then(|spec| spec.data_dir.as_deref())).ok();
        found.push(Neighbour {
            data_dir: data_dir.map(|dir| layout.behind(&dir)),
            is_active: spec.is_some_and(|spec| spec.active_version.is_some()),
            layout,
        });
    }
    Ok(found)
}
