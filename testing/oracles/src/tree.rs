//! The YAML tree: what is written is read back equal, and errors name a line that is there.

use yaml::{Node, Value};

/// Any text as a document.
pub fn yaml(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Node::parse(text) {
        Err(fault) => assert!(is_line(text, fault.line) && !fault.what.is_empty(), "{fault:?}"),
        Ok(root) => {
            let lines = lines_of(&root);
            assert!(lines.iter().all(|line| is_line(text, *line)), "{lines:?}");
            let written = root.emit();
            assert_eq!(Node::parse(&written).as_ref(), Ok(&root), "{written}");
            let again = Node::parse(&written).unwrap().emit();
            assert_eq!(again, written, "a second rewrite changes the file");
            // One document is the first document.
            assert_eq!(Node::parse_first(text).as_ref(), Ok(&root));
            let all = Node::parse_all(text).unwrap();
            assert!(all == [root.clone()] || all.is_empty() && root.pairs() == Some(&[]), "{all:?}");
            assert_eq!(Node::from_json(&root.to_json(), 1).unwrap().to_json(), root.to_json());
        }
    }
}

/// The file may end with a line end, and an error can be seen only behind it.
pub(crate) fn is_line(text: &str, line: usize) -> bool {
    let breaks = text.chars().filter(|char| matches!(char, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')).count();
    (1..=breaks + 2).contains(&line)
}

fn lines_of(node: &Node) -> Vec<usize> {
    let below: Vec<usize> = match &node.value {
        Value::Scalar { .. } => Vec::new(),
        Value::Sequence(items) => items.iter().flat_map(lines_of).collect(),
        Value::Mapping(pairs) => {
            pairs.iter().flat_map(|(key, value)| [lines_of(key), lines_of(value)].concat()).collect()
        }
    };
    // An empty document is a mapping that was made.
    [vec![node.line.max(1)], below].concat()
}
