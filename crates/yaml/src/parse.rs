//! From YAML events to the tree, within budgets: a hostile file costs an error, not the memory.

use std::collections::{BTreeSet, HashMap};

use saphyr_parser::{Event, Parser, ScalarStyle, Span, Tag};

use super::document::{Fault, Node, Value};
use super::tail::{self, Source};

/// Largest source, bytes: hundreds of times a real configuration.
pub const MAX_BYTES: usize = 1 << 20;
/// Most nodes, aliases expanded: a bomb multiplies far beyond, a real file stays far below.
pub(crate) const MAX_NODES: usize = 100_000;
/// Most text in all scalars together, bytes: an alias may repeat a long text, a real file hardly does.
pub(crate) const MAX_TEXT: usize = 4 * MAX_BYTES;
/// Deepest nesting, levels: the tree is walked by recursion.
pub(crate) const MAX_DEPTH: usize = 64;

impl Node {
    /// Reads the only document of `source` (at most 1 MiB, 100 000 nodes with aliases expanded, 64 levels). An empty
    /// document is an empty mapping. The fault names the line.
    pub fn parse(source: &str) -> Result<Self, Fault> {
        mapping(documents(source, Take::Only)?.pop())
    }

    /// Like [`Node::parse`], for files whose owner reads only the first of several documents.
    pub fn parse_first(source: &str) -> Result<Self, Fault> {
        mapping(documents(source, Take::First)?.pop())
    }

    /// Reads every document of `source`, all of them together within the budgets of [`Node::parse`]. Empty documents are
    /// left out, the others need not be mappings. Lines are those of the whole text.
    pub fn parse_all(source: &str) -> Result<Vec<Self>, Fault> {
        let mut roots = documents(source, Take::All)?;
        roots.retain(|root| !root.is_null());
        Ok(roots)
    }
}

/// Which documents of a text are read.
#[derive(Clone, Copy)]
enum Take {
    /// The first; a second is refused.
    Only,
    /// The first.
    First,
    /// All of them.
    All,
}

/// The roots of the documents, in their order.
fn documents(source: &str, take: Take) -> Result<Vec<Node>, Fault> {
    if source.len() > MAX_BYTES {
        return Err(Fault { line: 1, what: format!("larger than {MAX_BYTES} bytes") });
    }
    let mut builder = Builder {
        lines: source.split('\n').collect(),
        source: Source::new(source),
        open: Vec::new(),
        anchors: HashMap::new(),
        nodes: 0,
        text: 0,
        commented: 0,
        roots: Vec::new(),
    };
    let mut parser = Parser::new_from_str(source);
    let mut started = 0;
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| Fault {
            line: error.marker().line().max(1),
            what: format!("not valid YAML: {}", error.info()),
        })?;
        if matches!(event, Event::DocumentStart(_)) {
            started += 1;
            match take {
                Take::Only if started > 1 => return Err(fault(span, "only one YAML document is allowed")),
                Take::First if started > 1 => break,
                _ => {}
            }
        }
        builder.take(event, span)?;
    }
    Ok(builder.roots)
}

/// The mapping that a document is; an empty one where it holds nothing.
fn mapping(root: Option<Node>) -> Result<Node, Fault> {
    match root {
        None => Ok(Node::mapping([])),
        Some(root) if root.is_null() => Ok(Node::mapping([])),
        Some(root) if root.pairs().is_some() => Ok(root),
        Some(root) => Err(Fault { line: root.line, what: "not a mapping of keys and values".to_owned() }),
    }
}

struct Open {
    node: Node,
    anchor: usize,
    key: Option<Node>,
    /// The keys of a mapping so far: to look through all of them for each new one would take minutes for a large one.
    names: BTreeSet<String>,
}

struct Builder<'a> {
    lines: Vec<&'a str>,
    /// Up to the end of the last text, alias or bracket.
    source: Source<'a>,
    open: Vec<Open>,
    anchors: HashMap<usize, (Node, Size)>,
    nodes: usize,
    text: usize,
    /// Last line whose comments are already attached.
    commented: usize,
    roots: Vec<Node>,
}

/// What kinds of nodes have comments in different places.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Nothing at all, which is null.
    Absent,
    /// A text or an alias.
    Scalar,
    /// A sequence or a mapping.
    Collection,
}

#[derive(Clone, Copy)]
struct Size {
    nodes: usize,
    text: usize,
    depth: usize,
}

