//! How versions are controlled by directives, as the RFD draws it (DIRECTIVES §6).

use std::io;

use fleet_engine::inventory::{InstallCounts, VersionAlert};
use fleet_wire::api::{HostView, VersionControlStatus};
use fleet_wire::words::host as words;

use super::table::{Paint, TableCell, TextTable};
use super::text::{clean, time};

/// An empty table of the inventory.
pub(crate) fn inventory() -> TextTable {
    TextTable::new(["Server ID", "Version", "Services", "Status"])
}

/// One more host.
pub(crate) fn add(table: &mut TextTable, host: &HostView) {
    let paint = match host.instance.status.split(' ').next() {
        Some("installing") => Paint::Yellow,
        Some("churned" | "install") => Paint::Red,
        _ => Paint::None,
    };
    table.row(vec![
        TableCell::new(&words::name(&host.hostname, &host.host)),
        TableCell::new(&host.version),
        TableCell::new(&host.instance.services.join(",")),
        TableCell::painted(&host.instance.status, paint),
    ]);
}

/// The lines below a table: what people are warned of.
pub(crate) fn warnings(alerts: &[VersionAlert]) -> Vec<String> {
    let total = |kind: &str| alerts.iter().filter(|alert| alert.kind == kind).map(|alert| alert.count).sum::<u64>();
    let due =
        |count: u64, why: &str| (count > 0).then(|| format!("Warning: {count} instance(s) need upgrade due to {why}."));
    let others =
        alerts.iter().filter(|alert| alert.count == 0).map(|alert| format!("Warning: {}.", clean(&alert.text)));
    let sec = due(total("security_patch"), "newer security patch (sec)");
    let eol = due(total("end_of_life"), "having reached end of life (eol)");
    sec.into_iter().chain(eol).chain(others).collect()
}

/// `version-control status`.
pub(crate) fn status(out: &mut dyn io::Write, status: &VersionControlStatus, is_colourful: bool) -> io::Result<()> {
    writeln!(out, "Directive:")?;
    match &status.directive {
        None => writeln!(out, "  Status: none")?,
        Some(directive) => {
            writeln!(out, "  Source: {}", clean(&directive.source))?;
            writeln!(out, "  Status: {}{}", directive.status, if directive.is_stale { ", stale" } else { "" })?;
            writeln!(out, "  Nonce: {}", directive.nonce)?;
            if let Some(stale) = directive.stale_after {
                writeln!(out, "  Stale After: {}", time(stale))?;
            }
        }
    }
    let from = if status.promotion_from.is_empty() {
        String::new()
    } else {
        format!(", from {}", clean(&status.promotion_from))
    };
    writeln!(out, "  Promotion: {}{from}, {} approval(s)", status.promotion, status.approvals)?;
    if !status.pending.is_empty() {
        writeln!(out, "  Pending: {}", status.pending.join(", "))?;
    }
    let number = |count: u64| TableCell::new(&if count == 0 { "-".to_owned() } else { count.to_string() });
    let numbers =
        |counts: &InstallCounts| [counts.recent, counts.installing, counts.faults, counts.churned].map(number);
    if !status.installers.is_empty() {
        writeln!(out, "\nInstallers:")?;
        let heads = ["Kind", "Name", "Status", "Recent Installs", "Installing", "Faults", "Churned"];
        let mut table = TextTable::new(heads);
        for installer in &status.installers {
            let state = if installer.enabled { "enabled" } else { "disabled" };
            let first = [&installer.kind, &installer.name, state].map(TableCell::new);
            table.row(first.into_iter().chain(numbers(&installer.counts)).collect());
        }
        table.write(out, is_colourful)?;
    }
    if !status.inventory.is_empty() {
        writeln!(out, "\nInventory Summary:")?;
        let heads =
            ["Current Version", "Target Version", "Count", "Recent Installs", "Installing", "Faults", "Churned"];
        let mut table = TextTable::new(heads);
        for row in &status.inventory {
            let target = if row.target.is_empty() { "-" } else { &row.target };
            let version = if row.version.is_empty() { "unknown" } else { &row.version };
            let first = [TableCell::new(version), TableCell::new(target), number(row.counts.count)];
            table.row(first.into_iter().chain(numbers(&row.counts)).collect());
        }
        table.write(out, is_colourful)?;
    }
    let of_versions: Vec<&VersionAlert> = status.alerts.iter().filter(|alert| alert.count > 0).collect();
    if !of_versions.is_empty() {
        writeln!(out, "\nCritical Versioning Alerts:")?;
        let mut table = TextTable::new(["Version", "Alert", "Count"]);
        for alert in of_versions {
            table.row(vec![TableCell::new(&alert.subject), TableCell::new(&alert.text), number(alert.count)]);
        }
        table.write(out, is_colourful)?;
    }
    Ok(())
}
