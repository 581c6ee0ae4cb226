//! Two panels, for light and dark pages: what a bad release broke over time under each policy, and how a good one spread.

use std::fmt::Write;
use std::rc::Rc;

use super::{GOOD_MINUTES, HOSTS, Outcome, PERSON, Results, SEEDS, grouped, halves, length, median, stopped_after};

/// The picture, and the part of it that has curves, in pixels.
const SIZE: (f64, f64) = (1000.0, 660.0);
const LEFT: f64 = 66.0;
const RIGHT: f64 = 690.0;
/// Where labels begin, and how far apart they are at least.
const LABELS: f64 = 716.0;
const APART: f64 = 18.0;
/// Above and below each panel's curves.
const BAD: (f64, f64) = (94.0, 352.0);
const GOOD: (f64, f64) = (440.0, 616.0);
/// Pixels between nought and one host on the logarithmic axis, and the power of ten at its top.
const NOUGHT: f64 = 20.0;
const DECADES: f64 = 4.0;
/// Minutes of a bad release that the picture shows: all is decided by then.
const SHOWN: usize = 6 * 60;
/// Minutes between two points of a good release's curve: a pixel.
const EACH: usize = 4;

/// Colours that the colour-blind tell apart too; those for dark pages come behind.
const STYLE: &str = "\
svg{color-scheme:light dark;font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}\
.paper{fill:#fff}.ink{fill:#1d2433}.soft{fill:#5b6577}.grid{stroke:#e3e7ee}.base{stroke:#9aa4b5}.person{stroke:#5b6577;stroke-dasharray:2 3}\
text{font-size:13px;font-variant-numeric:tabular-nums}.h{font-size:16px;font-weight:650}.first{font-weight:650}\
.c{fill:none;stroke-width:2;stroke-linejoin:round}.c0{stroke:#0b5cad;stroke-width:3.5}.c1{stroke:#c25a00}.c2{stroke:#00805c}\
.c3{stroke:#a3427c}.c4{stroke:#7a6a00}.c5{stroke:#444f63;stroke-dasharray:6 3}\
@media (prefers-color-scheme:dark){.paper{fill:#10141b}.ink{fill:#e8ecf3}.soft{fill:#9ba6b7}.grid{stroke:#252c37}.base{stroke:#566172}\
.person{stroke:#9ba6b7}.c0{stroke:#6db3ff}.c1{stroke:#ff9d4d}.c2{stroke:#3fcf9f}.c3{stroke:#ee92c8}.c4{stroke:#d9c64a}.c5{stroke:#b7c0cf}}";

/// The picture of a comparison.
pub(super) fn draw(results: &[Rc<Results>]) -> Outcome<String> {
    let (width, height) = SIZE;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\" aria-labelledby=\"t\">\n<title id=\"t\">{}</title>\n<style>{STYLE}</style>\n\
         <rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n",
        described(results)
    );
    text(
        &mut out,
        (24.0, 30.0),
        "ink h",
        &format!("A bad release: hosts that it broke, of {}", grouped(HOSTS.into())),
    )?;
    let below = format!("Median of {SEEDS} runs, logarithmic; hours since the first host was allowed to update");
    text(&mut out, (24.0, 50.0), "soft", &below)?;
    bad_axes(&mut out)?;
    bad_curves(&mut out, results)?;
    text(&mut out, (24.0, 402.0), "ink h", "A good release: hosts that have it")?;
    text(&mut out, (24.0, 422.0), "soft", "Hours since the first host was allowed to update")?;
    good_axes(&mut out)?;
    good_curves(&mut out, results)?;
    out.push_str("</svg>\n");
    Ok(out)
}

/// What the picture shows, for who does not see it.
fn described(results: &[Rc<Results>]) -> String {
    let of = |result: &Rc<Results>| format!("{} {}", name(result), shown(broken(result, SHOWN)));
    let all: Vec<String> = results.iter().map(of).collect();
    format!("Hosts that a bad release broke, median: {}", all.join("; "))
}

fn name(result: &Results) -> &str {
    result.contender.name.trim_matches('*')
}

