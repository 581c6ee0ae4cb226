//! Query strings. Whatever a caller sends, at most [`LONGEST`] bytes of it are looked at.

use std::borrow::Cow;
use std::fmt;

/// Longest query, bytes: a find question has three values of at most 255 bytes, each of which can be escaped to three.
pub const LONGEST: usize = 2560;
/// Longest value, bytes after decoding: names in resources have as many.
pub const LONGEST_VALUE: usize = 255;

/// The part of an address behind its `?`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Query<'a> {
    text: &'a str,
}

/// What is wrong with a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueryFault {
    /// It is longer than [`LONGEST`].
    TooLong,
    /// The value of this parameter is longer than [`LONGEST_VALUE`].
    LongValue(&'static str),
    /// The value of this parameter has a `%` without two hexadecimal digits behind it, or is not UTF-8.
    Encoding(&'static str),
    /// This parameter is given twice, with different values.
    Twice(&'static str),
}

impl fmt::Display for QueryFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "the query is longer than {LONGEST} bytes"),
            Self::LongValue(name) => write!(f, "{name} is longer than {LONGEST_VALUE} bytes"),
            Self::Encoding(name) => write!(f, "{name} is not percent-encoded UTF-8"),
            Self::Twice(name) => write!(f, "{name} is given twice with different values: give it once"),
        }
    }
}

impl std::error::Error for QueryFault {}

impl<'a> Query<'a> {
    /// A query that must be right; without its `?`.
    ///
    /// # Errors
    /// It is longer than [`LONGEST`].
    pub fn strict(text: &'a str) -> Result<Self, QueryFault> {
        if text.len() > LONGEST { Err(QueryFault::TooLong) } else { Ok(Self { text }) }
    }

    /// A query that is answered whatever it is: of one that is too long the first parameters count that fit.
    pub fn lenient(text: &'a str) -> Self {
        if text.len() <= LONGEST {
            return Self { text };
        }
        let bytes = text.as_bytes().get(..=LONGEST).unwrap_or_default();
        let end = bytes.iter().rposition(|byte| *byte == b'&').unwrap_or(0);
        Self { text: text.get(..end).unwrap_or_default() }
    }

    /// The first value of the parameter called `name`; absent where it is too long. What is not UTF-8 becomes U+FFFD.
    pub fn first(&self, name: &str) -> Option<Cow<'a, str>> {
        let [value] = self.firsts([name]);
        value
    }

    /// The same for several parameters, in one pass.
    pub(crate) fn firsts<const N: usize>(&self, names: [&str; N]) -> [Option<Cow<'a, str>>; N] {
        let mut raw = [None; N];
        for (key, value) in self.pairs() {
            if let Some((_, slot)) = names.iter().zip(&mut raw).find(|(name, _)| is_called(key, name)) {
                slot.get_or_insert(value);
            }
        }
        let lossy = |(bytes, _): (Vec<u8>, bool)| Cow::Owned(String::from_utf8_lossy(&bytes).into_owned());
        let text = |value| decode(value).map_or(Cow::Borrowed(value), lossy);
        raw.map(|value| value.map(text).filter(|value| value.len() <= LONGEST_VALUE))
    }

    /// The value of the parameter called `name`, which must be right and the same wherever it is repeated.
    ///
    /// # Errors
    /// Why it is not.
    pub fn only(&self, name: &'static str) -> Result<Option<Cow<'a, str>>, QueryFault> {
        let mut found: Option<Cow<'a, str>> = None;
        for value in self.raw(name) {
            let value = strict(value).ok_or(QueryFault::Encoding(name))?;
            if value.len() > LONGEST_VALUE {
                return Err(QueryFault::LongValue(name));
            }
            if found.as_ref().is_some_and(|known| *known != value) {
                return Err(QueryFault::Twice(name));
            }
            found = Some(value);
        }
        Ok(found)
    }

    /// Whether there is a parameter called `name`.
    pub fn has(&self, name: &str) -> bool {
        self.raw(name).next().is_some()
    }

    /// The values of a parameter as they are written.
    fn raw(&self, name: &str) -> impl Iterator<Item = &'a str> {
        self.pairs().filter_map(move |(key, value)| is_called(key, name).then_some(value))
    }

    /// Keys and values as they are written; a key without `=` has an empty value.
    fn pairs(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let parts = self.text.split('&').filter(|part| !part.is_empty());
        parts.map(|part| part.split_once('=').unwrap_or((part, "")))
    }
}

/// Whether the written `key` means `name`.
fn is_called(key: &str, name: &str) -> bool {
    decode(key).map_or(key == name, |(key, _)| key == name.as_bytes())
}

/// The text that a value means.
fn strict(value: &str) -> Option<Cow<'_, str>> {
    match decode(value) {
        None => Some(Cow::Borrowed(value)),
        Some((bytes, is_right)) => String::from_utf8(bytes).ok().filter(|_| is_right).map(Cow::Owned),
    }
}

/// The bytes, and whether each `%` had its two digits; one without stays. `None`: nothing was escaped.
fn decode(text: &str) -> Option<(Vec<u8>, bool)> {
    if !text.bytes().any(|byte| byte == b'%' || byte == b'+') {
        return None;
    }
    let text = text.replace('+', " ");
    let has_digits =
        |rest: &str| rest.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    let is_right = text.split('%').skip(1).all(has_digits);
    Some((percent_encoding::percent_decode_str(&text).collect(), is_right))
}

