//! Where approvals of version directives are asked for: what is written without a plan (DIRECTIVES §3).

use fleet_engine::resource::{Kind, Promotion, Resource, VersionControl};
use fleet_wire::api::{ApiError, Code, Role};

use super::{Actor, CoreState};

/// Whether a direct write may take the place of a plan: not where approvals are asked for. Only an admin asks for fewer, or takes the
/// directive away, beside which nothing else rules.
///
/// # Errors
/// `not_approved`, or `forbidden`.
pub(super) fn may_write(
    state: &CoreState,
    actor: &Actor,
    written: &[Resource],
    gone: &[(Kind, String)],
) -> Result<(), ApiError> {
    let needed = state.resources.version_control().promotion.approvals;
    let active = state.resources.directive();
    let is_news = |resource: &Resource| match resource {
        Resource::Directive(object) => Some(&object.model) != active,
        _ => false,
    };
    if needed > 0 && written.iter().any(is_news) {
        let message = format!(
            "this fleet asks for {needed} approvals of a version-directive: teleport-fleet version-control plan -f FILE"
        );
        return Err(ApiError::new(Code::NotApproved, message));
    }
    if needed > 0 && actor.role < Role::Admin && gone.iter().any(|(kind, _)| *kind == Kind::Directive) {
        let message = format!(
            "this fleet asks for {needed} approvals: its version-directive is removed by the role admin; to stop it: \
             teleport-fleet autoupdate agents halt --all"
        );
        return Err(ApiError::new(Code::Forbidden, message));
    }
    // What a plan must pass, and what scripts are given, is no more for one operator to change than the directive.
    let (control, role) = (state.resources.version_control(), actor.role);
    if !(needed > 0 || control.promotion.needs_dry_run) || role >= Role::Admin {
        return Ok(());
    }
    let is_as_strict = |wanted: &VersionControl| {
        let approvals = wanted.promotion.approvals;
        let wanted =
            VersionControl { promotion: Promotion { approvals: needed, ..wanted.promotion.clone() }, ..wanted.clone() };
        approvals >= needed && wanted == control
    };
    let weakens = |resource: &Resource| match resource {
        Resource::VersionControl(object) => !is_as_strict(&object.model),
        Resource::Installer(object) => {
            state.resources.get(Kind::Installer, &object.metadata.name).and_then(Resource::model) != Some(&object.model)
        }
        _ => false,
    };
    let is_guarded = |kind: Kind| matches!(kind, Kind::VersionControl | Kind::Installer);
    let written = written.iter().find(|resource| weakens(resource)).map(Resource::kind);
    match written.or_else(|| gone.iter().map(|(kind, _)| *kind).find(|kind| is_guarded(*kind))) {
        None => Ok(()),
        Some(kind) => {
            let message = format!(
                "this fleet asks for approvals or a dry run of each plan: {kind} is changed by the role admin; this is {role}"
            );
            Err(ApiError::new(Code::Forbidden, message))
        }
    }
}
