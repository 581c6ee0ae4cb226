//! `performance.md`: a template, and what was measured in its places.

use std::io;
use std::path::Path;
use std::time::Instant;

use crate::bench::downtime::{Downtimes, Verdicts};
use crate::bench::idle::Idle;
use crate::bench::machine;
use crate::bench::statistics::Summary;
use crate::bench::storm;
use crate::bench::updates::Updates;
use crate::bench::ways::Way;

const TEMPLATE: &str = include_str!("page.md");

/// A byte count's unit.
const MIB: f64 = 1_048_576.0;

/// Below this much, bytes, a temporary file is the journal and not the archive.
const BOOKKEEPING: f64 = MIB;

/// All that was measured.
#[derive(Debug)]
pub struct Results {
    /// Few rounds.
    pub quick: bool,
    /// When it began.
    pub begun: Option<Instant>,
    /// [`machine::describe`].
    pub machine: String,
    /// The other updater's version, or why there is none.
    pub sysupdate: Result<String, String>,
    /// The updater's size, bytes.
    pub binary: u64,
    /// An archive size each.
    pub updates: Vec<Updates>,
    /// A database size each, and the verdicts; `None`: no bed.
    pub downtime: Option<(Vec<Downtimes>, Verdicts)>,
    /// A kind of host each.
    pub idle: Vec<Idle>,
    /// The storm's table.
    pub storm: Option<String>,
}

impl Default for Results {
    fn default() -> Self {
        Self {
            quick: false,
            begun: None,
            machine: String::new(),
            sysupdate: Err("not asked for".to_owned()),
            binary: 0,
            updates: Vec::new(),
            downtime: None,
            idle: Vec::new(),
            storm: None,
        }
    }
}

/// Writes the page below `out`; `is_part`: only says the tables that there are.
///
/// # Errors
/// They cannot be written.
pub fn write(results: &Results, out: &Path, is_part: bool) -> io::Result<()> {
    std::fs::create_dir_all(out)?;
    if is_part {
        for part in [times(results), needs(results), downtime(results), verdicts(results), idle(results)] {
            println!("{part}\n");
        }
        println!("{}", results.storm.as_deref().unwrap_or_default());
        return Ok(());
    }
    std::fs::write(out.join("performance.md"), render(results))?;
    println!("{}\n{}", targets(results), out.join("performance.md").display());
    Ok(())
}

/// The page.
pub fn render(results: &Results) -> String {
    let minutes = results.begun.map_or(0.0, |begun| begun.elapsed().as_secs_f64() / 60.0);
    let sysupdate = match &results.sysupdate {
        Ok(version) => format!(
            "{version} of Debian 13, a `url-tar` transfer into a directory, digests verified, GnuPG's signature\n  not \
             asked for; in a mount namespace on the same disk."
        ),
        Err(why) => format!("not measured: {}.", why.lines().last().unwrap_or_default().trim_end_matches('.')),
    };
    let places = [
        ("date", machine::today()),
        ("command", if results.quick { "make bench BENCH=quick" } else { "make bench" }.to_owned()),
        ("minutes", format!("{minutes:.0}")),
        ("machine", results.machine.clone()),
        ("targets", targets(results)),
        ("times", times(results)),
        ("sysupdate", sysupdate),
        ("needs", needs(results)),
        ("binary", format!("{} bytes, {:.2} MiB, static, stripped", results.binary, results.binary as f64 / MIB)),
        ("downtime", downtime(results)),
        ("verdicts", verdicts(results)),
        ("idle", idle(results)),
        ("fleet", storm::FLEET.to_string()),
        ("storm", results.storm.clone().unwrap_or_default().trim_end().to_owned()),
    ];
    places.into_iter().fold(TEMPLATE.to_owned(), |page, (name, text)| page.replace(&format!("{{{{{name}}}}}"), &text))
}

/// A target: what, at most, what was measured in words, and the figure that is judged.
struct Target {
    what: String,
    most: f64,
    unit: &'static str,
    measured: Option<(String, f64)>,
}

