//! From the tree to YAML in block style: plain scalars exactly as they were read, all others quoted or as `|` blocks.

use super::document::{Node, Value};

/// Spaces a level.
const STEP: usize = 2;
/// Longest key written as `key:`, bytes: YAML allows 1024 characters there, and escaping may take six for one.
const LONG_KEY: usize = 120;

impl Node {
    /// The document as text, ending in a newline; [`Node::parse`] reads an equal tree from it.
    pub fn emit(&self) -> String {
        let mut out = self.tag.as_ref().map_or_else(String::new, |tag| format!("--- {tag}\n"));
        match self.pairs() {
            Some(pairs) if !pairs.is_empty() => block(&mut out, self, 0),
            _ => {
                comments(&mut out, &self.foot, 0);
                out.push_str("{}\n");
            }
        }
        out
    }
}

fn mapping(out: &mut String, pairs: &[(Node, Node)], indent: usize) {
    for (key, value) in pairs {
        comments(out, &key.comments, indent);
        pad(out, indent);
        let text = key.as_str().unwrap_or_default();
        let explicit = text.len() > LONG_KEY || key.is_absent() || is_marker(key);
        let mut tail = key.tail.as_deref();
        if explicit {
            out.push_str("? ");
        }
        if let Some(tag) = &key.tag {
            out.push_str(tag);
            out.push(' ');
        }
        if let Value::Scalar { plain: true, .. } = &key.value {
            out.push_str(text)
        } else {
            quoted(out, text)
        }
        if explicit {
            // Behind what is not written a comment would have no key to belong to.
            end_line(out, tail.take().filter(|_| !key.is_absent()));
            pad(out, indent);
        }
        out.push(':');
        after(out, value, tail, indent);
    }
}

/// A key that would begin or end a document if its line started with it.
fn is_marker(key: &Node) -> bool {
    let marks = ["--- ", "... ", "---\t", "...\t"];
    matches!(&key.value, Value::Scalar { text, plain: true } if marks.iter().any(|mark| text.starts_with(mark)))
}

/// What follows a key's colon or an item's dash, to the end of the line, where the comment goes, or further.
fn after(out: &mut String, node: &Node, tail: Option<&str>, indent: usize) {
    if let Some(tag) = &node.tag {
        out.push(' ');
        out.push_str(tag);
    }
    match &node.value {
        _ if node.is_absent() => end_line(out, tail),
        Value::Scalar { text, plain: true } => {
            out.push(' ');
            out.push_str(text);
            end_line(out, tail);
        }
        Value::Scalar { text, .. } if fits_block(text) => {
            out.push_str(if text.ends_with('\n') { " |" } else { " |-" });
            end_line(out, tail);
            lines(out, text, indent + STEP);
        }
        Value::Scalar { text, .. } => {
            out.push(' ');
            quoted(out, text);
            end_line(out, tail);
        }
        collection => {
            out.push_str(match collection {
                Value::Sequence(items) if items.is_empty() => " []",
                Value::Mapping(pairs) if pairs.is_empty() => " {}",
                _ => "",
            });
            end_line(out, tail);
            block(out, node, indent + STEP);
        }
    }
}

fn end_line(out: &mut String, tail: Option<&str>) {
    if let Some(tail) = tail {
        out.push(' ');
        out.push_str(tail);
    }
    out.push('\n');
}

/// The lines of a block text.
fn lines(out: &mut String, text: &str, indent: usize) {
    for line in text.lines() {
        if !line.is_empty() {
            pad(out, indent);
            out.push_str(line);
        }
        out.push('\n');
    }
}

/// The keys or items of a collection, and the comments behind them.
fn block(out: &mut String, node: &Node, indent: usize) {
    match &node.value {
        Value::Mapping(pairs) => mapping(out, pairs, indent),
        Value::Sequence(items) => {
            for item in items {
                comments(out, &item.comments, indent);
                pad(out, indent);
                out.push('-');
                if !is_compact(item) {
                    after(out, item, item.tail.as_deref(), indent);
                    continue;
                }
                let start = out.len();
                block(out, item, indent + STEP);
                // The first line of the item moves up behind the dash: "-" takes one of its spaces.
                out.replace_range(start..=start + indent, "");
            }
        }
        Value::Scalar { .. } => {}
    }
    comments(out, &node.foot, indent);
}

/// A non-empty collection that can start on its dash's line, where no comment stands.
fn is_compact(node: &Node) -> bool {
    node.tag.is_none() && node.tail.is_none() && node.first().is_some_and(|first| first.comments.is_empty())
}

fn comments(out: &mut String, comments: &[String], indent: usize) {
    for comment in comments {
        pad(out, indent);
        out.push_str(comment);
        out.push('\n');
    }
}

