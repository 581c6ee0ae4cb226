//! The beginnings of maintenance windows, as systemd's timers write them: `Tue,Wed *-*-* 00:00:00 UTC` (systemd.time(7), RFD 0109).

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::find::excerpt;

/// How far ahead, or back, a beginning is looked for, minutes: ten years, for a 29th of February is seldom on the weekday that is asked
/// for, and what is further off was written by mistake.
const AHEAD_MINUTES: i64 = 10 * 366 * 24 * 60;
/// From Monday on.
const DAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

/// A calendar expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calendar {
    /// From Monday on.
    weekdays: [bool; 7],
    /// Year, month, day.
    date: [Part; 3],
    /// Hour, minute, second.
    time: [Part; 3],
    zone: TimeZone,
}

/// Which numbers count.
type Part = Vec<Run>;

/// The numbers from `first` to `last`, each `step`th.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Run {
    first: i16,
    last: i16,
    step: i16,
}

impl Calendar {
    /// Reads `text`; `zone_of` knows the time zones by name, and the local one as the empty name.
    ///
    /// Errors: what is wrong with it.
    pub fn parse(text: &str, zone_of: &dyn Fn(&str) -> Option<TimeZone>) -> Result<Self, String> {
        let mut words = text.split_ascii_whitespace().peekable();
        if words.peek().is_none() {
            return Err("it is empty".to_owned());
        }
        let is_day =
            |word: &&str| word.starts_with(|first: char| first.is_ascii_alphabetic()) && weekdays(word).is_some();
        let named = words.next_if(is_day).and_then(weekdays);
        let date = match words
            .next_if(|word| word.contains('-') && !word.contains('/') || word.starts_with('*') && word.contains('-'))
        {
            Some(word) => parts(word, '-', [(1970, 9999), (1, 12), (1, 31)])?,
            None => [any(), any(), any()],
        };
        let time = words.next_if(|word| word.contains(':')).unwrap_or("00:00:00");
        let seconds = if time.matches(':').count() == 1 { ":00" } else { "" };
        let time = parts(&format!("{time}{seconds}"), ':', [(0, 23), (0, 59), (0, 59)])?;
        let name = words.next().unwrap_or_default();
        if let Some(word) = words.next() {
            return Err(format!("{:?} is one word too many", excerpt(word.as_bytes())));
        }
        let zone = zone_of(name).ok_or_else(|| {
            format!("{:?} is neither a day, a date, a time nor a time zone", excerpt(name.as_bytes()))
        })?;
        Ok(Self { weekdays: named.unwrap_or([true; 7]), date, time, zone })
    }

    /// Whether a window of this `length` that began at one of these times is open at `now`.
    pub fn is_open(&self, now: Timestamp, length: SignedDuration) -> bool {
        let minutes = length.as_mins() + 1;
        let mut begun = (0..=minutes).flat_map(|back| self.in_minute(minute_of(now) - back));
        begun.any(|start| start <= now && start.saturating_add(length).is_ok_and(|end| now < end))
    }

    /// The first beginning after `now` in the coming ten years.
    pub fn next(&self, now: Timestamp) -> Option<Timestamp> {
        self.seek(now, 1, |starts| starts.find(|start| *start > now))
    }

    /// The last beginning until `now` in the past ten years.
    pub fn last(&self, now: Timestamp) -> Option<Timestamp> {
        self.seek(now, -1, |starts| starts.rfind(|start| *start <= now))
    }

    /// Looks minute by minute, forwards or backwards, for what `find` finds among the beginnings.
    fn seek(
        &self,
        now: Timestamp,
        step: i64,
        find: impl Fn(&mut std::vec::IntoIter<Timestamp>) -> Option<Timestamp>,
    ) -> Option<Timestamp> {
        let first = minute_of(now);
        let mut minute = first;
        while (minute - first).abs() < AHEAD_MINUTES {
            if let Some(start) = find(&mut self.in_minute(minute).into_iter()) {
                return Some(start);
            }
            minute = self.beyond_wrong_day(minute, step).unwrap_or(minute + step);
        }
        None
    }

    /// The first minute after the day of `minute`, or the last one before it, where no window begins on that day.
    fn beyond_wrong_day(&self, minute: i64, step: i64) -> Option<i64> {
        let day = self.zone.to_datetime(Timestamp::from_second(minute * 60).ok()?).date();
        let midnight = |day: Date| self.zone.to_timestamp(day.at(0, 0, 0, 0)).ok().map(minute_of);
        let beyond = if step > 0 { midnight(day.tomorrow().ok()?)? } else { midnight(day)? - 1 };
        (!self.has_day(day) && (beyond - minute).signum() == step).then_some(beyond)
    }

    /// The beginnings in a minute, which is counted since the epoch.
    fn in_minute(&self, minute: i64) -> Vec<Timestamp> {
        let Ok(begin) = Timestamp::from_second(minute * 60) else { return Vec::new() };
        let civil = self.zone.to_datetime(begin);
        // Of an hour that the clock repeats in autumn only the first counts, as with systemd's timers.
        let is_first = || self.zone.to_timestamp(civil).is_ok_and(|first| first == begin);
        let is_in_time = has(&self.time[1], civil.minute().into()) && has(&self.time[0], civil.hour().into());
        if !is_in_time || !self.has_day(civil.date()) || !is_first() {
            return Vec::new();
        }
        (0..60)
            .filter(|second| has(&self.time[2], *second))
            .filter_map(|second| Timestamp::from_second(minute * 60 + i64::from(second)).ok())
            .collect()
    }

