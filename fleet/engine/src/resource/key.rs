//! What a key of a resource is: its name, what may stand there, what it means where it is absent.

use yaml::{Node, scalar};

use super::shown::alternatives;

/// A mapping of a resource: a section of `docs/fleet-resources.md`.
#[derive(Debug)]
pub(super) struct KeyTable {
    /// The heading of its section.
    pub(super) heading: &'static str,
    /// Its keys, in the order in which a fault lists them.
    pub(super) keys: &'static [Key],
}

/// A key of a mapping.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) kind: KeyKind,
    /// What it means where it is absent, by dialect; one where both agree. In backquotes a value in YAML, else words. A key that is
    /// `required: …` must be there; what follows is what to give.
    pub(super) defaults: &'static [&'static str],
    /// When a change of it acts, where that differs within the table.
    pub(super) acts: &'static str,
    /// What it means: a line of Markdown.
    pub(super) meaning: &'static [&'static str],
}

/// What may stand at a key.
#[derive(Debug)]
pub(super) enum KeyKind {
    /// A whole number from the one to the other.
    Whole(u32, u32),
    /// A number from the one to the other with at most two decimals.
    Decimal(u32, u32),
    /// A number from 0 to 1.
    Share,
    /// A whole percentage.
    Percentage,
    /// A duration with its unit, from so many minutes to so many.
    Minutes(i64, i64),
    /// An instant.
    Time,
    /// A version.
    Version,
    /// A digest in hex.
    Sha256,
    /// True or false.
    Flag,
    /// True, false or a mapping.
    FlagOr(&'static KeyTable),
    /// One of these.
    Words(&'static [&'static str]),
    /// Days of the week.
    Weekdays,
    /// A time zone.
    TimeZone,
    /// An expression about labels.
    LabelExpression,
    /// An address that the server asks.
    Address,
    /// A text in one line, and what it is.
    Text(&'static str),
    /// A text of 1 to 255 bytes, and what it is.
    Name(&'static str),
    /// Whatever stands there is kept and means nothing.
    Kept,
    /// Nothing.
    Empty,
    /// A mapping whose keys are these.
    Mapping(&'static KeyTable),
    /// A mapping whose keys are data: what they are, at most how many, and what each value is.
    Map(&'static str, usize, &'static KeyKind),
    /// A list: of what, at most how many, and what each is.
    List(&'static str, usize, &'static KeyKind),
}

impl KeyTable {
    /// The row of a key.
    pub(super) fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }
}

impl Key {
    /// What it means in a column of defaults where it is absent, in words or in backquotes.
    pub(super) fn default(&self, column: usize) -> &'static str {
        self.defaults.get(column).or(self.defaults.first()).copied().unwrap_or_default()
    }

    /// What to give where it must be there.
    pub(super) fn required(&self) -> Option<&'static str> {
        self.default(0).strip_prefix("required: ")
    }

    /// What it means, in a line.
    pub(super) fn meaning(&self) -> String {
        self.meaning.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
    }

    /// The value that it has where it is absent.
    pub(super) fn default_value(&self, column: usize) -> Option<Node> {
        let text = self.default(column).strip_prefix('`')?.strip_suffix('`')?;
        let items = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        let list = |items: &str| Node::list(items.split(", ").map(|item| Node::text(item.trim_matches('"'))).collect());
        Some(items.map_or_else(|| Node::plain(text), list))
    }
}

impl KeyKind {
    /// The keys of the mapping that may stand there, or in the list or mapping there.
    pub(super) fn table(&self) -> Option<&'static KeyTable> {
        match self {
            Self::Mapping(table) | Self::FlagOr(table) => Some(table),
            Self::List(_, _, inner) | Self::Map(_, _, inner) => inner.table(),
            _ => None,
        }
    }

    /// What may stand there, as the page says it.
    pub(super) fn shown(&self) -> String {
        let limit = |most: usize| if most == usize::MAX { String::new() } else { format!(", at most {most}") };
        let is = |what: &str| if what.is_empty() { String::new() } else { format!(": {what}") };
        match self {
            Self::Weekdays => format!("a list of {}", self.wanted().replace(" or \"*\"", ", or `\"*\"`")),
            Self::TimeZone | Self::LabelExpression => format!("a text: {}", self.wanted()),
            Self::Address => "a text: an https address, or http on a loopback address".to_owned(),
            Self::Name("") => "a text, 1 to 255 bytes".to_owned(),
            Self::Text(what) | Self::Name(what) => format!("a text{}", is(what)),
            Self::Mapping(_) => "a mapping".to_owned(),
            Self::Map(nouns, most, _) => format!("a mapping of {nouns}{}", limit(*most)),
            Self::List(nouns, most, _) => format!("a list of {nouns}{}", limit(*most)),
            _ => self.wanted().split(", such as ").next().unwrap_or_default().to_owned(),
        }
    }

    /// What may stand there, as a fault says it.
    pub(super) fn wanted(&self) -> String {
        let minutes = |minutes: i64| scalar::duration_text(std::time::Duration::from_secs(minutes.unsigned_abs() * 60));
        match self {
            Self::Whole(least, most) => format!("a whole number from {least} to {most}"),
            Self::Decimal(least, most) => format!("a number from {least} to {most} with at most two decimals"),
            Self::Share => "a number from 0 to 1".to_owned(),
            Self::Percentage => "a whole percentage from 0% to 100%".to_owned(),
            Self::Minutes(least, most) => {
                format!("a duration with its unit from {} to {}", minutes(*least), minutes(*most))
            }
            Self::Time => "a time with its offset, such as 2026-12-24T00:00:00Z".to_owned(),
            Self::Version => "a version such as 17.2.1".to_owned(),
            Self::Sha256 => "a SHA-256 in hex".to_owned(),
            Self::Flag => "true or false".to_owned(),
            Self::FlagOr(_) => "true, false or a mapping of schedules".to_owned(),
            Self::Words(words) => alternatives(words),
            Self::Weekdays => "Mon, Tue, Wed, Thu, Fri, Sat, Sun or \"*\"".to_owned(),
            Self::TimeZone => "a time zone such as UTC or Europe/Berlin".to_owned(),
            Self::LabelExpression => "a label expression".to_owned(),
            Self::Address => "an https address".to_owned(),
            Self::Text(_) | Self::Name(_) | Self::Kept => "a text".to_owned(),
            Self::Empty => "nothing, or `{}`".to_owned(),
            Self::Mapping(_) | Self::Map(..) => "a mapping of keys and values".to_owned(),
            Self::List(..) => "a list".to_owned(),
        }
    }
}
