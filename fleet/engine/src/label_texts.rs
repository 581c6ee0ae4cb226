//! The labels of one host as texts, in one piece of memory: a million hosts are read at each start.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// Keys and values of labels, in the order in which they came. In JSON a map.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LabelTexts {
    texts: String,
    /// Where each key and each value ends.
    ends: Vec<u32>,
}

impl LabelTexts {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Keys and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut from = 0;
        let mut text = move |end: u32| {
            let text = self.texts.get(from..end as usize).unwrap_or_default();
            from = end as usize;
            text
        };
        self.ends.as_chunks::<2>().0.iter().map(move |[key, value]| (text(*key), text(*value)))
    }

    fn push(&mut self, text: &str) {
        self.texts.push_str(text);
        self.ends.push(u32::try_from(self.texts.len()).unwrap_or(u32::MAX));
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for LabelTexts {
    fn from_iter<T: IntoIterator<Item = (&'a str, &'a str)>>(labels: T) -> Self {
        let mut texts = Self::default();
        for (key, value) in labels {
            texts.push(key);
            texts.push(value);
        }
        texts
    }
}

impl Serialize for LabelTexts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for LabelTexts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Labels;
        impl<'de> Visitor<'de> for Labels {
            type Value = LabelTexts;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("labels")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<LabelTexts, A::Error> {
                // Eight labels of the usual length.
                let mut texts = LabelTexts { texts: String::with_capacity(192), ends: Vec::with_capacity(16) };
                while map.next_key_seed(Next(&mut texts))?.is_some() {
                    map.next_value_seed(Next(&mut texts))?;
                }
                Ok(texts)
            }
        }
        deserializer.deserialize_map(Labels)
    }
}

/// Takes the next text.
struct Next<'a>(&'a mut LabelTexts);

impl<'de> DeserializeSeed<'de> for Next<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Next<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        self.0.push(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn they_are_written_and_read_as_a_map_is(map: BTreeMap<String, String>) {
            let json = serde_json::to_string(&map).unwrap();
            let labels: LabelTexts = serde_json::from_str(&json).unwrap();
            prop_assert_eq!(serde_json::to_string(&labels).unwrap(), json);
            prop_assert_eq!(labels.is_empty(), map.is_empty());
            prop_assert!(labels.iter().eq(map.iter().map(|(key, value)| (key.as_str(), value.as_str()))));
            let same: LabelTexts = labels.iter().collect();
            prop_assert_eq!(same, labels);
        }
    }
}