/// The table of targets.
fn targets(results: &Results) -> String {
    let mut rows = "| what | at most | measured | |\n|---|---:|---:|---|\n".to_owned();
    for Target { what, most, unit, measured } in all_targets(results) {
        let (words, verdict) = match measured {
            Some((words, value)) if value <= most => (words, "met"),
            Some((words, _)) => (words, "**not met**"),
            None => ("not measured".to_owned(), ""),
        };
        // No temporary file of the archive: what the journal takes is said, and is not the archive.
        let most = if unit == " B" { "0".to_owned() } else { format!("{most}{unit}") };
        rows += &format!("| {what} | {most} | {words} | {verdict} |\n");
    }
    rows.trim_end().to_owned()
}

#[allow(clippy::too_many_lines, reason = "a list")]
fn all_targets(results: &Results) -> Vec<Target> {
    // The 180 MB archive; in a quick run the largest there is.
    let update = results.updates.iter().find(|found| found.sized.label == "180 MB").or_else(|| results.updates.last());
    let label = update.map_or("180 MB", |found| &found.sized.label);
    let ratio_to = |by: &dyn Fn(&Updates) -> Vec<f64>| {
        update.and_then(|found| ratio(Summary::of_ratios(found.times.get(&Way::Update)?, &by(found))))
    };
    let to = |way: Way| ratio_to(&|found: &Updates| found.times.get(&way).cloned().unwrap_or_default());
    let needed = |of: &dyn Fn(&crate::bench::run::Needs) -> u64| {
        results.updates.iter().filter_map(|found| found.needs.get(&Way::Update)).map(of).max().map(|most| most as f64)
    };
    let largest = results.downtime.as_ref().and_then(|(sizes, _)| sizes.last());
    let seconds = |values: Vec<f64>| Summary::of(&values).map(|found| (spread(&found, " s"), found.max));
    let verdict =
        |of: &dyn Fn(&Verdicts) -> Vec<f64>| results.downtime.as_ref().and_then(|(_, found)| seconds(of(found)));
    let target = |what: String, most, unit, measured| Target { what, most, unit, measured };
    vec![
        target(format!("update, {label} archive, all durable ÷ three passes"), 0.33, "", to(Way::Passes)),
        target("the same ÷ `curl \\| tee \\| tar` and sync".to_owned(), 0.60, "", to(Way::Pipe)),
        target("the same ÷ the limit".to_owned(), 1.25, "", ratio_to(&Updates::limit)),
        target(
            "peak memory, any archive".to_owned(),
            16.0,
            " MiB",
            needed(&|needs| needs.own_memory).map(|most| (format!("{:.1} MiB", most / MIB), most / MIB)),
        ),
        target(
            "temporary disk beyond the unpacked version".to_owned(),
            BOOKKEEPING,
            " B",
            needed(&crate::bench::run::Needs::disk_temporary).map(|most| (format!("{:.0} KiB", most / 1024.0), most)),
        ),
        target(
            format!("static {} binary, stripped", std::env::consts::ARCH),
            4.0,
            " MiB",
            (results.binary > 0)
                .then(|| (format!("{:.2} MiB", results.binary as f64 / MIB), results.binary as f64 / MIB)),
        ),
        target(
            "`update` with nothing to do ÷ one `curl` of the question".to_owned(),
            1.2,
            "",
            results.idle.first().and_then(|found| ratio(Summary::of_ratios(&found.update, &found.curl))),
        ),
        target(
            format!(
                "downgrade: time without an answer, {} MB database ÷ `systemctl restart`",
                largest.map_or(1000, |found| found.megabytes)
            ),
            1.5,
            "",
            largest.and_then(|found| ratio(Summary::of_ratios(&found.downgrade, &found.restart))),
        ),
        target(
            "verdict on a healthy version that answers readiness".to_owned(),
            6.0,
            " s",
            verdict(&|found| [&found.healthy[..], &found.healthy_start].concat()),
        ),
        target(
            "verdict on a version that exits at once, after reload and after start".to_owned(),
            5.0,
            " s",
            verdict(&|found| [&found.exits_reload[..], &found.exits_start].concat()),
        ),
    ]
}

