//! A typed view of a place in a document. What is absent or null is `None` without a fault; what is there and wrong is
//! `None` and a [`ResourceFault`] that says where it stands, what was found and what is allowed. Who reads goes on after a fault, so
//! that one look tells of all.

use crate::plain::{is_unsafe, is_unsafe_in_document};
use std::fmt::Display;

use yaml::{Node, Value, scalar};

use super::fault::{FaultList, ResourceFault};
use super::key::KeyKind;
use super::shown::{escaped, shown};

/// Longest text, bytes: a label expression of a hundred terms fits.
const LONGEST_TEXT: usize = 4096;
/// Longest name, bytes.
const LONGEST_NAME: usize = 255;

/// What a key can have.
pub(super) trait KeyValue: Sized {
    /// What stands at `place`, where `kind` may; `None` where nothing does, and after a fault.
    fn read(place: &ResourceReader<'_>, kind: &KeyKind) -> Option<Self>;
}

/// A place in a document, where perhaps something stands.
#[derive(Debug, Clone)]
pub(super) struct ResourceReader<'a> {
    node: Option<&'a Node>,
    /// Where it stands, or would.
    line: usize,
    key: String,
    found: &'a FaultList,
}

impl<'a> ResourceReader<'a> {
    /// The whole of a document.
    pub(super) fn root(node: &'a Node, found: &'a FaultList) -> Self {
        Self { node: Some(node).filter(|node| !node.is_null()), line: node.line, key: String::new(), found }
    }

    /// Where nothing stands.
    pub(super) fn nowhere(found: &'a FaultList) -> Self {
        Self { node: None, line: 0, key: String::new(), found }
    }

    /// True if something stands here.
    pub(super) fn is_there(&self) -> bool {
        self.node.is_some()
    }

    /// This place, if something stands here.
    pub(super) fn there(&self) -> Option<&Self> {
        self.is_there().then_some(self)
    }

    /// True if nothing stands here, or a mapping without keys.
    pub(super) fn is_empty(&self) -> bool {
        self.node.is_none_or(|node| node.pairs().is_some_and(<[_]>::is_empty))
    }

    /// A fault here.
    pub(super) fn refuse(&self, what: impl Into<String>) {
        self.found.add(ResourceFault {
            line: self.line.max(1),
            key: self.key.clone(),
            what: what.into(),
            before: None,
        });
    }

    /// A fault if nothing stands here; `wanted` says what to give.
    pub(super) fn needed(self, wanted: &str) -> Self {
        if !self.is_there() {
            self.refuse(format!("is missing; give {wanted}"));
        }
        self
    }

    /// What stands here is not `wanted`.
    pub(super) fn wrong(&self, wanted: &str) {
        if let Some(node) = self.node {
            self.refuse(format!("{} is not {wanted}", shown(node)));
        }
    }

    /// The place of a key here, whether or not that key is known.
    pub(super) fn at(&self, name: &str) -> Self {
        let pairs = self.node.and_then(Node::pairs).unwrap_or_default();
        self.value(name, pairs.iter().find(|(key, _)| key.as_str() == Some(name)))
    }

    fn value(&self, name: &str, pair: Option<&'a (Node, Node)>) -> Self {
        let line = pair.map_or(self.line, |(key, value)| if value.line == 0 { key.line } else { value.line });
        let node = pair.map(|(_, value)| value).filter(|value| !value.is_null());
        Self { node, line, key: self.below(name), found: self.found }
    }

    /// The first `most` keys of a mapping with the places of their values, for mappings whose keys are data; more than so many
    /// `nouns` are a fault.
    pub(super) fn pairs_up_to(&self, most: usize, nouns: &str) -> Vec<(&'a str, Self)> {
        let Some(pairs) = self.node.and_then(Node::pairs) else {
            self.wrong("a mapping of keys and values");
            return Vec::new();
        };
        if pairs.len() > most {
            self.refuse(format!("has {} {nouns}, {most} are allowed", pairs.len()));
        }
        pairs
            .iter()
            .take(most)
            .filter_map(|pair| pair.0.as_str().map(|name| (name, self.value(name, Some(pair)))))
            .collect()
    }

    /// The items of a list; none if nothing stands here.
    pub(super) fn items(&self) -> Vec<Self> {
        self.list().unwrap_or_default()
    }

    /// The first `most` items of a list of `nouns`; more are a fault.
    pub(super) fn items_up_to(&self, most: usize, nouns: &str) -> Vec<Self> {
        let mut items = self.items();
        if items.len() > most {
            self.refuse(format!("has {} {nouns}, {most} are allowed", items.len()));
            items.truncate(most);
        }
        items
    }

