//! What is to be simulated.

use fleet_engine::fleet::HostReport;
use fleet_engine::resource::Resource;
use jiff::{SignedDuration, Timestamp};
use protocol::Version;

/// A configuration, hosts, and what goes wrong.
#[derive(Debug, Clone)]
pub struct ForecastPlan {
    /// Configuration and version, as they are written; others are disregarded.
    pub resources: Vec<Resource>,
    /// The release; `None`: the target of the resources, else one that is made up.
    pub to: Option<Version>,
    /// Whose rollout it is.
    pub hosts: HostSource,
    /// When it begins.
    pub begin: Timestamp,
    /// At most so long.
    pub length: SignedDuration,
    /// From which all lots are drawn.
    pub seed: u64,
    /// Hosts on which the release breaks.
    pub bad: HostShare,
    /// Only hosts with this label.
    pub bad_label: Option<(String, String)>,
    /// It breaks so long after it was updated; zero: at once.
    pub bad_after: SignedDuration,
    /// Hosts that never come back from the update.
    pub vanish: HostShare,
    /// Hosts that do not reach the server for a time.
    pub cuts: Vec<Cut>,
    /// When the server neither answers nor decides.
    pub down: Vec<Span>,
    /// From the end of the jitter to the outcome.
    pub update_in: SignedDuration,
    /// Between two questions of a host: whole minutes.
    pub every: SignedDuration,
    /// What a host downloads, bytes.
    pub size: u64,
}

/// A share of hosts, in hundredths of a percent: 0 to 10,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct HostShare(u32);

impl HostShare {
    /// Nobody.
    pub const NONE: Self = Self(0);
    /// Everybody.
    pub const ALL: Self = Self(10_000);

    /// Reads `2%`, `0.25%` or `2`.
    ///
    /// # Errors
    /// What is expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no share of hosts: give 2% or 0.25%, at most 100%");
        let number = text.trim().trim_end_matches('%').trim();
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let part = format!("{part:0<2}");
        if !is_number(whole) || part.len() != 2 || !is_number(&part) {
            return Err(wrong());
        }
        let (whole, part): (u32, u32) = (whole.parse().map_err(|_| wrong())?, part.parse().map_err(|_| wrong())?);
        let share = whole.checked_mul(100).and_then(|whole| whole.checked_add(part)).filter(|share| *share <= 10_000);
        share.map(Self).ok_or_else(wrong)
    }

    /// How many of `whole` that are, rounded up.
    pub fn of(self, whole: usize) -> usize {
        let whole = u64::try_from(whole).unwrap_or(u64::MAX);
        usize::try_from((u128::from(whole) * u128::from(self.0)).div_ceil(10_000)).unwrap_or(usize::MAX)
    }
}

/// A time, from the beginning of the rollout on: [from, to).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Its beginning.
    pub from: SignedDuration,
    /// Its end.
    pub to: SignedDuration,
}

impl Span {
    /// Reads `12h..13h30m`, times after the beginning of the rollout.
    ///
    /// # Errors
    /// What is expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no time: give FROM..TO after the beginning, such as 12h..13h30m");
        let length = |text: &str| SignedDuration::try_from(yaml::scalar::duration(text.trim())?).ok();
        let (from, to) = text.split_once("..").ok_or_else(wrong)?;
        let (from, to) = length(from).zip(length(to)).ok_or_else(wrong)?;
        if from < to { Ok(Self { from, to }) } else { Err(wrong()) }
    }
}

/// Hosts that do not reach the server for a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// How many.
    pub share: HostShare,
    /// When.
    pub span: Span,
}

impl Cut {
    /// Reads `30%:2h..4h`.
    ///
    /// # Errors
    /// What is expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (share, span) = text
            .split_once(':')
            .ok_or_else(|| format!("{text:?} is no cut: give SHARE:FROM..TO, such as 30%:12h..13h"))?;
        Ok(Self { share: HostShare::parse(share)?, span: Span::parse(span)? })
    }
}

/// Whose rollout it is.
#[derive(Debug, Clone)]
pub enum HostSource {
    /// Made up: so many in all, in equal parts for all groups.
    Made(u32),
    /// Made up: so many for each of these groups.
    MadeFor(Vec<Made>),
    /// Those of an inventory.
    Known(Vec<KnownHost>),
}

/// Hosts that are made up for a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// The group.
    pub group: String,
    /// How many.
    pub count: u32,
}

/// A host before the rollout.
#[derive(Debug, Clone, Default)]
pub struct KnownHost {
    /// What it reports first; it runs the version before.
    pub report: HostReport,
    /// The group that an operator gave it.
    pub assigned: Option<String>,
    /// An operator holds it.
    pub held: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_exact_to_a_hundredth_of_a_percent_and_rounded_up() {
        let of = |text: &str, whole| HostShare::parse(text).unwrap().of(whole);
        assert_eq!([of("2%", 10_000), of("2", 10), of("0.25%", 1000), of("0%", 9), of("100%", 7)], [200, 1, 3, 0, 7]);
        for bad in ["", "%", "-1%", "101%", "100.01%", "1.234%", "2 %%x", "1e1", ".5"] {
            assert!(HostShare::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_and_cuts_say_what_they_expect() {
        let span = Span { from: SignedDuration::from_hours(12), to: SignedDuration::from_mins(810) };
        assert_eq!(Span::parse("12h..13h30m"), Ok(span));
        assert_eq!(Cut::parse("30%:12h..13h30m").unwrap(), Cut { share: HostShare(3000), span });
        for bad in ["12h", "13h..12h", "12h..12h", "x..y", ""] {
            assert!(Span::parse(bad).unwrap_err().contains("FROM..TO"), "{bad}");
        }
        assert!(Cut::parse("12h..13h").unwrap_err().contains("SHARE:FROM..TO"));
    }
}
