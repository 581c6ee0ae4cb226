//! `update_id`, this host's id towards the cluster: made here, and made anew where `updates.yaml` came with the copy of
//! another host. Two hosts with one id would share one place in a rollout.

use crate::config::Spec;
use crate::context::Context;
use crate::host::fingerprint::HostFingerprint;
use crate::report::Result;

/// The id shown to the cluster: none in an image, none while `updates.yaml` still has another host's. `host_uuid` is the
/// agent's.
pub(crate) fn shown(context: &Context, spec: &Spec, host_uuid: Option<&str>) -> Option<String> {
    if context.layout.is_image() || recorded(spec).is_of_another(&HostFingerprint::of_this_host(host_uuid)) {
        return None;
    }
    spec.update_id.clone()
}

/// Whether `updates.yaml` lacks an id or fingerprint of this host; see [`completed`].
pub(crate) fn is_due(context: &Context, spec: &Spec) -> Result<bool> {
    if context.layout.is_image() {
        return Ok(false);
    }
    let (recorded, now) = (recorded(spec), now(context)?);
    Ok(spec.update_id.is_none() || recorded.is_of_another(&now) || recorded.refreshed(&now) != recorded)
}

/// The settings with an id and a fingerprint that are this host's; `None` if they are already. Says when a copy is found.
pub(crate) fn completed(context: &Context, spec: &Spec) -> Result<Option<Spec>> {
    if !is_due(context, spec)? {
        return Ok(None);
    }
    let (recorded, now) = (recorded(spec), now(context)?);
    let is_copy = recorded.is_of_another(&now);
    let mut spec = spec.clone();
    if is_copy && spec.update_id.is_some() {
        tell(context, recorded.has_the_agent_of(&now))?;
    }
    if is_copy || spec.update_id.is_none() {
        spec.update_id = Some(uuid::Uuid::new_v4().to_string());
    }
    let fingerprint = if is_copy { now } else { recorded.refreshed(&now) };
    spec.update_id_host = Some(fingerprint.to_string());
    Ok(Some(spec))
}

fn tell(context: &Context, with_agent: bool) -> Result<()> {
    context.report.notice("this host is a clone of another host: it gets a new update_id");
    if with_agent {
        let data_dir = context.data_dir()?;
        let data_dir = data_dir.display();
        context.report.warn(&format!(
            "this host has the same agent identity (host_uuid) as the host that it was cloned from; if that host is \
             still in use, the cluster sees both as one node: stop this agent, remove {data_dir}/host_uuid and \
             {data_dir}/proc, and let it join again"
        ));
    }
    Ok(())
}

fn recorded(spec: &Spec) -> HostFingerprint {
    HostFingerprint::parse(spec.update_id_host.as_deref().unwrap_or_default())
}

fn now(context: &Context) -> Result<HostFingerprint> {
    Ok(HostFingerprint::of_this_host(context.host_uuid()?.as_deref()))
}
