//! For people: what happened, a table, a sparkline a group.

use std::fmt::Write;

use fleet_engine::rollout::State;

use super::{Forecast, Group, Outcome, words};

/// Characters of a sparkline.
const SPARK: u64 = 24;
/// Its heights.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Most characters of a group's name.
const NAME: usize = 32;

pub(super) fn write(forecast: &Forecast) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = sections(forecast, &mut text);
    text
}

fn sections(forecast: &Forecast, out: &mut String) -> std::fmt::Result {
    writeln!(
        out,
        "Release {} to {} for {}, from {} on (seed {})\n",
        forecast.versions.0,
        forecast.versions.1,
        words::hosts(forecast.hosts),
        words::date(forecast.begin),
        forecast.seed
    )?;
    writeln!(out, "{}", verdict(forecast))?;
    writeln!(out, "{}\n", radius(forecast))?;
    table(forecast, out)?;
    writeln!(out, "\n{}", cdn(forecast))?;
    writeln!(out, "{}", server(forecast))?;
    if !forecast.notes.is_empty() {
        writeln!(out, "\nNotes:")?;
    }
    forecast.notes.iter().try_for_each(|note| writeln!(out, "  - {}", words::name(note, 400)))
}

/// How it ended, in a sentence.
pub(super) fn verdict(forecast: &Forecast) -> String {
    let took = words::length(forecast.took());
    let halted = forecast.groups.iter().filter(|group| group.halt.is_some());
    let first = halted.min_by_key(|group| group.halt.as_ref().map(|halt| halt.at));
    let stopped = |what: &str| {
        let group = first.map(shown).unwrap_or_default();
        format!("{what} in {group} after {took}: {}", first.map(reason).unwrap_or_default())
    };
    match forecast.outcome {
        Outcome::Done => format!("Done after {took}, {}.", words::moment(forecast.decided.unwrap_or(forecast.end))),
        Outcome::Halted => stopped("Halted") + ".",
        Outcome::RolledBack => stopped("Rolled back") + ".",
        Outcome::Stuck => format!("Stuck: {}.", waits(forecast)),
        Outcome::Unfinished => format!("Not done after {took}: {}.", waits(forecast)),
    }
}

/// The blast radius, in a sentence.
pub(super) fn radius(forecast: &Forecast) -> String {
    let hit = forecast.hit();
    let share = words::share(hit, forecast.hosts);
    let of = format!("of {} that this release would hit", words::count(forecast.at_risk));
    let before = forecast.hit_before_halt();
    let later =
        if before < hit { format!(", {} of them before the halt", words::count(before)) } else { String::new() };
    format!("Blast radius: {} ({share} of the fleet{later}), {of}.", words::hosts(hit))
}

/// Why a group was halted.
pub(super) fn reason(group: &Group) -> String {
    let Some(halt) = &group.halt else { return String::new() };
    format!("{} of {} ({})", words::count(halt.count), words::hosts(halt.of), halt.rule.name())
}

fn waits(forecast: &Forecast) -> String {
    let first = forecast.groups.iter().find(|group| group.state != State::Done);
    first.map_or_else(String::new, |group| format!("{}: {}", shown(group), group.why))
}

/// A group's name, also where it has none.
pub(super) fn shown(group: &Group) -> String {
    if group.name.is_empty() { "(no group)".to_owned() } else { words::name(&group.name, NAME) }
}

/// The state of a group in a word or two.
pub(super) fn state(group: &Group) -> &'static str {
    match (group.state, &group.halt) {
        (_, Some(halt)) if halt.goes_back => "rolled back",
        (State::Halted, _) => "halted",
        (State::Done, _) => "done",
        (State::Unstarted, _) => "not started",
        (State::Canary, _) => "canaries",
        (State::Active, _) if group.name == "everybody" && group.why.is_empty() => "done",
        (State::Active, _) => "not done",
        (State::RolledBack, _) => "rolled back",
    }
}

fn table(forecast: &Forecast, out: &mut String) -> std::fmt::Result {
    let head = [
        "GROUP",
        "HOSTS",
        "START",
        "END",
        "STATE",
        "TOLD",
        "UPDATED",
        "FAILED",
        "LOST",
        "AT ONCE",
        "UPDATED, START TO END",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(forecast.groups.iter().map(|group| row(forecast, group)));
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..head.len()).map(|column| width(column).unwrap_or(0)).collect();
    for row in &rows {
        let mut line = String::new();
        for ((column, cell), width) in row.iter().enumerate().zip(&widths) {
            let is_number = matches!(column, 1 | 5..=9);
            let pad = " ".repeat(width - cell.chars().count());
            let cell = if is_number { pad + cell } else { cell.clone() + &pad };
            line.push_str(&cell);
            line.push_str("  ");
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

fn row(forecast: &Forecast, group: &Group) -> [String; 11] {
    let at = |time: Option<jiff::Timestamp>| time.map_or_else(|| "-".to_owned(), words::moment);
    let end = group.halt.as_ref().map(|halt| halt.at).or(group.done);
    let cap = group.cap.map_or_else(|| "all".to_owned(), words::count);
    [
        shown(group),
        words::count(group.hosts),
        at(group.start),
        at(end),
        state(group).to_owned(),
        words::count(group.told),
        words::count(group.updated),
        words::count(group.broken),
        words::count(group.lost),
        cap,
        spark(forecast, group),
    ]
}

/// Updated hosts from the group's start to the last change in it.
fn spark(forecast: &Forecast, group: &Group) -> String {
    let seconds = |at: jiff::Timestamp| u64::try_from(at.duration_since(forecast.begin).as_secs()).unwrap_or(0);
    let Some(start) = group.start.map(seconds) else { return String::new() };
    let last = group.curve.samples().last().map_or(start, |sample| sample.at).max(start + 1);
    let height = |nth: u64| {
        let updated = group.curve.at(start + (last - start) * nth / (SPARK - 1)).updated;
        let bars = BARS.len() as u64;
        let bar = (updated * bars).div_ceil(group.hosts.max(1)).clamp(1, bars) - 1;
        BARS.get(usize::try_from(bar).unwrap_or(0)).copied().unwrap_or(' ')
    };
    (0..SPARK).map(height).collect()
}

/// What the CDN carries.
pub(super) fn cdn(forecast: &Forecast) -> String {
    let load = &forecast.load;
    let (minute, busiest) = load.busiest();
    let size = words::bytes(load.size);
    let all = words::bytes(load.downloads().saturating_mul(load.size));
    let seconds = i64::try_from(minute.saturating_mul(60)).unwrap_or(0);
    let at = forecast.begin.saturating_add(jiff::SignedDuration::from_secs(seconds)).unwrap_or(forecast.begin);
    if busiest == 0 {
        return "CDN: nothing is downloaded".to_owned();
    }
    format!(
        "CDN: {} {} of {size} ({all}); busiest minute {}: {}, {}",
        words::count(load.downloads()),
        if load.downloads() == 1 { "download" } else { "downloads" },
        words::moment(at),
        words::count(busiest),
        words::bits(load.bits_per_second())
    )
}

/// What the server carries.
fn server(forecast: &Forecast) -> String {
    let load = &forecast.load;
    format!(
        "Server: {} questions a second; at most {} of updates a minute",
        words::hundredths(load.questions()),
        match load.most_reports() {
            1 => "1 report".to_owned(),
            most => format!("{} reports", words::count(most)),
        }
    )
}