    fn has_day(&self, day: Date) -> bool {
        self.weekdays[usize::try_from(day.weekday().to_monday_zero_offset()).unwrap_or(0)]
            && has(&self.date[2], day.day().into())
            && has(&self.date[1], day.month().into())
            && has(&self.date[0], day.year())
    }
}

fn minute_of(now: Timestamp) -> i64 {
    now.as_second().div_euclid(60)
}

fn any() -> Part {
    vec![Run { first: 0, last: i16::MAX, step: 1 }]
}

fn has(part: &Part, value: i16) -> bool {
    part.iter().any(|run| value >= run.first && value <= run.last && (value - run.first) % run.step == 0)
}

/// `Mon`, `monday`, `Mon..Fri`, `Mon-Fri`, and lists of them; a range may lead over Sunday.
fn weekdays(word: &str) -> Option<[bool; 7]> {
    let day = |name: &str| {
        let name = name.to_ascii_lowercase();
        DAYS.iter().position(|day| name == *day || name == day[..3])
    };
    let mut found = [false; 7];
    for item in word.trim_end_matches(',').split(',') {
        let (first, last) = item.split_once("..").or_else(|| item.split_once('-')).unwrap_or((item, item));
        let (first, last) = (day(first)?, day(last)?);
        let length = (last + 7 - first) % 7;
        (0..=length).for_each(|on| found[(first + on) % 7] = true);
    }
    Some(found)
}

/// Three parts between `mark`s, each in its bounds.
fn parts(word: &str, mark: char, bounds: [(i16, i16); 3]) -> Result<[Part; 3], String> {
    let wrong = || format!("{:?} is no date or time", excerpt(word.as_bytes()));
    let mut texts = word.split(mark);
    let mut next = |bounds: (i16, i16)| texts.next().and_then(|text| part(text, bounds)).ok_or_else(wrong);
    let found = [next(bounds[0])?, next(bounds[1])?, next(bounds[2])?];
    if texts.next().is_none() { Ok(found) } else { Err(wrong()) }
}

