//! Where approvals of version directives are asked for: what is written without a plan (DIRECTIVES §3).

use fleet_engine::resource::{Kind, Resource};
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
    let asked = |resource: &Resource| match resource {
        Resource::VersionControl(object) => Some(object.model.promotion.approvals),
        _ => None,
    };
    let removed = gone.iter().any(|(kind, _)| *kind == Kind::VersionControl).then_some(0);
    match written.iter().find_map(asked).or(removed).filter(|asked| *asked < needed && actor.role < Role::Admin) {
        None => Ok(()),
        Some(asked) => {
            let role = actor.role;
            let message =
                format!("to ask for {asked} approvals in place of {needed} needs the role admin; this is {role}");
            Err(ApiError::new(Code::Forbidden, message))
        }
    }
}
