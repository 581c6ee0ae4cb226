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
    let mut builder = Builder { lines: lines(source), source: Source::new(source), ..Builder::default() };
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
        Some(root) if root.is_null() => Ok(Node { foot: root.foot, ..Node::mapping([]) }),
        Some(root) if root.pairs().is_some() => Ok(root),
        Some(root) => Err(Fault { line: root.line, what: "not a mapping of keys and values".to_owned() }),
    }
}

/// The lines as the scanner counts them.
fn lines(source: &str) -> Vec<&str> {
    let lines = source.trim_start_matches('\u{feff}').split('\n');
    lines.flat_map(|line| line.strip_suffix('\r').unwrap_or(line).split('\r')).collect()
}

struct Open {
    node: Node,
    anchor: usize,
    /// How far a comment must be indented to belong to its foot.
    column: usize,
    key: Option<Node>,
    /// The keys of a mapping so far: to look through all of them for each new one would take minutes for a large one.
    names: BTreeSet<String>,
}

#[derive(Default)]
struct Builder<'a> {
    lines: Vec<&'a str>,
    /// Up to the end of the last text, alias or bracket.
    source: Source<'a>,
    open: Vec<Open>,
    anchors: HashMap<usize, (Node, Size)>,
    nodes: usize,
    text: usize,
    /// How many lines were looked through for comments, or are a text's.
    seen: usize,
    /// The comments that were found and not yet attached.
    waiting: Vec<Comment>,
    roots: Vec<Node>,
}

/// A comment on a line of its own.
struct Comment {
    line: usize,
    column: usize,
    text: String,
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
            Event::DocumentEnd | Event::StreamEnd => {
                self.finish(span);
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
        let mut column = span.end.col();
        if !span.is_empty() && self.source.until(span.end.index()).ends_with(['[', '{']) {
            self.source.go_to(span.end.index());
            column = 0;
        } else if let Some(Open { column: above, key: Some(_), .. }) = self.open.last()
            && node.items().is_some()
            && self.source.dash(span.end.index()).is_some()
        {
            // The scanner is behind the dash already only if that is no deeper than the key.
            column = above + 1;
        }
        self.open.push(Open { node, anchor, column, key: None, names: BTreeSet::new() });
        Ok(())
    }

    /// Closes a collection. What closes one in block style has no bracket, and is noticed at the next value only.
    fn end(&mut self, span: Span) -> Result<(), Fault> {
        let Some(Open { mut node, anchor, column, .. }) = self.open.pop() else {
            return Err(fault(span, "an end without a start"));
        };
        self.gather(span.start.line());
        if node.first().is_some() {
            node.foot = self.comments(|comment| comment.column >= column);
        } else if !self.open.is_empty() {
            // Brackets with nothing that could have them; those of an empty root are its foot.
            self.waiting.clear();
        }
        self.complete(node, anchor, span)?;
        if !span.is_empty() {
            self.behind(span.start.index() + 1);
        }
        Ok(())
    }

    /// What still waits at the end of a document, or of the whole text, belongs to its root. A text without a document
    /// gets null for one.
    fn finish(&mut self, span: Span) {
        self.gather(span.start.line());
        if self.roots.is_empty() {
            self.roots.push(Node::plain(""));
        }
        let rest = self.comments(|_| true);
        if let Some(root) = self.roots.last_mut().filter(|root| root.is_null() || root.as_str().is_none()) {
            root.foot.extend(rest);
        }
    }

    fn node(&mut self, value: Value, tag: Option<&Tag>, span: Span) -> Result<Node, Fault> {
        let tag = tag.map(|tag| tag_text(tag).ok_or_else(|| fault(span, "an unsupported tag"))).transpose()?;
        let mut node = Node { value, tag, line: span.start.line(), ..Node::mapping([]) };
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
        let line = span.start.line();
        self.gather(line);
        let above = match self.open.last() {
            Some(Open { key: Some(_), .. }) if kind == Kind::Scalar => {
                self.waiting.clear();
                return (Vec::new(), None);
            }
            // The comment above a mapping that is a value belongs to its first key.
            None | Some(Open { key: Some(_), .. }) => return (Vec::new(), None),
            Some(above) => above,
        };
        let dash = above.node.items().and_then(|_| self.source.dash(span.start.index()));
        match (dash, kind) {
            // What is not written has no line that a comment could stand above.
            (None, Kind::Absent) => (Vec::new(), None),
            (None, _) => (self.comments(|_| true), None),
            (Some(dash), Kind::Scalar) => (self.comments(|_| true), dash.tail),
            // Those between the dash and a collection belong to what is first in it.
            (Some(dash), _) => (self.comments(|comment| comment.line + dash.above < line), dash.tail),
        }
    }

