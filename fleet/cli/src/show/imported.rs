//! What an import did.

use std::io::{self, Write};

use fleet_api::{Imported, Omission};

use super::table::{Cell, Table};
use super::text::clean;

/// As text.
pub(crate) fn text(out: &mut dyn Write, imported: &Imported, is_dry: bool) -> io::Result<()> {
    let counted: u64 = imported.counts.iter().map(|count| count.count).sum();
    let omitted: u64 = imported.omitted.iter().map(|omission| omission.count).sum();
    let would = if is_dry { " would be" } else { "" };
    writeln!(out, "{} hosts{would} imported, {} of them new.", counted + omitted, imported.new)?;
    if counted > 0 {
        writeln!(out)?;
        let mut table = Table::new(["Group", "Version", "Hosts"]);
        for count in &imported.counts {
            table.row(vec![Cell::new(&count.group), Cell::new(&count.version), Cell::from(count.count)]);
        }
        table.write(out, false)?;
    }
    reasons(out, "are known and not counted", &imported.omitted)?;
    reasons(out, "were passed over", &imported.passed_over)
}

fn reasons(out: &mut dyn Write, what: &str, all: &[Omission]) -> io::Result<()> {
    let sum: u64 = all.iter().map(|omission| omission.count).sum();
    if sum == 0 {
        return Ok(());
    }
    writeln!(out, "\n{sum} {what}:")?;
    for omission in all {
        writeln!(out, "- {}: {}", omission.count, clean(&omission.reason))?;
    }
    Ok(())
}
