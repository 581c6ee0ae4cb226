//! The question: who asks.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// What stands in a query as it is (RFC 3986, unreserved).
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Says that nobody updates by the answer.
const DRY_RUN: &str = "dry_run=true";

/// What the asker says about itself; what is `None` is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Question {
    /// The agent's host UUID, if it ever joined.
    pub host: Option<String>,
    /// The update group.
    pub group: Option<String>,
    /// The updater's own id.
    pub update_id: Option<String>,
    /// Nobody updates by this answer: `status` and `plan` ask. The rollout server answers the same, and does not count the host
    /// as told; proxies do not know the word.
    pub dry_run: bool,
}

impl Question {
    /// The query with its `?`; empty if nothing is said.
    pub fn query(&self) -> String {
        let parts = [("host", &self.host), ("group", &self.group), ("update_id", &self.update_id)];
        let said = parts.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
        let said = said.map(|(name, value)| format!("{name}={}", utf8_percent_encode(value, ESCAPED)));
        let all: Vec<String> = said.chain(self.dry_run.then(|| DRY_RUN.to_owned())).collect();
        if all.is_empty() { String::new() } else { format!("?{}", all.join("&")) }
    }

    /// Reads a query, without its `?`. Of a name twice the first counts; other names are of no concern; `+` is a blank, as
    /// forms write it; what is not UTF-8 becomes U+FFFD.
    pub fn parse(query: &str) -> Self {
        let dry_run = query.split('&').any(|part| part == DRY_RUN);
        let mut question = Self { dry_run, ..Self::default() };
        for (name, value) in query.split('&').filter_map(|part| part.split_once('=')) {
            let field = match name {
                "host" => &mut question.host,
                "group" => &mut question.group,
                "update_id" => &mut question.update_id,
                _ => continue,
            };
            let blank = value.replace('+', " ");
            field.get_or_insert_with(|| percent_decode_str(&blank).decode_utf8_lossy().into_owned());
        }
        question
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_query_is_encoded_and_what_is_not_known_is_left_out() {
        let question = Question { host: Some("u-1".into()), group: Some("a b&c=ä".into()), ..Question::default() };
        assert_eq!(question.query(), "?host=u-1&group=a%20b%26c%3D%C3%A4");
        let look = Question { dry_run: true, ..question };
        assert_eq!(look.query(), "?host=u-1&group=a%20b%26c%3D%C3%A4&dry_run=true");
        assert_eq!(Question { dry_run: true, ..Question::default() }.query(), "?dry_run=true");
        assert_eq!(Question::default().query(), "");
    }

    #[test]
    fn of_a_query_the_known_names_are_read() {
        let read = Question::parse("x=1&group=a+b%26c&host=&group=second&update_id=%ff&flag");
        assert_eq!(read.group.as_deref(), Some("a b&c"));
        assert_eq!((read.host.as_deref(), read.update_id.as_deref()), (Some(""), Some("\u{fffd}")));
    }

    proptest! {
        #[test]
        fn what_is_asked_is_read_as_it_was_meant(host in ".*", group in proptest::option::of(".*"), dry_run: bool) {
            let question = Question { host: Some(host), group, update_id: None, dry_run };
            prop_assert_eq!(Question::parse(question.query().trim_start_matches('?')), question);
        }
    }
}
