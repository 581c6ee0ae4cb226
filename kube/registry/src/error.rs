//! Why there is no answer, so that a caller can tell what passes from what does not.

use std::fmt;

/// What kind of failure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegistryCode {
    /// The registry has no such image, or not all of it. It may come.
    ImageAbsent,
    /// No answer, or one that says "later" (429, 5xx). It may pass.
    RegistryUnreachable,
    /// The registry wants other credentials. Many say this of a repository that is not there.
    RegistryDenied,
    /// An answer that is no use: other bytes than were asked for, too many, no manifest, a bad redirect.
    RegistryAnswer,
    /// No signature by one of the keys, or not with the required annotations.
    Signature,
    /// Something that the operator wrote cannot be used.
    ConfigInvalid,
}

impl RegistryCode {
    /// The code as `status` and reports have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ImageAbsent => "image_absent",
            Self::RegistryUnreachable => "registry_unreachable",
            Self::RegistryDenied => "registry_denied",
            Self::RegistryAnswer => "registry_answer",
            Self::Signature => "signature",
            Self::ConfigInvalid => "config_invalid",
        }
    }
}

/// One line with what, where and what to do. What a registry said stands in it quoted and shortened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryError {
    /// The kind.
    pub code: RegistryCode,
    /// What happened, and where.
    pub what: String,
    /// What to do.
    pub advice: &'static str,
}

impl RegistryError {
    /// `advice`: what a person can do.
    pub fn new(code: RegistryCode, what: impl Into<String>, advice: &'static str) -> Self {
        Self { code, what: what.into(), advice }
    }

    /// No whole answer: one line, without secrets.
    pub fn unreachable(what: impl Into<String>) -> Self {
        Self::new(RegistryCode::RegistryUnreachable, what, "it is asked again later")
    }

    /// The body of `url` has more bytes than were allowed, or no end.
    pub fn too_large(url: &str) -> Self {
        Self::answer(url.split('?').next().unwrap_or_default(), "it sent too many bytes")
    }

    /// An answer about `what` (an image, an address) is no use.
    pub(crate) fn answer(of: impl fmt::Display, what: impl fmt::Display) -> Self {
        Self::new(RegistryCode::RegistryAnswer, format!("{of}: {what}"), "check the registry, and what is before it")
    }
}

impl fmt::Display for RegistryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.what, self.advice)
    }
}

impl std::error::Error for RegistryError {}

/// Longest text of others that a line shows, characters.
const MAX_QUOTED: usize = 100;

/// What somebody else said, as a line may show it: shortened, and with nothing that a terminal obeys.
pub(crate) fn quoted(text: &str) -> String {
    format!("{:?}", text.chars().take(MAX_QUOTED).collect::<String>())
}