fn pad(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
}

/// A `|` block shows these lines as they are; indentation, edges and control characters need quotes.
fn fits_block(text: &str) -> bool {
    let body = text.strip_suffix('\n').unwrap_or(text);
    body.contains('\n')
        && !body.ends_with('\n')
        && !body.starts_with(['\n', ' ', '\t'])
        && body.lines().all(|line| line.is_empty() || !line.trim().is_empty() && !line.starts_with('\t'))
        && body.chars().all(|char| char == '\n' || char == '\t' || !must_escape(char))
}

fn must_escape(char: char) -> bool {
    char.is_control() || matches!(char, '\u{a0}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

fn quoted(out: &mut String, text: &str) {
    out.push('"');
    for char in text.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            char if must_escape(char) => out.push_str(&format!("\\u{:04x}", u32::from(char))),
            char => out.push(char),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn plain_scalars_stay_exactly_as_written() {
        let source = "a: yes\nb: 1.10\nc: ~\nd: 0123\ne:\nf: 2020-12-09T16:09:53+00:00\ng: !!str 1\n? ''\n: x\n";
        assert_eq!(Node::parse(source).unwrap().emit(), source.replace("? ''\n: x", "\"\": x"));
    }

    #[test]
    fn a_pem_text_is_a_literal_block() {
        let pem = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
        let mut node = Node::mapping([]);
        node.set(&["spec", "ca"], Node::text(pem));
        assert_eq!(
            node.emit(),
            "spec:\n  ca: |\n    -----BEGIN CERTIFICATE-----\n    MIIB\n    -----END CERTIFICATE-----\n"
        );
        assert_eq!(Node::parse(&node.emit()).unwrap(), node);
    }

    #[test]
    fn comments_stay_where_they_were_written() {
        let at_the_end_of_lines = concat!(
            "on: yes # because of X\n",
            "spec: # ours\n  text: |- # all of it\n    a\n    # b\n  none: # nothing\n  not: [] # yet\n",
            "  \"1\": \"# no\" # it's\n",
            "list: # é\n  - é # first\n  - # second\n    a: b\n  - c: !t x # third\n    d: {} # all\n",
            "  - # fourth\n    - # inner\n      - e\n    - !t # tagged\n      - f\n",
            "  - | # text\n    g\n    h\n  - # none\n",
        );
        let above_items =
            "list:\n  # one\n  - # two\n    # three\n    a: b\n  # four\n  -\n  # five\n  - |-\n    a\n    b\n";
        let behind_the_last = concat!(
            "a:\n  b:\n    c: |\n      d\n      # e\n    # of b\n  # of a\n# above e\n",
            "e:\n  - f\n  - - g\n    # of the inner\n",
            "  - h: 1\n    # of h\n  # above the last\n  - # i\n    - j\n    # behind j\n  # of e\n",
            "# of all\n# of all, too\n",
        );
        let behind_a_long_key = &format!("? {} # x\n:\n  a: b\n", "k".repeat(LONG_KEY + 1));
        for source in [at_the_end_of_lines, above_items, behind_the_last, behind_a_long_key] {
            assert_eq!(Node::parse(source).unwrap().emit(), source);
        }
        let with_an_empty_line = behind_the_last.replace("# of all\n", "\n# of all\n");
        assert_eq!(Node::parse(&with_an_empty_line).unwrap().emit(), behind_the_last);
    }

    #[test]
    fn comments_behind_what_went_stay() {
        let mut node = Node::parse("a:\n  b: 1\n  # b\nc:\n  - d\n  # d\n# c\n").unwrap();
        node.remove(&["a", "b"]);
        node.set(&["c"], Node::list(Vec::new()));
        assert_eq!(node.emit(), "a: {}\n  # b\nc: []\n  # d\n# c\n");
        node.remove(&["a"]);
        node.remove(&["c"]);
        assert_eq!(node.emit(), "# c\n{}\n");
    }

    fn tree() -> impl Strategy<Value = Node> {
        let text = prop_oneof![
            any::<String>(),
            "[ -~]{0,12}",
            "[a-c \t\n\r#:'\"\\-]{0,12}",
            "[ -~\n]{100,160}",
            Just("line one\n  two # x\n\nthree\n".to_owned()),
        ];
        let plain = prop_oneof![
            Just("yes"),
            Just("1.10"),
            Just("~"),
            Just(""),
            Just("0123"),
            Just("a b"),
            Just("a:b"),
            Just("<<"),
            Just("---x"),
            Just("--- x"),
            Just("...")
        ];
        let tag = prop_oneof![
            8 => Just(None),
            1 => Just(Some("!!str".to_owned())),
            1 => Just(Some("!mine".to_owned())),
            1 => Just(Some("!<tag:example.org,2000:x>".to_owned()))
        ];
        let scalar =
            (prop_oneof![text.prop_map(|text| (text, false)), plain.prop_map(|text| (text.to_owned(), true))], tag)
                .prop_map(|((text, plain), tag)| Node { tag, ..raw(Value::Scalar { text, plain }) });
        let key = scalar.clone().prop_map(|key| Node { tag: None, ..key });
        scalar.prop_recursive(5, 60, 5, move |inner| {
            let pairs = proptest::collection::vec((commented(key.clone()), inner.clone()), 0..5);
            let items = proptest::collection::vec(commented(inner), 0..5);
            let value =
                prop_oneof![items.prop_map(Value::Sequence), pairs.prop_map(|pairs| Value::Mapping(distinct(pairs)))];
            (value, above()).prop_map(|(value, foot)| footed(Node { foot, ..raw(value) }))
        })
    }

    /// Without a foot where nothing is that it could stand behind.
    fn footed(node: Node) -> Node {
        let foot = if node.first().is_some() { node.foot } else { Vec::new() };
        Node { foot, ..node }
    }

    fn comment() -> impl Strategy<Value = String> {
        "#([ -~é]{0,8}[!-~é])?"
    }

    fn above() -> impl Strategy<Value = Vec<String>> {
        prop_oneof![4 => Just(Vec::new()), 1 => proptest::collection::vec(comment(), 1..3)]
    }

    /// A key or an item with comments; what is not written can have them as an item only, see `distinct`.
    fn commented(node: impl Strategy<Value = Node>) -> impl Strategy<Value = Node> {
        let tail = prop_oneof![2 => Just(None), 1 => comment().prop_map(Some)];
        (node, above(), tail).prop_map(|(node, comments, tail)| Node { comments, tail, ..node })
    }

    fn raw(value: Value) -> Node {
        Node { value, ..Node::mapping([]) }
    }

    fn distinct(pairs: Vec<(Node, Node)>) -> Vec<(Node, Node)> {
        let mut kept: Vec<(Node, Node)> = Vec::new();
        for (key, value) in pairs {
            if kept.iter().all(|(other, _)| other.as_str() != key.as_str()) {
                kept.push((if key.is_absent() { raw(key.value) } else { key }, value));
            }
        }
        kept
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_is_emitted_is_read_back_equal(
            pairs in proptest::collection::vec((commented(tree()), tree()), 0..6), foot in above()
        ) {
            let pairs = pairs.into_iter().filter(|(key, _)| key.as_str().is_some());
            let pairs = pairs.map(|(key, value)| (Node { tag: None, ..key }, value));
            let root = Node { foot, ..raw(Value::Mapping(distinct(pairs.collect()))) };
            let text = root.emit();
            let back = Node::parse(&text).map_err(|fault| TestCaseError::fail(format!("{fault}\n{text}")))?;
            prop_assert_eq!(&back, &root, "{}", text);
        }

        #[test]
        fn no_input_makes_the_parser_panic_or_the_emitter_lie(source in source()) {
            if let Ok(node) = Node::parse(&source) {
                let text = node.emit();
                let back = Node::parse(&text).map_err(|fault| TestCaseError::fail(format!("{fault}\n{text}")))?;
                prop_assert_eq!(back, node, "{}", text);
            }
        }
    }

    /// Any text of what means something to YAML, and one of parts that often make a document, with many comments.
    fn source() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            4 => prop_oneof![Just("a: "), Just("b: "), Just("c:"), Just("- "), Just("-"), Just("? "), Just(": ")],
            4 => prop_oneof![Just(" # x"), Just(" #"), Just("# y"), Just(" "), Just("  ")],
            4 => prop_oneof![Just("\n"), Just("\n  "), Just("\n- "), Just("\n  - "), Just("\n    "), Just("\r\n")],
            3 => prop_oneof![Just("a"), Just("é"), Just("'a # b'"), Just("\"'# \\\"\""), Just("it''s"), Just("*a")],
            2 => prop_oneof![Just("!t "), Just("&a "), Just("!<x:y,z> "), Just("|"), Just(">-"), Just("|+")],
            1 => prop_oneof![Just("---"), Just("...")],
            2 => prop_oneof![Just("["), Just("]"), Just("{"), Just("}"), Just(", "), Just("{a: 1}"), Just("[a]")],
        ];
        prop_oneof![
            "[a-c \t\n#:'\"&*!|>?{},\\[\\]\\-]{0,60}",
            "[ab \n#:\\-]{0,40}",
            "[ab]: [ab \n#:'\"&*!|>?{},\\[\\]\\-]{0,40}",
            proptest::collection::vec(part, 0..24).prop_map(|parts| parts.concat()),
        ]
    }
}
