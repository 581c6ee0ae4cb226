//! What a command did, in the words of `tctl autoupdate agents` (FLEET §6).

use std::io::Write;

use fleet_engine::command::Command;
use fleet_wire::api::{Acted, Effects};
use fleet_wire::words::effects;
use serde_json::{Value, json};

use super::reason::ReasonSubject;
use super::rollout::Stops;
use super::status;
use super::text::clean;
use crate::client::Answer;
use crate::console::Palette;
use crate::failure::Failure;

/// The sentence, the rollout afterwards, and what it does to hosts.
///
/// # Errors
/// Those of `out`.
pub(crate) fn text(
    out: &mut dyn Write,
    command: &Command,
    acted: &Acted,
    is_dry: bool,
    look: &Palette,
) -> Result<(), Failure> {
    if is_dry {
        writeln!(out, "Nothing was changed (--dry-run). Groups that would change: {}.", effects::names(&acted.groups))?;
        return touched(out, &acted.effects);
    }
    writeln!(out, "{}", effects::done(command, acted))?;
    writeln!(out, "New agent rollout status:\n")?;
    status::text(out, acted.rollout.as_ref(), &stops(acted), look)?;
    touched(out, &acted.effects)
}

/// For programs: the rollout as `status` gives it, with what is held.
pub(crate) fn value(acted: &Answer<Acted>, is_dry: bool) -> Value {
    let mut value = acted.said.clone();
    let holds = value.as_object_mut().and_then(|keys| keys.shift_remove("holds")).unwrap_or_default();
    let rollout = acted.rollout.as_ref().map(|rollout| status::value(rollout, &acted.said["rollout"]));
    value["rollout"] = rollout.unwrap_or_else(|| json!({ "active": false }));
    status::add_holds(&mut value["rollout"], holds);
    value["dry_run"] = is_dry.into();
    value
}

/// What keeps hosts after it. The store answered, or nothing was done.
pub(crate) fn stops(acted: &Acted) -> Stops {
    Stops { holds: acted.holds.clone(), ..Stops::default() }
}

/// Ours, below everything: how many hosts it touches.
fn touched(out: &mut dyn Write, effects: &Effects) -> Result<(), Failure> {
    writeln!(out, "\nOf the fleet: {}.", effects::effects(effects))?;
    Ok(())
}

/// What RFD 0169's `autoupdate run` did: its sentence where the group goes; else what keeps it. And how many hosts it touches.
///
/// # Errors
/// Those of `out`.
pub(crate) fn run(out: &mut dyn Write, group: &str, acted: &Acted, look: &Palette) -> Result<(), Failure> {
    let mut groups = acted.rollout.iter().flat_map(|rollout| &rollout.status.groups);
    let waits = groups.find(|found| found.name == group && found.state == "unstarted");
    match waits {
        Some(waits) => {
            let reason = waits.reason().line(ReasonSubject::Group(group), &look.zone);
            writeln!(out, "The stop of group '{}' is ended. It has not begun: {reason}", clean(group))?;
        }
        None => writeln!(out, "Executing auto-update for group '{}' immediately.", clean(group))?,
    }
    touched(out, &acted.effects)
}
