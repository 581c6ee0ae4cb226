//! Which of two configurations rules (FLEET §2).

use super::dialect::PolicyDialect;
use crate::policy::Policy;

/// The policy of a rollout whose version was written in `dialect`: its own dialect's, or the other one's where that alone has
/// groups. The lower of both modes counts. `None` where there is neither; an error where both have groups.
pub(crate) fn ruling(
    dialect: PolicyDialect,
    v2: Option<&Policy>,
    rfd0169: Option<&Policy>,
) -> Result<Option<Policy>, String> {
    let (own, other) = match dialect {
        PolicyDialect::V2 => (v2, rfd0169),
        PolicyDialect::Rfd0169 | PolicyDialect::Directive => (rfd0169, v2),
    };
    let (own, other) = match (own, other) {
        (None, None) => return Ok(None),
        (Some(only), None) | (None, Some(only)) => return Ok(Some(only.clone())),
        (Some(own), Some(other)) => (own, other),
    };
    let has_groups = |policy: &Policy| policy.all_groups().next().is_some();
    let ruling = match (has_groups(own), has_groups(other)) {
        (true, true) => {
            return Err(
                "autoupdate_config and cluster_maintenance_config both have groups: only one of them may".to_owned()
            );
        }
        (false, true) => other,
        _ => own,
    };
    Ok(Some(Policy { mode: own.mode.min(other.mode), ..ruling.clone() }))
}