fn times(results: &Results) -> String {
    let Some(first) = results.updates.first() else { return String::new() };
    let ways: Vec<Way> = Way::ALL.into_iter().filter(|way| first.times.contains_key(way)).collect();
    let mut rows = "| | ".to_owned();
    rows += &results.updates.iter().map(header).collect::<Vec<_>>().join(" | ");
    rows += &format!(" |\n|---|{}\n", "---:|".repeat(results.updates.len()));
    for way in ways {
        let cells = results.updates.iter().map(|found| cell(found.times.get(&way), " s"));
        rows += &format!("| {} | {} |\n", escaped(way), cells.collect::<Vec<_>>().join(" | "));
    }
    for way in [Way::Passes, Way::Pipe, Way::Sysupdate] {
        let by = |found: &Updates| found.times.get(&way).cloned();
        rows += &ratio_row(results, &format!("teleport-update ÷ {}", escaped(way)), &by);
    }
    rows += &ratio_row(results, "teleport-update ÷ limit", &|found| Some(found.limit()));
    rows += "\nSeconds: median (lower to upper quartile). Ratios: of the same round.";
    rows
}

fn ratio_row(results: &Results, name: &str, by: &dyn Fn(&Updates) -> Option<Vec<f64>>) -> String {
    let cell = |found: &Updates| {
        let found = Summary::of_ratios(found.times.get(&Way::Update)?, &by(found)?)?;
        Some(spread(&found, ""))
    };
    let cells: Vec<String> = results.updates.iter().filter_map(cell).collect();
    if cells.is_empty() { String::new() } else { format!("| {name} | {} |\n", cells.join(" | ")) }
}

fn header(found: &Updates) -> String {
    format!(
        "{:.0} MB, {:.0} MB unpacked, {} rounds",
        found.sized.release.size as f64 / 1e6,
        found.sized.unpacked() as f64 / 1e6,
        found.times.get(&Way::Update).map_or(0, Vec::len)
    )
}

fn needs(results: &Results) -> String {
    if results.updates.is_empty() {
        return String::new();
    }
    let mut rows = "| archive | | memory, MiB: program | with all it starts | temporary disk, MiB | system calls |\n\
                    |---|---|---:|---:|---:|---:|\n"
        .to_owned();
    for found in &results.updates {
        for way in Way::ALL {
            let Some(needs) = found.needs.get(&way) else { continue };
            let calls = found.calls.get(&way).map_or_else(|| "-".to_owned(), u64::to_string);
            // The first process of the others is a shell.
            let own = if way == Way::Update { format!("{:.1}", needs.own_memory as f64 / MIB) } else { String::new() };
            rows += &format!(
                "| {} | {} | {own} | {:.1} | {:.2} | {calls} |\n",
                found.sized.label,
                escaped(way),
                needs.memory as f64 / MIB,
                needs.disk_temporary() as f64 / MIB,
            );
        }
    }
    rows.trim_end().to_owned()
}

fn downtime(results: &Results) -> String {
    let Some((sizes, _)) = &results.downtime else { return "Not measured: no bed can be had here.".to_owned() };
    let mut rows = "| database | upgrade (reload) | bare `systemctl reload` | downgrade (database restored) | bare \
                    `systemctl restart` | downgrade ÷ restart | longer by |\n|---|---:|---:|---:|---:|---:|---:|\n"
        .to_owned();
    for found in sizes {
        let ratio = Summary::of_ratios(&found.downgrade, &found.restart).map(|found| spread(&found, ""));
        let longer: Vec<f64> = found.downgrade.iter().zip(&found.restart).map(|(ours, bare)| ours - bare).collect();
        rows += &format!(
            "| {} MB | {} | {} | {} | {} | {} | {} |\n",
            found.megabytes,
            cell(Some(&found.upgrade), " s"),
            cell(Some(&found.reload), " s"),
            cell(Some(&found.downgrade), " s"),
            cell(Some(&found.restart), " s"),
            ratio.unwrap_or_default(),
            cell(Some(&longer), " s")
        );
    }
    rows.trim_end().to_owned()
}