    /// Goes on to the end of a text, for the comment behind it.
    fn behind_scalar(&mut self, style: ScalarStyle, absent: bool, span: Span) {
        let (start, end, line) = (span.start.index(), span.end.index(), span.end.line());
        // A block text goes on to the blanks before what follows it.
        let follows = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded)
            && self.lines.get(line.saturating_sub(1)).is_some_and(|line| indent(line) >= span.end.col());
        self.seen = self.seen.max(line.saturating_sub(usize::from(follows)));
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

    /// Looks through the lines above `line` for comments. Those behind the last text have layout and comments only.
    fn gather(&mut self, line: usize) {
        let behind = self.lines.iter().enumerate().take(line.saturating_sub(1)).skip(self.seen);
        let comments = behind.filter(|(_, text)| text.trim_start().starts_with('#'));
        self.waiting.extend(comments.filter_map(|(index, text)| {
            Some(Comment { line: index + 1, column: indent(text), text: tail::shown(text)? })
        }));
        self.seen = self.seen.max(line.saturating_sub(1));
    }

    /// Takes the comments that wait, up to the first that is not such a one.
    fn comments(&mut self, such: impl Fn(&Comment) -> bool) -> Vec<String> {
        let count = self.waiting.iter().take_while(|comment| such(comment)).count();
        self.waiting.drain(..count).map(|comment| comment.text).collect()
    }
}