impl Builder<'_> {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Fault> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.spend(Size { nodes: 1, text: text.len(), depth: 0 }, span)?;
                // A plain text over several lines with an empty one between cannot be written on one line.
                let plain = style == ScalarStyle::Plain && !text.contains('\n');
                if plain && !is_plain(&text) {
                    return Err(fault(span, "not valid YAML: this text needs quotes"));
                }
                let node = self.node(Value::Scalar { text: text.into_owned(), plain }, tag.as_deref(), span)?;
                let absent = node.is_absent();
                self.complete(node, anchor, span)?;
                self.behind_scalar(style, absent, span);
                Ok(())
            }
            Event::SequenceStart(anchor, tag) => self.start(Value::Sequence(Vec::new()), anchor, tag.as_deref(), span),
            Event::MappingStart(anchor, tag) => self.start(Value::Mapping(Vec::new()), anchor, tag.as_deref(), span),
            Event::SequenceEnd | Event::MappingEnd => self.end(span),
            Event::Alias(anchor) => {
                let Some(&(_, size)) = self.anchors.get(&anchor) else {
                    return Err(fault(span, "an alias inside of its own anchor"));
                };
                self.spend(size, span)?;
                let mut node = self.anchors[&anchor].0.clone();
                (node.comments, node.tail) = self.comments_of(Kind::Scalar, span);
                self.complete(node, 0, span)?;
                self.behind(span.end.index());
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn start(&mut self, value: Value, anchor: usize, tag: Option<&Tag>, span: Span) -> Result<(), Fault> {
        if matches!(self.open.last(), Some(Open { node, key: None, .. }) if node.pairs().is_some()) {
            return Err(fault(span, "a key must be a string"));
        }
        self.spend(Size { nodes: 1, text: 0, depth: 1 }, span)?;
        let node = self.node(value, tag, span)?;
        self.open.push(Open { node, anchor, key: None, names: BTreeSet::new() });
        if !span.is_empty() && self.source.until(span.end.index()).ends_with(['[', '{']) {
            self.source.go_to(span.end.index());
        }
        Ok(())
    }

    /// Closes a collection. What closes one in block style has no bracket, and is noticed at the next value only.
    fn end(&mut self, span: Span) -> Result<(), Fault> {
        let Some(Open { node, anchor, .. }) = self.open.pop() else {
            return Err(fault(span, "an end without a start"));
        };
        self.complete(node, anchor, span)?;
        if !span.is_empty() {
            self.behind(span.start.index() + 1);
        }
        Ok(())
    }

    fn node(&mut self, value: Value, tag: Option<&Tag>, span: Span) -> Result<Node, Fault> {
        let tag = tag.map(|tag| tag_text(tag).ok_or_else(|| fault(span, "an unsupported tag"))).transpose()?;
        let mut node = Node { value, tag, comments: Vec::new(), tail: None, line: span.start.line() };
        let kind = match &node.value {
            _ if node.is_absent() => Kind::Absent,
            Value::Scalar { .. } => Kind::Scalar,
            _ => Kind::Collection,
        };
        (node.comments, node.tail) = self.comments_of(kind, span);
        Ok(node)
    }

    /// The comments above a key or an item that starts here, and the one on the line of an item's dash.
    fn comments_of(&mut self, kind: Kind, span: Span) -> (Vec<String>, Option<String>) {
        let above = match self.open.last() {
            // The comment above a mapping that is a value belongs to its first key.
            None | Some(Open { key: Some(_), .. }) => return (Vec::new(), None),
            Some(above) => above,
        };
        let line = span.start.line();
        let dash = above.node.items().and_then(|_| self.source.dash(span.start.index()));
        match (dash, kind) {
            // What is not written has no line that a comment could stand above.
            (None, Kind::Absent) => (Vec::new(), None),
            (None, _) => (self.comments(line), None),
            (Some(dash), kind) => {
                let mut comments = self.comments(line.saturating_sub(dash.above));
                // Those between the dash and a collection belong to what is first in it.
                if kind == Kind::Scalar {
                    comments.extend(self.comments(line));
                }
                (comments, dash.tail)
            }
        }
    }

    /// Goes on to the end of a text, for the comment behind it.
    fn behind_scalar(&mut self, style: ScalarStyle, absent: bool, span: Span) {
        let (start, end) = (span.start.index(), span.end.index());
        match style {
            ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => {
                self.source.go_to(start);
                let length = tail::quoted_len(self.source.until(end));
                self.behind(length.map_or(end, |length| start + length));
            }
            ScalarStyle::Plain if !absent => self.behind(end),
            // Of these the comment is behind a colon or a dash, and was found there.
            _ => self.source.go_to(end),
        }
    }

    /// Goes on to where a key, a value or an item ends, for the comment behind it: one that has two keeps both.
    fn behind(&mut self, end: usize) {
        self.source.go_to(end);
        let Some(comment) = self.source.tail() else { return };
        let Some(Open { node, key, .. }) = self.open.last_mut() else { return };
        let last = match (key, &mut node.value) {
            (Some(key), _) => Some(key),
            (None, Value::Sequence(items)) => items.last_mut(),
            (None, Value::Mapping(pairs)) => pairs.last_mut().map(|(key, _)| key).filter(|key| !key.is_absent()),
            (None, Value::Scalar { .. }) => None,
        };
        if let Some(last) = last {
            let before = last.tail.take().map_or_else(String::new, |tail| tail + " ");
            last.tail = Some(before + &comment);
        }
    }

    fn complete(&mut self, node: Node, anchor: usize, span: Span) -> Result<(), Fault> {
        if anchor != 0 {
            let kept = bare(&node);
            let size = size(&kept);
            self.anchors.insert(anchor, (kept, size));
        }
        let Some(above) = self.open.last_mut() else {
            self.roots.push(node);
            return Ok(());
        };
        match (&mut above.node.value, above.key.take()) {
            (Value::Sequence(items), _) => items.push(node),
            (Value::Mapping(pairs), Some(key)) => pairs.push((key, node)),
            (Value::Mapping(_), None) => {
                let Some(name) = node.as_str() else {
                    return Err(fault(span, "a key must be a string"));
                };
                if !above.names.insert(name.to_owned()) {
                    return Err(fault(span, &format!("duplicate key {name:?}")));
                }
                above.key = Some(node);
            }
            (Value::Scalar { .. }, _) => return Err(fault(span, "a text with parts")),
        }
        Ok(())
    }

    fn spend(&mut self, size: Size, span: Span) -> Result<(), Fault> {
        self.nodes = self.nodes.saturating_add(size.nodes);
        self.text = self.text.saturating_add(size.text);
        if self.nodes > MAX_NODES || self.text > MAX_TEXT {
            return Err(fault(span, "too many or too long values"));
        }
        if self.open.len() + size.depth > MAX_DEPTH {
            return Err(fault(span, &format!("nested deeper than {MAX_DEPTH} levels")));
        }
        Ok(())
    }

    /// The comment lines right above `line`. A comment is never indented deeper than the line it speaks of, whereas
    /// the lines of a block or quoted text above always are, so a `#` in a text is not taken for one.
    fn comments(&mut self, line: usize) -> Vec<String> {
        if line <= self.commented {
            return Vec::new();
        }
        let indent = |text: &str| text.len() - text.trim_start_matches(' ').len();
        let Some(own) = line.checked_sub(1).and_then(|index| self.lines.get(index)) else { return Vec::new() };
        let most = indent(own);
        let floor = self.commented.min(line - 1);
        self.commented = self.commented.max(line);
        let mut found: Vec<String> = Vec::new();
        for text in self.lines[floor..line - 1].iter().rev() {
            let words = text.trim();
            if words.is_empty() {
                continue;
            }
            let comment = tail::shown(words).filter(|words| words.starts_with('#') && indent(text) <= most);
            let Some(comment) = comment else { break };
            found.push(comment);
        }
        found.reverse();
        found
    }
}

