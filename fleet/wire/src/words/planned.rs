//! A plan of a version directive, for people.

use fleet_engine::dry_run::DryRunFailure;
use fleet_engine::planned::{PlannedEntry, PlannedMove, PlannedNone};

use crate::api::PlanView;
use crate::lenient::word;
use crate::reason::sentence;
use crate::text::{hosts, time};

use super::host;

/// What it is, what it would do, and what keeps it from being applied: a line each.
pub fn lines(plan: &PlanView) -> Vec<String> {
    let of = if plan.draft.is_empty() { "a file".to_owned() } else { format!("draft {}", plan.draft) };
    let mut lines = vec![
        format!("Plan {} of {of}: {}", plan.id, word(&plan.state)),
        format!("  by {} at {}; good until {}", plan.author, time(plan.time), time(plan.expires)),
        format!("  for nonce {}; digest {}", plan.for_nonce, plan.digest),
    ];
    if plan.approvals > 0 || !plan.approved.is_empty() {
        let who = if plan.approved.is_empty() { String::new() } else { format!(": {}", plan.approved.join(", ")) };
        lines.push(format!("  approvals: {} of {}{who}", plan.approved.len(), plan.approvals));
    }
    if !plan.denied.is_empty() {
        lines.push(format!("  denied by {}", plan.denied));
    }
    if let Some(tried) = &plan.dry_run {
        lines.push(format!("  dry run since {}: {tried}", time(tried.begun)));
        let failure = |failed: &DryRunFailure| {
            let sample = host::names(&failed.sample).join(", ");
            format!("    {}: {}: {sample}", failed.code, hosts(failed.hosts))
        };
        lines.extend(tried.failed.iter().map(failure));
    }
    if let Some(effects) = &plan.effects {
        effects.entries.iter().for_each(|entry| lines.extend(self::entry(entry)));
        if effects.elsewhere > 0 {
            lines.push(format!("{} in no sub-directive: told nothing", hosts(effects.elsewhere)));
        }
        if effects.goes_down > 0 {
            lines.push(format!("WARNING: {} downgraded", many(effects.goes_down)));
        }
        if !effects.halted.is_empty() {
            lines.push(format!("WARNING: halted here before: {}", effects.halted.join(", ")));
        }
    }
    lines.extend(
        plan.against.iter().map(|error| format!("cannot be applied: {} [{}]", error.message, word(&error.code))),
    );
    if plan.against.is_empty() && plan.effects.is_some() {
        lines.push(format!("next: teleport-fleet version-control apply {}", plan.id));
    }
    lines
}

fn many(count: u64) -> String {
    format!("{} {}", hosts(count), if count == 1 { "is" } else { "are" })
}

fn entry(entry: &PlannedEntry) -> Vec<String> {
    let mut lines = vec![format!("{} ({}): {}", entry.name, entry.state, hosts(entry.hosts))];
    let way = |way: &PlannedMove| {
        let from = if way.from.is_empty() { "an unknown version" } else { &way.from };
        let down = if way.down { ", DOWN" } else { "" };
        format!("  {from} -> {}: {} by {}{down}", way.to, hosts(way.hosts), way.installer)
    };
    lines.extend(entry.moves.iter().map(way));
    for (count, what) in
        [(entry.there, "run their target"), (entry.stay, "pinned, disabled or held"), (entry.more, "more, not listed")]
    {
        if count > 0 {
            lines.push(format!("  {}: {what}", hosts(count)));
        }
    }
    let none = |none: &PlannedNone| {
        let sample = host::names(&none.sample).join(", ");
        format!("  {}: {}: {sample}", hosts(none.hosts), sentence(&none.why))
    };
    lines.extend(entry.none.iter().map(none));
    lines.extend(entry.lacks.iter().map(|lacks| format!("  would fail: target {lacks}")));
    lines
}
