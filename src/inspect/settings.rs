//! `updates.yaml`, which is believed less than the links.

use crate::config::Updates;
use crate::context::Context;
use crate::inspect::links::linked;
use crate::report::Result;
use protocol::Version;

/// `updates.yaml` with the version that the links lead to, and the layout with the link directory that it names.
pub(crate) fn open(context: &mut Context) -> Result<Updates> {
    let mut updates = Updates::read(&context.layout.config_file())?;
    context.lay_out(updates.spec().path.as_deref())?;
    context.data_dir.clone_from(&updates.spec().data_dir);
    let told = believe_links(context, &mut updates)?;
    if let (Some(told), Some(linked), false) = (&told, &updates.spec().active_version, context.settings_disagree) {
        let file = updates.file().display();
        context
            .report
            .warn(&format!("{file} says that {told} is active, but all links point to {linked}; using {linked}"));
    }
    context.settings_disagree = told.is_some();
    Ok(updates)
}

/// Makes `updates` name the version that all links lead to: the file is a copy of that fact, and may be an old one that
/// was put back. With links that disagree, or an open journal, the file counts.
///
/// Returns what the file says, where that is something else. Errors: as [`linked`].
pub(crate) fn believe_links(context: &Context, updates: &mut Updates) -> Result<Option<Version>> {
    let mut spec = updates.spec().clone();
    // A script need not use them.
    if updates.status().installed_by.is_some() {
        return Ok(None);
    }
    let Some((version, edition)) = linked(context)?.filter(|_| !context.is_interrupted()) else {
        return Ok(None);
    };
    let is_told =
        spec.active_version.as_ref() == Some(&version) && (edition.is_none() || spec.active_edition == edition);
    // RFD 0169's own files name no edition.
    if is_told || (spec.active_edition.is_none() && spec.active_version.as_ref() == Some(&version)) {
        return Ok(None);
    }
    spec.active_edition = edition.or(spec.active_edition);
    let told = spec.active_version.replace(version);
    updates.set_spec(&spec);
    Ok(told)
}
