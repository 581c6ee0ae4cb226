//! A YAML document as a tree that keeps what it does not understand: unknown keys, order, spelling of plain scalars,
//! tags, comments above keys and items, at the end of their lines and behind the last of them. Anchors are expanded.
//! Comments are lost at the end of lines inside of brackets, in empty brackets, above a key's value that is a text or
//! empty, above nothing, and behind a value without a key.

use std::fmt;

/// One node of a document. Equality ignores the line.
#[derive(Debug, Clone)]
pub struct Node {
    /// What it is.
    pub value: Value,
    /// The tag as written in a document, such as `!!binary`.
    pub tag: Option<String>,
    /// Full-line comments above it, each with its `#`; only of keys and of items of sequences.
    pub comments: Vec<String>,
    /// The comment at the end of its line, with its `#`; only of keys, also for one behind the value, and of items.
    pub tail: Option<String>,
    /// Full-line comments behind its last key or item, each with its `#`; only of mappings and sequences. Of those that
    /// end there, a comment belongs to the innermost that is not indented deeper than it is. One that is not indented
    /// deeper than the key of a sequence belongs to the key's mapping, and what is left at the end to the root.
    pub foot: Vec<String>,
    /// The line it was read from, from 1; 0 for a node that was made.
    pub line: usize,
}

/// What a node is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A text; `plain` means written without quotes, so that YAML's rules for numbers and booleans apply to it.
    Scalar {
        /// The text, unescaped.
        text: String,
        /// Written without quotes.
        plain: bool,
    },
    /// A list.
    Sequence(Vec<Node>),
    /// Keys (always scalars) and values in the order of the file.
    Mapping(Vec<(Node, Node)>),
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
            && self.tag == other.tag
            && self.comments == other.comments
            && self.tail == other.tail
            && self.foot == other.foot
    }
}

impl Eq for Node {}

/// Why a text is not a usable YAML document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for Fault {}

impl Node {
    fn new(value: Value) -> Self {
        Self { value, tag: None, comments: Vec::new(), tail: None, foot: Vec::new(), line: 0 }
    }

    /// A scalar without quotes; `text` must be a number, boolean, time or another text that needs none.
    pub fn plain(text: impl fmt::Display) -> Self {
        Self::new(Value::Scalar { text: text.to_string(), plain: true })
    }

