//! From the tree to YAML in block style: plain scalars exactly as they were read, all others quoted or as `|` blocks.

use super::document::{Node, Value};

/// Spaces a level.
const STEP: usize = 2;
/// Longest key written as `key:`, bytes: YAML allows 1024 characters there, and escaping may take six for one.
const LONG_KEY: usize = 120;

impl Node {
    /// The document as text, ending in a newline; [`Node::parse`] reads an equal tree from it.
    pub fn emit(&self) -> String {
        document(self)
    }
}

/// The whole document, ending in a newline.
fn document(root: &Node) -> String {
    let mut out = String::new();
    if let Some(tag) = &root.tag {
        out = format!("--- {tag}\n");
    }
    match root.pairs() {
        Some(pairs) if !pairs.is_empty() => mapping(&mut out, pairs, 0),
        _ => out.push_str("{}\n"),
    }
    out
}

fn mapping(out: &mut String, pairs: &[(Node, Node)], indent: usize) {
    for (key, value) in pairs {
        comments(out, key, indent);
        pad(out, indent);
        let text = key.as_str().unwrap_or_default();
        let explicit =
            text.len() > LONG_KEY || matches!(&key.value, Value::Scalar { text, plain: true } if text.is_empty());
        if explicit {
            out.push_str("? ");
        }
        if let Some(tag) = &key.tag {
            out.push_str(tag);
            out.push(' ');
        }
        match &key.value {
            Value::Scalar { plain: true, .. } => out.push_str(text),
            _ => quoted(out, text),
        }
        if explicit {
            out.push('\n');
            pad(out, indent);
        }
        out.push(':');
        after(out, value, indent);
    }
}

/// What follows a key's colon or an item's dash, to the end of the line or further.
fn after(out: &mut String, node: &Node, indent: usize) {
    if let Some(tag) = &node.tag {
        out.push(' ');
        out.push_str(tag);
    }
    match &node.value {
        Value::Scalar { text, plain: true } if text.is_empty() => out.push('\n'),
        Value::Scalar { text, plain: true } => {
            out.push(' ');
            out.push_str(text);
            out.push('\n');
        }
        Value::Scalar { text, .. } if fits_block(text) => {
            out.push_str(if text.ends_with('\n') { " |\n" } else { " |-\n" });
            for line in text.lines() {
                if !line.is_empty() {
                    pad(out, indent + STEP);
                    out.push_str(line);
                }
                out.push('\n');
            }
        }
        Value::Scalar { text, .. } => {
            out.push(' ');
            quoted(out, text);
            out.push('\n');
        }
        Value::Sequence(items) if items.is_empty() => out.push_str(" []\n"),
        Value::Mapping(pairs) if pairs.is_empty() => out.push_str(" {}\n"),
        _ => {
            out.push('\n');
            block(out, node, indent + STEP);
        }
    }
}

fn block(out: &mut String, node: &Node, indent: usize) {
    match &node.value {
        Value::Mapping(pairs) => mapping(out, pairs, indent),
        Value::Sequence(items) => {
            for item in items {
                comments(out, item, indent);
                pad(out, indent);
                out.push('-');
                if !is_compact(item) {
                    after(out, item, indent);
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
}

/// A non-empty collection that can start on its dash's line.
fn is_compact(node: &Node) -> bool {
    let first = match &node.value {
        Value::Scalar { .. } => None,
        Value::Sequence(items) => items.first(),
        Value::Mapping(pairs) => pairs.first().map(|(key, _)| key),
    };
    node.tag.is_none() && first.is_some_and(|first| first.comments.is_empty())
}

fn comments(out: &mut String, node: &Node, indent: usize) {
    for comment in &node.comments {
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
            Just("---x")
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
            let pairs = proptest::collection::vec((key.clone(), inner.clone()), 0..5);
            prop_oneof![
                proptest::collection::vec(inner, 0..5).prop_map(|items| raw(Value::Sequence(items))),
                pairs.prop_map(|pairs| raw(Value::Mapping(distinct(pairs)))),
            ]
        })
    }

    fn raw(value: Value) -> Node {
        Node { value, tag: None, comments: Vec::new(), line: 0 }
    }

    fn distinct(pairs: Vec<(Node, Node)>) -> Vec<(Node, Node)> {
        let mut kept: Vec<(Node, Node)> = Vec::new();
        for (key, value) in pairs {
            if kept.iter().all(|(other, _)| other.as_str() != key.as_str()) {
                kept.push((key, value));
            }
        }
        kept
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_is_emitted_is_read_back_equal(
            pairs in proptest::collection::vec((tree(), tree(), proptest::collection::vec("# [ -~]{0,8}[!-~]", 0..3)), 0..6)
        ) {
            let pairs = pairs.into_iter().filter(|(key, _, _)| key.as_str().is_some()).map(|(key, value, comments)| {
                let comments = if key.as_str() == Some("") { Vec::new() } else { comments };
                (Node { tag: None, comments, ..key }, value)
            });
            let root = raw(Value::Mapping(distinct(pairs.collect())));
            let text = root.emit();
            let back = Node::parse(&text).map_err(|fault| TestCaseError::fail(format!("{fault}\n{text}")))?;
            prop_assert_eq!(&back, &root, "{}", text);
        }

        #[test]
        fn no_input_makes_the_parser_panic_or_the_emitter_lie(source in "[a-c \t\n#:'\"&*!|>?{},\\[\\]\\-]{0,60}") {
            if let Ok(node) = Node::parse(&source) {
                let text = node.emit();
                let back = Node::parse(&text).map_err(|fault| TestCaseError::fail(format!("{fault}\n{text}")))?;
                prop_assert_eq!(back, node, "{}", text);
            }
        }
    }
}
