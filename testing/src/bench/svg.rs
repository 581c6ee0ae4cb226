//! Plots as SVG, written by hand: a background of their own, so that they are read in light and in dark mode.

use std::fmt::Write;

/// Pixels.
const WIDTH: f64 = 760.0;
/// Left of the plot: labels.
const LEFT: f64 = 150.0;
/// Right of it: figures.
const RIGHT: f64 = 120.0;
const FONT: &str = "font-family='system-ui,Segoe UI,Helvetica,Arial,sans-serif'";
/// Told apart also by those who see few colours (Okabe and Ito).
pub const COLOURS: [&str; 6] = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00"];
const INK: &str = "#1f2328";
const GREY: &str = "#d0d7de";

/// A bar: what, how long, and from where to where its middle half lies.
#[derive(Debug, Clone)]
pub struct Bar {
    /// Left of it.
    pub label: String,
    /// Its length.
    pub value: f64,
    /// Lower and upper quartile.
    pub spread: (f64, f64),
    /// Index into [`COLOURS`].
    pub colour: usize,
}

/// Bars in groups, each group with its own scale; `unit` follows each figure.
pub fn bars(title: &str, groups: &[(String, Vec<Bar>)], unit: &str) -> String {
    let (row, gap, top) = (24.0, 34.0, 44.0);
    let height = top + groups.iter().map(|(_, bars)| gap + bars.len() as f64 * row).sum::<f64>() + 16.0;
    let mut svg = head(title, height);
    let mut y = top;
    for (name, bars) in groups {
        text(&mut svg, (LEFT, y + 18.0), 13, "start", &format!("<tspan font-weight='600'>{}</tspan>", escape(name)));
        y += gap;
        let most = bars.iter().map(|bar| bar.spread.1.max(bar.value)).fold(f64::MIN_POSITIVE, f64::max);
        let x = |value: f64| LEFT + value / most * (WIDTH - LEFT - RIGHT);
        for bar in bars {
            text(&mut svg, (LEFT - 8.0, y + 14.0), 12, "end", &escape(&bar.label));
            let (colour, end) = (COLOURS[bar.colour % COLOURS.len()], x(bar.value));
            let _ = writeln!(
                svg,
                "<rect x='{LEFT}' y='{:.1}' width='{:.1}' height='16' fill='{colour}'/>",
                y + 2.0,
                end - LEFT
            );
            let (from, to) = (x(bar.spread.0), x(bar.spread.1));
            let _ = writeln!(
                svg,
                "<path d='M{from:.1} {0:.1}H{to:.1}M{from:.1} {1:.1}v8M{to:.1} {1:.1}v8' stroke='{INK}'/>",
                y + 10.0,
                y + 6.0
            );
            text(&mut svg, (to.max(end) + 8.0, y + 14.0), 12, "start", &format!("{} {unit}", short(bar.value)));
            y += row;
        }
    }
    svg + "</svg>\n"
}

/// A line of a [`lines`] plot: its name, and its points.
pub type Line = (String, Vec<(f64, f64)>);

