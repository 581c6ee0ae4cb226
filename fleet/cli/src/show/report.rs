//! `autoupdate agents report` (FLEET §6).

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use fleet_wire::api::StateCounts;
use protocol::Version;
use serde_json::{Value, json};

use super::table::{TableCell, TextTable};
use super::text::clean;
use crate::client::Answer;
use crate::failure::Failure;

/// As text; a report that says nothing any more is an error behind what was written.
///
/// # Errors
/// All reports are expired; and those of `out`.
pub(crate) fn text(out: &mut dyn Write, counts: &StateCounts) -> Result<(), Failure> {
    if counts.reports == 0 {
        writeln!(out, "No autoupdate_agent_report found.")?;
        writeln!(out, "Hosts are counted as soon as they report: `teleport-fleet hosts` lists those that are known.")?;
        return Ok(());
    }
    if counts.expired >= counts.reports {
        writeln!(
            out,
            "Read {} reports, but they are expired. If you just (re)deployed the Auth service, you might want to retry \
             after 60 seconds.",
            counts.reports
        )?;
        return Err(expired());
    }
    writeln!(out, "{} autoupdate agent reports aggregated\n", valid(counts))?;
    if counts.counts.iter().all(|count| count.count == 0) {
        writeln!(out, "Reports contain no agents.")?;
    } else {
        table(counts).write(out, false)?;
    }
    let omitted: u64 = counts.omitted.iter().map(|omission| omission.count).sum();
    if omitted > 0 {
        writeln!(out, "\n{omitted} agents were omitted from the reports:")?;
        for omission in counts.omitted.iter().filter(|omission| omission.count > 0) {
            writeln!(out, "- {} omitted because: {}", omission.count, clean(&omission.reason))?;
        }
    }
    Ok(())
}

/// For programs.
///
/// # Errors
/// All reports are expired.
pub(crate) fn value(counts: &Answer<StateCounts>) -> Result<Value, Failure> {
    if counts.reports > 0 && counts.expired >= counts.reports {
        return Err(expired());
    }
    let groups: BTreeSet<&str> = counts.counts.iter().map(|count| count.group.as_str()).collect();
    let mut value = counts.said.clone();
    value["report_count"] = valid(counts).into();
    value["groups"] = json!(groups);
    value["versions"] = json!(versions(counts));
    Ok(value)
}

fn expired() -> Failure {
    Failure::new("reports_expired", "reports expired")
}

fn valid(counts: &StateCounts) -> u64 {
    counts.reports.saturating_sub(counts.expired)
}

/// Older ones first; what is no version, last.
fn versions(counts: &StateCounts) -> Vec<&str> {
    let all: BTreeSet<&str> = counts.counts.iter().map(|count| count.version.as_str()).collect();
    let mut all: Vec<&str> = all.into_iter().collect();
    all.sort_by_key(|version| match version.parse::<Version>() {
        Ok(version) => (false, Some(version)),
        Err(_) => (true, None),
    });
    all
}

fn table(counts: &StateCounts) -> TextTable {
    let groups: BTreeSet<&str> = counts.counts.iter().map(|count| count.group.as_str()).collect();
    let mut sums: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for count in &counts.counts {
        *sums.entry((&count.version, &count.group)).or_default() += count.count;
    }
    let mut table = TextTable::new(std::iter::once("Agent Version").chain(groups.iter().copied()));
    for version in versions(counts) {
        let of_group = |group: &&str| TableCell::from(sums.get(&(version, *group)).copied().unwrap_or(0));
        table.row(std::iter::once(TableCell::new(version)).chain(groups.iter().map(of_group)).collect());
    }
    table
}
