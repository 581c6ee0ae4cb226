//! Drafts and plans: what becomes a `version-directive` (DIRECTIVES §3).

use jiff::Timestamp;
use serde::Serialize;

use super::directive::{Directive, directive};
use super::fields::ResourceFields;
use super::reader::ResourceReader;
use super::selector::words;
use super::version_control::is_draft_name;

/// A draft.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// Who wrote it.
    pub author: String,
    /// When.
    pub time: Timestamp,
    /// What it would be.
    pub directive: Directive,
}

/// A plan: a draft that does not change any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DirectivePlan {
    /// The draft that it was made of; empty: a file.
    pub draft: String,
    /// Who made it.
    pub author: String,
    /// When.
    pub time: Timestamp,
    /// Until when it can be applied.
    pub expires: Timestamp,
    /// The nonce that was active then.
    pub for_nonce: u32,
    /// The digest of what it would be.
    pub digest: String,
    /// Who approved it: names.
    pub approved: Vec<String>,
    /// Who denied it, and why; empty: nobody did.
    pub denied: String,
    /// When a dry run was begun; `None`: none was.
    pub dry_run: Option<Timestamp>,
    /// It was applied.
    pub applied: bool,
    /// What it would be; written as its source has it.
    #[serde(skip)]
    pub directive: Directive,
}

/// The name of a draft or a controller's draft: `KIND/NAME`.
pub(super) fn draft_name(reader: &ResourceReader<'_>) -> Option<String> {
    reader.text_that("a draft's name, KIND/NAME of letters, digits, `.`, `_` and `-`", is_draft_name)
}

/// Reads `spec` of a draft.
pub(super) fn draft(fields: &ResourceFields<'_>) -> Option<Draft> {
    let directive = directive(&fields.fields("directive")?);
    Some(Draft { author: fields.value("author"), time: fields.get("time")?, directive })
}

/// Reads `spec` of a plan.
pub(super) fn plan(fields: &ResourceFields<'_>) -> Option<DirectivePlan> {
    Some(DirectivePlan {
        draft: fields.value("draft"),
        author: fields.value("author"),
        time: fields.get("time")?,
        expires: fields.get("expires")?,
        for_nonce: fields.value("for_nonce"),
        digest: fields.value("digest"),
        approved: words(fields, "approved", "a name"),
        denied: fields.value("denied"),
        dry_run: fields.get("dry_run"),
        applied: fields.value("applied"),
        directive: directive(&fields.fields("directive")?),
    })
}
