//! JSON as metadata has it: what is signed, and its fields by name.

use error::Result;
use serde_json::{Map, Value};

use super::roles::invalid;

/// Canonical JSON (OLPC's, of which signatures are made) of `value`, after what is in `out`; false where a number is no integer,
/// which canonical JSON does not have.
#[must_use]
pub fn canonical(value: &Value, out: &mut Vec<u8>) -> bool {
    match value {
        Value::Null => out.extend(b"null"),
        Value::Bool(value) => out.extend(if *value { &b"true"[..] } else { b"false" }),
        Value::Number(number) if number.is_f64() => return false,
        Value::Number(number) => out.extend(number.to_string().bytes()),
        Value::String(text) => string(text, out),
        Value::Array(values) => return list(*b"[]", values.iter().map(|value| (None, value)), out),
        Value::Object(fields) => {
            let mut sorted: Vec<_> = fields.iter().map(|(name, value)| (Some(name), value)).collect();
            sorted.sort_unstable_by_key(|(name, _)| *name);
            return list(*b"{}", sorted.into_iter(), out);
        }
    }
    true
}

/// Values between brackets, each behind its name where it has one; false as [`canonical`].
fn list<'a>(
    [open, close]: [u8; 2],
    values: impl Iterator<Item = (Option<&'a String>, &'a Value)>,
    out: &mut Vec<u8>,
) -> bool {
    out.push(open);
    for (index, (name, value)) in values.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        if let Some(name) = name {
            string(name, out);
            out.push(b':');
        }
        if !canonical(value, out) {
            return false;
        }
    }
    out.push(close);
    true
}

/// Only the quotation mark and the backslash are escaped.
fn string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text.bytes() {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out.push(b'"');
}

/// The fields of an object of the metadata of `role`.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    pub(super) role: &'a str,
    pub(super) map: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    /// Errors: `tuf_invalid` for what is no object; `name` is for the message.
    pub(super) fn of(role: &'a str, name: &str, value: Option<&'a Value>) -> Result<Self> {
        let map = value.and_then(Value::as_object);
        map.map(|map| Self { role, map }).ok_or_else(|| invalid(role, &format!("{name} is missing, or no object")))
    }

    pub(super) fn object(self, name: &str) -> Result<Self> {
        Self::of(self.role, name, self.map.get(name))
    }

    pub(super) fn text(self, name: &str) -> Result<&'a str> {
        self.map.get(name).and_then(Value::as_str).ok_or_else(|| self.wrong(name, "text"))
    }

    /// A whole number of at least `least`.
    pub(super) fn number(self, name: &str, least: u64) -> Result<u64> {
        let number = self.map.get(name).and_then(Value::as_u64).filter(|number| *number >= least);
        number.ok_or_else(|| self.wrong(name, if least == 0 { "whole number" } else { "whole number above 0" }))
    }

    pub(super) fn array(self, name: &str) -> Result<&'a [Value]> {
        self.map.get(name).and_then(Value::as_array).map(Vec::as_slice).ok_or_else(|| self.wrong(name, "list"))
    }

    pub(super) fn texts(self, name: &str) -> Result<Vec<&'a str>> {
        let texts =
            self.array(name)?.iter().map(|value| value.as_str().ok_or_else(|| self.wrong(name, "list of texts")));
        texts.collect()
    }

    pub(super) fn bool(self, name: &str) -> Result<bool> {
        self.map.get(name).map_or(Ok(false), |value| value.as_bool().ok_or_else(|| self.wrong(name, "true or false")))
    }

    fn wrong(self, name: &str, wanted: &str) -> error::Error {
        invalid(self.role, &format!("{name} is missing, or no {wanted}"))
    }
}
