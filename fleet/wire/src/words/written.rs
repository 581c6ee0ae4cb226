//! What a write did: when it takes effect, how many hosts it allows to update, and how many downgrade (FLEET §2).

use crate::api::{Changed, Takes, Unwise, WriteResult};
use crate::lenient::{Lenient, word};
use crate::text::clean;

use super::effects::effects;

/// A line for each resource, with what it does to the fleet in the last; then a line for each advice. `is_dry`: nothing was written.
/// `place` says where in a file something unwise stands.
pub fn lines(written: &WriteResult, is_dry: bool, place: impl Fn(&Unwise) -> Option<String>) -> Vec<String> {
    let would = if is_dry { "would be " } else { "" };
    let mut lines: Vec<String> = written.changed.iter().map(|changed| format!("{would}{}", line(changed))).collect();
    match lines.as_mut_slice() {
        [only] => *only = format!("{only}; {}", effects(&written.effects)),
        _ => lines.push(format!("together: {}", effects(&written.effects))),
    }
    lines.extend(written.advice.iter().map(|unwise| {
        let place = place(unwise).map(|place| format!("{place}: ")).unwrap_or_default();
        let Unwise { key, code, what, advice, .. } = unwise;
        format!("advice: {}", clean(&format!("{place}{key}: {what}: {advice} [{code}]")))
    }));
    lines
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
    use super::*;
    use crate::api::Effects;

    fn written(changed: &[(&str, bool, Takes)], effects: Effects, is_dry: bool) -> String {
        let changed = changed.iter().map(|(revision, was_there, takes)| Changed {
            kind: "autoupdate_config".to_owned(),
            name: "autoupdate-config".to_owned(),
            revision: (*revision).to_owned(),
            was_there: *was_there,
            takes: (*takes).into(),
        });
        let written = WriteResult { changed: changed.collect(), effects, advice: Vec::new() };
        lines(&written, is_dry, |_| None).join("\n")
    }

    #[test]
    fn a_write_says_when_it_acts_and_on_how_many() {
        let effects = Effects { lets_go: 12, ..Effects::default() };
        assert_eq!(
            written(&[("r", false, Takes::NextRollout)], effects, false),
            "created autoupdate_config/autoupdate-config, takes effect with the next rollout; 12 hosts may update now, 0 downgrade"
        );
    }

    #[test]
    fn several_resources_are_one_change() {
        let effects = Effects { lets_go: 1, goes_down: 1, halted_before: true, ..Effects::default() };
        assert_eq!(
            written(&[("r", true, Takes::NewRollout), ("", true, Takes::NextStep)], effects, true),
            "would be updated autoupdate_config/autoupdate-config, begins a new rollout, from its first group\n\
             would be removed autoupdate_config/autoupdate-config, takes effect within two seconds\n\
             together: 1 host may update now, 1 downgrades; this version was halted here before"
        );
    }
}
