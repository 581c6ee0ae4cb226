//! The few keys of a find answer that are read, and nothing else of it: what others put beside them, however odd or large,
//! neither disturbs nor is kept.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Keys of which the values are read, in either dialect.
const KEYS: [&str; 6] =
    ["agent_version", "agent_auto_update", "agent_update_jitter_seconds", "server_edition", "edition", "fips"];
/// The key below which today's proxies have the first three.
pub(super) const NESTED: &str = "auto_update";
/// What some editors and servers put before UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A value that a key may have.
#[derive(Debug)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    Keys(Keys),
    /// An array, or an object of which no key is read.
    Other,
}

/// The known keys of one object; of the answer itself also [`NESTED`], with those of the object below it.
#[derive(Debug)]
pub(super) struct Keys(Vec<(&'static str, Value)>);

impl Keys {
    /// Reads an answer's body; `None` inside: it is JSON, but no object.
    ///
    /// Errors: it is not JSON.
    pub(super) fn read(body: &[u8]) -> serde_json::Result<Option<Self>> {
        let body = body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(body);
        let mut json = serde_json::Deserializer::from_slice(body);
        let answer = Part::Answer.deserialize(&mut json)?;
        json.end()?;
        Ok(if let Value::Keys(keys) = answer { Some(keys) } else { None })
    }

    /// The value of a known key; absent and null are the same.
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        let value = self.0.iter().find(|(name, _)| *name == key).map(|(_, value)| value);
        value.filter(|value| !matches!(value, Value::Null))
    }

    /// What is below `auto_update`.
    pub(super) fn nested(&self) -> Option<&Self> {
        if let Some(Value::Keys(keys)) = self.get(NESTED) { Some(keys) } else { None }
    }
}

/// What is read: of the answer and of what is below [`NESTED`] in it the known keys, of everything else the value alone.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Answer,
    Below,
    Value,
}

impl<'de> DeserializeSeed<'de> for Part {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Part {
    type Value = Value;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        if self == Self::Value {
            return IgnoredAny.visit_map(map).map(|_| Value::Other);
        }
        let mut found: Vec<(&str, Value)> = Vec::new();
        while let Some(key) = map.next_key_seed(Key)? {
            let Some(key) = key.filter(|key| self == Self::Answer || *key != NESTED) else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            // As everywhere in JSON, the last of a name counts.
            let value = map.next_value_seed(if key == NESTED { Self::Below } else { Self::Value })?;
            found.retain(|(known, _)| *known != key);
            found.push((key, value));
        }
        Ok(Value::Keys(Keys(found)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Value, A::Error> {
        IgnoredAny.visit_seq(seq).map(|_| Value::Other)
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value as f64))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value as f64))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Number(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }
}

/// A key by its bytes, which need not be text: `None` for one that is not known.
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Option<&'static str>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_bytes(self)
    }
}

impl Visitor<'_> for Key {
    type Value = Option<&'static str>;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a key")
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Self::Value, E> {
        Ok(KEYS.into_iter().chain([NESTED]).find(|key| key.as_bytes() == bytes))
    }
}
