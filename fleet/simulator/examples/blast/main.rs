//! `blast DIR`: a release that breaks 5 % of 100,000 hosts, under the package's example policy and under those of its peers
//! (`tests/bench/blast/`). Writes the tables of `DIR/blast-radius.md`, each between its two marks, and the pictures beside it. The
//! same source gives the same bytes. For `make blast`.
#![allow(clippy::disallowed_methods, reason = "writes pages for people, no state of the server")]

use std::error::Error;
use std::fmt::Write;
use std::path::Path;
use std::rc::Rc;

use fleet_engine::resource;
use fleet_simulator::forecast::{self, CurveSample, Forecast, ForecastPlan, HostShare, HostSource, Made};
use jiff::{SignedDuration, Timestamp};

mod picture;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// The fleet, the share of it that the bad release breaks, and how many draws of hosts.
const HOSTS: u32 = 100_000;
const BAD: &str = "5%";
/// What fails on a good release as well: one host in a thousand.
const NOISE: &str = "0.1%";
const SEEDS: u64 = 20;
/// A Monday.
const BEGIN: &str = "2026-01-05T00:00:00Z";
/// Hours from the first host on at which a person stops what does not stop by itself. The second table varies it.
const PERSON: usize = 5;
const PERSONS: [usize; 3] = [1, PERSON, 13];
/// Minutes from the first host on that are looked at of a bad release, and of a good one.
const BAD_MINUTES: usize = 14 * 60;
const GOOD_MINUTES: usize = 56 * 60;

/// Hours that a simulation lasts at most.
const LONGEST: usize = 24 * 30;

/// A policy of the comparison.
struct Contender {
    /// As tables and pictures name it.
    name: &'static str,
    /// Its file, from the top of the source.
    file: &'static str,
    /// Hosts of its groups; empty: equal parts.
    groups: &'static [(&'static str, u32)],
    /// It may stop by itself later than [`BAD_MINUTES`]: it is simulated to its end.
    stops_late: bool,
    /// No simulation sees its end: what the table says instead.
    endless: Option<&'static str>,
}

impl Contender {
    const fn new(name: &'static str, file: &'static str) -> Self {
        Self { name, file, groups: &[], stops_late: false, endless: None }
    }
}

const OURS: Contender = Contender::new("**example policy**", "packaging/fleet/examples/policy.yaml");
/// Its own 48 hours are the finish time of ours, or nearly.
const FCOS: Contender = Contender::new("Fedora CoreOS", "tests/bench/blast/fcos.yaml");

/// Each as it comes.
const AS_IT_COMES: [Contender; 5] = [
    OURS,
    Contender::new("v2, one group", "tests/bench/blast/v2-default.yaml"),
    Contender {
        endless: Some("11 years"),
        ..Contender::new("Nebraska, safe mode", "tests/bench/blast/nebraska-default.yaml")
    },
    FCOS,
    Contender::new("hawkBit, one group", "tests/bench/blast/hawkbit-default.yaml"),
];

/// Each tuned to the finish time of the first.
const SAME_TIME: [Contender; 6] = [
    OURS,
    Contender { stops_late: true, ..Contender::new("v2, three groups", "tests/bench/blast/v2.yaml") },
    Contender::new("Nebraska, safe mode", "tests/bench/blast/nebraska.yaml"),
    FCOS,
    Contender::new("hawkBit, 50 groups", "tests/bench/blast/hawkbit.yaml"),
    Contender {
        groups: &[("g1", 100), ("g2", 400), ("g3", 1500), ("g4", 6000), ("g5", 23_000), ("g6", 69_000)],
        ..Contender::new("hawkBit, growing groups", "tests/bench/blast/hawkbit-strict.yaml")
    },
];

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().collect();
    let [_, dir] = &words[..] else { return Err("blast DIR".into()) };
    let dir = Path::new(dir);
    let page = dir.join("blast-radius.md");
    let mut text = std::fs::read_to_string(&page).map_err(|error| format!("{}: {error}", page.display()))?;
    let mut known = Vec::new();
    let (came, tuned) = (results(&AS_IT_COMES, &mut known)?, results(&SAME_TIME, &mut known)?);
    text = replaced(&text, "as it comes", &table(&came)?)?;
    text = replaced(&text, "same time", &table(&tuned)?)?;
    text = replaced(&text, "persons", &persons(&came, &tuned)?)?;
    text = replaced(&text, "noise", &noise(&OURS)?)?;
    std::fs::write(&page, text)?;
    std::fs::write(dir.join("pictures/blast-as-it-comes.svg"), picture::draw(&came)?)?;
    std::fs::write(dir.join("pictures/blast-same-time.svg"), picture::draw(&tuned)?)?;
    Ok(())
}

