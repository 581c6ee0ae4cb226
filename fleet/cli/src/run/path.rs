//! Paths and queries of the admin API.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// All but unreserved characters (RFC 3986 §2.3).
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// `text` as one segment of a path, or as a value of a query, percent-encoded.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

/// `path?a=b&c=d` of the values that are there.
pub(super) fn with_query<'a>(path: &str, query: impl IntoIterator<Item = (&'a str, Option<String>)>) -> String {
    let mut whole = path.to_owned();
    let mut separator = '?';
    for (name, value) in query {
        if let Some(value) = value {
            whole.push_str(&format!("{separator}{name}={}", encoded(&value)));
            separator = '&';
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_path_or_query_would_read_otherwise_is_encoded() {
        assert_eq!(encoded("stable/cloud ä&?#%+"), "stable%2Fcloud%20%C3%A4%26%3F%23%25%2B");
        assert_eq!(
            with_query("/a", [("x", None), ("y", Some("1&2".to_owned())), ("z", Some(String::new()))]),
            "/a?y=1%262&z="
        );
        assert_eq!(with_query("/a", [("x", None)]), "/a");
    }
}