/// False for texts that only quotes can hold; the scanner lets some of them pass in flow collections.
fn is_plain(text: &str) -> bool {
    !text.starts_with([',', '[', ']', '{', '}', '#', '&', '*', '!', '|', '>', '\'', '"', '%', '@', '`'])
        && !text.ends_with(':')
        && ![": ", ":\t", " #", "\t#"].iter().any(|mark| text.contains(mark))
        && !["- ", "? ", "-\t", "?\t"].iter().any(|mark| text.starts_with(mark))
        && !["-", "?"].contains(&text)
}

/// The node without any comments, as an alias repeats it: many of one would multiply them.
fn bare(node: &Node) -> Node {
    let value = match &node.value {
        Value::Sequence(items) => Value::Sequence(items.iter().map(bare).collect()),
        Value::Mapping(pairs) => Value::Mapping(pairs.iter().map(|(key, value)| (bare(key), bare(value))).collect()),
        scalar @ Value::Scalar { .. } => scalar.clone(),
    };
    Node { value, tag: node.tag.clone(), comments: Vec::new(), tail: None, line: node.line }
}

fn size(node: &Node) -> Size {
    let sum = |total: Size, part: Size| Size {
        nodes: total.nodes + part.nodes,
        text: total.text + part.text,
        depth: total.depth.max(part.depth),
    };
    let none = Size { nodes: 1, text: 0, depth: 0 };
    match &node.value {
        Value::Scalar { text, .. } => Size { text: text.len(), ..none },
        Value::Sequence(items) => deeper(items.iter().map(size).fold(none, sum)),
        Value::Mapping(pairs) => deeper(pairs.iter().flat_map(|(key, value)| [size(key), size(value)]).fold(none, sum)),
    }
}