/// `text` with another block between the marks of `name`.
fn replaced(text: &str, name: &str, block: &str) -> Outcome<String> {
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->\n"));
    let parts = text.split_once(&begin).and_then(|(head, rest)| Some((head, rest.split_once(&end)?.1)));
    let (head, tail) = parts.ok_or_else(|| format!("the page has no {begin}"))?;
    Ok(format!("{head}{begin}{block}{end}{tail}"))
}

/// A bad release with one seed.
struct BadRun {
    /// Minutes from the first host to the halt; `None`: it does not stop by itself.
    halt: Option<u64>,
    /// Hosts that it broke in the end, those that were under way at the halt with them.
    hit: u64,
    /// The same after each minute.
    broken: Vec<u64>,
}

impl BadRun {
    fn of(forecast: &Forecast) -> Outcome<Self> {
        let first = first_start(forecast)?;
        let halts = forecast.groups.iter().filter_map(|group| group.halt.as_ref());
        let halt = halts.map(|halt| halt.at).min().map(|at| minutes(at.duration_since(first)));
        let broken = curve(forecast, first, BAD_MINUTES, |sample| sample.failed);
        // Who has no rule that could stop it comes to all whom the release breaks; who stops, or has ended, has come to its end.
        let has_ended = halt.is_some() || forecast.decided.is_some();
        Ok(Self { halt, hit: if has_ended { forecast.hit() } else { forecast.at_risk }, broken })
    }

    /// Hosts that it broke until `minute`, where a person stops it after `person` hours. That is a full hour, at which nobody is
    /// under way: rates and groups begin at full hours, and the last of their hosts has ended a quarter of an hour later.
    fn broken(&self, minute: usize, person: usize) -> u64 {
        let minute = if self.halt.is_some_and(|halt| usize::try_from(halt).is_ok_and(|halt| halt <= person * 60)) {
            minute
        } else {
            minute.min(person * 60)
        };
        self.broken.get(minute).or(self.broken.last()).copied().unwrap_or(0)
    }

    /// Whether it stops before the person does.
    fn stops_before(&self, person: usize) -> bool {
        self.halt.is_some_and(|halt| usize::try_from(halt).is_ok_and(|halt| halt <= person * 60))
    }

    /// Hosts that are hit where a person stops it after so many hours.
    fn hit_with(&self, person: usize) -> u64 {
        if self.stops_before(person) { self.hit } else { self.broken(person * 60, person) }
    }
}

/// What became of a policy.
struct Results {
    contender: &'static Contender,
    bad: Vec<BadRun>,
    /// Hosts on the target after each minute of a good release; empty: nobody can wait so long.
    good: Vec<u64>,
    /// Minutes from the first host to the last.
    finish: Option<u64>,
}

/// Of each; who is in two comparisons is simulated once.
fn results(contenders: &'static [Contender], known: &mut Vec<Rc<Results>>) -> Outcome<Vec<Rc<Results>>> {
    let mut results = Vec::new();
    for contender in contenders {
        let found = known.iter().find(|known| known.contender.file == contender.file).cloned();
        let result = found.map_or_else(|| result(contender).map(Rc::new), Ok)?;
        known.push(Rc::clone(&result));
        results.push(result);
    }
    Ok(results)
}

fn result(contender: &'static Contender) -> Outcome<Results> {
    eprintln!("blast: {}", contender.file);
    let length = if contender.stops_late { LONGEST } else { 8 + BAD_MINUTES / 60 };
    std::thread::scope(|scope| {
        let good = scope.spawn(|| if contender.endless.is_some() { Ok(Vec::new()) } else { good(contender) });
        let bad = side_by_side(|seed| BadRun::of(&run(contender, BAD, seed, length)?))?;
        let good = good.join().map_err(|_| "a simulation panicked")??;
        let finish = good.iter().position(|updated| *updated == u64::from(HOSTS));
        if finish.is_none() && contender.endless.is_none() {
            return Err(format!("{} is not done in time", contender.file).into());
        }
        let finish = finish.map(u64::try_from).transpose()?;
        Ok(Results { contender, bad, good, finish })
    })
}