fn text(out: &mut String, at: (f64, f64), class: &str, text: &str) -> std::fmt::Result {
    writeln!(out, "<text x=\"{:.1}\" y=\"{:.1}\" class=\"{class}\">{text}</text>", at.0, at.1)
}

fn label(out: &mut String, at: (f64, f64), anchor: &str, text: &str) -> std::fmt::Result {
    writeln!(out, "<text x=\"{:.1}\" y=\"{:.1}\" class=\"soft\" text-anchor=\"{anchor}\">{text}</text>", at.0, at.1)
}

fn line(out: &mut String, class: &str, from: (f64, f64), to: (f64, f64)) -> std::fmt::Result {
    let ((x1, y1), (x2, y2)) = (from, to);
    writeln!(out, "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>")
}

/// The place of a minute, of so many that the axis has.
fn x(minute: usize, of: usize) -> f64 {
    // Minutes of some days.
    LEFT + (RIGHT - LEFT) * minute as f64 / of as f64
}

/// The place of a number of broken hosts.
fn y(broken: f64) -> f64 {
    let (top, base) = BAD;
    if broken < 1.0 { base - NOUGHT * broken } else { base - NOUGHT - (base - NOUGHT - top) * broken.log10() / DECADES }
}

/// Hosts that it broke until `minute`: the median.
fn broken(result: &Results, minute: usize) -> f64 {
    let broken: Vec<u64> = result.bad.iter().map(|run| run.broken(minute, PERSON)).collect();
    // Hosts of a fleet.
    median(&broken) as f64 / 2.0
}

fn shown(broken: f64) -> String {
    // Not below nought, and a fleet's at most.
    halves((broken * 2.0) as u64)
}

/// Hours below a panel.
fn hours(out: &mut String, base: f64, minutes: usize, step: usize) -> std::fmt::Result {
    for hour in (0..=minutes / 60).step_by(step) {
        let x = x(hour * 60, minutes);
        line(out, "base", (x, base), (x, base + 4.0))?;
        label(out, (x, base + 18.0), "middle", &format!("{hour} h"))?;
    }
    Ok(())
}

fn bad_axes(out: &mut String) -> std::fmt::Result {
    for (hosts, shown) in
        [(0.0, "0"), (1.0, "1"), (10.0, "10"), (100.0, "100"), (1000.0, "1,000"), (10_000.0, "10,000")]
    {
        line(out, if hosts == 0.0 { "base" } else { "grid" }, (LEFT, y(hosts)), (RIGHT, y(hosts)))?;
        label(out, (LEFT - 8.0, y(hosts) + 4.0), "end", shown)?;
    }
    let person = x(PERSON * 60, SHOWN);
    line(out, "person", (person, BAD.0 - 6.0), (person, BAD.1))?;
    label(out, (person + 8.0, BAD.0 - 12.0), "end", &format!("a person stops what still goes on, after {PERSON} h"))?;
    hours(out, BAD.1, SHOWN, 1)
}

fn bad_curves(out: &mut String, results: &[Rc<Results>]) -> std::fmt::Result {
    // Ours comes last, on top.
    for (nth, result) in results.iter().enumerate().rev() {
        let heights: Vec<f64> = (0..=SHOWN).map(|minute| y(broken(result, minute))).collect();
        writeln!(out, "<path class=\"c c{nth}\" d=\"{}\"/>", path(&heights, 1, SHOWN))?;
    }
    if let Some(first) = results.first().filter(|first| first.bad.iter().all(|run| run.stops_before(PERSON))) {
        let after: Vec<u64> = first.bad.iter().map(stopped_after).collect();
        let minute = usize::try_from(median(&after) / 2).unwrap_or(0);
        let at = (x(minute, SHOWN), y(broken(first, SHOWN)));
        label(
            out,
            (at.0 + 10.0, at.1 + 20.0),
            "start",
            &format!("it stops by itself, after {}", length(median(&after) / 2)),
        )?;
    }
    let ends: Vec<f64> = results.iter().map(|result| y(broken(result, SHOWN))).collect();
    for ((nth, result), at) in results.iter().enumerate().zip(apart(&ends)) {
        let end = ends.get(nth).copied().unwrap_or(at);
        writeln!(out, "<path class=\"c c{nth}\" d=\"M{RIGHT:.1} {end:.1}L{:.1} {at:.1}\"/>", LABELS - 6.0)?;
        let class = if nth == 0 { "ink first" } else { "ink" };
        let hosts = shown(broken(result, SHOWN));
        text(out, (LABELS, at + 4.0), class, &format!("{}: {hosts}", name(result)))?;
    }
    Ok(())
}