/// A part of a path, decoded: as a value, but `+` is a plus.
///
/// # Errors
/// It is not percent-encoded UTF-8, or too long.
pub fn path(text: &str) -> Result<Cow<'_, str>, QueryFault> {
    if text.len() > LONGEST {
        return Err(QueryFault::TooLong);
    }
    let text = text.replace('+', "%2B");
    let decoded = strict(&text).ok_or(QueryFault::Encoding("the path"))?;
    Ok(Cow::Owned(decoded.into_owned()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_first_of_a_name_counts_and_other_names_are_of_no_concern() {
        let query = Query::lenient("x=1&group=a+b%26c&&host=&group=second&gr%6fup=third&flag&%zz=1");
        assert_eq!(query.first("group").as_deref(), Some("a b&c"));
        assert_eq!(query.first("host").as_deref(), Some(""));
        assert_eq!(query.first("flag").as_deref(), Some(""));
        assert_eq!(query.first("update_id"), None);
        assert_eq!(Query::lenient("gr%6fup=a%2Bb").first("group").as_deref(), Some("a+b"));
        assert_eq!(Query::lenient("a=b=c").first("a").as_deref(), Some("b=c"));
        let [group, none, host] = query.firsts(["group", "none", "host"]);
        assert_eq!((group.as_deref(), none, host.as_deref()), (Some("a b&c"), None, Some("")));
    }

    #[test]
    fn what_is_badly_escaped_is_read_as_well_as_it_can_be_or_refused() {
        for (written, lenient) in
            [("%", "%"), ("%4", "%4"), ("%zz", "%zz"), ("50%", "50%"), ("%ff", "\u{fffd}"), ("%+1", "% 1")]
        {
            let text = format!("group={written}");
            assert_eq!(Query::lenient(&text).first("group").as_deref(), Some(lenient), "{written}");
            assert_eq!(Query::strict(&text).unwrap().only("group"), Err(QueryFault::Encoding("group")), "{written}");
        }
    }

    #[test]
    fn what_is_too_long_is_refused_or_left_out() {
        let long = format!("group={}", "g".repeat(LONGEST_VALUE + 1));
        assert_eq!(Query::lenient(&long).first("group"), None);
        assert_eq!(Query::strict(&long).unwrap().only("group"), Err(QueryFault::LongValue("group")));
        let fits = format!("group={}", "%67".repeat(LONGEST_VALUE));
        assert_eq!(Query::lenient(&fits).first("group").unwrap().len(), LONGEST_VALUE);
        assert!(Query::strict(&"x".repeat(LONGEST)).is_ok());
        assert_eq!(Query::strict(&"x".repeat(LONGEST + 1)), Err(QueryFault::TooLong));
    }

    #[test]
    fn of_a_query_that_is_too_long_the_parameters_count_that_fit() {
        // `ä` is of two bytes: the end falls within one.
        for filler in (0..20).map(|more| "x".repeat(LONGEST - 30 + more)).chain(["ä".repeat(LONGEST)]) {
            let text = format!("host=h&x={filler}&group=g&y=1");
            let query = Query::lenient(&text);
            assert_eq!(query.first("host").as_deref(), Some("h"));
            let group_ends = text.find("&y").unwrap();
            assert_eq!(query.first("group").is_some(), group_ends <= LONGEST, "{group_ends}");
        }
        assert_eq!(Query::lenient(&"g".repeat(LONGEST + 1)).first("g"), None);
    }

    #[test]
    fn a_repeated_parameter_must_say_the_same() {
        let query = Query::strict("channel=a&arch=b&channel=%61&arch=c").unwrap();
        assert_eq!(query.only("channel"), Ok(Some(Cow::Borrowed("a"))));
        assert_eq!(query.only("arch"), Err(QueryFault::Twice("arch")));
    }

    #[test]
    fn in_a_path_a_plus_is_a_plus() {
        assert_eq!(path("stable/cloud").unwrap(), "stable/cloud");
        assert_eq!(path("a+b%2Fc%20d").unwrap(), "a+b/c d");
        for bad in ["%", "%ff", &"x".repeat(LONGEST + 1)] {
            assert!(path(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_an_updater_asks_is_read_as_it_was_meant(host in ".{0,80}", group in proptest::option::of(".{0,60}")) {
            let asked = protocol::find::Question { host: Some(host), group, ..protocol::find::Question::default() };
            let text = asked.query();
            let query = Query::lenient(text.trim_start_matches('?'));
            let read = |name| query.first(name).map(Cow::into_owned);
            prop_assert_eq!(read("host"), asked.host);
            prop_assert_eq!(read("group"), asked.group.clone());
            prop_assert_eq!(query.only("group").unwrap().map(Cow::into_owned), asked.group);
        }

        #[test]
        fn no_query_makes_a_panic(text in "([&=%+a-c]|%[0-9a-f]{2}|.){0,200}", times in 1usize..60) {
            let text = text.repeat(times);
            let _ = (Query::lenient(&text).first("a"), path(&text));
            if let Ok(query) = Query::strict(&text) {
                let _ = query.only("a");
            }
        }
    }
}
