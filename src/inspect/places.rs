//! Whether the places that the settings name can be this installation's: that of its links, that of the agent's data.

use std::io::ErrorKind;
use std::path::Path;

use crate::config::Updates;
use crate::context::{Context, data_dir_of};
use crate::host::layout::DEFAULT_DATA_DIR;
use crate::host::{Layout, durable};
use crate::report::{Code, Error, Result};

/// What speaks against them, whoever set them; a hand may have.
///
/// Errors: as [`Context::data_dir`].
pub(crate) fn unusable(context: &Context) -> Result<Option<Error>> {
    let data_dir = context.data_dir()?;
    Ok(reserved(context, &data_dir).or_else(|| no_directory(&data_dir)))
}

/// The link directory is one in which links must not be.
fn reserved(context: &Context, data_dir: &Path) -> Option<Error> {
    let layout = &context.layout;
    let what = layout.reserved(data_dir)?;
    let shown = layout.path_inside(&layout.link_dir);
    Some(
        Error::new(
            Code::PathTaken,
            format!("the links to the binaries cannot be in {}: it is {what}", shown.display()),
        )
        .advise("choose a directory for them alone: `teleport-update enable --path DIR`"),
    )
}

/// The agent's data directory is something else: its database would be taken for none.
fn no_directory(data_dir: &Path) -> Option<Error> {
    let why = match std::fs::metadata(data_dir) {
        Ok(meta) if meta.is_dir() => return None,
        Ok(_) => "it is not a directory".to_owned(),
        // Not there yet, or not for our eyes.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => return None,
        Err(error) => error.to_string(),
    };
    let what = format!("cannot use the agent's data directory {}: {why}", data_dir.display());
    Some(
        Error::new(Code::ConfigInvalid, what)
            .advise("correct the path or the links on its way (data_dir in teleport.yaml, or in updates.yaml)"),
    )
}

/// Another installation on this host whose link would be replaced here, or whose database is this one's too. One that cannot be
/// read is passed over.
///
/// Errors: as [`Context::data_dir`].
pub(crate) fn neighbours(context: &Context) -> Result<Option<Error>> {
    let (ours, data_dir) = (&context.layout, context.data_dir()?);
    let link = ours.link_dir.join("teleport");
    let target = durable::link_at(&link)?.map(|target| ours.real_path(&target));
    for other in others(ours)? {
        let Ok(updates) = Updates::read(&other.config_file()) else { continue };
        if updates.spec().active_version.is_none() {
            continue;
        }
        let whose = format!("the installation that {} starts", other.unit);
        if target.as_ref().is_some_and(|target| target.starts_with(&other.versions)) {
            let what = format!("{} is a link of {whose}", ours.path_inside(&link).display());
            return Ok(Some(
                Error::new(Code::PathTaken, what).advise("choose another directory with --path, or uninstall that one"),
            ));
        }
        let its = data_dir_of(&other, updates.spec().data_dir.as_deref());
        if its.is_ok_and(|its| is_same(&its, &data_dir)) {
            let what = format!("{} is also the data directory of {whose}", data_dir.display());
            return Ok(Some(
                Error::new(Code::OtherDataDir, what)
                    .advise("give each installation its own: data_dir in its teleport.yaml, or --data-dir"),
            ));
        }
    }
    Ok(None)
}

/// The other installations of this root that have settings.
fn others(ours: &Layout) -> Result<Vec<Layout>> {
    let state = Path::new(DEFAULT_DATA_DIR);
    let mut found = Vec::new();
    for entry in durable::entries(&ours.followed(durable::parent(state)))? {
        let name = entry.file_name().to_string_lossy().into_owned();
        let suffix = match name.strip_prefix("teleport") {
            Some("") => None,
            Some(rest) if rest.starts_with('_') => Some(rest[1..].to_owned()),
            _ => continue,
        };
        let Ok(layout) = Layout::new(&ours.root, suffix.as_deref(), None) else { continue };
        if suffix != ours.suffix && durable::exists(&layout.config_file()).unwrap_or_default() {
            found.push(layout);
        }
    }
    Ok(found)
}

fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    real(one) == real(other)
}
