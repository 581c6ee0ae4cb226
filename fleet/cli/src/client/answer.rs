//! An answer, for programs and for people.

use std::ops::Deref;

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// What the server said: programs get it as it came, with what only a newer server knows.
#[derive(Debug)]
pub(crate) struct Answer<T> {
    /// As it came.
    pub(crate) said: Value,
    /// What this program knows of it.
    pub(crate) read: T,
}

/// A page of a list.
#[derive(Debug, Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
pub(crate) struct AnswerPage<T> {
    /// What is on it.
    #[serde(alias = "hosts", alias = "entries")]
    pub(crate) items: Vec<Answer<T>>,
    /// There are more after the last one.
    pub(crate) more: bool,
    /// How many there are in all, of hosts; 0: the server does not say.
    #[serde(default)]
    pub(crate) count: u64,
}

impl<T> Deref for Answer<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.read
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Answer<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let said = Value::deserialize(from)?;
        let read = T::deserialize(&said).map_err(D::Error::custom)?;
        Ok(Self { said, read })
    }
}

impl<T> Serialize for Answer<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.said.serialize(to)
    }
}