fn deeper(size: Size) -> Size {
    Size { depth: size.depth + 1, ..size }
}

/// The tag as a document writes it; `None` for one with characters that would need escapes.
fn tag_text(tag: &Tag) -> Option<String> {
    let (handle, suffix) = (tag.handle.as_str(), tag.suffix.as_str());
    let is_usual = |text: &str, more: &[u8]| {
        text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b":/._-".contains(&byte) || more.contains(&byte))
    };
    let short = |handle: &str| is_usual(suffix, b"").then(|| format!("{handle}{suffix}"));
    match handle {
        "tag:yaml.org,2002:" | "!!" => short("!!"),
        "!" => short("!"),
        "" if suffix == "!" => Some("!".to_owned()),
        _ => (is_usual(handle, b",!") && is_usual(suffix, b",!")).then(|| format!("!<{handle}{suffix}>")),
    }
}

fn fault(span: Span, what: &str) -> Fault {
    Fault { line: span.start.line().max(1), what: what.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_its_line_from_one() {
        assert_eq!(Node::parse("a: 1\nb: [1\nc: 2\n").unwrap_err().line, 3);
        assert_eq!(Node::parse("a: 1\na: 2\n").unwrap_err().line, 2);
        assert_eq!(Node::parse("a: 1\n---\nb: 2\n").unwrap_err().line, 2);
        assert_eq!(Node::parse("- a\n").unwrap_err().line, 1);
        assert_eq!(Node::parse("a: *nobody\n").unwrap_err().line, 1);
        assert!(Node::parse_first("a: 1\n---\nb: 2\n").is_ok());
    }

    #[test]
    fn bombs_and_towers_are_refused() {
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..9 {
            let inner = vec![format!("*a{}", level - 1); 10].join(", ");
            bomb += &format!("a{level}: &a{level} [{inner}]\n");
        }
        assert!(Node::parse(&bomb).unwrap_err().what.contains("too many"));
        let long = format!("a: &a {}\nb: [{}]", "x".repeat(100_000), vec!["*a"; 1000].join(", "));
        assert!(Node::parse(&long).unwrap_err().what.contains("too many"));
        let tower = format!("a: {}{}", "[".repeat(100), "]".repeat(100));
        assert!(Node::parse(&tower).unwrap_err().what.contains("deeper"));
        assert!(Node::parse(&"#".repeat(MAX_BYTES + 1)).is_err());
        assert!(Node::parse("a: &a [*a]\n").is_err());
    }

    #[test]
    fn all_documents_of_a_text_are_read_with_its_lines_and_the_empty_ones_left_out() {
        let roots =
            Node::parse_all("---\n# one\na: 1\n---\n---\n# only a comment\n---\n- b\n...\n---\nc: &x 3\n").unwrap();
        let lines: Vec<_> = roots.iter().map(|root| root.line).collect();
        assert_eq!(lines, [3, 8, 11]);
        assert_eq!(roots[0].pairs().unwrap()[0].0.comments, ["# one"]);
        assert_eq!(roots[1].items().unwrap().len(), 1);
        assert_eq!(Node::parse_all("").unwrap(), []);
        assert_eq!(Node::parse_all("a: 1\n---\na: [\n").unwrap_err().line, 4);
        assert_eq!(Node::parse_all("a: &x 1\n---\nb: *x\nb: 2\n").unwrap_err().line, 4);
    }

    #[test]
    fn the_budgets_are_for_all_documents_together() {
        let one = format!("a: [{}]\n---\n", "1, ".repeat(MAX_NODES / 4));
        assert!(Node::parse_all(&one.repeat(3)).is_ok());
        assert!(Node::parse_all(&one.repeat(4)).unwrap_err().what.contains("too many"));
        assert!(Node::parse_all(&"--- 1\n".repeat(MAX_BYTES / 6 + 1)).is_err());
    }

    #[test]
    fn empty_documents_are_empty_mappings() {
        for source in ["", "# only a comment\n", "---\n", "~\n", "{}\n"] {
            assert_eq!(Node::parse(source).unwrap(), Node::mapping([]), "{source:?}");
        }
    }

    #[test]
    fn a_number_sign_in_a_block_text_is_no_comment() {
        let source = "# head\na: |\n  x\n  # y\n# real\nb: \"p\n  # q\"\n\nlist:\n  # first\n  - 1\n";
        let node = Node::parse(source).unwrap();
        let comments: Vec<_> = node.pairs().unwrap().iter().map(|(key, _)| key.comments.clone()).collect();
        assert_eq!(comments, [vec!["# head".to_owned()], vec!["# real".to_owned()], vec![]]);
        assert_eq!(node.get("list").unwrap().items().unwrap()[0].comments, ["# first"]);
        assert_eq!(node.get("a").unwrap().as_str(), Some("x\n# y\n"));
        assert_eq!(Node::parse(&node.emit()).unwrap(), node);
    }

    /// The comments at the end of lines of all keys and items, in their order.
    fn tails(source: &str) -> Vec<String> {
        fn of(node: &Node, found: &mut Vec<String>) {
            found.extend(node.tail.clone());
            node.items().unwrap_or_default().iter().for_each(|item| of(item, found));
            for (key, value) in node.pairs().unwrap_or_default() {
                of(key, found);
                of(value, found);
            }
        }
        let roots = Node::parse_all(source).unwrap();
        let mut found = Vec::new();
        roots.iter().for_each(|root| of(root, &mut found));
        found
    }

    #[test]
    fn comments_at_the_end_of_lines_are_found_in_any_spelling() {
        let none: [&str; 0] = [];
        assert_eq!(
            tails("a: 'it''s # b' # don't\nb: \"\\\" # é\" # \"\r\nc: x#y\t# d\r\n"),
            ["# don't", "# \"", "# d"]
        );
        assert_eq!(tails("a: x\n  y # b\nb: !t &x 'a\n\n  # no' # c\n"), ["# b", "# c"]);
        assert_eq!(
            tails("a: &x # it's\n  'b'\nb: !<tag:x,2000:y> # b\nc: &y |2- # c\n   # no\n"),
            ["# it's", "# b", "# c"]
        );
        assert_eq!(tails("a: [b, {c: d}, # lost\n  e] # a\nb: {c: d # c\n  }  # b\n"), ["# a", "# b", "# c"]);
        assert_eq!(tails("a: # one\n  b # two\n? c # three\n: d # four\n"), ["# one # two", "# three # four"]);
        assert_eq!(
            tails("---\n- a # a\n- # b\n- - # c\n    b\n  -  # d\n...\n--- # no\na: 1 # e\n"),
            ["# a", "# b", "# c", "# d", "# e"]
        );
        assert_eq!(tails("a:\n- |\n  # no\n\n- # b\n  c\n-\n# no\n"), ["# b"]);
        assert_eq!(tails("- !t # a\n  [b, c]\n- ? \n  : d # lost: nothing has it\n"), ["# a"]);
        assert_eq!(tails("\u{feff}a: &é x # a\nb: *é # b\n"), ["# a", "# b"]);
        assert_eq!(tails("a: # \u{7}\nb: x #\ty\nc: 1\n  # above\n"), none);
    }

    #[test]
    fn an_alias_repeats_no_comments() {
        let node = Node::parse("a: &x # a\n  # b\n  c: 1 # c\n  d: [1 # d\n  ]\nb: *x # e\n").unwrap();
        assert_eq!(node.emit(), "a: # a\n  # b\n  c: 1 # c\n  d:\n    - 1 # d\nb: # e\n  c: 1\n  d:\n    - 1\n");
        // Else this would be 20 GB.
        let bomb = format!("a: &a [b # {}\n]\nc: [{}]\n", "x".repeat(MAX_BYTES - 200_000), "*a,".repeat(MAX_NODES / 4));
        assert!(Node::parse(&bomb).is_ok());
    }

    #[test]
    fn a_long_line_with_many_values_is_read_in_time() {
        // What looked at the rest of the line, or at its start, for each of them would need hours.
        let blanks = " ".repeat(MAX_BYTES / 4);
        for value in ["é,", "'a' ,", "[],", "a: !t,", "!t ,", "\"é\":1,"] {
            let source = format!("a:\n{blanks}[{}] # all\n", value.repeat(MAX_NODES / 4));
            let node = Node::parse(&source).unwrap();
            assert_eq!(node.pairs().unwrap()[0].0.tail.as_deref(), Some("# all"), "{value}");
        }
        let keys: String = (0..MAX_NODES / 4).map(|key| format!("k{key}: !t,")).collect();
        assert!(Node::parse(&format!("a: {{{keys}}} # all\n")).is_ok());
        assert!(Node::parse(&format!("a:\n{}", "- # x\n".repeat(MAX_NODES / 2))).is_ok());
    }
}
