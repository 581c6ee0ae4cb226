//! Merged mappings (`<<`) spelled out.

use std::collections::BTreeSet;

use super::document::{Node, Value};

impl Node {
    /// The same tree, in which no mapping has merged ones any more: their keys are its own, behind those that it had. A
    /// merge of something other than mappings stays as it is. The comments of a `<<` go with it.
    #[must_use]
    pub fn merged(self) -> Self {
        let value = match self.value {
            Value::Mapping(pairs) => Value::Mapping(flat(pairs)),
            Value::Sequence(items) => Value::Sequence(items.into_iter().map(Node::merged).collect()),
            scalar @ Value::Scalar { .. } => scalar,
        };
        Self { value, ..self }
    }
}

fn flat(pairs: Vec<(Node, Node)>) -> Vec<(Node, Node)> {
    let mut own = Vec::with_capacity(pairs.len());
    let mut others = Vec::new();
    for (key, value) in pairs {
        let value = value.merged();
        match value.value {
            Value::Mapping(pairs) if key.is_merge() => others.extend(pairs),
            Value::Sequence(items) if key.is_merge() && items.iter().all(|item| item.pairs().is_some()) => {
                for item in items {
                    if let Value::Mapping(pairs) = item.value {
                        others.extend(pairs);
                    }
                }
            }
            _ => own.push((key, value)),
        }
    }
    if others.is_empty() {
        return own;
    }
    let mut names = BTreeSet::new();
    names.extend(own.iter().map(|(key, _)| key.as_str().map(str::to_owned)));
    own.extend(others.into_iter().filter(|(key, _)| names.insert(key.as_str().map(str::to_owned))));
    own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_keys_become_own_ones_and_the_first_counts() {
        let node = Node::parse(
            "base: &b {x: 1, y: 2}\nmore: &m {<<: *b, y: 3, z: 4}\nlist:\n- <<: [*m, *b]\n  z: 5\n- <<: 7\n",
        );
        let merged = node.unwrap().merged();
        let wanted = "base: {x: 1, y: 2}\nmore: {y: 3, z: 4, x: 1}\nlist:\n- z: 5\n  y: 3\n  x: 1\n- <<: 7\n";
        assert_eq!(merged, Node::parse(wanted).unwrap());
        assert_eq!(merged.clone().merged(), merged);
    }
}