    /// A string: quoted only where YAML would read something else without.
    pub fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        let plain = crate::scalar::is_string_without_quotes(&text);
        Self::new(Value::Scalar { text, plain })
    }

    /// A list.
    pub fn list(items: Vec<Node>) -> Self {
        Self::new(Value::Sequence(items))
    }

    /// A mapping of the pairs that have a value, in this order.
    pub fn mapping<'a>(pairs: impl IntoIterator<Item = (&'a str, Option<Node>)>) -> Self {
        let pairs = pairs.into_iter().filter_map(|(key, value)| Some((Node::text(key), value?)));
        Self::new(Value::Mapping(pairs.collect()))
    }

    /// The text of a scalar.
    pub fn as_str(&self) -> Option<&str> {
        if let Value::Scalar { text, .. } = &self.value { Some(text) } else { None }
    }

    /// True for what YAML calls null: nothing, `~` or `null` without quotes.
    pub fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar { text, plain: true }
            if self.tag.is_none() && matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL"))
    }

    /// True for what is not written at all, which is null.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(&self.value, Value::Scalar { text, plain: true } if text.is_empty())
    }

    /// The items of a sequence.
    pub fn items(&self) -> Option<&[Node]> {
        if let Value::Sequence(items) = &self.value { Some(items) } else { None }
    }

    /// The pairs of a mapping.
    pub fn pairs(&self) -> Option<&[(Node, Node)]> {
        if let Value::Mapping(pairs) = &self.value { Some(pairs) } else { None }
    }

    /// The first key of a mapping or item of a sequence.
    pub(crate) fn first(&self) -> Option<&Node> {
        match &self.value {
            Value::Scalar { .. } => None,
            Value::Sequence(items) => items.first(),
            Value::Mapping(pairs) => pairs.first().map(|(key, _)| key),
        }
    }

    /// True for a mapping in which nothing is left, no comment either.
    pub fn is_bare(&self) -> bool {
        self.pairs().is_some_and(<[_]>::is_empty) && self.foot.is_empty()
    }

    /// The value of `key` in a mapping; merged mappings (`<<`) count, the mapping's own keys first.
    pub fn get(&self, key: &str) -> Option<&Node> {
        let pairs = self.pairs()?;
        let own = pairs.iter().find(|(name, _)| name.as_str() == Some(key)).map(|(_, value)| value);
        own.or_else(|| {
            let (_, merged) = pairs.iter().find(|(name, _)| name.is_merge())?;
            match &merged.value {
                Value::Sequence(items) => items.iter().find_map(|item| item.get(key)),
                _ => merged.get(key),
            }
        })
    }

    /// The node below `path`.
    pub fn at(&self, path: &[&str]) -> Option<&Node> {
        path.iter().try_fold(self, |node, key| node.get(key))
    }

    /// Puts `value` at `path`, replacing what is there except for its comments, and making mappings on the way.
    pub fn set(&mut self, path: &[&str], value: Node) {
        let Some((key, rest)) = path.split_first() else {
            let (comments, tail) = (std::mem::take(&mut self.comments), self.tail.take());
            // A text has no last key or item that a comment could stand behind.
            let stays = !self.foot.is_empty() && value.as_str().is_none();
            let foot = if stays { std::mem::take(&mut self.foot) } else { value.foot };
            *self = Node { comments, tail, foot, ..value };
            return;
        };
        if !matches!(self.value, Value::Mapping(_)) {
            self.value = Value::Mapping(Vec::new());
            self.tag = None;
        }
        let Value::Mapping(pairs) = &mut self.value else { return };
        let index = pairs.iter().position(|(name, _)| name.as_str() == Some(key)).unwrap_or_else(|| {
            pairs.push((Node::text(*key), Node::mapping([])));
            pairs.len() - 1
        });
        pairs[index].1.set(rest, value);
    }

    /// Removes the key at `path`; true if it was there. The mapping it was in stays.
    pub fn remove(&mut self, path: &[&str]) -> bool {
        let (Some((key, rest)), Value::Mapping(pairs)) = (path.split_first(), &mut self.value) else {
            return false;
        };
        let Some(index) = pairs.iter().position(|(name, _)| name.as_str() == Some(key)) else {
            return false;
        };
        if rest.is_empty() {
            pairs.remove(index);
            return true;
        }
        pairs[index].1.remove(rest)
    }

    /// Changes `self` by the difference from `old` to `new`: what both have alike keeps its spelling, what only `self`
    /// has is left alone, except in a mapping that goes. `old` must be what was read from `self`.
    pub fn apply(&mut self, old: &Node, new: &Node) {
        if old == new {
            return;
        }
        match (&mut self.value, &old.value, &new.value) {
            (Value::Mapping(_), Value::Mapping(was), Value::Mapping(will)) => {
                for (key, _) in was {
                    let Some(key) = key.as_str() else { continue };
                    if new.get(key).is_none() {
                        // A record goes whole: what others wrote into it says nothing without the rest.
                        self.remove(&[key]);
                        // What a merged mapping would put in its place is taken back by a null of its own.
                        if self.own(key).is_none() && self.get(key).is_some() {
                            self.set(&[key], Node::plain("~"));
                        }
                    }
                }
                for (key, after) in will {
                    let Some(key) = key.as_str() else { continue };
                    match (self.own(key), old.get(key)) {
                        (Some(here), Some(before)) => here.apply(before, after),
                        (_, Some(before)) if before == after => {}
                        (None, Some(before)) => {
                            let mut merged = self.get(key).unwrap_or(after).clone();
                            merged.apply(before, after);
                            self.set(&[key], merged);
                        }
                        _ => self.set(&[key], after.clone()),
                    }
                }
            }
            (Value::Sequence(here), Value::Sequence(was), Value::Sequence(will)) => {
                let items = will.iter().map(|after| {
                    let same = was.iter().position(|before| same_thing(before, after));
                    match same.and_then(|index| Some((here.get(index)?, &was[index]))) {
                        Some((item, before)) => {
                            let mut item = item.clone();
                            item.apply(before, after);
                            item
                        }
                        None => after.clone(),
                    }
                });
                *here = items.collect();
            }
            _ => self.set(&[], new.clone()),
        }
    }

    fn own(&mut self, key: &str) -> Option<&mut Node> {
        match &mut self.value {
            Value::Mapping(pairs) => {
                pairs.iter_mut().find(|(name, _)| name.as_str() == Some(key)).map(|(_, value)| value)
            }
            _ => None,
        }
    }

    pub(crate) fn is_merge(&self) -> bool {
        matches!(&self.value, Value::Scalar { text, plain: true } if text == "<<")
    }
}

