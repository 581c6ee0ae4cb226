//! A picture: a panel for each group with the hosts that may update, updated and failed over time, and what the CDN carries.
//!
//! Times in which nothing changes are cut out of the axis, and marked with their length: a rollout of days has minutes of
//! curves.

use fleet_engine::plain::is_unsafe;
use std::fmt::Write;

use fleet_engine::rollout::State;

use super::axis::{Axis, Piece};
use super::{CurveSample, Forecast, Group, text, words};

/// The picture's width, and where its panels begin and end, in pixels.
const WIDTH: f64 = 1000.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 976.0;
/// Where the first panel begins.
const TOP: f64 = 128.0;
/// A panel with its title, and its curves alone.
const PANEL: f64 = 138.0;
const CURVES: f64 = 92.0;
/// The same where there are many groups.
const SMALL_PANEL: f64 = 98.0;
const SMALL_CURVES: f64 = 54.0;
/// The panel of a group that did not begin: its title alone.
const IDLE_PANEL: f64 = 32.0;
/// More groups than this get small panels.
const FEW: usize = 6;
/// The panel of the CDN.
const LOAD: f64 = 44.0;
/// Characters of a group's reason, so that its line ends within the picture.
const WHY: usize = 90;
/// Points nearer than this are one, in pixels.
const NEAR: f64 = 0.7;

/// Colours for light pages; those for dark ones come behind.
const STYLE: &str = "\
svg{color-scheme:light dark;font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}\
.paper{fill:#fff}.ink{fill:#1d2433}.soft{fill:#5b6577}.grid{stroke:#e3e7ee;stroke-width:1}.base{stroke:#9aa4b5;stroke-width:1}\
.go{fill:none;stroke:#64748b;stroke-width:1.6;stroke-dasharray:5 3}.up{fill:none;stroke:#1d64d8;stroke-width:2}\
.up-area{fill:#1d64d8;fill-opacity:.14}.bad{fill:none;stroke:#d0342c;stroke-width:2}.bad-area{fill:#d0342c;fill-opacity:.22}\
.halt{stroke:#d0342c;stroke-width:1.4;stroke-dasharray:2 2}.alarm{fill:#b42318}.fine{fill:#0b7a53}.gap{fill:#8a94a6;fill-opacity:.10}\
.down{fill:#d98b06;fill-opacity:.16}.warn{fill:#8f5b00}.cdn{fill:#7c5cd6;fill-opacity:.75}\
text{font-size:12px}.h1{font-size:20px;font-weight:650}.h2{font-size:13px;font-weight:600}.n{font-variant-numeric:tabular-nums}\
@media (prefers-color-scheme:dark){\
.paper{fill:#10141b}.ink{fill:#e8ecf3}.soft{fill:#9ba6b7}.grid{stroke:#252c37}.base{stroke:#566172}\
.go{stroke:#94a3b8}.up{stroke:#6aa5ff}.up-area{fill:#6aa5ff;fill-opacity:.18}.bad{stroke:#ff7b72}.bad-area{fill:#ff7b72;fill-opacity:.26}\
.halt{stroke:#ff7b72}.alarm{fill:#ff8f87}.fine{fill:#4cc79a}.gap{fill:#9ba6b7;fill-opacity:.08}\
.down{fill:#e5a53a;fill-opacity:.18}.warn{fill:#f0bf6a}.cdn{fill:#a58cf5}}";

impl Forecast {
    /// A picture: one file that needs nothing else, for light and dark pages.
    pub fn svg(&self) -> String {
        let mut picture = Picture::new(self);
        // Writing to a String cannot fail.
        let _ = picture.draw();
        picture.out
    }
}

struct Picture<'a> {
    forecast: &'a Forecast,
    axis: Axis,
    out: String,
    panel: f64,
    curves: f64,
}

impl<'a> Picture<'a> {
    fn new(forecast: &'a Forecast) -> Self {
        let is_small = forecast.groups.len() > FEW;
        let (panel, curves) = if is_small { (SMALL_PANEL, SMALL_CURVES) } else { (PANEL, CURVES) };
        Self { forecast, axis: Axis::of(forecast, LEFT, RIGHT), out: String::new(), panel, curves }
    }

    /// Where a group's panel begins; behind the last one, where they end.
    fn top(&self, nth: usize) -> f64 {
        let height = |group: &Group| if has_moved(group) { self.panel } else { IDLE_PANEL };
        TOP + self.forecast.groups.iter().take(nth).map(height).sum::<f64>()
    }