    /// The items of a list; `None` if nothing stands here, or no list.
    pub(super) fn list(&self) -> Option<Vec<Self>> {
        let Some(items) = self.node.and_then(Node::items) else {
            self.wrong("a list");
            return None;
        };
        let item = |(index, node): (usize, &'a Node)| Self {
            node: Some(node).filter(|node| !node.is_null()),
            line: node.line,
            key: format!("{}[{index}]", self.key),
            found: self.found,
        };
        Some(items.iter().enumerate().map(item).collect())
    }

    /// A text in one line. What YAML takes for a number or a boolean needs quotes.
    pub(super) fn text(&self) -> Option<&'a str> {
        let text = self.any_scalar()?;
        if self.is_plain(|text| scalar::boolean(text).is_some() || scalar::is_number(text)) {
            self.wrong("a text: it needs quotes");
            return None;
        }
        if text.chars().any(is_unsafe_in_document) {
            self.wrong("a text in one line without control characters");
            return None;
        }
        if text.len() > LONGEST_TEXT {
            self.refuse(format!("is longer than {LONGEST_TEXT} bytes"));
            return None;
        }
        Some(text)
    }

    /// What `convert` makes of a text, which else is not `wanted`.
    pub(super) fn text_as<T>(&self, wanted: &str, convert: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let value = convert(self.text()?);
        if value.is_none() {
            self.wrong(wanted);
        }
        value
    }

    /// A text of which `is_it` holds, else it is not `wanted`.
    pub(super) fn text_that(&self, wanted: &str, is_it: impl FnOnce(&str) -> bool) -> Option<String> {
        self.text_as(wanted, |text| is_it(text).then(|| text.to_owned()))
    }

    /// A text that names something: as [`ResourceReader::text`], not empty, without blanks around it, at most 255 bytes.
    pub(super) fn name(&self) -> Option<&'a str> {
        let text = self.text()?;
        if text.is_empty() || text.trim() != text || text.len() > LONGEST_NAME || text.contains(is_unsafe) {
            self.wrong(&format!("a name: 1 to {LONGEST_NAME} bytes without blanks around them"));
            return None;
        }
        Some(text)
    }

    /// Any scalar as it is written: for what others wrote and we only keep.
    pub(super) fn any_scalar(&self) -> Option<&'a str> {
        self.scalar("a text", |text, _| Some(text))
    }

    /// True where a mapping stands.
    pub(super) fn is_mapping(&self) -> bool {
        self.node.is_some_and(|node| node.pairs().is_some())
    }

    fn is_plain(&self, test: impl FnOnce(&str) -> bool) -> bool {
        let node = self.node.filter(|node| node.tag.is_none());
        matches!(node.map(|node| &node.value), Some(Value::Scalar { text, plain: true }) if test(text))
    }

    /// The value of a key that may have such.
    pub(super) fn read<T: KeyValue>(&self, kind: &KeyKind) -> Option<T> {
        T::read(self, kind)
    }

    /// What `convert` makes of a text, which may have several lines; its error follows the text and a colon.
    pub(super) fn parsed<T, E: Display>(
        &self,
        wanted: &str,
        convert: impl FnOnce(&'a str) -> Result<T, E>,
    ) -> Option<T> {
        match convert(self.any_scalar()?) {
            Ok(value) => Some(value),
            Err(why) => {
                self.wrong(&format!("{wanted}: {why}"));
                None
            }
        }
    }

    /// What `convert` makes of a scalar that is there, plain or not.
    pub(super) fn scalar<T>(&self, wanted: &str, convert: impl FnOnce(&'a str, bool) -> Option<T>) -> Option<T> {
        let node = self.node?;
        let value = match (&node.value, node.tag.as_deref()) {
            (Value::Scalar { text, plain }, None) => convert(text, *plain),
            (Value::Scalar { text, .. }, Some("!!str" | "!")) => convert(text, false),
            _ => None,
        };
        if value.is_none() {
            self.wrong(wanted);
        }
        value
    }

    /// The names of the keys here, each with its place.
    pub(super) fn keys(&self) -> impl Iterator<Item = (&'a str, Self)> {
        let pairs = self.node.and_then(Node::pairs).unwrap_or_default();
        pairs.iter().filter_map(|(key, _)| {
            let name = key.as_str()?;
            Some((name, Self { node: Some(key), line: key.line, key: self.below(name), found: self.found }))
        })
    }

    fn below(&self, name: &str) -> String {
        let is_simple =
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-/".contains(&byte));
        match (is_simple, self.key.is_empty()) {
            (true, true) => name.to_owned(),
            (true, false) => format!("{}.{name}", self.key),
            (false, _) => format!("{}[\"{}\"]", self.key, escaped(name)),
        }
    }
}
