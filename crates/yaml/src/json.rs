//! The tree and JSON: what came as JSON is a tree like any other, and a tree can be shown as JSON.

use serde_json::{Map, Number, Value as Json};

use super::document::{Fault, Node, Value};
use super::parse::{MAX_DEPTH, MAX_NODES, MAX_TEXT};
use super::scalar;

impl Node {
    /// The tree of a JSON value that was read from `line`, within the budgets of [`Node::parse`].
    pub fn from_json(json: &Json, line: usize) -> Result<Self, Fault> {
        Builder { line, nodes: 0, text: 0 }.node(json, 0)
    }

    /// The tree as JSON: plain scalars by YAML's rules for null, numbers and booleans (1.1's spellings of these too, as
    /// [`scalar::boolean`]), all else as text. Of tags, `!!str` makes a text; others are lost, as are comments.
    pub fn to_json(&self) -> Json {
        match &self.value {
            Value::Scalar { text, plain } => match self.tag.as_deref() {
                None if *plain => plain_json(self, text),
                _ => Json::String(text.clone()),
            },
            Value::Sequence(items) => Json::Array(items.iter().map(Node::to_json).collect()),
            Value::Mapping(pairs) => {
                let pairs = pairs.iter().filter_map(|(key, value)| Some((key.as_str()?.to_owned(), value.to_json())));
                Json::Object(pairs.collect::<Map<_, _>>())
            }
        }
    }
}

fn plain_json(node: &Node, text: &str) -> Json {
    if node.is_null() {
        return Json::Null;
    }
    if let Some(boolean) = scalar::boolean(text) {
        return Json::Bool(boolean);
    }
    if scalar::is_number(text) {
        let whole = text.parse::<i64>().map(Number::from).or_else(|_| text.parse::<u64>().map(Number::from)).ok();
        if let Some(number) = whole.or_else(|| text.parse().ok().and_then(Number::from_f64)) {
            return Json::Number(number);
        }
    }
    Json::String(text.to_owned())
}

struct Builder {
    line: usize,
    nodes: usize,
    text: usize,
}

impl Builder {
    /// `depth` collections are open around it.
    fn node(&mut self, json: &Json, depth: usize) -> Result<Node, Fault> {
        if depth == MAX_DEPTH && (json.is_array() || json.is_object()) {
            return Err(self.fault(format!("nested deeper than {MAX_DEPTH} levels")));
        }
        self.spend(json.as_str().map_or(0, str::len))?;
        let node = match json {
            Json::Null => Node::plain("~"),
            Json::Bool(boolean) => Node::plain(boolean),
            Json::Number(number) => Node::plain(number),
            Json::String(text) => Node::text(text),
            Json::Array(items) => {
                Node::list(items.iter().map(|item| self.node(item, depth + 1)).collect::<Result<_, _>>()?)
            }
            Json::Object(pairs) => {
                let mut nodes = Vec::with_capacity(pairs.len());
                for (key, value) in pairs {
                    self.spend(key.len())?;
                    let key = Node { line: self.line, ..Node::text(key) };
                    nodes.push((key, self.node(value, depth + 1)?));
                }
                Node { value: Value::Mapping(nodes), ..Node::mapping([]) }
            }
        };
        Ok(Node { line: self.line, ..node })
    }

    /// Accounts for one node with a text of so many bytes.
    fn spend(&mut self, text: usize) -> Result<(), Fault> {
        self.nodes += 1;
        self.text = self.text.saturating_add(text);
        if self.nodes > MAX_NODES || self.text > MAX_TEXT {
            return Err(self.fault("too many or too long values".to_owned()));
        }
        Ok(())
    }

    fn fault(&self, what: String) -> Fault {
        Fault { line: self.line, what }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn json_becomes_a_tree_whose_lines_are_the_one_it_came_from() {
        let json = json!({"kind": "x", "on": true, "list": [1, 2.5, null, "10", "off"], "none": {}});
        let node = Node::from_json(&json, 7).unwrap();
        assert_eq!(
            node.emit(),
            "kind: x\n\"on\": true\nlist:\n  - 1\n  - 2.5\n  - ~\n  - \"10\"\n  - \"off\"\nnone: {}\n"
        );
        assert_eq!(node.get("list").unwrap().items().unwrap()[3].line, 7);
        assert_eq!(node.to_json(), json);
    }

    #[test]
    fn plain_scalars_are_what_yaml_takes_them_for() {
        let source = "[~, yes, Off, 12, -3, 1.5, 1e3, 0x1f, 18446744073709551615, 15.1.1, \"12\", !!str 12, a]";
        let node = &Node::parse_all(source).unwrap()[0];
        let wanted =
            r#"[null, true, false, 12, -3, 1.5, 1000.0, "0x1f", 18446744073709551615, "15.1.1", "12", "12", "a"]"#;
        let wanted: Json = serde_json::from_str(wanted).unwrap();
        assert_eq!(node.to_json(), wanted);
    }

    #[test]
    fn towers_and_masses_of_json_are_refused() {
        let tower = (0..MAX_DEPTH + 1).fold(json!(1), |inner, _| json!([inner]));
        assert!(Node::from_json(&tower, 1).unwrap_err().what.contains("deeper"));
        assert!(Node::from_json(&json!(vec![1; MAX_NODES]), 1).unwrap_err().what.contains("too many"));
        assert!(Node::from_json(&json!("x".repeat(MAX_TEXT + 1)), 3).unwrap_err().line == 3);
    }

    fn any_json() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::from),
            any::<i64>().prop_map(Json::from),
            any::<u64>().prop_map(Json::from),
            any::<String>().prop_map(Json::from),
            "[0-9a-fxoyn.~+-]{0,6}".prop_map(Json::from),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Json::from),
                proptest::collection::vec((any::<String>(), inner), 0..6)
                    .prop_map(|pairs| Json::Object(pairs.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn json_comes_back_as_it_went_in_also_by_way_of_yaml(json in any_json()) {
            let node = Node::from_json(&json, 1).unwrap();
            prop_assert_eq!(node.to_json(), json.clone());
            if json.as_object().is_some_and(|pairs| !pairs.is_empty()) {
                let text = node.emit();
                prop_assert_eq!(Node::parse(&text).unwrap().to_json(), json, "{}", text);
            }
        }
    }
}
