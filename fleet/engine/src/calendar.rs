//! When things may happen: days of the week, the hour at which a window begins, time zones, and freezes.
//!
//! Windows run across midnight and belong to the day on which they begin (FLEET §2). Times are instants; a zone says
//! what its clocks show then.

use jiff::civil::{Date, Time, Weekday};
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// How many civil days are searched for a window: any set of weekdays comes up within 7, and within 14 although zones
/// have left out a day (Samoa: 30 December 2011).
const SEARCH_DAYS: i8 = 15;

/// The English names of the days, in week order; their first three letters are the short names.
const NAMES: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// A set of weekdays. In JSON it is a list of short names, or `["*"]` for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<&'static str>")]
pub struct Days(u8);

impl Days {
    /// All seven.
    pub const EVERY: Self = Self(0b111_1111);
    /// Monday to Thursday: the default of Managed Updates v2.
    pub(crate) const WORK_START: Self = Self(0b000_1111);

    /// Reads short (`Mon`) or long (`Monday`) English names in any case, as Teleport does, or `*` for all. No words:
    /// no days. The error is the first word that is none of these.
    pub fn parse(words: &[&str]) -> Result<Self, String> {
        let mut bits = 0;
        for word in words {
            let is_day = |name: &&str| word.eq_ignore_ascii_case(name) || word.eq_ignore_ascii_case(&name[..3]);
            bits |= match NAMES.iter().position(is_day) {
                Some(day) => 1 << day,
                None if *word == "*" => Self::EVERY.0,
                None => return Err((*word).to_owned()),
            };
        }
        Ok(Self(bits))
    }

    /// True when `day` is one of them.
    pub fn contains(self, day: Weekday) -> bool {
        self.0 & (1 << day.to_monday_zero_offset()) != 0
    }

    /// True when the day so many days after a Monday is one of them.
    pub const fn has(self, after_monday: u64) -> bool {
        self.0 & (1 << (after_monday % 7)) != 0
    }

    /// True when there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// `["*"]` for all seven, else short names from `Mon` to `Sun`.
    pub fn names(self) -> Vec<&'static str> {
        if self == Self::EVERY {
            return vec!["*"];
        }
        (0..).zip(NAMES).filter(|(day, _)| self.0 & (1 << day) != 0).map(|(_, name)| &name[..3]).collect()
    }
}

impl TryFrom<Vec<String>> for Days {
    type Error = String;

    fn try_from(words: Vec<String>) -> Result<Self, String> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Self::parse(&words).map_err(|word| format!("no day of the week: `{word}`"))
    }
}

impl From<Days> for Vec<&'static str> {
    fn from(days: Days) -> Self {
        days.names()
    }
}

/// A time zone of the bundled database. In JSON it is its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Zone(TimeZone);

impl Zone {
    /// Coordinated Universal Time.
    pub const UTC: Self = Self(TimeZone::UTC);

    /// `UTC` or an IANA name, in any case. `None` for others, POSIX rules among them. The system's own database is not
    /// asked, so that all servers agree.
    pub fn parse(name: &str) -> Option<Self> {
        TimeZoneDatabase::bundled().get(name).ok().filter(|zone| !zone.is_unknown()).map(Self)
    }

    /// Its name, as the database writes it.
    pub fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// The first instant at which clocks in this zone show `hour`:00 of `day` or later. `None` when the zone has no
    /// such day, the hour is above 23, or the instant is out of range.
    fn begin(&self, day: Date, hour: i8) -> Option<Timestamp> {
        let clock = day.to_datetime(Time::new(hour, 0, 0, 0).ok()?);
        let (before, after) = match self.0.to_ambiguous_timestamp(clock).offset() {
            AmbiguousOffset::Unambiguous { offset } => return offset.to_timestamp(clock).ok(),
            AmbiguousOffset::Fold { before, after } => {
                // jiff 0.2.43 tells of a fold where there was none, at the last change a zone lists (Nuuk, 2023).
                let mut instants = [before, after].into_iter().filter_map(|offset| offset.to_timestamp(clock).ok());
                return instants.find(|at| self.0.to_datetime(*at) == clock);
            }
            AmbiguousOffset::Gap { before, after } => (before, after),
        };
        // The gap ends between these two instants. It may have begun before the full hour (Troll's is two hours long),
        // so neither of them need be its end.
        let (early, late) = (after.to_timestamp(clock).ok()?, before.to_timestamp(clock).ok()?);
        let shows = |at: &Timestamp| self.0.to_datetime(*at) >= clock;
        let gap = self.0.following(early).map(|change| change.timestamp()).find(shows).map_or(late, |at| at.min(late));
        let is_left_out = before.to_datetime(gap) <= day.to_datetime(Time::midnight()) && self.date(gap) > day;
        (!is_left_out).then_some(gap)
    }

