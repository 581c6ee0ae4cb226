//! Words and cells. Text from hosts is data: nothing of it reaches a terminal as a command (FLEET §8).

use std::borrow::Cow;

use fleet_engine::plain::{is_unsafe, is_unsafe_in_document};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use unicode_width::UnicodeWidthStr;

/// Without what a terminal obeys or hides: controls, and marks that change the direction or have no width. They are written
/// as `\u001b`.
pub fn clean(text: &str) -> Cow<'_, str> {
    escape(text, is_unsafe)
}

/// The same for a text of several lines.
pub fn clean_lines(text: &str) -> Cow<'_, str> {
    escape(text, |char| char != '\n' && is_unsafe(char))
}

/// The same for a document, in which tabs and marks without a width may be meant.
pub fn clean_document(text: &str) -> Cow<'_, str> {
    escape(text, |char| !matches!(char, '\n' | '\t') && is_unsafe_in_document(char))
}

fn escape(text: &str, is_unsafe: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for char in text.chars() {
        if is_unsafe(char) {
            // JSON and YAML know this form too.
            escaped.push_str(&format!("\\u{:04x}", u32::from(char)));
        } else {
            escaped.push(char);
        }
    }
    Cow::Owned(escaped)
}

/// How many columns a clean text takes on a terminal.
pub fn width(text: &str) -> usize {
    text.width()
}

/// A time as `tctl` prints it: UTC, whole seconds, no zone.
pub fn time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// A time in RFC 3339 without a fraction.
pub fn second(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

/// [`time`] of a text in RFC 3339; what is none stays as it is.
pub fn time_of(text: &str) -> String {
    text.parse().map_or_else(|_| clean(text).into_owned(), time)
}

/// A time to come in UTC, and in the operator's zone where that is another: `2025-01-16 02:00:00 UTC (Thu 03:00 CET)`.
pub fn time_to_come(text: &str, zone: &TimeZone) -> String {
    let utc = format!("{} UTC", time_of(text));
    let Ok(time) = text.parse::<Timestamp>() else { return utc };
    let local = time.to_zoned(zone.clone());
    if local.offset().is_zero() {
        return utc;
    }
    format!("{utc} ({})", local.strftime("%a %H:%M %Z"))
}

/// A time near `now`, in UTC: `14:50 UTC`; on another day `2025-01-16 14:50 UTC`.
pub fn clock(text: &str, now: Timestamp) -> String {
    let Ok(time) = text.parse::<Timestamp>() else { return time_of(text) };
    let day = |time: Timestamp| time.as_second().div_euclid(86_400);
    time.strftime(if day(time) == day(now) { "%H:%M UTC" } else { "%Y-%m-%d %H:%M UTC" }).to_string()
}

/// How long before `now` a time was, or after it will be: `3 min ago`, `in 2 h`.
pub fn ago(text: &str, now: Timestamp) -> String {
    let Ok(time) = text.parse::<Timestamp>() else { return time_of(text) };
    let seconds = now.duration_since(time).as_secs();
    let long = match seconds.unsigned_abs() {
        ..60 => return if seconds < 0 { "in less than 1 min" } else { "less than 1 min ago" }.to_owned(),
        minutes @ ..5_400 => format!("{} min", minutes / 60),
        hours @ ..172_800 => format!("{} h", (hours + 1_800) / 3_600),
        days => counted(days / 86_400, "day"),
    };
    if seconds < 0 { format!("in {long}") } else { format!("{long} ago") }
}

/// `1 host`, `12 hosts`.
pub fn hosts(count: u64) -> String {
    counted(count, "host")
}

/// `1 thing`, `12 things`.
pub fn counted(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// A word for a shell: quoted where it needs to be.
pub fn shell(word: &str) -> String {
    let word = clean(word);
    let is_simple = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:@%+=,".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_simple) {
        return word.into_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_written_out() {
        assert_eq!(clean("a\u{1b}[2Jb\u{9b}c\rd\u{202e}e\ttä"), "a\\u001b[2Jb\\u009bc\\u000dd\\u202ee\\u0009tä");
        assert_eq!(clean_lines("a\nb\u{7}"), "a\nb\\u0007");
        assert_eq!(clean_document("a:\t1\nb: \u{7f}"), "a:\t1\nb: \\u007f");
        assert_eq!(clean_document("reason: \u{202e}gnp"), "reason: \\u202egnp");
    }

    #[test]
    fn a_time_to_come_is_told_in_the_operators_zone_too() {
        let berlin = TimeZone::get("Europe/Berlin").unwrap();
        assert_eq!(time_to_come("2025-01-15T23:30:00Z", &berlin), "2025-01-15 23:30:00 UTC (Thu 00:30 CET)");
        assert_eq!(time_to_come("2025-07-15T23:30:00Z", &berlin), "2025-07-15 23:30:00 UTC (Wed 01:30 CEST)");
        assert_eq!(time_to_come("2025-01-15T23:30:00Z", &TimeZone::UTC), "2025-01-15 23:30:00 UTC");
        assert_eq!(time_to_come("soon\u{7}", &berlin), "soon\\u0007 UTC");
    }

    #[test]
    fn words_that_a_shell_would_read_otherwise_are_quoted() {
        assert_eq!(shell("prod-1.eu"), "prod-1.eu");
        assert_eq!(shell("a b"), "'a b'");
        assert_eq!(shell("$(reboot)'s"), "'$(reboot)'\\''s'");
        assert_eq!(shell(""), "''");
    }

    proptest! {
        #[test]
        fn a_cleaned_text_holds_no_control_character(text in any::<String>()) {
            prop_assert!(!clean(&text).chars().any(char::is_control));
            prop_assert!(!clean_lines(&text).chars().any(|char| char.is_control() && char != '\n'));
        }
    }
}