/// One plot above the other over the same horizontal axis; a panel is its title and its lines.
pub fn lines(title: &str, across: &str, panels: &[(String, Vec<Line>)]) -> String {
    let (panel, gap, top) = (150.0, 44.0, 64.0);
    let height = top + panels.len() as f64 * (panel + gap) + 16.0;
    let mut svg = head(title, height);
    let points = || panels.iter().flat_map(|(_, lines)| lines).flat_map(|(_, points)| points);
    let widest = points().map(|point| point.0).fold(f64::MIN_POSITIVE, f64::max);
    let (left, right) = (70.0, WIDTH - 20.0);
    let x = |value: f64| left + value / widest * (right - left);
    if let Some((_, lines)) = panels.first() {
        for (at, (name, _)) in lines.iter().enumerate() {
            let from = left + at as f64 * 165.0;
            let _ = writeln!(svg, "<path d='M{from} 46h22' stroke='{}' stroke-width='3'/>", COLOURS[at]);
            text(&mut svg, (from + 28.0, 50.0), 12, "start", &escape(name));
        }
    }
    for (number, (name, lines)) in panels.iter().enumerate() {
        let y_top = top + number as f64 * (panel + gap) + 22.0;
        let y_bottom = y_top + panel;
        let most = round_up(lines.iter().flat_map(|(_, points)| points).map(|point| point.1).fold(1.0, f64::max));
        let y = |value: f64| y_bottom - value / most * panel;
        text(&mut svg, (left, y_top - 6.0), 12, "start", &format!("<tspan font-weight='600'>{}</tspan>", escape(name)));
        for part in 0..=2 {
            let value = most * f64::from(part) / 2.0;
            let _ = writeln!(svg, "<path d='M{left} {:.1}H{right}' stroke='{GREY}'/>", y(value));
            text(&mut svg, (left - 6.0, y(value) + 4.0), 11, "end", &short(value));
        }
        for (at, (_, points)) in lines.iter().enumerate() {
            let mut path = String::new();
            for (index, point) in points.iter().enumerate() {
                // Within a level stretch no point is needed.
                let is_level = |other: Option<&(f64, f64)>| other.is_some_and(|other| other.1 == point.1);
                if index > 0 && is_level(points.get(index - 1)) && is_level(points.get(index + 1)) {
                    continue;
                }
                let _ = write!(path, "{}{:.1} {:.1}", if index == 0 { 'M' } else { 'L' }, x(point.0), y(point.1));
            }
            let _ = writeln!(svg, "<path d='{path}' fill='none' stroke='{}' stroke-width='1.6'/>", COLOURS[at]);
        }
        let step = round_up(widest / 8.0);
        for part in 0..=(widest / step) as u32 {
            let value = f64::from(part) * step;
            text(&mut svg, (x(value), y_bottom + 14.0), 11, "middle", &format!("{value:.0}"));
        }
    }
    text(&mut svg, ((left + right) / 2.0, height - 8.0), 12, "middle", &escape(across));
    svg + "</svg>\n"
}

fn head(title: &str, height: f64) -> String {
    let mut svg = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' width='{WIDTH}' height='{height}' \
         {FONT}>\n<title>{0}</title>\n<rect width='100%' height='100%' rx='6' fill='#ffffff'/>\n",
        escape(title)
    );
    text(&mut svg, (16.0, 26.0), 15, "start", &escape(title));
    svg
}

fn text(svg: &mut String, (x, y): (f64, f64), size: u32, anchor: &str, what: &str) {
    let _ = writeln!(
        svg,
        "<text x='{x:.1}' y='{y:.1}' font-size='{size}' text-anchor='{anchor}' fill='{INK}'>{what}</text>"
    );
}

/// A figure with as many digits as matter.
pub fn short(value: f64) -> String {
    match value {
        value if value >= 10_000.0 => format!("{:.0}k", value / 1000.0),
        value if value >= 100.0 || value == 0.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// The next of 1, 2, 5, 10, 20, ….
fn round_up(value: f64) -> f64 {
    let magnitude = 10_f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|step| step * magnitude).into_iter().find(|step| *step >= value).unwrap_or(value)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_has_its_own_background_and_every_mark() {
        let bar = Bar { label: "a < b".to_owned(), value: 2.0, spread: (1.5, 2.5), colour: 0 };
        let svg = bars("Times", &[("180 MB".to_owned(), vec![bar.clone(), bar])], "s");
        assert!(svg.contains("fill='#ffffff'") && svg.contains("a &lt; b") && svg.ends_with("</svg>\n"));
        assert_eq!(svg.matches("height='16'").count(), 2);
        let line: Line = ("one".to_owned(), vec![(0.0, 0.0), (1.0, 3.0)]);
        let svg = lines("Load", "seconds", &[("requests".to_owned(), vec![line.clone(), line])]);
        assert_eq!(svg.matches("stroke-width='1.6'").count(), 2);
    }

    #[test]
    fn figures_have_the_digits_that_matter() {
        assert_eq!([0.0, 0.123, 12.34, 123.4, 99_999.0].map(short), ["0", "0.12", "12.3", "123", "100k"]);
        assert_eq!([3.0, 7.0, 120.0, 1.0].map(round_up), [5.0, 10.0, 200.0, 1.0]);
    }
}
