//! Whether hosts are asked for reports, how often, and whose are accepted (FLEET §5).

/// How often hosts report by default, seconds; and the bounds of it.
pub(crate) const INTERVAL: u32 = 900;
/// See [`INTERVAL`]. 0 is none.
const INTERVALS: std::ops::RangeInclusive<u32> = 60..=86_400;

/// Which hosts are asked for reports, and whose are accepted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reporting {
    /// How new hosts enrol.
    pub(crate) enrolment: Enrolment,
    /// Seconds between two reports of a host that has nothing new to say; 0: none are wanted.
    pub(crate) interval: u32,
}

/// How a host's key comes to be accepted (FLEET §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Enrolment {
    /// The first that is seen for a host is.
    #[default]
    Open,
    /// It comes with a join token.
    Token,
    /// An operator accepts it.
    Approve,
}

impl std::str::FromStr for Enrolment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "open" => Ok(Self::Open),
            "token" => Ok(Self::Token),
            "approve" => Ok(Self::Approve),
            _ => Err(format!("{text:?} is not open, token or approve")),
        }
    }
}

/// Seconds between two reports, as an operator wrote them.
///
/// # Errors
/// They are neither 0 nor within [`INTERVALS`].
pub(crate) fn interval(seconds: u32) -> Result<u32, String> {
    if seconds == 0 || INTERVALS.contains(&seconds) {
        return Ok(seconds);
    }
    let (least, most) = (INTERVALS.start(), INTERVALS.end());
    Err(format!("{seconds} is not 0 (no reports), or {least} to {most} seconds"))
}