/// How many spaces a line starts with.
fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
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
    Node { value, tag: node.tag.clone(), line: node.line, ..Node::mapping([]) }
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
        for source in ["", "\n", "---\n", "~\n", "{}\n"] {
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

    /// Every foot of the only document, innermost first, with the place of what it belongs to.
    fn feet(source: &str) -> Vec<(String, Vec<String>)> {
        fn of(node: &Node, path: &str, found: &mut Vec<(String, Vec<String>)>) {
            for (index, item) in node.items().unwrap_or_default().iter().enumerate() {
                of(item, &format!("{path}/{index}"), found);
            }
            for (key, value) in node.pairs().unwrap_or_default() {
                of(value, &format!("{path}/{}", key.as_str().unwrap()), found);
            }
            if !node.foot.is_empty() {
                found.push((path.to_owned(), node.foot.clone()));
            }
        }
        let root = Node::parse(source).unwrap();
        assert_eq!(Node::parse(&root.emit()).as_ref(), Ok(&root), "{source}");
        let mut found = Vec::new();
        of(&root, "", &mut found);
        found
    }

    fn foot(path: &str, comments: &[&str]) -> (String, Vec<String>) {
        (path.to_owned(), comments.iter().map(|comment| (*comment).to_owned()).collect())
    }

    #[test]
    fn a_comment_behind_the_last_belongs_to_the_innermost_that_is_not_deeper() {
        let source = "a:\n  b:\n    c: 1\n\n     # 5\n    # 4\n   # 3\n    # then 4\n # 1\n  # then 2\n# 0";
        let wanted = [foot("/a/b", &["# 5", "# 4"]), foot("/a", &["# 3", "# then 4"])];
        assert_eq!(feet(source), [&wanted[..], &[foot("", &["# 1", "# then 2", "# 0"])]].concat());
        // Before a next key those of its own column, and what follows them, stand above it.
        let source = format!("{source}\nd: 2\n");
        assert_eq!(feet(&source), wanted);
        assert_eq!(Node::parse(&source).unwrap().pairs().unwrap()[1].0.comments, ["# 1", "# then 2", "# 0"]);
        assert_eq!(
            feet("a: !t\n  # b\n  b: &x\n    - c\n    # 4\n  # 2\n"),
            [foot("/a/b", &["# 4"]), foot("/a", &["# 2"])]
        );
        assert_eq!(feet("  a: 1\n# less than the root\n"), [foot("", &["# less than the root"])]);
    }

    #[test]
    fn a_comment_behind_items_belongs_to_their_list_only_if_deeper_than_its_key() {
        assert_eq!(feet("a:\n- b\n - c\n# d\n"), [foot("", &["# d"])]);
        assert_eq!(feet("a: !t\n- b\n # c\n# d\n"), [foot("/a", &["# c"]), foot("", &["# d"])]);
        assert_eq!(feet("a:\n- - b\n  # c\n # d\ne: 1\n"), [foot("/a/0", &["# c"]), foot("/a", &["# d"])]);
        assert_eq!(feet("a:\n  - b: 1\n    # c\n  # d\n  -\n  # e\n"), [foot("/a/0", &["# c"]), foot("/a", &["# e"])]);
        assert_eq!(feet("? a\n: - b\n  # c\n"), [foot("/a", &["# c"])]);
        assert_eq!(feet("a: [b, # lost\n# c\n ]\nd: {\n# e\n }\nf: 1\n"), [foot("/a", &["# c"])]);
    }

    #[test]
    fn a_comment_above_a_value_without_parts_is_not_taken_for_one_of_the_next_key() {
        let node = Node::parse("a:\n  # lost\n  b\nc:\n  # lost\n  {}\nd: [\n  # lost\n  ]\ne: 1\n").unwrap();
        assert_eq!(node, Node::parse("a: b\nc: {}\nd: []\ne: 1\n").unwrap());
    }

    #[test]
    fn a_number_sign_at_the_end_of_a_text_is_no_comment() {
        for end in ["", "\n", "\n\n", "\n  ", "\r\n"] {
            for text in ["|\n  x\n  # y", "'x\n\n  # y'", "\"x\n  # y\"", "\n  x#\n  y", "|+\r\r  # y\r  # z"] {
                assert_eq!(feet(&format!("a: {text}{end}")), [], "{text:?} {end:?}");
            }
        }
        for text in ["|\n  x\n\n", ">-\n    # x\n", "x\n  y\n", "'x\n  # y' # z\r\n", "|\r  x\r\r", "*x # y\n"] {
            assert_eq!(feet(&format!("x: &x 1\na: {text} # c\n")), [foot("", &["# c"])], "{text:?}");
        }
    }

    #[test]
    fn comments_outside_of_the_document_are_kept() {
        let node = Node::parse("\u{feff}# a\n%YAML 1.2\n# b\n--- !t # lost\n# c\nd: 1\n# e\n...\n# f\n").unwrap();
        assert_eq!(node.emit(), "--- !t\n# a\n# b\n# c\nd: 1\n# e\n# f\n");
        for source in ["# a\n# b", "# a\n---\n  # b\n", "---\n# a\n...\n# b\n", "# a\n{}\n# b\n", "# a\n~\n# b"] {
            assert_eq!(feet(source), [foot("", &["# a", "# b"])], "{source}");
            assert_eq!(Node::parse(source).unwrap().emit(), "# a\n# b\n{}\n");
        }
        let roots =
            Node::parse_all("# a\n---\nb: 1\n# c\n---\n# lost with its document\n---\n# d\n{e: 1}\n# f\n...\n# g");
        let texts: Vec<_> = roots.unwrap().iter().map(Node::emit).collect();
        assert_eq!(texts, ["# a\nb: 1\n# c\n", "# d\ne: 1\n# f\n# g\n"]);
        assert_eq!(Node::parse_first("a: 1\n# b\n---\n# c\n").unwrap().foot, ["# b"]);
        assert_eq!(Node::parse_all("# a\n"), Ok(Vec::new()));
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
        let node = Node::parse("a: &x # a\n  # b\n  c: 1 # c\n  d: [1 # d\n  ]\n  # f\nb: *x # e\n").unwrap();
        let written = "a: # a\n  # b\n  c: 1 # c\n  d:\n    - 1 # d\n  # f\nb: # e\n  c: 1\n  d:\n    - 1\n";
        assert_eq!(node.emit(), written);
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

    #[test]
    fn many_comments_are_read_in_time() {
        let many = "#\n".repeat(MAX_BYTES / 4);
        let node =
            Node::parse(&format!("{}a\n{many}", "- ".repeat(MAX_DEPTH - 1).replacen("- ", "a:\n- ", 1))).unwrap();
        assert_eq!(node.foot.len(), MAX_BYTES / 4);
        let items = ", {a: ~}".repeat(MAX_NODES / 4);
        let node = Node::parse(&format!("a: [[[[\n{many} []{items}]]]]\nb: |\n{}", " # x\n".repeat(MAX_BYTES / 20)));
        assert_eq!(node.map(|node| node.foot.len()), Ok(0));
    }
}