    fn date(&self, at: Timestamp) -> Date {
        self.0.to_datetime(at).date()
    }
}

impl Default for Zone {
    fn default() -> Self {
        Self::UTC
    }
}

impl TryFrom<String> for Zone {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        Self::parse(&name).ok_or_else(|| format!("no time zone of the IANA database: `{name}`"))
    }
}

impl From<Zone> for String {
    fn from(zone: Zone) -> Self {
        zone.name().to_owned()
    }
}

/// When windows begin: at `hour`:00 of each of `days`, by the clocks of `zone`.
///
/// An hour that a day leaves out begins at the next instant that exists; one that comes twice begins once, the first
/// time. A day that the zone leaves out has no window.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WindowOpening {
    /// The days on which windows begin.
    pub days: Days,
    /// The hour, 0 to 23; a window with another hour never opens.
    pub hour: u8,
    /// Whose clocks are meant.
    #[serde(default)]
    pub zone: Zone,
}

impl WindowOpening {
    /// The beginning of the window that is open at `now`; of several, the latest. A window lasts `length` of elapsed
    /// time, which may be more than a day, and does not include its end.
    pub fn opened_at(&self, now: Timestamp, length: SignedDuration) -> Option<Timestamp> {
        let today = self.zone.date(now);
        // Tomorrow's may have begun: in St. John's, clocks went back from 00:01 to 23:01 of the day before.
        let begun =
            (-1..SEARCH_DAYS).find_map(|back| self.begin_near(today, -back, self.hour).filter(|at| *at <= now))?;
        (now.duration_since(begun) < length).then_some(begun)
    }

    /// True when a window of `length` is open at `now`.
    pub fn is_open(&self, now: Timestamp, length: SignedDuration) -> bool {
        self.opened_at(now, length).is_some()
    }

    /// The first beginning of a window after `after`. `None` without days, and at the end of time.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        self.next_at(after, self.hour)
    }

    /// True when the day of `now`, in the zone, is one of `days`.
    pub(crate) fn is_day(&self, now: Timestamp) -> bool {
        self.days.contains(self.zone.date(now).weekday())
    }

    /// The first beginning of one of `days` after `after`: its midnight, or the first instant that the day has. `None`
    /// without days, and at the end of time.
    pub(crate) fn next_day(&self, after: Timestamp) -> Option<Timestamp> {
        self.next_at(after, 0)
    }

    /// A calendar expression of systemd (`systemd.time(7)`), such as `Mon,Tue *-*-* 04:00:00 UTC`. `None` for what it
    /// cannot say: without days, or with an hour above 23, a window never opens.
    pub fn calendar_text(&self) -> Option<String> {
        if self.days.is_empty() || self.hour > 23 {
            return None;
        }
        let days = if self.days == Days::EVERY { String::new() } else { self.days.names().join(",") + " " };
        Some(format!("{days}*-*-* {:02}:00:00 {}", self.hour, self.zone.name()))
    }

    fn next_at(&self, after: Timestamp, hour: u8) -> Option<Timestamp> {
        let today = self.zone.date(after);
        (0..SEARCH_DAYS).find_map(|ahead| self.begin_near(today, ahead, hour).filter(|at| *at > after))
    }

    /// When `hour` begins `ahead` days after `today`; `None` when that is none of `days`.
    fn begin_near(&self, today: Date, ahead: i8, hour: u8) -> Option<Timestamp> {
        if !self.days.contains(today.weekday().wrapping_add(ahead)) {
            return None;
        }
        let day = today.checked_add(SignedDuration::from_hours(24 * i64::from(ahead))).ok()?;
        self.zone.begin(day, i8::try_from(hour).ok()?)
    }
}

