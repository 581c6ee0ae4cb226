//! Times, lengths and counts as people read them.

use fleet_engine::plain;
use jiff::{SignedDuration, Timestamp};

/// `Mon 5 Jan 12:00`, in UTC.
pub(super) fn moment(at: Timestamp) -> String {
    at.strftime("%a %-d %b %H:%M").to_string()
}

/// `2026-01-05 12:00 UTC`.
pub(super) fn date(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M UTC").to_string()
}

/// `3 d 4 h`, `2 h 10 min`, `90 s`: its two largest units.
pub(super) fn length(length: SignedDuration) -> String {
    let seconds = length.as_secs().max(0);
    let parts = [(seconds / 86_400, "d"), (seconds / 3600 % 24, "h"), (seconds / 60 % 60, "min"), (seconds % 60, "s")];
    let first = parts.iter().position(|(number, _)| *number > 0).unwrap_or(3);
    let shown = parts.iter().skip(first).take(2).filter(|(number, _)| *number > 0);
    let shown: Vec<String> = shown.map(|(number, unit)| format!("{number} {unit}")).collect();
    if shown.is_empty() { "0 s".to_owned() } else { shown.join(" ") }
}

/// `12,345`.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// Such as `1 host` and `1,200 hosts`.
pub(super) fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(number), if number == 1 { "" } else { "s" })
}

/// `0.25 %` of `whole`; less than a hundredth is said to be so.
pub(super) fn share(part: u64, whole: u64) -> String {
    let hundredths = (u128::from(part) * 10_000).checked_div(u128::from(whole)).unwrap_or(0);
    match (part, hundredths) {
        (0, _) => "0 %".to_owned(),
        (_, 0) => "< 0.01 %".to_owned(),
        (_, hundredths) if hundredths % 100 == 0 => format!("{} %", hundredths / 100),
        (_, hundredths) => {
            let text = format!("{}.{:02}", hundredths / 100, hundredths % 100);
            format!("{} %", text.trim_end_matches('0'))
        }
    }
}

pub(super) fn scaled(number: u64, unit: &str) -> String {
    let prefixes = [(1_000_000_000_000, 'T'), (1_000_000_000, 'G'), (1_000_000, 'M'), (1000, 'k')];
    let Some((size, prefix)) = prefixes.into_iter().find(|(size, _)| number >= *size) else {
        return format!("{number} {unit}");
    };
    let tenths = number / (size / 10);
    let shown = if tenths >= 100 { count(tenths / 10) } else { format!("{}.{}", tenths / 10, tenths % 10) };
    format!("{} {prefix}{unit}", shown.trim_end_matches(".0"))
}

/// Hundredths as `16.67`, without zeros at the end.
pub(super) fn hundredths(number: u64) -> String {
    let text = format!("{}.{:02}", count(number / 100), number % 100);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A name from a file or a host in one line of a terminal, at most `most` characters.
pub(super) fn name(name: &str, most: usize) -> String {
    if name.chars().nth(most).is_some() { plain::cut(name, most - 1) } else { plain::cleaned(name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_their_two_largest_units() {
        let of = |seconds| length(SignedDuration::from_secs(seconds));
        assert_eq!([of(0), of(59), of(90), of(3600), of(3660)], ["0 s", "59 s", "1 min 30 s", "1 h", "1 h 1 min"]);
        assert_eq!([of(86_400 * 3 + 4 * 3600 + 59), of(86_400), of(86_401), of(-5)], ["3 d 4 h", "1 d", "1 d", "0 s"]);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([count(0), count(999), count(1000), count(1_234_567)], ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(
            [share(1, 400), share(2, 100), share(1, 1_000_000), share(0, 0)],
            ["0.25 %", "2 %", "< 0.01 %", "0 %"]
        );
        assert_eq!(share(1, 2), "50 %");
        assert_eq!(share(125, 1000), "12.5 %");
        assert_eq!(
            [999, 1_400_000_000, 72_000_000].map(|number| scaled(number, "bit/s")),
            ["999 bit/s", "1.4 Gbit/s", "72 Mbit/s"]
        );
        assert_eq!([1_800_000_000_000, 250_000_000_000_000].map(|number| scaled(number, "B")), ["1.8 TB", "250 TB"]);
        assert_eq!([hundredths(1667), hundredths(1000), hundredths(10), hundredths(0)], ["16.67", "10", "0.1", "0"]);
    }

    #[test]
    fn names_are_one_line() {
        assert_eq!(name("a\nb\u{1b}[31m", 20), "a\u{fffd}b\u{fffd}[31m");
        assert_eq!(name("abcdef", 4), "abc…");
        assert_eq!(name("abcd", 4), "abcd");
    }
}