    fn draw(&mut self) -> std::fmt::Result {
        let load_top = self.top(self.forecast.groups.len());
        let bottom = load_top + 24.0 + LOAD;
        let height = bottom + 64.0;
        let (from, to) = &self.forecast.versions;
        let title = format!("{from} to {to} on {}", words::counted(self.forecast.hosts, "host"));
        let description = format!("{} {}", text::verdict(self.forecast), text::radius(self.forecast));
        write!(
            self.out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH:.0} {height:.0}\" width=\"{WIDTH:.0}\" \
             height=\"{height:.0}\" role=\"img\" aria-labelledby=\"t d\">\n<title id=\"t\">{}</title>\n<desc id=\"d\">{}</desc>\n\
             <style>{STYLE}</style>\n<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n",
            escaped(&title),
            escaped(&description)
        )?;
        self.head(&title)?;
        self.cuts(bottom)?;
        for nth in 0..self.forecast.groups.len() {
            self.group(nth)?;
        }
        self.load(load_top)?;
        self.ticks(bottom)?;
        self.out.push_str("</svg>\n");
        Ok(())
    }

    fn text(&mut self, x: f64, y: f64, class: &str, text: &str) -> std::fmt::Result {
        writeln!(self.out, "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\">{}</text>", escaped(text))
    }

    fn text_at(&mut self, x: f64, y: f64, class: &str, anchor: &str, text: &str) -> std::fmt::Result {
        let text = escaped(text);
        writeln!(self.out, "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\" text-anchor=\"{anchor}\">{text}</text>")
    }

    fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) -> std::fmt::Result {
        let ((x1, y1), (x2, y2)) = (from, to);
        writeln!(self.out, "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>")
    }

    fn rect(&mut self, class: &str, from: (f64, f64), size: (f64, f64)) -> std::fmt::Result {
        let ((x, y), (width, height)) = (from, size);
        writeln!(
            self.out,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>"
        )
    }

    /// Title, verdict, blast radius, legend.
    fn head(&mut self, title: &str) -> std::fmt::Result {
        let is_good = self.forecast.outcome == super::Outcome::Done;
        self.text(24.0, 34.0, "ink h1", title)?;
        self.text(24.0, 58.0, if is_good { "fine h2" } else { "alarm h2" }, &text::verdict(self.forecast))?;
        self.text(24.0, 78.0, "soft", &text::radius(self.forecast))?;
        let mut x = LEFT;
        for (class, area, name) in
            [("go", "", "may update"), ("up", "up-area", "updated"), ("bad", "bad-area", "failed or timed out")]
        {
            if !area.is_empty() {
                self.rect(area, (x, 92.0), (26.0, 10.0))?;
            }
            let y = if area.is_empty() { 97.0 } else { 92.0 };
            self.line(class, (x, y), (x + 26.0, y))?;
            self.text(x + 33.0, 101.0, "soft", name)?;
            x += 56.0 + 7.0 * name.len() as f64;
        }
        if self.axis.gaps().next().is_some() {
            self.rect("gap", (x, 91.0), (26.0, 12.0))?;
            self.text(x + 33.0, 101.0, "soft", "nothing changes: shortened")?;
            x += 56.0 + 7.0 * 24.0;
        }
        if !self.forecast.spans.is_empty() {
            self.rect("down", (x, 91.0), (26.0, 12.0))?;
            let mut names: Vec<&str> = self.forecast.spans.iter().map(|(name, ..)| name.as_str()).collect();
            names.dedup();
            self.text(x + 33.0, 101.0, "soft", &names.join(", "))?;
        }
        Ok(())
    }

    /// Times that are cut out, and those at which a server is down, behind all panels.
    fn cuts(&mut self, bottom: f64) -> std::fmt::Result {
        let top = TOP - 12.0;
        let gaps: Vec<Piece> = self.axis.gaps().copied().collect();
        for gap in gaps {
            self.rect("gap", (gap.x.0, top), (gap.width(), bottom - top))?;
            let length = i64::try_from(gap.at.1 - gap.at.0).unwrap_or(0);
            let length = words::length(jiff::SignedDuration::from_secs(length));
            let x = f64::midpoint(gap.x.0, gap.x.1);
            self.text_at(x, bottom + 48.0, "soft n", "middle", &format!("+{length}"))?;
        }
        for (name, from, to) in &self.forecast.spans {
            let [from, to] = [from, to].map(|at| self.axis.x(self.forecast.second(*at)));
            let name = escaped(name);
            writeln!(
                self.out,
                "<rect class=\"down\" x=\"{from:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\"><title>{name}</title></rect>",
                (to - from).max(1.0),
                bottom - top
            )?;
        }
        Ok(())
    }

    fn group(&mut self, nth: usize) -> std::fmt::Result {
        let forecast = self.forecast;
        let Some(group) = forecast.groups.get(nth) else { return Ok(()) };
        let top = self.top(nth) + 22.0;
        let base = top + self.curves;
        let summary = format!("{}: {}", text::shown(group), facts(group));
        writeln!(self.out, "<g><title>{}</title>", escaped(&summary))?;
        self.heading(group, top - 10.0)?;
        if has_moved(group) {
            self.curves_of(group, top, base)?;
        }
        self.out.push_str("</g>\n");
        Ok(())
    }

    /// A group's name, and what became of it.
    fn heading(&mut self, group: &Group, y: f64) -> std::fmt::Result {
        let class = match (group.state, &group.halt) {
            (_, Some(_)) => "alarm",
            (State::Done, None) => "fine",
            _ => "soft",
        };
        let name = text::shown(group);
        self.text(LEFT, y, "ink h2", &name)?;
        let x = LEFT + 14.0 + 8.2 * name.chars().count() as f64;
        self.text(x, y, class, &facts(group))
    }

    fn curves_of(&mut self, group: &Group, top: f64, base: f64) -> std::fmt::Result {
        let most = group.hosts.max(1);
        for (share, label) in [(1.0, most), (0.5, most / 2), (0.0, 0)] {
            let y = base - self.curves * share;
            self.line(if share > 0.0 { "grid" } else { "base" }, (LEFT, y), (RIGHT, y))?;
            if share == 1.0 || share == 0.0 || most >= 10 {
                self.text_at(LEFT - 8.0, y + 4.0, "soft n", "end", &words::count(label))?;
            }
        }
        let height = self.curves;
        let y = |hosts: u64| base - height * ratio(hosts.min(most), most);
        let samples = group.curve.samples();
        self.curve(samples, "up", Some("up-area"), base, |sample| y(sample.updated))?;
        self.curve(samples, "bad", Some("bad-area"), base, |sample| y(sample.failed))?;
        self.curve(samples, "go", None, base, |sample| y(sample.let_go))?;
        if let Some(halt) = &group.halt {
            let x = self.axis.x(self.forecast.second(halt.at));
            self.line("halt", (x, top - 4.0), (x, base))?;
            let what = if halt.goes_back { "goes back" } else { "halt" };
            let (x, anchor) = if x > RIGHT - 190.0 { (x - 6.0, "end") } else { (x + 6.0, "start") };
            self.text_at(x, top + 24.0, "alarm h2", anchor, &format!("{what} {}", halt.at.strftime("%H:%M")))?;
        }
        Ok(())
    }

    /// A curve, and what is below it. Between two samples nothing changed until a minute before the later one.
    fn curve(
        &mut self,
        samples: &[CurveSample],
        class: &str,
        area: Option<&str>,
        base: f64,
        y: impl Fn(&CurveSample) -> f64,
    ) -> std::fmt::Result {
        /// Seconds between two steps of the engine.
        const STEP: u64 = 60;
        // What is at nought is not drawn before it rises.
        let rises = samples.iter().position(|sample| y(sample) < base).unwrap_or(samples.len());
        let samples = samples.get(rises..).unwrap_or_default();
        let mut points: Vec<(f64, f64)> = Vec::new();
        if let Some(first) = samples.first().filter(|first| first.at >= STEP) {
            points.push((self.axis.x(first.at - STEP), base));
        }
        for (nth, sample) in samples.iter().enumerate() {
            let before = nth.checked_sub(1).and_then(|before| samples.get(before));
            if let Some(before) = before.filter(|before| sample.at > before.at + STEP) {
                points.push((self.axis.x(sample.at - STEP), y(before)));
            }
            points.push((self.axis.x(sample.at), y(sample)));
        }
        if let Some((_, last)) = points.last().copied() {
            points.push((RIGHT, last));
        }
        let is_flat = points.iter().all(|(_, y)| *y >= base);
        if is_flat {
            return Ok(());
        }
        let path = path(&points);
        if let (Some(area), Some((first, _))) = (area, points.first()) {
            writeln!(self.out, "<path class=\"{area}\" d=\"{path}V{base:.1}H{first:.1}Z\"/>")?;
        }
        writeln!(self.out, "<path class=\"{class}\" d=\"{path}\"/>")
    }

    /// Downloads a minute.
    fn load(&mut self, top: f64) -> std::fmt::Result {
        let forecast = self.forecast;
        let (_, most) = forecast.load.busiest();
        let (top, base) = (top + 22.0, top + 22.0 + LOAD);
        self.text(LEFT, top - 10.0, "ink h2", "CDN")?;
        self.text(LEFT + 44.0, top - 10.0, "soft", text::cdn(forecast).trim_start_matches("CDN: "))?;
        self.line("base", (LEFT, base), (RIGHT, base))?;
        if most == 0 {
            return Ok(());
        }
        self.line("grid", (LEFT, top), (RIGHT, top))?;
        self.text_at(LEFT - 8.0, top + 4.0, "soft n", "end", &format!("{}/min", words::count(most)))?;
        self.text_at(LEFT - 8.0, base + 4.0, "soft n", "end", "0")?;
        let mut path = String::new();
        for (minute, downloads, _) in forecast.load.minutes.iter().filter(|(_, downloads, _)| *downloads > 0) {
            let (from, to) = (self.axis.x(minute * 60), self.axis.x(minute * 60 + 60));
            let height = LOAD * ratio(*downloads, most);
            write!(path, "M{from:.1} {base:.1}v{:.1}h{:.2}v{height:.1}Z", -height, (to - from).max(0.6))?;
        }
        writeln!(self.out, "<path class=\"cdn\" d=\"{path}\"/>")
    }

    /// The axis of time.
    fn ticks(&mut self, bottom: f64) -> std::fmt::Result {
        for tick in self.axis.ticks(self.forecast.begin) {
            self.line("base", (tick.x, bottom), (tick.x, bottom + 4.0))?;
            self.text_at(tick.x, bottom + 18.0, "soft n", "middle", &tick.clock)?;
            if let Some(day) = &tick.day {
                self.text_at(tick.x, bottom + 33.0, "ink n", "middle", day)?;
            }
        }
        self.text(12.0, bottom + 18.0, "soft", "UTC")
    }
}

