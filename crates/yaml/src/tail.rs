//! Where the comments at the end of lines are: behind what was just read, and behind an item's dash. The scanner tells
//! neither, but what stands between two of its values is layout, tags and comments only.

/// A source that is walked along with the scanner, which counts characters: each is looked at a few times in all.
#[derive(Default)]
pub(crate) struct Source<'a> {
    text: &'a str,
    /// The characters that lie behind.
    index: usize,
    /// The bytes that lie behind.
    byte: usize,
}

/// The dash of an item.
pub(crate) struct Dash {
    /// The comment on its line.
    pub(crate) tail: Option<String>,
    /// How many lines above its item it is.
    pub(crate) above: usize,
}

impl<'a> Source<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, index: 0, byte: 0 }
    }

    /// Goes on to the character `index`; never back.
    pub(crate) fn go_to(&mut self, index: usize) {
        self.byte += self.until(index).len();
        self.index = self.index.max(index);
    }

    /// What lies before the character `index`.
    pub(crate) fn until(&self, index: usize) -> &'a str {
        let rest = &self.text[self.byte..];
        let end = rest.char_indices().nth(index.saturating_sub(self.index)).map_or(rest.len(), |(at, _)| at);
        &rest[..end]
    }

    /// The comment at the end of this line if nothing but a colon and what belongs to a value stands before it.
    pub(crate) fn tail(&self) -> Option<String> {
        comment(&self.text[self.byte..])
    }

    /// The dash of the item that starts at the character `index`.
    pub(crate) fn dash(&self, index: usize) -> Option<Dash> {
        let gap = self.until(index);
        let mut end = gap.len();
        for (above, line) in gap.rsplit('\n').enumerate() {
            if let Some(rest) = behind_dashes(line) {
                let tail = comment(&self.text[self.byte + end - rest.len()..]);
                return Some(Dash { tail, above });
            }
            // The first line has no break before it.
            end = end.saturating_sub(line.len() + 1);
        }
        None
    }
}

/// How many characters a quoted text has up to its closing quote, with the tag and anchor before it: the scanner's span
/// goes on to the end of a comment.
pub(crate) fn quoted_len(span: &str) -> Option<usize> {
    let mut rest = span.trim_start();
    while !rest.starts_with(['\'', '"']) {
        let next = match rest.chars().next()? {
            '#' => &rest[rest.find(['\n', '\r'])?..],
            _ => &rest[rest.find(char::is_whitespace)?..],
        };
        rest = next.trim_start();
    }
    let quote = rest.chars().next()?;
    let before = span[..span.len() - rest.len()].chars().count();
    let mut chars = rest.chars().enumerate().skip(1).peekable();
    while let Some((index, char)) = chars.next() {
        if char == '\\' && quote == '"' {
            chars.next();
        } else if char == quote && (quote == '"' || chars.next_if(|(_, next)| *next == quote).is_none()) {
            return Some(before + index + 1);
        }
    }
    None
}

/// What stands behind the dashes that a line starts with.
fn behind_dashes(line: &str) -> Option<&str> {
    let mut found = None;
    let mut rest = line.trim_start_matches([' ', '\t']);
    while let Some(next) = rest.strip_prefix('-').filter(|next| !next.starts_with(|char: char| !char.is_whitespace())) {
        found = Some(next);
        rest = next.trim_start_matches([' ', '\t']);
    }
    found
}

/// The comment that ends the line `text` starts with, if before it is only a colon, a tag, an anchor or what announces
/// a block text. Looks no further than to the next value: a line may be long and have many of them.
fn comment(text: &str) -> Option<String> {
    let (mut rest, mut apart) = behind_blanks(text);
    if let Some(next) = rest.strip_prefix(':') {
        (rest, apart) = behind_blanks(next);
    }
    while apart {
        if rest.starts_with('#') {
            return shown(rest.split(['\n', '\r']).next()?);
        }
        (rest, apart) = behind_blanks(behind_property(rest)?);
    }
    None
}

/// The text without the blanks it starts with, and whether there were any: a comment and what precedes it need some.
fn behind_blanks(text: &str) -> (&str, bool) {
    let rest = text.trim_start_matches([' ', '\t']);
    (rest, rest.len() < text.len())
}

/// What stands behind the tag, the anchor or the `|-` that `text` starts with.
fn behind_property(text: &str) -> Option<&str> {
    match text.chars().next()? {
        '!' if text.starts_with("!<") => text.split_once('>').map(|(_, rest)| rest),
        '!' | '&' => Some(text.trim_start_matches(|char: char| !char.is_whitespace() && !",[]{}".contains(char))),
        '|' | '>' => Some(text[1..].trim_start_matches(|char: char| char.is_ascii_digit() || "+-".contains(char))),
        _ => None,
    }
}

/// A comment as a tree keeps it; none with control characters.
pub(crate) fn shown(comment: &str) -> Option<String> {
    let words = comment.trim();
    (!words.chars().any(char::is_control)).then(|| words.to_owned())
}
