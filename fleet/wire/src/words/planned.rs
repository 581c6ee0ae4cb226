//! A plan of a version directive, for people.

use fleet_engine::dry_run::DryRunFailure;
use fleet_engine::planned::{Planned, PlannedEntry, PlannedMove, PlannedNone};
use fleet_engine::reason::Misfit;

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
        lines.extend(warnings(effects));
    }
    lines.extend(
        plan.against.iter().map(|error| format!("cannot be applied: {} [{}]", error.message, word(&error.code))),
    );
    if plan.against.is_empty() && plan.effects.is_some() {
        lines.push(format!("next: teleport-fleet version-control apply {}", plan.id));
    }
    lines
}

/// How many hosts would go, stay or get nothing; then [`warnings`].
pub fn summary(planned: &Planned) -> Vec<String> {
    let sum = |of: &dyn Fn(&PlannedEntry) -> u64| planned.entries.iter().map(of).sum::<u64>();
    let go = sum(&|entry| entry.moves.iter().map(|way| way.hosts).sum());
    let none = sum(&|entry| entry.none.iter().map(|none| none.hosts).sum());
    let mut parts = vec![format!("{} would get another version", hosts(go))];
    for (count, what) in [
        (sum(&|entry| entry.there), "run their target"),
        (sum(&|entry| entry.stay), "pinned, disabled or held"),
        (none, "without a target or an installer"),
        (sum(&|entry| entry.more), "not listed"),
    ] {
        if count > 0 {
            parts.push(format!("{what}: {count}"));
        }
    }
    std::iter::once(parts.join("; ")).chain(warnings(planned)).collect()
}

/// Who is in no sub-directive, who goes down, and what halted here before.
pub fn warnings(planned: &Planned) -> Vec<String> {
    let mut lines = Vec::new();
    if planned.elsewhere > 0 {
        lines.push(format!("{} in no sub-directive: told nothing", hosts(planned.elsewhere)));
    }
    if planned.goes_down > 0 {
        lines.push(format!(
            "WARNING: {} {} downgraded",
            hosts(planned.goes_down),
            if planned.goes_down == 1 { "is" } else { "are" }
        ));
    }
    if !planned.halted.is_empty() {
        lines.push(format!("WARNING: halted here before: {}", planned.halted.join(", ")));
    }
    lines
}

fn entry(entry: &PlannedEntry) -> Vec<String> {
    let mut lines = vec![format!("{} ({}): {}", entry.name, entry.state, hosts(entry.hosts))];
    let way = |way: &PlannedMove| {
        let from = if way.from.is_empty() { "an unknown version" } else { &way.from };
        let down = if way.down { ", DOWN" } else { "" };
        format!("  {from} -> {}: {} by {}{down}", way.to, hosts(way.hosts), way.installer)
    };
    lines.extend(entry.moves.iter().map(way));
    let rest = stay(entry).into_iter().chain(entry.none.iter().map(none));
    lines.extend(rest.chain(entry.lacks.iter().map(lacks)).map(|line| format!("  {line}")));
    lines
}

/// Who runs the target, who stays, and how many are not listed.
pub fn stay(entry: &PlannedEntry) -> Vec<String> {
    let all =
        [(entry.there, "run their target"), (entry.stay, "pinned, disabled or held"), (entry.more, "more, not listed")];
    let said = all.into_iter().filter(|(count, _)| *count > 0);
    said.map(|(count, what)| format!("{}: {what}", hosts(count))).collect()
}

/// Who would get nothing, and why.
pub fn none(none: &PlannedNone) -> String {
    format!("{}: {}: {}", hosts(none.hosts), sentence(&none.why), host::names(&none.sample).join(", "))
}

/// An installer that would fail.
pub fn lacks(lacks: &Misfit) -> String {
    format!("would fail: target {lacks}")
}