/// Hosts on the target after each minute of a good release.
fn good(contender: &Contender) -> Outcome<Vec<u64>> {
    let forecast = run(contender, "0%", 0, LONGEST)?;
    Ok(curve(&forecast, first_start(&forecast)?, GOOD_MINUTES, |sample| sample.updated))
}

/// What each seed gives, in their order; on two threads.
fn side_by_side<T: Send>(work: impl Fn(u64) -> Outcome<T> + Sync) -> Outcome<Vec<T>> {
    let half = |first: u64| (first..SEEDS).step_by(2).map(&work).collect::<Outcome<Vec<T>>>();
    std::thread::scope(|scope| {
        let odd = scope.spawn(|| half(1));
        let even = half(0)?;
        let odd = odd.join().map_err(|_| "a simulation panicked")??;
        Ok(even.into_iter().zip(odd).flat_map(|(even, odd)| [even, odd]).collect())
    })
}

/// One simulation of at most `length` hours.
fn run(contender: &Contender, bad: &str, seed: u64, length: usize) -> Outcome<Forecast> {
    let text = std::fs::read_to_string(contender.file).map_err(|error| format!("{}: {error}", contender.file))?;
    let made = |(group, count): &(&str, u32)| Made { group: (*group).to_owned(), count: *count };
    let made: Vec<Made> = contender.groups.iter().map(made).collect();
    let plan = ForecastPlan {
        resources: resource::read(&text).map_err(|faults| format!("{}: {faults}", contender.file))?,
        to: None,
        hosts: if made.is_empty() { HostSource::Made(HOSTS) } else { HostSource::MadeFor(made) },
        begin: BEGIN.parse()?,
        length: SignedDuration::from_hours(i64::try_from(length)?),
        seed,
        bad: HostShare::parse(bad)?,
        bad_label: None,
        bad_after: SignedDuration::ZERO,
        vanish: HostShare::NONE,
        cuts: Vec::new(),
        down: Vec::new(),
        update_in: SignedDuration::from_secs(90),
        every: SignedDuration::from_mins(10),
        size: 0,
    };
    Ok(forecast::run(&plan).map_err(|fault| format!("{}: {fault}", contender.file))?)
}

fn first_start(forecast: &Forecast) -> Outcome<Timestamp> {
    forecast.groups.iter().filter_map(|group| group.start).min().ok_or_else(|| "no group began".into())
}

/// A count of all groups, after each of so many minutes from `first` on.
fn curve(forecast: &Forecast, first: Timestamp, minutes: usize, count: impl Fn(&CurveSample) -> u64) -> Vec<u64> {
    let before = u64::try_from(first.duration_since(forecast.begin).as_secs()).unwrap_or(0);
    let at = |minute: usize| before + 60 * u64::try_from(minute).unwrap_or(0);
    let all = |minute| forecast.groups.iter().map(|group| count(&group.curve.at(at(minute)))).sum();
    (0..=minutes).map(all).collect()
}

fn minutes(length: SignedDuration) -> u64 {
    u64::try_from(length.as_secs()).unwrap_or(0).div_ceil(60)
}

/// The table of a comparison.
fn table(results: &[Rc<Results>]) -> Outcome<String> {
    let mut out =
        "| policy | a good release takes | a bad one is stopped | after | hosts hit: median | least to most | if nobody looks |\n\
         |---|---:|---|---:|---:|---:|---:|\n".to_owned();
    for result in results {
        let hit: Vec<u64> = result.bad.iter().map(|run| run.hit_with(PERSON)).collect();
        let unseen: Vec<u64> = result.bad.iter().map(|run| run.hit).collect();
        let after: Vec<u64> = result.bad.iter().map(stopped_after).collect();
        writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} |",
            result.contender.name,
            result.contender.endless.map_or_else(|| length(result.finish.unwrap_or(0)), str::to_owned),
            stopped_by(result),
            length(median(&after).div_euclid(2)),
            halves(median(&hit)),
            range(&hit),
            halves(median(&unseen)),
        )?;
    }
    Ok(out)
}

