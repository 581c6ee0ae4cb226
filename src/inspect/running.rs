//! Which version the agent's process is of, and which one the links lead to.

use crate::config::Updates;
use crate::context::Context;
use crate::host::process::Process;
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
    let version = exe.and_then(|exe| {
        let dir = exe.strip_prefix(&context.layout.versions).ok()?.components().next()?;
        version_in(context, &VersionDir::named(dir.as_os_str().to_str()?))
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
