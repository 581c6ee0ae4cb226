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

impl Forecast {
    /// For people: a table, a sparkline a group.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = sections(self, &mut text);
        text
    }
}

fn sections(forecast: &Forecast, out: &mut String) -> std::fmt::Result {
    writeln!(
        out,
        "Release {} to {} for {}, from {} on (seed {})\n",
        forecast.versions.0,
        forecast.versions.1,
        words::counted(forecast.hosts, "host"),
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
    format!("Blast radius: {} ({share} of the fleet{later}), {of}.", words::counted(hit, "host"))
}

/// Why a group was halted.
pub(super) fn reason(group: &Group) -> String {
    let Some(halt) = &group.halt else { return String::new() };
    format!("{} of {} ({})", words::count(halt.count), words::counted(halt.of, "host"), halt.rule.name())
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

/// What a column says of a group.
type GroupColumn = fn(&Forecast, &Group) -> String;

/// The columns of the table: head, whether it has numbers, cells.
const COLUMNS: [(&str, bool, GroupColumn); 11] = [
    ("GROUP", false, |_, group| shown(group)),
    ("HOSTS", true, |_, group| words::count(group.hosts)),
    ("START", false, |_, group| moment(group.start)),
    ("END", false, |_, group| moment(group.halt.as_ref().map(|halt| halt.at).or(group.done))),
    ("STATE", false, |_, group| state(group).to_owned()),
    ("ALLOWED", true, |_, group| words::count(group.told)),
    ("UPDATED", true, |_, group| words::count(group.updated)),
    ("FAILED", true, |_, group| words::count(group.broken)),
    ("LOST", true, |_, group| words::count(group.lost)),
    ("AT ONCE", true, |_, group| group.cap.map_or_else(|| "all".to_owned(), words::count)),
    ("UPDATED, START TO END", false, spark),
];

fn table(forecast: &Forecast, out: &mut String) -> std::fmt::Result {
    let mut lines = vec![String::new(); forecast.groups.len() + 1];
    for (head, is_number, cell) in COLUMNS {
        let cells = forecast.groups.iter().map(|group| cell(forecast, group));
        let cells: Vec<String> = std::iter::once(head.to_owned()).chain(cells).collect();
        let width = cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
        for (line, cell) in lines.iter_mut().zip(cells) {
            let pad = " ".repeat(width - cell.chars().count());
            line.push_str(&if is_number { pad + &cell } else { cell + &pad });
            line.push_str("  ");
        }
    }
    lines.iter().try_for_each(|line| writeln!(out, "{}", line.trim_end()))
}

fn moment(time: Option<jiff::Timestamp>) -> String {
    time.map_or_else(|| "-".to_owned(), words::moment)
}

/// Updated hosts from the group's start to the last change in it.
fn spark(forecast: &Forecast, group: &Group) -> String {
    let Some(start) = group.start.map(|at| forecast.second(at)) else { return String::new() };
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
    let (_, busiest) = load.busiest();
    let size = words::scaled(load.size, "B");
    let all = words::scaled(load.downloads().saturating_mul(load.size), "B");
    if busiest == 0 {
        return "CDN: nothing is downloaded".to_owned();
    }
    format!(
        "CDN: {} of {size} ({all}); busiest minute {}: {}, {}",
        words::counted(load.downloads(), "download"),
        words::moment(forecast.busiest()),
        words::count(busiest),
        words::scaled(load.bits_per_second(), "bit/s")
    )
}

/// What the server carries.
fn server(forecast: &Forecast) -> String {
    let load = &forecast.load;
    format!(
        "Server: {} questions a second; at most {} of updates a minute",
        words::hundredths(load.questions()),
        words::counted(load.most_reports(), "report")
    )
}
