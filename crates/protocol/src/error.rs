//! Why a text is not what it should be.

use std::fmt;

/// A text that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// What it should have been.
    pub kind: Kind,
    /// The text, and what is wrong with it; no full stop.
    pub what: String,
    /// What would be right.
    pub advice: Option<&'static str>,
}

/// What a text should have been.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A version.
    Version,
    /// An edition.
    Edition,
    /// An architecture.
    Arch,
    /// A SHA-256 digest.
    Digest,
    /// An answer to find.
    Answer,
    /// An installer.
    Installer,
}

impl ParseError {
    pub(crate) fn new(kind: Kind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into(), advice: None }
    }

    pub(crate) fn advise(self, advice: &'static str) -> Self {
        Self { advice: Some(advice), ..self }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        self.advice.map_or(Ok(()), |advice| write!(f, "; {advice}"))
    }
}

impl std::error::Error for ParseError {}