/// The same heights, each at least a line from the next, those that are too near around their middle.
fn apart(heights: &[f64]) -> Vec<f64> {
    let mut order: Vec<(f64, usize)> = heights.iter().copied().zip(0..).collect();
    order.sort_by(|one, other| one.0.total_cmp(&other.0));
    // Labels that stand together.
    let mut blocks: Vec<Vec<(f64, usize)>> = Vec::new();
    for label in order {
        let mut block = vec![label];
        while let Some(above) = blocks.pop_if(|above| last_of(above) + APART > first_of(&block)) {
            block = [above, block].concat();
        }
        blocks.push(block);
    }
    let mut placed = heights.to_vec();
    for block in &blocks {
        let rows = std::iter::successors(Some(first_of(block)), |row| Some(row + APART));
        for ((_, nth), row) in block.iter().zip(rows) {
            placed.get_mut(*nth).into_iter().for_each(|place| *place = row);
        }
    }
    placed
}

/// Where the first label of a block stands.
fn first_of(block: &[(f64, usize)]) -> f64 {
    // A handful of labels.
    let count = block.len() as f64;
    block.iter().map(|(height, _)| height).sum::<f64>() / count - APART * (count - 1.0) / 2.0
}

/// Where the last one stands.
fn last_of(block: &[(f64, usize)]) -> f64 {
    // The same.
    first_of(block) + APART * (block.len() as f64 - 1.0)
}

fn good_axes(out: &mut String) -> std::fmt::Result {
    let (top, base) = GOOD;
    for (share, shown) in [(0.0, "0"), (0.5, "50,000"), (1.0, "100,000")] {
        let y = base - (base - top) * share;
        line(out, if share == 0.0 { "base" } else { "grid" }, (LEFT, y), (RIGHT, y))?;
        label(out, (LEFT - 8.0, y + 4.0), "end", shown)?;
    }
    hours(out, base, GOOD_MINUTES, 4)
}

fn good_curves(out: &mut String, results: &[Rc<Results>]) -> std::fmt::Result {
    let (top, base) = GOOD;
    for (nth, result) in results.iter().enumerate().rev() {
        // Hosts of a fleet.
        let heights: Vec<f64> = result
            .good
            .iter()
            .step_by(EACH)
            .map(|updated| base - (base - top) * *updated as f64 / f64::from(HOSTS))
            .collect();
        writeln!(out, "<path class=\"c c{nth}\" d=\"{}\"/>", path(&heights, EACH, GOOD_MINUTES))?;
    }
    for ((nth, result), row) in results.iter().enumerate().zip(0_u32..) {
        let at = top + 8.0 + 24.0 * f64::from(row);
        line(out, &format!("c c{nth}"), (RIGHT + 14.0, at), (LABELS + 14.0, at))?;
        let took = result.contender.endless.map_or_else(|| length(result.finish.unwrap_or(0)), str::to_owned);
        text(
            out,
            (LABELS + 24.0, at + 4.0),
            if nth == 0 { "ink first" } else { "ink" },
            &format!("{}: {took}", name(result)),
        )?;
    }
    Ok(())
}

/// A curve of heights, `each` minutes apart, of so many that the axis has. Points on a straight level are left out.
fn path(heights: &[f64], each: usize, minutes: usize) -> String {
    let mut path = String::new();
    let mut level: Option<f64> = None;
    for (nth, height) in heights.iter().enumerate() {
        let next = heights.get(nth + 1);
        let is_level = level.is_some_and(|level| (level - height).abs() < 0.05);
        if is_level && next.is_some_and(|next| (next - height).abs() < 0.05) {
            continue;
        }
        let command = if level.is_none() { 'M' } else { 'L' };
        // Writing to a String cannot fail.
        let _ = write!(path, "{command}{:.1} {height:.1}", x(nth * each, minutes));
        level = Some(*height);
    }
    path
}
