//! What installs a version here: what the source orders, as far as this host's settings let it (DIRECTIVES §4).

use protocol::installer::{Installer, InstallerOrder};
use protocol::{Digest, Revision};

use crate::config::Spec;
use crate::context::Context;
use crate::plan::decide::Terms;
use crate::report::{Code, Error, Result};
use crate::run::network;

/// The shells that may run a script; none: its first line says that.
const SHELLS: [&str; 3] = ["", "bash", "sh"];

/// The order of a script that is to bring `target`; `None`: the updater installs.
///
/// Errors: `installer_refused`: the order cannot be understood, is for an installer that is not known or that `spec` does not name, or
/// gives a script what none is given; `target_incomplete`: it lacks what its installer needs; `checksum_mismatch`: it names two digests.
pub(crate) fn script(
    context: &Context,
    spec: &Spec,
    terms: &Terms,
    target: &Revision,
) -> Result<Option<InstallerOrder>> {
    let Some(order) = &terms.order else { return Ok(None) };
    let order = order.as_ref().map_err(Clone::clone)?;
    let refused = |what: String| Error::new(Code::InstallerRefused, format!("{target} is not installed: {what}"));
    let Some(installer) = order.installer() else {
        let (kind, name) = (short(&order.kind), short(&order.name));
        return Err(refused(format!("this updater does not know the installer {kind:?} {name:?}")));
    };
    if !spec.allowed().contains(&installer) {
        let allowed: Vec<String> = spec.allowed().iter().map(ToString::to_string).collect();
        let allowed = allowed.join(",");
        return Err(refused(format!("the settings of this host do not let {installer} act, only {allowed}"))
            .advise(format!("if it may, run `teleport-update enable --installers {allowed},{installer}`")));
    }
    match installer {
        Installer::Update | Installer::Notify => return Ok(None),
        Installer::Tuf => return complete(context, spec, terms, target).map(|()| None),
        Installer::LocalScript(_) => {}
    }
    if let Some(name) = order.bad_variable() {
        return Err(refused(format!("{installer} is not given the variable {:?}, or its value", short(name))));
    }
    if !SHELLS.contains(&order.shell.as_str()) {
        return Err(refused(format!("{:?} is no shell that runs {installer}", short(&order.shell))));
    }
    if context.layout.is_image() {
        return Err(refused(format!("{installer} would act on this host, and not on the image")));
    }
    if spec.pinned {
        return Err(refused(format!("{installer} does not act while a version is pinned")));
    }
    Ok(Some(order.clone()))
}

/// What is left of another's text in a message.
fn short(text: &str) -> String {
    text.chars().take(64).collect()
}

/// Makes sure that the answer says what `tuf` needs, and that this host can verify it.
fn complete(context: &Context, spec: &Spec, terms: &Terms, target: &Revision) -> Result<()> {
    let lacks = |what: &str| Error::new(Code::TargetIncomplete, format!("{target} is not installed by tuf: {what}"));
    if spec.tuf_root.is_none() {
        return Err(lacks("this host trusts no root").advise("run `teleport-update enable --tuf-root FILE`"));
    }
    if terms.attributes.get("length").and_then(|length| length.parse::<u64>().ok()).is_none() {
        return Err(lacks("the answer does not say its length"));
    }
    let digest: Digest = terms.digest_of_target().ok_or_else(|| lacks("the answer does not say its sha256"))?;
    match terms.digests.get(target.edition, network::arch(context)) {
        Some(other) if other != digest => {
            let what = format!("the answer names two digests for {target}: {digest} and {other}");
            Err(Error::new(Code::ChecksumMismatch, what))
        }
        _ => Ok(()),
    }
}
