//! Everything that stands on a page and is no template goes through here: text from hosts is data (FLEET §8).

use std::fmt::{self, Write};

use askama::filters::{Escaper, Html};
use fleet_wire::text::clean;

/// HTML is escaped, and control characters and marks of direction are written out (`\u001b`), as on a terminal.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Visible;

impl Escaper for Visible {
    fn write_escaped_str<W: Write>(&self, dest: W, string: &str) -> fmt::Result {
        Html.write_escaped_str(dest, &clean(string))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_text_is_markup_and_what_is_unseen_is_seen() {
        let mut out = String::new();
        Visible.write_escaped_str(&mut out, "<b a='\"'>&\u{1b}\u{202e}\u{0}ä").unwrap();
        assert_eq!(out, "&#60;b a=&#39;&#34;&#39;&#62;&#38;\\u001b\\u202e\\u0000ä");
    }
}