/// Whether there is something to draw of a group.
fn has_moved(group: &Group) -> bool {
    let is_nought = |sample: &CurveSample| sample.let_go == 0 && sample.updated == 0 && sample.failed == 0;
    !group.curve.samples().iter().all(is_nought)
}

/// What a group's panel says above its curves.
fn facts(group: &Group) -> String {
    let mut facts = vec![text::state(group).to_owned()];
    match (&group.halt, group.start.zip(group.done)) {
        (Some(_), _) => facts.push(text::reason(group)),
        (None, Some((start, done))) => facts.push(format!("in {}", words::length(done.duration_since(start)))),
        (None, None) if !group.why.is_empty() => facts.push(words::name(&group.why, WHY)),
        _ => {}
    }
    facts.push(format!("{} of {} updated", words::count(group.updated), words::counted(group.hosts, "host")));
    if group.hit() > 0 {
        facts.push(format!("{} hit", words::count(group.hit())));
    }
    facts.join(" · ")
}

fn path(points: &[(f64, f64)]) -> String {
    let mut path = String::new();
    let mut last: Option<(f64, f64)> = None;
    for (nth, (x, y)) in points.iter().enumerate() {
        let is_near = last.is_some_and(|(before, height)| (x - before).abs() < NEAR && (y - height).abs() < NEAR);
        if is_near && nth + 1 < points.len() {
            continue;
        }
        let command = if last.is_none() { 'M' } else { 'L' };
        let _ = write!(path, "{command}{x:.1} {y:.1}");
        last = Some((*x, *y));
    }
    path
}

/// A part of a whole, for pixels.
fn ratio(part: u64, whole: u64) -> f64 {
    // Counts of hosts are far below 2^52.
    part as f64 / whole.max(1) as f64
}

/// A text for XML, without characters that it does not have.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            char if is_unsafe(char) => escaped.push('\u{fffd}'),
            char => escaped.push(char),
        }
    }
    escaped
}
