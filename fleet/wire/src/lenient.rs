//! What a newer server may write with a word that this program does not know.

use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

/// A value of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(with = "T")]
pub enum Lenient<T> {
    /// This program knows it.
    Known(T),
    /// Only a newer server does.
    Newer(Value),
}

impl<T> Lenient<T> {
    /// What this program knows.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Newer(_) => None,
        }
    }
}

impl<T> Default for Lenient<T> {
    fn default() -> Self {
        Self::Newer(Value::Object(Map::new()))
    }
}

impl<T> From<T> for Lenient<T> {
    fn from(value: T) -> Self {
        Self::Known(value)
    }
}

/// A value as the server writes it; a word without its quotes.
pub fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        other => other.unwrap_or_default().to_string(),
    }
}

/// A whole number, also as other writers of JSON spell it: `3.0`.
///
/// # Errors
/// It has a fraction, or is none of the type's.
pub(crate) fn whole<'de, D: Deserializer<'de>, T: TryFrom<u64>>(number: D) -> Result<Option<T>, D::Error> {
    let Some(number) = Option::<f64>::deserialize(number)? else { return Ok(None) };
    let whole = Some(number).filter(|number| number.fract() == 0.0 && *number >= 0.0).map(|number| number as u64);
    let whole = whole.and_then(|whole| T::try_from(whole).ok());
    whole.map(Some).ok_or_else(|| D::Error::custom(format!("{number} is not a whole number that is expected here")))
}