fn verdicts(results: &Results) -> String {
    let Some((_, found)) = &results.downtime else { return "Not measured: no bed can be had here.".to_owned() };
    let mut rows = "| version | after a reload | after a start |\n|---|---:|---:|\n".to_owned();
    for (name, reload, start) in [
        ("healthy, answers readiness", &found.healthy, &found.healthy_start),
        ("exits at once", &found.exits_reload, &found.exits_start),
    ] {
        rows += &format!("| {name} | {} | {} |\n", cell(Some(reload), " s"), cell(Some(start), " s"));
    }
    rows.trim_end().to_owned()
}

fn idle(results: &Results) -> String {
    let mut rows = "| host knows | `update` | `curl` | ratio | system calls: `update` | `curl` |\n\
                    |---|---:|---:|---:|---:|---:|\n"
        .to_owned();
    let millis = |seconds: &[f64]| seconds.iter().map(|seconds| seconds * 1000.0).collect::<Vec<_>>();
    for found in &results.idle {
        let ratio = Summary::of_ratios(&found.update, &found.curl).map(|found| spread(&found, ""));
        rows += &format!(
            "| {} | {} | {} | {} | {} | {} |\n",
            found.name,
            cell(Some(&millis(&found.update)), " ms"),
            cell(Some(&millis(&found.curl)), " ms"),
            ratio.unwrap_or_default(),
            found.update_calls,
            found.curl_calls
        );
    }
    rows.trim_end().to_owned()
}

/// A bar in a table would be a border.
fn escaped(way: Way) -> String {
    way.label().replace('|', "\\|")
}

fn cell(values: Option<&Vec<f64>>, unit: &str) -> String {
    values.and_then(|values| Summary::of(values)).map_or_else(|| "-".to_owned(), |found| spread(&found, unit))
}

/// The median, and where the middle half lies.
fn spread(found: &Summary, unit: &str) -> String {
    let [median, lower, upper] = [found.median, found.lower, found.upper].map(figure);
    format!("{median}{unit} ({lower} to {upper})")
}

/// Three digits.
fn figure(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value if value >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

fn ratio(found: Option<Summary>) -> Option<(String, f64)> {
    found.map(|found| (spread(&found, ""), found.median))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_of_the_template_is_filled() {
        let page = render(&Results::default());
        assert!(!page.contains("{{") && !page.contains("}}"), "{page}");
        assert!(page.contains("not measured"));
    }

    #[test]
    fn a_target_is_met_by_the_median_of_ratios_and_by_the_largest_of_times() {
        let verdicts = Verdicts { healthy: vec![5.0, 5.1, 6.5], exits_reload: vec![0.5], ..Verdicts::default() };
        let downtimes = Downtimes {
            megabytes: 1000,
            upgrade: vec![0.001],
            reload: vec![0.001],
            downgrade: vec![0.2, 0.9, 0.2],
            restart: vec![0.2, 0.2, 0.2],
        };
        let results = Results { binary: 5_000_000, downtime: Some((vec![downtimes], verdicts)), ..Results::default() };
        let table = targets(&results);
        let row = |what: &str| table.lines().find(|line| line.contains(what)).unwrap().to_owned();
        assert!(row("1000 MB database").ends_with("| 1.00 (1.00 to 2.75) | met |"), "{table}");
        assert!(row("healthy version").ends_with("| **not met** |"), "{table}");
        assert!(row("exits at once").ends_with("| met |"), "{table}");
        assert!(row("binary").ends_with("| 4.77 MiB | **not met** |"), "{table}");
        assert!(row("three passes").contains("not measured"), "{table}");
    }
}
