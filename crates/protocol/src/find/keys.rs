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
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    /// An array or an object.
    Other,
}

/// The known keys of one object, and the object below [`NESTED`] in it.
#[derive(Debug, Default)]
pub(super) struct Keys {
    found: Vec<(&'static str, Scalar)>,
    nested: Option<Box<Keys>>,
}

impl Keys {
    /// Reads an answer's body; `None` inside: it is JSON, but no object.
    ///
    /// Errors: it is not JSON.
    pub(super) fn read(body: &[u8]) -> serde_json::Result<Option<Self>> {
        let body = body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(body);
        let mut json = serde_json::Deserializer::from_slice(body);
        let keys = Object { is_top: true }.deserialize(&mut json)?;
        json.end()?;
        Ok(keys)
    }

    /// The value of a known key; absent and null are the same.
    pub(super) fn get(&self, key: &str) -> Option<&Scalar> {
        self.found.iter().rev().find(|(name, _)| *name == key).map(|(_, value)| value).filter(|it| **it != Scalar::Null)
    }

    /// What is below `auto_update`.
    pub(super) fn nested(&self) -> Option<&Self> {
        self.nested.as_deref()
    }
}

/// Reads an object's keys; anything else is `None`.
#[derive(Clone, Copy)]
struct Object {
    is_top: bool,
}

impl<'de> DeserializeSeed<'de> for Object {
    type Value = Option<Keys>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Object {
    type Value = Option<Keys>;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut keys = Keys::default();
        while let Some(key) = map.next_key_seed(Key)? {
            match key {
                Some(NESTED) if self.is_top => {
                    keys.nested = map.next_value_seed(Object { is_top: false })?.map(Box::new);
                }
                Some(key) if key != NESTED => {
                    let value = map.next_value_seed(Value)?;
                    // As everywhere in JSON, the last of a name counts.
                    keys.found.retain(|(known, _)| *known != key);
                    keys.found.push((key, value));
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(Some(keys))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
        IgnoredAny.visit_seq(seq).map(|_| None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(None)
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

/// A known key's value.
struct Value;

impl<'de> DeserializeSeed<'de> for Value {
    type Value = Scalar;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Scalar, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value {
    type Value = Scalar;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Scalar, A::Error> {
        IgnoredAny.visit_map(map).map(|_| Scalar::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Scalar, A::Error> {
        IgnoredAny.visit_seq(seq).map(|_| Scalar::Other)
    }

    fn visit_unit<E>(self) -> Result<Scalar, E> {
        Ok(Scalar::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Scalar, E> {
        Ok(Scalar::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Scalar, E> {
        Ok(Scalar::Number(value as f64))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Scalar, E> {
        Ok(Scalar::Number(value as f64))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Scalar, E> {
        Ok(Scalar::Number(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Scalar, E> {
        Ok(Scalar::Text(value.to_owned()))
    }
}
