//! The JSON Schema of what operators write, made of the table of keys.

use serde_json::{Map, Value, json};

use super::key::{Key, KeyKind, KeyTable};
use super::keys;
use super::kind::Kind;

/// The JSON Schema (2020-12) of a resource: one alternative for each kind that can be written. It has no references, so that it can
/// stand in any other document. What it cannot say, such as which groups there are, [`super::read`] says.
pub fn schema() -> Value {
    let kinds = Kind::ALL.into_iter().filter(|kind| kind.is_made_here().is_none());
    let kinds = kinds.filter_map(|kind| Some(document(kind, keys::spec_of(kind)?)));
    json!({ "title": "Resource", "oneOf": kinds.collect::<Vec<_>>() })
}

fn document(kind: Kind, (spec, column): (&KeyTable, usize)) -> Value {
    let mut document = mapping(&keys::DOCUMENT, column);
    let properties = &mut document["properties"];
    properties["kind"] = json!({ "const": kind.as_str() });
    properties["spec"] = mapping(spec, column);
    if kind == Kind::Maintenance {
        properties["nonce"] = json!({});
    }
    document
}

fn mapping(table: &KeyTable, column: usize) -> Value {
    let property = |key: &Key| (key.name.to_owned(), property(key, column));
    let properties: Map<String, Value> = table.keys.iter().map(property).collect();
    let required: Vec<&str> = table.keys.iter().filter(|key| key.required().is_some()).map(|key| key.name).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

fn property(key: &Key, column: usize) -> Value {
    let mut property = value(&key.kind, column);
    if let Some(node) = key.default_value(column) {
        property["default"] = node.to_json();
    }
    property["title"] = json!(key.kind.shown());
    let acts = if key.acts.is_empty() { String::new() } else { format!(" (acts: {})", key.acts) };
    property["description"] = json!(key.meaning() + &acts);
    property
}

fn value(kind: &KeyKind, column: usize) -> Value {
    let text = |pattern: &str| json!({ "type": "string", "pattern": pattern });
    match kind {
        KeyKind::Whole(least, most) => json!({ "type": "integer", "minimum": least, "maximum": most }),
        KeyKind::Decimal(least, most) => json!({ "type": "number", "minimum": least, "maximum": most }),
        KeyKind::Share => json!({ "type": "number", "minimum": 0, "maximum": 1 }),
        KeyKind::Percentage => {
            json!({ "type": ["integer", "string"], "minimum": 0, "maximum": 100, "pattern": "^(\\d\\d?|100) *%?$" })
        }
        KeyKind::Minutes(..) => json!({ "type": ["integer", "string"], "examples": ["90m", "2h"] }),
        KeyKind::Time => json!({ "type": "string", "format": "date-time" }),
        KeyKind::Version => json!({ "type": "string", "examples": ["17.2.1"] }),
        KeyKind::Sha256 => text("^[0-9A-Fa-f]{64}$"),
        KeyKind::Flag => json!({ "type": "boolean" }),
        KeyKind::FlagOr(table) => json!({ "oneOf": [{ "type": "boolean" }, mapping(table, column)] }),
        KeyKind::Words(words) => json!({ "enum": words }),
        KeyKind::Weekdays => json!({ "type": "array", "minItems": 1, "items": { "type": "string" } }),
        KeyKind::Address => json!({ "type": "string", "format": "uri" }),
        KeyKind::TimeZone | KeyKind::LabelExpression | KeyKind::Text(_) => json!({ "type": "string" }),
        KeyKind::Name(_) => json!({ "type": "string", "minLength": 1, "maxLength": 255 }),
        KeyKind::Kept => json!({}),
        KeyKind::Empty => json!({ "type": ["object", "null"], "maxProperties": 0 }),
        KeyKind::Mapping(table) => mapping(table, column),
        KeyKind::Map(_, most, of) => {
            limited(json!({ "type": "object", "additionalProperties": value(of, column) }), "maxProperties", *most)
        }
        KeyKind::List(_, most, of) => {
            limited(json!({ "type": "array", "items": value(of, column) }), "maxItems", *most)
        }
    }
}

fn limited(mut schema: Value, limit: &str, most: usize) -> Value {
    if most != keys::ANY {
        schema[limit] = json!(most);
    }
    schema
}
