//! Whether any host can match a group's expressions, by trying all that they can tell apart.

use std::collections::{BTreeMap, BTreeSet};

use crate::labels::{Expression, Labelled};
use crate::policy::Members;

/// Hosts that are tried: what has more combinations is not judged.
const MOST: usize = 50_000;

/// A host with some labels, and a group.
struct Tried<'a> {
    labels: BTreeMap<&'a str, &'a str>,
    group: &'a str,
}

impl Labelled for Tried<'_> {
    fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).copied()
    }

    fn group(&self) -> &str {
        self.group
    }
}

/// Whether no host can match: true only where all combinations were tried.
pub(super) fn is_impossible(members: &Members) -> bool {
    let expressions: Vec<&Expression> = [&members.node, &members.instance].into_iter().flatten().collect();
    let texts: Vec<String> = expressions.iter().flat_map(|expression| literals(expression.text())).collect();
    let mut keys: BTreeSet<String> = texts.iter().cloned().collect();
    keys.extend(expressions.iter().flat_map(|expression| identifiers(expression.text())));
    keys.retain(|key| expressions.iter().any(|expression| is_label(expression.text(), key)));
    // Of values, a text can tell apart: each literal, something longer, something else, and nothing.
    let mut values: BTreeSet<String> = texts.iter().flat_map(|text| [text.clone(), format!("{text}~")]).collect();
    values.insert(String::new());
    let count = u32::try_from(keys.len() + 1).ok().and_then(|keys| (values.len() + 1).checked_pow(keys));
    if count.is_none_or(|count| count > MOST) {
        return false;
    }
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    !values.iter().any(|group| can_match(&expressions, &keys, &values, &mut Tried { labels: BTreeMap::new(), group }))
}

/// Tries all values for the keys that are left.
fn can_match<'a>(expressions: &[&Expression], keys: &[&'a str], values: &[&'a str], tried: &mut Tried<'a>) -> bool {
    let Some((key, rest)) = keys.split_first() else {
        return expressions.iter().all(|expression| expression.holds(tried));
    };
    tried.labels.remove(key);
    if can_match(expressions, rest, values, tried) {
        return true;
    }
    let found = values.iter().any(|value| {
        tried.labels.insert(key, value);
        can_match(expressions, rest, values, tried)
    });
    tried.labels.remove(key);
    found
}

/// The texts in quotes. Escapes are rare: with one, the text is not what it means, and nothing else is lost.
fn literals(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(begin) = rest.find(['"', '`']) {
        let quote = if rest[begin..].starts_with('"') { '"' } else { '`' };
        let inner = &rest[begin + 1..];
        let Some(end) = inner.find(quote) else { break };
        found.push(inner[..end].to_owned());
        rest = &inner[end + 1..];
    }
    found
}

/// Labels that are written `labels.name`.
fn identifiers(text: &str) -> Vec<String> {
    let name = |rest: &str| rest.chars().take_while(|char| char.is_alphanumeric() || *char == '_').collect();
    text.split("labels.").skip(1).map(name).filter(|name: &String| !name.is_empty()).collect()
}

/// Whether the text asks for the label `key`.
fn is_label(text: &str, key: &str) -> bool {
    let forms = [format!("labels[\"{key}\"]"), format!("labels[`{key}`]"), format!("labels.{key}")];
    let text: String = text.chars().filter(|char| !char.is_whitespace()).collect();
    forms.iter().any(|form| text.contains(form))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_impossible_text(text: &str) -> bool {
        is_impossible(&Members { node: Some(Expression::parse(text).unwrap()), ..Members::default() })
    }

    #[test]
    fn only_what_no_host_can_match_is_called_impossible() {
        for text in [
            r#"labels["env"] == "prod" && labels["env"] == "dev""#,
            r#"labels["env"] == "prod" && !exists(labels["env"])"#,
            r#"hasPrefix(labels["env"], "pr") && labels["env"] == "dev""#,
            r#"group == "a" && group == "b""#,
            r#"labels.env != labels.env"#,
        ] {
            assert!(is_impossible_text(text), "{text}");
        }
        for text in [
            r#"labels["env"] == "prod" || labels["env"] == "dev""#,
            r#"labels["env"] == "prod" && labels["role"] == "db""#,
            r#"labels["env"] != "prod" && labels["env"] != """#,
            r#"hasPrefix(labels["env"], "pr") && labels["env"] != "pr""#,
            r#"labels.a != labels.b && group == "x""#,
            r#"!exists(labels["env"])"#,
        ] {
            assert!(!is_impossible_text(text), "{text}");
        }
    }
}