/// A list of `*`, `N`, `N..M`, each perhaps with `/STEP` behind it.
fn part(text: &str, (least, most): (i16, i16)) -> Option<Part> {
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<i16>().ok().filter(|number| is_number && *number >= least && *number <= most)
    };
    let run = |item: &str| {
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (range, Some(step.parse::<i16>().ok().filter(|step| *step > 0)?)),
            None => (item, None),
        };
        let (first, last) = match range.split_once("..") {
            _ if range == "*" => (least, most),
            Some((first, last)) => (number(first)?, number(last)?),
            // With a step it goes on to the end.
            None => (number(range)?, if step.is_some() { most } else { number(range)? }),
        };
        (first <= last).then_some(Run { first, last, step: step.unwrap_or(1) })
    };
    text.split(',').map(run).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calendar(text: &str) -> Result<Calendar, String> {
        let zone_of = |name: &str| match name {
            "" | "UTC" => Some(TimeZone::UTC),
            "Europe/Berlin" => TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").ok(),
            _ => None,
        };
        Calendar::parse(text, &zone_of)
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    const HOUR: SignedDuration = SignedDuration::from_hours(1);

    /// 2026-11-24 is a Tuesday.
    #[test]
    fn a_window_is_open_from_its_beginning_for_its_length() {
        for (text, now, open) in [
            ("Tue,Wed *-*-* 00:00:00 UTC", "2026-11-24T00:00:00Z", true),
            ("Tue,Wed *-*-* 00:00:00 UTC", "2026-11-24T00:59:59Z", true),
            ("Tue,Wed *-*-* 00:00:00 UTC", "2026-11-24T01:00:00Z", false),
            ("Tue,Wed *-*-* 00:00:00 UTC", "2026-11-23T23:59:59Z", false),
            ("Tue,Wed *-*-* 00:00:00 UTC", "2026-11-26T00:30:00Z", false),
            ("*-*-* 23:30:00 UTC", "2026-11-25T00:29:59Z", true),
            ("Mon..Fri 02:00", "2026-11-28T02:30:00Z", false),
            ("Mon-Fri 02:00", "2026-11-27T02:30:00Z", true),
            ("Sat..Mon 02:00", "2026-11-29T02:30:00Z", true),
            ("*-*-* 01..04,22:00:00", "2026-11-24T04:59:00Z", true),
            ("*-*-* 01..04,22:00:00", "2026-11-24T05:00:00Z", false),
            ("*-*-* *:00,30:00 UTC", "2026-11-24T17:43:12Z", true),
            ("*-*-* 0/6:00", "2026-11-24T12:10:00Z", true),
            ("*-*-* 0/6:00", "2026-11-24T13:10:00Z", false),
            ("*-*-01 00:00", "2026-11-24T00:10:00Z", false),
            ("2026-11-24", "2026-11-24T00:10:00Z", true),
            ("sunday", "2026-11-29T00:00:00Z", true),
            ("*-*-* 02:00 Europe/Berlin", "2026-07-01T00:30:00Z", true),
            ("*-*-* 02:00 Europe/Berlin", "2026-12-01T01:30:00Z", true),
            ("*-*-* 02:00 Europe/Berlin", "2026-12-01T00:30:00Z", false),
            ("*-*-* 02:00:30", "2026-12-01T02:00:29Z", false),
            ("*-*-* 02:00:30", "2026-12-01T03:00:29Z", true),
        ] {
            let calendar = calendar(text).unwrap_or_else(|why| panic!("{text}: {why}"));
            assert_eq!(calendar.is_open(at(now), HOUR), open, "{text} at {now}");
        }
    }

    /// In Berlin 02:00 to 03:00 comes twice on 2026-10-25, at 00:00 and 01:00 UTC, and not at all on 2026-03-29.
    #[test]
    fn an_hour_that_comes_twice_opens_one_window_and_one_that_is_skipped_opens_none() {
        let nightly = calendar("*-*-* 02:00 Europe/Berlin").unwrap();
        for (now, open) in [
            ("2026-10-25T00:00:00Z", true),
            ("2026-10-25T00:59:59Z", true),
            ("2026-10-25T01:00:00Z", false),
            ("2026-10-25T01:30:00Z", false),
            ("2026-10-26T01:00:00Z", true),
            ("2026-03-29T00:59:59Z", false),
            ("2026-03-29T01:00:00Z", false),
            ("2026-03-29T01:30:00Z", false),
        ] {
            assert_eq!(nightly.is_open(at(now), HOUR), open, "{now}");
        }
        assert_eq!(nightly.next(at("2026-10-25T00:00:00Z")), Some(at("2026-10-26T01:00:00Z")));
        assert_eq!(nightly.next(at("2026-03-28T01:00:00Z")), Some(at("2026-03-30T00:00:00Z")));
        // One that is longer than the hour stays open over it.
        assert!(nightly.is_open(at("2026-10-25T01:30:00Z"), HOUR * 2));
    }

    #[test]
    fn the_last_beginning_is_not_after_now_and_within_ten_years() {
        for (text, now, last) in [
            ("Tue 03:00", "2026-11-24T03:00:00Z", Some("2026-11-24T03:00:00Z")),
            ("Tue 03:00", "2026-11-24T02:59:59Z", Some("2026-11-17T03:00:00Z")),
            ("Tue 23:59", "2026-11-25T12:30:00Z", Some("2026-11-24T23:59:00Z")),
            ("2026-02-03 00:00", "2026-11-24T00:00:00Z", Some("2026-02-03T00:00:00Z")),
            ("2026-12-03 00:00", "2026-11-24T00:00:00Z", None),
            ("*-02-30 00:00", "2026-11-24T00:00:00Z", None),
            ("Sun 02:30 Europe/Berlin", "2026-03-30T00:00:00Z", Some("2026-03-22T01:30:00Z")),
        ] {
            assert_eq!(calendar(text).unwrap().last(at(now)), last.map(at), "{text} at {now}");
        }
    }

    #[test]
    fn the_next_beginning_is_after_now_and_within_ten_years() {
        let weekly = calendar("Tue 03:00").unwrap();
        assert_eq!(weekly.next(at("2026-11-24T02:59:59Z")).unwrap(), at("2026-11-24T03:00:00Z"));
        assert_eq!(weekly.next(at("2026-11-24T03:00:00Z")).unwrap(), at("2026-12-01T03:00:00Z"));
        let now = at("2026-11-24T00:00:00Z");
        for (text, next) in [
            ("2030-01-01", Some("2030-01-01T00:00:00Z")),
            ("*-02-29 04:00", Some("2028-02-29T04:00:00Z")),
            ("Sun *-*-01 02:00 Europe/Berlin", Some("2027-08-01T00:00:00Z")),
            ("*-12-31 23:59", Some("2026-12-31T23:59:00Z")),
            ("2020-01-01", None),
            ("2027-02-30", None),
            ("Mon 2027-01-05", None),
            ("2300-01-01", None),
        ] {
            assert_eq!(calendar(text).unwrap().next(now), next.map(at), "{text}");
        }
    }

    #[test]
    fn what_is_no_calendar_expression_is_an_error() {
        for text in [
            "",
            "  ",
            "Tueday 02:00",
            "25:00",
            "02:60",
            "02:00:61",
            "2:00..",
            "02:00 UTC x",
            "*-13-* 00:00",
            "*-*-32",
            "02",
            "5..2:00",
            "02:00/0",
            "0/0:00",
            "02:00 Mars/Olympus",
            "*-*",
            "*-*-*-*",
            "1:2:3:4",
            "-1:00",
            "02:00:00.5",
            "Mon.Fri 02:00",
            "02:00 02:00",
            "+2:00",
        ] {
            assert!(calendar(text).is_err(), "{text:?}");
        }
    }
}
