//! What a write did: when it takes effect, how many hosts it lets go, and how many go down (FLEET §2).

use std::io::Write;

use fleet_wire::api::{Changed, Takes, Unwise, WriteResult};
use fleet_wire::lenient::{Lenient, word};
use fleet_wire::words::effects::effects;

use super::text::clean;
use crate::failure::Failure;

/// A line for each resource, with what it does to the fleet in the last.
///
/// # Errors
/// Those of `out`.
pub(crate) fn text(out: &mut dyn Write, written: &WriteResult, is_dry: bool) -> Result<(), Failure> {
    text_of(out, written, is_dry, &|unwise| unwise.line.map(|line| format!("line {line}")))
}

/// The same; `place` says where in a file something unwise stands.
///
/// # Errors
/// Those of `out`.
pub(crate) fn text_of(
    out: &mut dyn Write,
    written: &WriteResult,
    is_dry: bool,
    place: &dyn Fn(&Unwise) -> Option<String>,
) -> Result<(), Failure> {
    let would = if is_dry { "would be " } else { "" };
    if let [changed] = written.changed.as_slice() {
        writeln!(out, "{would}{}; {}", line(changed), effects(&written.effects))?;
    } else {
        for changed in &written.changed {
            writeln!(out, "{would}{}", line(changed))?;
        }
        writeln!(out, "together: {}", effects(&written.effects))?;
    }
    for unwise in &written.advice {
        let place = place(unwise).map(|place| format!("{place}: ")).unwrap_or_default();
        let Unwise { key, code, what, advice, .. } = unwise;
        writeln!(out, "advice: {}", clean(&format!("{place}{key}: {what}: {advice} [{code}]")))?;
    }
    Ok(())
}

fn line(changed: &Changed) -> String {
    let what = match (changed.revision.is_empty(), changed.was_there) {
        (true, _) => "removed",
        (false, true) => "updated",
        (false, false) => "created",
    };
    let Lenient::Known(takes) = &changed.takes else {
        return format!("{what} {}/{}, {}", clean(&changed.kind), clean(&changed.name), clean(&word(&changed.takes)));
    };
    let takes = match takes {
        Takes::Nothing => "changes nothing",
        Takes::NextStep => "takes effect within two seconds",
        Takes::NextRollout => "takes effect with the next rollout",
        Takes::StepAndRollout => {
            "takes effect within two seconds (mode, pace, thresholds, freezes), and with the next rollout (everything else)"
        }
        Takes::NewRollout => "begins a new rollout, from its first group",
        Takes::NoRollout => "ends the rollout: nobody new is allowed to update",
    };
    format!("{what} {}/{}, {takes}", clean(&changed.kind), clean(&changed.name))
}

#[cfg(test)]
mod tests {
    use fleet_wire::api::Effects;

    use super::*;

    fn written(changed: &[(&str, bool, Takes)], effects: Effects, is_dry: bool) -> String {
        let changed = changed.iter().map(|(revision, was_there, takes)| Changed {
            kind: "autoupdate_config".to_owned(),
            name: "autoupdate-config".to_owned(),
            revision: (*revision).to_owned(),
            was_there: *was_there,
            takes: (*takes).into(),
        });
        let mut out = Vec::new();
        text(&mut out, &WriteResult { changed: changed.collect(), effects, advice: Vec::new() }, is_dry).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_write_says_when_it_acts_and_on_how_many() {
        let effects = Effects { lets_go: 12, goes_down: 0, stops: 0, halted_before: false };
        assert_eq!(
            written(&[("r", false, Takes::NextRollout)], effects, false),
            "created autoupdate_config/autoupdate-config, takes effect with the next rollout; 12 hosts may update now, 0 downgrade\n"
        );
    }

    #[test]
    fn several_resources_are_one_change() {
        let effects = Effects { lets_go: 1, goes_down: 1, stops: 0, halted_before: true };
        assert_eq!(
            written(&[("r", true, Takes::NewRollout), ("", true, Takes::NextStep)], effects, true),
            "would be updated autoupdate_config/autoupdate-config, begins a new rollout, from its first group\n\
             would be removed autoupdate_config/autoupdate-config, takes effect within two seconds\n\
             together: 1 host may update now, 1 downgrades; this version was halted here before\n"
        );
    }
}
