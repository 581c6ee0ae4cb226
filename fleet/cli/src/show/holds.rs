//! What is held besides the groups of the rollout.

use std::io::Write;

use fleet_wire::api::HoldsView;

use crate::failure::Failure;

/// A line for each hold that no line of a group tells of; `is_shown` says which groups have one.
///
/// # Errors
/// Those of `out`.
pub(crate) fn text(out: &mut dyn Write, holds: &HoldsView, is_shown: impl Fn(&str) -> bool) -> Result<(), Failure> {
    for (index, line) in fleet_wire::words::holds::lines(holds, is_shown).iter().enumerate() {
        let gap = if index == 0 { "\n" } else { "" };
        writeln!(out, "{gap}{line}")?;
    }
    Ok(())
}