/// Two items of a list speak of the same thing: equal, or records of the same version and edition.
fn same_thing(a: &Node, b: &Node) -> bool {
    a == b
        || (a.get("version").is_some() && a.get("version") == b.get("version") && a.get("edition") == b.get("edition"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_a_deep_key_makes_mappings_and_keeps_order_and_unknown_keys() {
        let mut node = Node::parse("b: 1\nspec:\n  theirs: {x: yes}\n  mine: a\na: 2\n").unwrap();
        node.set(&["spec", "mine"], Node::text("b"));
        node.set(&["status", "last", "x"], Node::plain(3));
        assert_eq!(node.emit(), "b: 1\nspec:\n  theirs:\n    x: yes\n  mine: b\na: 2\nstatus:\n  last:\n    x: 3\n");
        assert!(node.remove(&["spec", "theirs"]));
        assert!(!node.remove(&["spec", "nobody", "x"]));
    }

    #[test]
    fn a_changed_value_keeps_the_comment_on_its_line_and_a_removed_key_takes_it_along() {
        let mut node = Node::parse("on: yes # why\nlist: # ours\n- a # first\n- b # second\nx: 1 # x\n").unwrap();
        let (old, new) = (Node::parse("list: [a, b]").unwrap(), Node::parse("list: [b, c]").unwrap());
        node.apply(&old, &new);
        node.set(&["on"], Node::plain("no"));
        assert!(node.remove(&["x"]));
        assert_eq!(node.emit(), "on: no # why\nlist: # ours\n  - b # second\n  - c\n");
        let mut item = node.get("list").unwrap().items().unwrap()[0].clone();
        item.set(&[], Node::text("d"));
        assert_eq!(item.tail.as_deref(), Some("# second"));
        node.set(&["on", "really"], Node::plain("no"));
        node.set(&["list"], Node::text("a\nb"));
        assert_eq!(node.emit(), "on: # why\n  really: no\nlist: |- # ours\n  a\n  b\n");
        assert_ne!(node, Node::parse(&node.emit().replace(" # why", "")).unwrap());
    }

    #[test]
    fn comments_behind_the_last_stay_while_there_is_a_last() {
        let mut node = Node::parse("a:\n  - b\n  # b\nc:\n  d: 1\n  # d\n# all\n").unwrap();
        let old = Node::parse("{a: [b], c: {d: 1}}").unwrap();
        let new = Node::parse("{a: [e, b], c: {f: 2}, g: 3}").unwrap();
        node.apply(&old, &new);
        assert_eq!(node.emit(), "a:\n  - e\n  - b\n  # b\nc:\n  f: 2\n  # d\ng: 3\n# all\n");
        let part = node.get("c").unwrap().clone();
        node.set(&["new"], part.clone());
        node.set(&["c"], part);
        node.set(&["a"], Node::text("x"));
        assert_eq!(node.get("a"), Some(&Node::text("x")));
        assert_eq!(node.emit(), "a: x\nc:\n  f: 2\n  # d\ng: 3\nnew:\n  f: 2\n  # d\n# all\n");
        assert_ne!(node, Node::parse(&node.emit().replace("# all\n", "")).unwrap());
    }

    #[test]
    fn applying_a_change_leaves_spelling_and_foreign_keys_alone() {
        let mut here = Node::parse("on: yes\nkeep: 3\nlist:\n  - {version: 1.0.0, theirs: 1, why: a}\n").unwrap();
        let old = Node::parse("on: true\nkeep: 3\nlist: [{version: 1.0.0, why: a}]").unwrap();
        let new = Node::parse("on: true\nlist: [{version: 2.0.0, why: c}, {version: 1.0.0, why: b}]").unwrap();
        here.apply(&old, &new);
        assert_eq!(
            here,
            Node::parse("on: yes\nlist: [{version: 2.0.0, why: c}, {version: 1.0.0, theirs: 1, why: b}]").unwrap()
        );
    }

    #[test]
    fn a_change_of_what_comes_from_a_merged_mapping_becomes_an_own_key() {
        let mut here = Node::parse("spec:\n  <<: {group: a, health: {stable: 7s, theirs: 1}}\n").unwrap();
        let old = Node::parse("spec: {group: a, health: {stable: 7s}}").unwrap();
        let new = Node::parse("spec: {health: {stable: 8s}}").unwrap();
        here.apply(&old, &new);
        assert!(here.at(&["spec", "group"]).unwrap().is_null());
        let health = here.at(&["spec", "health"]).unwrap();
        assert_eq!(health, &Node::parse("{stable: 8s, theirs: 1}").unwrap());
    }

    #[test]
    fn merged_mappings_are_seen_behind_the_own_keys() {
        let node = Node::parse("base: &b {x: 1, y: 2}\nspec:\n  <<: *b\n  y: 3\n").unwrap();
        assert_eq!(node.at(&["spec", "x"]).and_then(Node::as_str), Some("1"));
        assert_eq!(node.at(&["spec", "y"]).and_then(Node::as_str), Some("3"));
    }
}