/// Minutes to the halt, or to the person.
fn stopped_after(run: &BadRun) -> u64 {
    let person = u64::try_from(PERSON * 60).unwrap_or(u64::MAX);
    run.halt.map_or(person, |halt| halt.min(person))
}

/// By whom a bad release is stopped.
fn stopped_by(result: &Results) -> String {
    match result.bad.iter().filter(|run| run.stops_before(PERSON)).count() {
        0 => "by a person".to_owned(),
        all if all == result.bad.len() => "by itself".to_owned(),
        some => format!("by itself in {some} of {SEEDS} runs, else by a person"),
    }
}

/// How much hangs on when a person stops it, for those that do not always stop by themselves.
fn persons(came: &[Rc<Results>], tuned: &[Rc<Results>]) -> Outcome<String> {
    let mut out =
        "| hosts hit, median | 1 hour | 5 hours | 13 hours | nobody |\n|---|---:|---:|---:|---:|\n".to_owned();
    let needs_one = |result: &&Rc<Results>| !result.bad.iter().all(|run| run.stops_before(PERSON));
    let mut seen = Vec::new();
    for result in tuned.iter().chain(came).filter(needs_one) {
        if result.contender.endless.is_some() || seen.contains(&result.contender.file) {
            continue;
        }
        seen.push(result.contender.file);
        write!(out, "| {} |", result.contender.name)?;
        for person in PERSONS {
            let hit: Vec<u64> = result.bad.iter().map(|run| run.hit_with(person)).collect();
            write!(out, " {} |", halves(median(&hit)))?;
        }
        let unseen: Vec<u64> = result.bad.iter().map(|run| run.hit).collect();
        writeln!(out, " {} |", halves(median(&unseen)))?;
    }
    Ok(out)
}

/// How often a policy stops a good release by mistake, and how long the others take.
fn noise(contender: &'static Contender) -> Outcome<String> {
    let took = side_by_side(|seed| {
        let forecast = run(contender, NOISE, seed, LONGEST)?;
        if forecast.groups.iter().any(|group| group.halt.is_some()) {
            return Ok(None);
        }
        let updated = curve(&forecast, first_start(&forecast)?, 3 * GOOD_MINUTES, |sample| sample.updated);
        let last = updated.last().copied().unwrap_or(0);
        Ok(updated.iter().position(|count| *count == last).and_then(|minute| u64::try_from(minute).ok()))
    })?;
    let done: Vec<u64> = took.into_iter().flatten().collect();
    let most = done.iter().max().copied().unwrap_or(0);
    let halted = SEEDS - u64::try_from(done.len())?;
    let (median, most) = (length(median(&done) / 2), length(most));
    Ok(format!(
        "Of {SEEDS} good releases on which one host in a thousand fails for reasons of its own it stops {halted}; the others take\n\
         {median} (median; at most {most}).\n"
    ))
}

/// Twice the median, so that it is whole.
fn median(numbers: &[u64]) -> u64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    let at = |place: usize| sorted.get(place).copied().unwrap_or(0);
    at(sorted.len().saturating_sub(1) / 2) + at(sorted.len() / 2)
}

/// A number of which twice is given; halves of small ones alone.
fn halves(twice: u64) -> String {
    let half = if twice.is_multiple_of(2) || twice > 20 { "" } else { ".5" };
    format!("{}{half}", grouped(twice / 2))
}

fn range(numbers: &[u64]) -> String {
    let ends = (numbers.iter().min().copied().unwrap_or(0), numbers.iter().max().copied().unwrap_or(0));
    format!("{} to {}", grouped(ends.0), grouped(ends.1))
}

/// `12,345`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (nth, digit) in digits.chars().enumerate() {
        if nth > 0 && (digits.len() - nth).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `18 min`, `13 h`, `50 h 21 min`.
fn length(minutes: u64) -> String {
    match (minutes / 60, minutes % 60) {
        (0, minutes) => format!("{minutes} min"),
        (hours, 0) => format!("{hours} h"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    }
}
