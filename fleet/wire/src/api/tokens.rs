//! `GET /v1/fleet/tokens`: a list of [`Token`]. `POST /v1/fleet/tokens` with [`NewToken`]: [`MadeToken`]. `DELETE
//! /v1/fleet/tokens/NAME?id=UUID`: `{}`. All of them need the role admin.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::lenient::{Lenient, whole, word};

/// What somebody may do; each may do what those before it may. Only a controller and operators write drafts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A program: write its one draft, list drafts and hosts.
    Controller,
    /// Look.
    Viewer,
    /// Change what the fleet does.
    Operator,
    /// Change what others may do.
    Admin,
}

impl Role {
    /// All of them, the least first.
    pub const ALL: [Self; 4] = [Self::Controller, Self::Viewer, Self::Operator, Self::Admin];

    /// The role of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.to_string() == name)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&word(self))
    }
}

/// A token, without its secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Token {
    /// Its name.
    pub name: String,
    /// What it may do.
    pub role: Lenient<Role>,
    /// When it was made.
    pub created: Timestamp,
    /// When it ends; null: never.
    pub expires: Option<Timestamp>,
}

/// A token to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// Made by the caller. Sent twice, one token is made: the second is refused, as the secret is shown once.
    #[schemars(extend("format" = "uuid"))]
    pub id: String,
    /// Its name: letters, digits, `.`, `_` and `-`; unique.
    #[schemars(regex(pattern = r"^[A-Za-z0-9._-]{1,64}$"))]
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// When it ends; null: never.
    pub expires: Option<Timestamp>,
}

/// A join token, without its secret: hosts enrol with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JoinToken {
    /// Its name.
    pub name: String,
    /// When it was made.
    pub created: Timestamp,
    /// When it ends; null: never.
    pub expires: Option<Timestamp>,
    /// How many hosts may still enrol with it; null: any number.
    pub uses: Option<u64>,
    /// The group of hosts that enrol with it, whatever they declare; null: their own.
    pub group: Option<String>,
    /// Labels of theirs, whatever they say of these.
    pub labels: BTreeMap<String, String>,
}

/// A join token to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewJoinToken {
    /// Made by the caller, as that of a token.
    #[schemars(extend("format" = "uuid"))]
    pub id: String,
    /// Its name: letters, digits, `.`, `_` and `-`; unique.
    #[schemars(regex(pattern = r"^[A-Za-z0-9._-]{1,64}$"))]
    pub name: String,
    /// When it ends; null: never.
    pub expires: Option<Timestamp>,
    /// How many hosts may enrol with it; null: any number.
    #[serde(default, deserialize_with = "whole")]
    #[schemars(range(min = 1, max = protocol::report::MAX_NUMBER))]
    pub uses: Option<u64>,
    /// The group of hosts that enrol with it, whatever they declare; null: their own.
    pub group: Option<String>,
    /// Labels of theirs, whatever they say of these.
    #[serde(default)]
    #[schemars(extend("maxProperties" = protocol::report::MAX_LABELS))]
    pub labels: BTreeMap<String, String>,
}

/// A token that was made. It is shown this once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Made{T}")]
pub struct MadeToken<T = Token> {
    /// What is kept of it.
    #[serde(flatten)]
    pub token: T,
    /// Its secret.
    pub secret: String,
}

/// What a removal of a token takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenRemoval {
    /// Made by the caller; sent twice, the removal is made once.
    #[schemars(extend("format" = "uuid"))]
    pub id: String,
}
