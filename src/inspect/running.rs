//! Which version the agent's process is of, and which one the links lead to.

use crate::config::Updates;
use crate::context::Context;
use crate::host::process::Process;
use crate::inspect::stranger;
use crate::store::VersionDir;
use crate::store::manifest::Manifest;

/// Whether the agent runs, and which version its process is of; `None` where that cannot be seen.
pub(crate) fn running(context: &Context, updates: &Updates) -> Option<(bool, Option<String>)> {
    if context.layout.is_image() {
        return None;
    }
    let state = context.service(updates).ok()?.state(&context.stop_proof().ok()?).ok()?;
    // Outside of its service it runs all the same.
    let exe = state
        .main_pid
        .or(state.unmanaged.first().copied())
        .and_then(|pid| Process::by_pid(pid).ok()??.behind_emulator().ok())
        .and_then(|process| process.exe);
    let version = exe.and_then(|exe| match exe.strip_prefix(&context.layout.versions) {
        Ok(inside) => version_in(context, &VersionDir::named(inside.components().next()?.as_os_str().to_str()?)),
        // What a script has installed tells itself what it is.
        Err(_) if updates.status().installed_by.is_some() => {
            let revision = stranger::ask(context, &exe, updates.spec().version_wait)?;
            Some(revision.version.to_string())
        }
        Err(_) => None,
    });
    Some((state.running || !state.unmanaged.is_empty(), version))
}

/// The version that the `teleport` link leads to.
pub(crate) fn linked(context: &Context) -> Option<String> {
    let target = std::fs::read_link(context.layout.link_dir.join("teleport")).ok()?;
    let rest = target.strip_prefix(context.layout.path_inside(&context.layout.versions)).ok()?;
    version_in(context, &VersionDir::named(rest.components().next()?.as_os_str().to_str()?))
}

fn version_in(context: &Context, dir: &VersionDir) -> Option<String> {
    let manifest = Manifest::read(&context.layout.versions.join(dir));
    Some(manifest.map_or_else(|_| dir.parts().0.to_owned(), |manifest| manifest.version.to_string()))
}
