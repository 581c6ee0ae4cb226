//! How texts become booleans, numbers, durations and times, and back; as people and Go's yaml.v3 write them.

use std::time::Duration;

use protocol::Version;

/// Longest duration a setting may have: a century, so that adding it to a time cannot overflow.
const MAX_DURATION: Duration = Duration::from_secs(100 * 365 * DAY);
/// Seconds in a day.
const DAY: u64 = 86_400;

/// A boolean in any spelling of YAML 1.1, in any case.
pub fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "y" => Some(true),
        "false" | "no" | "off" | "n" => Some(false),
        _ => None,
    }
}

/// A decimal number without sign; leading zeros are refused, because YAML 1.1 reads them as octal.
pub fn integer(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit()) && (text.len() == 1 || !text.starts_with('0'));
    if digits { text.parse().ok() } else { None }
}

/// True for what a YAML reader may take for a number when it stands without quotes: decimal, with fraction or exponent,
/// hexadecimal, octal, infinite or none.
pub fn is_number(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    match unsigned.as_bytes() {
        [b'0', b'x' | b'o' | b'b', digits @ ..] => !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit),
        [b'0'..=b'9', ..] | [b'.', b'0'..=b'9', ..] => unsigned.parse::<f64>().is_ok(),
        [b'.', rest @ ..] => [&b"inf"[..], b"nan"].iter().any(|word| rest.eq_ignore_ascii_case(word)),
        _ => false,
    }
}

/// A duration such as `90s`, `1h30m`, `365d`, `500ms`, or plain seconds; at most 100 years.
pub fn duration(text: &str) -> Option<Duration> {
    if let Some(seconds) = integer(text) {
        return Some(Duration::from_secs(seconds)).filter(|length| *length <= MAX_DURATION);
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let number_end = rest.find(|char: char| !char.is_ascii_digit())?;
        let (number, tail) = rest.split_at(number_end);
        let unit_end = tail.find(|char: char| char.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let number: u64 = number.parse().ok()?;
        let part = match unit {
            "ms" => Duration::from_millis(number),
            "s" => Duration::from_secs(number),
            "m" => Duration::from_secs(number.checked_mul(60)?),
            "h" => Duration::from_secs(number.checked_mul(3600)?),
            "d" => Duration::from_secs(number.checked_mul(DAY)?),
            "w" => Duration::from_secs(number.checked_mul(7 * DAY)?),
            _ => return None,
        };
        total = total.checked_add(part).filter(|total| *total <= MAX_DURATION)?;
        rest = tail;
    }
    (!text.is_empty()).then_some(total)
}

/// The shortest text that [`duration`] reads back, to the millisecond.
pub fn duration_text(length: Duration) -> String {
    let seconds = length.as_secs();
    match (length.subsec_millis(), seconds) {
        (1.., _) => format!("{}ms", length.as_millis()),
        (_, 1..) if seconds.is_multiple_of(DAY) => format!("{}d", seconds / DAY),
        (_, 1..) if seconds.is_multiple_of(3600) => format!("{}h", seconds / 3600),
        (_, 61..) if seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        _ => format!("{seconds}s"),
    }
}

/// A time as RFC 3339 in UTC with whole seconds, in the RFD's spelling: `2020-12-09T16:09:53+00:00`.
pub fn time_text(time: jiff::Timestamp) -> String {
    let whole = jiff::Timestamp::from_second(time.as_second()).unwrap_or(time);
    whole.display_with_offset(jiff::tz::Offset::UTC).to_string()
}

/// True if a text needs no quotes to be read as this very string by YAML 1.1 and 1.2 readers. Cautious: what looks
/// like a number, boolean, null, time or indicator gets quotes, but versions stay as the RFD writes them.
pub fn is_string_without_quotes(text: &str) -> bool {
    let usual = |char: char| char.is_ascii_alphanumeric() || "_./:@+- ".contains(char);
    let Some(first) = text.chars().next() else { return false };
    if first.is_ascii_digit() {
        return text.parse::<Version>().is_ok();
    }
    (first.is_ascii_alphabetic() || first == '/')
        && text.chars().all(usual)
        && !text.ends_with([':', ' '])
        && !text.contains(": ")
        && boolean(text).is_none()
        && !text.eq_ignore_ascii_case("null")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn booleans_as_people_and_go_write_them() {
        for text in ["yes", "on", "TRUE", "Y"] {
            assert_eq!(boolean(text), Some(true));
        }
        for text in ["no", "Off", "false", "n"] {
            assert_eq!(boolean(text), Some(false));
        }
        assert_eq!(boolean("1"), None);
    }

    #[test]
    fn durations_are_read_and_written() {
        for (text, seconds) in
            [("90", 90), ("90s", 90), ("1h", 3600), ("1h30m", 5400), ("365d", 31_536_000), ("1h0m0s", 3600)]
        {
            assert_eq!(duration(text), Some(Duration::from_secs(seconds)), "{text}");
            let written = duration_text(Duration::from_secs(seconds));
            assert_eq!(duration(&written), Some(Duration::from_secs(seconds)), "{written}");
        }
        assert_eq!(duration_text(Duration::from_secs(60)), "60s");
        for bad in ["", "s", "-1s", "1x", "99999999999999999999s", "101w1000000w", "1.5h", "ms"] {
            assert!(duration(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn numbers_with_leading_zeros_or_signs_are_refused() {
        assert_eq!(integer("0"), Some(0));
        assert_eq!(integer("10"), Some(10));
        for bad in ["", "010", "+1", "-1", "1_0", "0x1"] {
            assert_eq!(integer(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_looks_like_a_number_is_told_from_versions_and_words() {
        for text in ["0", "12", "-1", "+1.5", "010", "1e5", ".5", "0x1F", "0o17", "-.inf", ".NaN", "1."] {
            assert!(is_number(text), "{text}");
        }
        for text in ["", "-", ".", "1.2.3", "1a", "inf", "nan", "0x", "1_0", "v1", "10%", "1h", "e5", "2026-01-01"] {
            assert!(!is_number(text), "{text}");
        }
    }

    #[test]
    fn strings_that_look_like_something_else_get_quotes() {
        for text in ["mytenant.teleport.sh", "15.1.1", "16.0.0-rc.1", "proxy:3080", "systemctl stop teleport"] {
            assert!(is_string_without_quotes(text), "{text}");
        }
        for text in
            ["", "yes", "No", "null", "~", "1.10", "0123", "1e5", "a: b", "a:", "- a", "x #y", "1:2", ".5", "<<"]
        {
            assert!(!is_string_without_quotes(text), "{text}");
        }
    }
}
