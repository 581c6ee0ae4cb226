//! From YAML events to the tree, within budgets: a hostile file costs an error, not the memory.

use std::collections::{BTreeSet, HashMap};

use saphyr_parser::{Event, Parser, ScalarStyle, Span, Tag};

use super::document::{Fault, Node, Value};

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
    open: Vec<Open>,
    anchors: HashMap<usize, (Node, Size)>,
    nodes: usize,
    text: usize,
    /// Last line whose comments are already attached.
    commented: usize,
    roots: Vec<Node>,
}

#[derive(Clone, Copy)]
struct Size {
    nodes: usize,
    text: usize,
    depth: usize,
}

impl Builder<'_> {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Fault> {
        let line = span.start.line();
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.spend(Size { nodes: 1, text: text.len(), depth: 0 }, span)?;
                // A plain text over several lines with an empty one between cannot be written on one line.
                let plain = style == ScalarStyle::Plain && !text.contains('\n');
                if plain && !is_plain(&text) {
                    return Err(fault(span, "not valid YAML: this text needs quotes"));
                }
                let node = self.node(Value::Scalar { text: text.into_owned(), plain }, tag.as_deref(), line, span)?;
                self.complete(node, anchor, span)
            }
            Event::SequenceStart(anchor, tag) => {
                self.start(Value::Sequence(Vec::new()), anchor, tag.as_deref(), line, span)
            }
            Event::MappingStart(anchor, tag) => {
                self.start(Value::Mapping(Vec::new()), anchor, tag.as_deref(), line, span)
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(Open { node, anchor, .. }) => self.complete(node, anchor, span),
                None => Err(fault(span, "an end without a start")),
            },
            Event::Alias(anchor) => {
                let Some(&(_, size)) = self.anchors.get(&anchor) else {
                    return Err(fault(span, "an alias inside of its own anchor"));
                };
                self.spend(size, span)?;
                let mut node = self.anchors[&anchor].0.clone();
                node.comments = self.comments(line);
                self.complete(node, 0, span)
            }
            _ => Ok(()),
        }
    }

    fn start(&mut self, value: Value, anchor: usize, tag: Option<&Tag>, line: usize, span: Span) -> Result<(), Fault> {
        if matches!(self.open.last(), Some(Open { node, key: None, .. }) if node.pairs().is_some()) {
            return Err(fault(span, "a key must be a string"));
        }
        self.spend(Size { nodes: 1, text: 0, depth: 1 }, span)?;
        let node = self.node(value, tag, line, span)?;
        self.open.push(Open { node, anchor, key: None, names: BTreeSet::new() });
        Ok(())
    }

    fn node(&mut self, value: Value, tag: Option<&Tag>, line: usize, span: Span) -> Result<Node, Fault> {
        let tag = tag.map(|tag| tag_text(tag).ok_or_else(|| fault(span, "an unsupported tag"))).transpose()?;
        // The comment above a mapping that is a value belongs to its first key.
        let is_value = matches!(self.open.last(), Some(Open { key: Some(_), .. }) | None);
        // What is not written has no line that a comment could stand above.
        let is_absent = matches!(&value, Value::Scalar { text, plain: true } if text.is_empty());
        let comments = if is_value || is_absent { Vec::new() } else { self.comments(line) };
        Ok(Node { value, tag, comments, line })
    }

    fn complete(&mut self, node: Node, anchor: usize, span: Span) -> Result<(), Fault> {
        if anchor != 0 {
            let mut kept = node.clone();
            kept.comments.clear();
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
            if !words.starts_with('#') || indent(text) > most || words.chars().any(char::is_control) {
                break;
            }
            found.push(words.to_owned());
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
}