/// A freeze: nobody is let go from `from` until before `to`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blackout {
    /// Its first instant.
    pub from: Timestamp,
    /// The first instant after it.
    pub to: Timestamp,
    /// Why, for people.
    pub reason: String,
}

impl Blackout {
    /// True when `now` is within.
    pub fn covers(&self, now: Timestamp) -> bool {
        self.from <= now && now < self.to
    }
}

/// The first freeze of the list that covers `now`.
pub(crate) fn blackout_at(freezes: &[Blackout], now: Timestamp) -> Option<&Blackout> {
    freezes.iter().find(|freeze| freeze.covers(now))
}

/// The first instant from `now` on that no freeze covers: `now` itself where there is none.
pub fn end_of_blackout(freezes: &[Blackout], now: Timestamp) -> Timestamp {
    // Each turn goes on to the end of a freeze, which that freeze does not cover: no more turns than freezes.
    let mut at = now;
    while let Some(freeze) = blackout_at(freezes, at) {
        at = freeze.to;
    }
    at
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOUR: SignedDuration = SignedDuration::from_hours(1);
    const MINUTE: SignedDuration = SignedDuration::from_mins(1);

    /// Zones whose clocks change at different hours, by different steps; UTC, whose clocks do not.
    const ZONES: [&str; 7] = [
        "UTC",
        "Europe/Berlin",
        "America/Santiago",
        "Australia/Lord_Howe",
        "Antarctica/Troll",
        "America/Nuuk",
        "America/St_Johns",
    ];

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn opening(days: &[&str], hour: u8, zone: &str) -> WindowOpening {
        WindowOpening { days: Days::parse(days).unwrap(), hour, zone: Zone::parse(zone).unwrap() }
    }

    /// The next beginning after `after`, and the one after it.
    fn next_two(opening: &WindowOpening, after: &str) -> [String; 2] {
        let first = opening.next(at(after)).unwrap();
        [first, opening.next(first).unwrap()].map(|at| at.to_string())
    }

    #[test]
    fn days_are_read_by_short_and_long_names_in_any_case_and_written_in_week_order() {
        assert_eq!(Days::parse(&["Mon", "tuesday", "WED", "Thursday", "Mon"]), Ok(Days::WORK_START));
        assert_eq!(Days::parse(&["Sun", "*"]), Ok(Days::EVERY));
        assert_eq!(Days::parse(&["Sun", "Tue"]).unwrap().names(), ["Tue", "Sun"]);
        assert!(Days::parse(&[]).unwrap().is_empty());
        for days in (0..128).map(Days) {
            let words: Vec<String> = Vec::<&str>::from(days).into_iter().map(str::to_owned).collect();
            assert_eq!(Days::try_from(words), Ok(days));
        }
        for bad in ["", "Mo", "Mond", "Mon ", "Montag", "**", "Ünd"] {
            assert_eq!(Days::parse(&["Sun", bad, "x"]), Err(bad.to_owned()));
        }
        assert_eq!(Days::try_from(vec!["Mo".to_owned()]).unwrap_err(), "no day of the week: `Mo`");
    }

    #[test]
    fn a_zone_is_utc_or_an_iana_name_and_nothing_else() {
        assert_eq!(Zone::default().name(), "UTC");
        assert_eq!(Zone::parse("europe/berlin").unwrap().name(), "Europe/Berlin");
        assert_eq!(Zone::try_from("Europe/Berlin".to_owned()), Ok(Zone::parse("Europe/Berlin").unwrap()));
        for bad in ["", "CET-1CEST,M3.5.0,M10.5.0/3", "Etc/Unknown", "+02:00", "Berlin", "../etc/passwd"] {
            assert!(Zone::parse(bad).is_none() && Zone::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_window_does_not_include_its_end() {
        let window = opening(&["Fri"], 4, "UTC");
        for (now, open) in [("03:59:59.999999999", false), ("04:00:00", true), ("04:59:59", true), ("05:00:00", false)]
        {
            assert_eq!(window.is_open(at(&format!("2026-01-02T{now}Z")), HOUR), open, "{now}");
        }
        assert!(!window.is_open(at("2026-01-02T04:00:00Z"), SignedDuration::ZERO));
        assert!(!window.is_open(at("2026-01-02T04:00:00Z"), -HOUR));
        assert!(!window.is_open(at("2026-01-03T04:30:00Z"), HOUR));
    }

    #[test]
    fn a_window_runs_across_midnight_and_belongs_to_the_day_of_its_beginning() {
        // 3 January 2026 is a Saturday.
        let window = opening(&["Sat", "Sun"], 23, "UTC");
        let opened = |now| window.opened_at(at(now), HOUR * 2).map(|at| at.to_string());
        assert_eq!(opened("2026-01-03T00:30:00Z"), None);
        assert_eq!(opened("2026-01-04T00:30:00Z").as_deref(), Some("2026-01-03T23:00:00Z"));
        assert_eq!(opened("2026-01-04T01:00:00Z"), None);
        assert_eq!(opened("2026-01-05T00:30:00Z").as_deref(), Some("2026-01-04T23:00:00Z"));
        assert_eq!(opened("2026-01-05T23:30:00Z"), None);
        assert_eq!(opened("2026-01-06T00:30:00Z"), None);
    }

    #[test]
    fn a_window_may_be_longer_than_a_day_and_the_latest_one_counts() {
        let weekly = opening(&["Sat"], 12, "UTC");
        let length = HOUR * 49;
        assert_eq!(weekly.opened_at(at("2026-01-05T12:59:59Z"), length), Some(at("2026-01-03T12:00:00Z")));
        assert_eq!(weekly.opened_at(at("2026-01-05T13:00:00Z"), length), None);
        let daily = opening(&["*"], 12, "UTC");
        assert_eq!(daily.opened_at(at("2026-01-05T11:00:00Z"), length), Some(at("2026-01-04T12:00:00Z")));
    }

    #[test]
    fn an_hour_that_does_not_exist_begins_at_the_next_instant_that_does() {
        // Zone, hour, some time before, the beginning on the day of the change, and the one after it.
        for (zone, hour, after, first, second) in [
            ("Europe/Berlin", 2, "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"),
            ("Europe/Berlin", 3, "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z", "2026-03-30T01:00:00Z"),
            ("America/Santiago", 0, "2026-09-05T12:00:00Z", "2026-09-06T04:00:00Z", "2026-09-07T03:00:00Z"),
            ("Australia/Lord_Howe", 2, "2026-10-03T12:00:00Z", "2026-10-03T15:30:00Z", "2026-10-04T15:00:00Z"),
            // From 01:00 to 03:00: the hour lies in the middle of the gap.
            ("Antarctica/Troll", 2, "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"),
            // From 23:00 of Saturday to midnight: Saturday's window begins on Sunday.
            ("America/Nuuk", 23, "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"),
        ] {
            assert_eq!(next_two(&opening(&["*"], hour, zone), after), [first, second], "{zone} {hour}");
        }
        let saturday = opening(&["Sat"], 23, "America/Nuuk");
        assert_eq!(saturday.opened_at(at("2026-03-29T01:30:00Z"), HOUR), Some(at("2026-03-29T01:00:00Z")));
    }

    #[test]
    fn an_hour_that_comes_twice_counts_once() {
        for (zone, hour, after, first, second) in [
            ("Europe/Berlin", 2, "2026-10-24T12:00:00Z", "2026-10-25T00:00:00Z", "2026-10-26T01:00:00Z"),
            ("America/Santiago", 23, "2026-04-04T12:00:00Z", "2026-04-05T02:00:00Z", "2026-04-06T03:00:00Z"),
            ("America/Santiago", 0, "2026-04-04T12:00:00Z", "2026-04-05T04:00:00Z", "2026-04-06T04:00:00Z"),
            // No change of the clocks that night, but the last change that the zone lists.
            ("America/Nuuk", 23, "2023-10-28T12:00:00Z", "2023-10-29T01:00:00Z", "2023-10-30T01:00:00Z"),
            // Half an hour, from 02:00 to 01:30: neither full hour comes twice.
            ("Australia/Lord_Howe", 1, "2026-04-04T12:00:00Z", "2026-04-04T14:00:00Z", "2026-04-05T14:30:00Z"),
            ("Australia/Lord_Howe", 2, "2026-04-04T12:00:00Z", "2026-04-04T15:30:00Z", "2026-04-05T15:30:00Z"),
        ] {
            assert_eq!(next_two(&opening(&["*"], hour, zone), after), [first, second], "{zone} {hour}");
        }
        let berlin = opening(&["Sun"], 2, "Europe/Berlin");
        assert!(berlin.is_open(at("2026-10-25T00:30:00Z"), HOUR));
        assert!(!berlin.is_open(at("2026-10-25T01:30:00Z"), HOUR), "02:30 for the second time");
    }

    #[test]
    fn a_window_that_began_before_clocks_went_back_to_the_day_before_stays_open() {
        // St. John's, 7 November 2010: from 00:01 of Sunday to 23:01 of Saturday.
        let sunday = opening(&["Sun"], 0, "America/St_Johns");
        assert_eq!(sunday.opened_at(at("2010-11-07T02:40:00Z"), HOUR), Some(at("2010-11-07T02:30:00Z")));
        assert_eq!(sunday.next(at("2010-11-07T02:40:00Z")), Some(at("2010-11-14T03:30:00Z")));
        assert!(!sunday.is_day(at("2010-11-07T02:40:00Z")));
    }

    #[test]
    fn a_day_that_the_zone_leaves_out_has_no_window() {
        // Samoa went from Thursday, 29 December 2011, to Saturday at midnight, 10:00 UTC.
        let friday = opening(&["Fri"], 4, "Pacific/Apia");
        assert_eq!(friday.next(at("2011-12-28T00:00:00Z")), Some(at("2012-01-05T14:00:00Z")));
        assert_eq!(friday.next_day(at("2011-12-28T00:00:00Z")), Some(at("2012-01-05T10:00:00Z")));
        assert_eq!(friday.opened_at(at("2012-01-01T00:00:00Z"), HOUR * 999), Some(at("2011-12-23T14:00:00Z")));
    }

    #[test]
    fn days_begin_at_midnight_or_with_their_first_instant() {
        let berlin = opening(&["Mon"], 4, "Europe/Berlin");
        assert!(berlin.is_day(at("2026-01-04T23:00:00Z")) && !berlin.is_day(at("2026-01-04T22:59:59Z")));
        assert_eq!(berlin.next_day(at("2026-01-03T00:00:00Z")), Some(at("2026-01-04T23:00:00Z")));
        assert_eq!(berlin.next_day(at("2026-01-04T23:00:00Z")), Some(at("2026-01-11T23:00:00Z")));
        let santiago = opening(&["Sun"], 4, "America/Santiago");
        assert_eq!(santiago.next_day(at("2026-09-05T12:00:00Z")), Some(at("2026-09-06T04:00:00Z")));
    }

    #[test]
    fn each_day_of_a_year_has_one_window_in_every_zone_at_every_hour() {
        for (zone, hour) in ZONES.iter().flat_map(|zone| (0..24).map(move |hour| (zone, hour))) {
            let daily = opening(&["*"], hour, zone);
            let (first, last) = (at("2026-01-01T12:00:00Z"), at("2027-01-01T12:00:00Z"));
            let begins = std::iter::successors(daily.next(first), |begin| daily.next(*begin));
            assert_eq!(begins.take_while(|begin| *begin <= last).count(), 365, "{zone} {hour}");
        }
    }

    #[test]
    fn without_days_or_with_an_impossible_hour_nothing_opens() {
        for never in [opening(&[], 4, "UTC"), opening(&["*"], 24, "UTC"), opening(&["*"], 255, "Europe/Berlin")] {
            assert_eq!(never.opened_at(at("2026-01-01T00:30:00Z"), SignedDuration::MAX), None);
            assert_eq!((never.next(at("2026-01-01T00:30:00Z")), never.calendar_text()), (None, None));
        }
        assert_eq!(opening(&[], 4, "UTC").next_day(at("2026-01-01T00:30:00Z")), None);
    }

    #[test]
    fn the_ends_of_time_are_no_fault() {
        for zone in ZONES.into_iter().chain(["Pacific/Kiritimati", "Pacific/Pago_Pago"]) {
            for hour in 0..24 {
                let daily = opening(&["*"], hour, zone);
                for now in [Timestamp::MIN, Timestamp::MAX] {
                    let _ = (daily.is_day(now), daily.next_day(now), daily.opened_at(now, SignedDuration::MAX));
                }
                assert!(daily.next(Timestamp::MIN).is_some() && daily.opened_at(Timestamp::MAX, HOUR * 48).is_some());
            }
        }
        assert_eq!(opening(&["*"], 4, "UTC").next(Timestamp::MAX), None);
    }

    #[test]
    fn calendar_texts_are_as_systemd_writes_them() {
        let cases = [
            (opening(&["Tue", "Mon"], 4, "UTC"), "Mon,Tue *-*-* 04:00:00 UTC"),
            (opening(&["*"], 23, "Europe/Berlin"), "*-*-* 23:00:00 Europe/Berlin"),
            (opening(&["Sun"], 0, "America/Santiago"), "Sun *-*-* 00:00:00 America/Santiago"),
        ];
        for (opening, text) in cases {
            assert_eq!(opening.calendar_text().as_deref(), Some(text));
            #[expect(clippy::disallowed_methods, reason = "systemd's own program judges; nothing waits for this test")]
            let program = std::process::Command::new("systemd-analyze").args(["calendar", text]).output();
            match program {
                Ok(output) => assert!(output.status.success(), "{text}: {output:?}"),
                Err(error) => eprintln!("not asked, since systemd-analyze does not run: {error}"),
            }
        }
    }

    #[test]
    fn a_freeze_does_not_include_its_end_and_those_that_touch_or_overlap_are_one() {
        let freeze = |from, to, reason: &str| Blackout { from: at(from), to: at(to), reason: reason.to_owned() };
        let [one, two, four, six] =
            ["2026-12-01T00:00:00Z", "2026-12-02T00:00:00Z", "2026-12-04T00:00:00Z", "2026-12-06T00:00:00Z"];
        let freezes = [freeze(two, four, "b"), freeze(one, two, "a"), freeze(one, six, "c"), freeze(six, one, "never")];
        let reason = |now| blackout_at(&freezes, at(now)).map(|freeze| freeze.reason.as_str());
        assert_eq!((reason(one), reason(two), reason(four), reason(six)), (Some("a"), Some("b"), Some("c"), None));
        assert_eq!(end_of_blackout(&freezes, at(one)), at(six));
        assert_eq!(end_of_blackout(&freezes[..2], at("2026-12-01T12:00:00Z")), at(four));
        assert_eq!(end_of_blackout(&freezes, at(six)), at(six));
        assert_eq!(end_of_blackout(&[], at(one)), at(one));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Seconds from 2000 to 2036.
        #[test]
        fn the_next_window_is_the_first_that_opens(
            second in 946_684_800_i64..2_082_758_400, days in 1_u8..128, hour in 0_u8..24, zone in 0..ZONES.len(),
        ) {
            let window = WindowOpening { days: Days(days), hour, zone: Zone::parse(ZONES[zone]).unwrap() };
            let start = Timestamp::from_second(second).unwrap();
            let next = window.next(start).unwrap();
            prop_assert_eq!(window.opened_at(next, HOUR), Some(next));
            let minutes = std::iter::successors(Some(start), |now| Some(*now + MINUTE)).take_while(|now| *now < next);
            for now in minutes {
                prop_assert!(window.opened_at(now, HOUR * 24 * 14).is_none_or(|begun| begun <= start));
                prop_assert_eq!(window.next(now), Some(next));
            }
        }

        /// 1 January 1970 was a Thursday.
        #[test]
        fn in_utc_windows_open_at_every_full_hour_of_a_day_and_at_no_other_minute(
            minute in 15_778_080_i64..34_712_640, days in 1_u8..128, hour in 0_u8..24,
        ) {
            let window = WindowOpening { days: Days(days), hour, zone: Zone::UTC };
            let begins = |minute: &i64| {
                days & (1 << ((minute / 1440 + 3) % 7)) != 0 && minute % 1440 == i64::from(hour) * 60
            };
            let expected = (minute + 1..).find(begins).unwrap();
            let next = window.next(Timestamp::from_second(minute * 60).unwrap()).unwrap();
            prop_assert_eq!(next.as_second(), expected * 60);
        }
    }
}
