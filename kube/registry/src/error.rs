//! Why there is no answer, so that a caller can tell what passes from what does not.

use std::fmt;

/// What kind of failure it is; its text is the code of `status` and of reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegistryCode {
    /// `image_absent`: the registry has no such image, or not all of it. It may come.
    ImageAbsent,
    /// `registry_unreachable`: no answer, or one that says "later" (429, 5xx). It may pass.
    RegistryUnreachable,
    /// `registry_denied`: the registry wants other credentials. Many say this of a repository that is not there.
    RegistryDenied,
    /// `registry_answer`: an answer that is no use: other bytes than were asked for, too many, not JSON, a bad redirect.
    RegistryAnswer,
    /// `signature`: no signature by one of the keys, or not with the required annotations.
    Signature,
    /// `config_invalid`: a file of the operator cannot be used.
    ConfigInvalid,
}

impl RegistryCode {
    /// The code's text.
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

impl fmt::Display for RegistryCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One line with what, where and what to do. What a registry said stands in it quoted and shortened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryError {
    /// The kind.
    pub code: RegistryCode,
    /// What happened, and where.
    pub what: String,
    /// What to do, where we know it.
    pub advice: Option<&'static str>,
}

impl RegistryError {
    /// Without advice.
    pub fn new(code: RegistryCode, what: impl Into<String>) -> Self {
        Self { code, what: what.into(), advice: None }
    }

    pub(crate) fn answer(what: impl Into<String>) -> Self {
        Self::new(RegistryCode::RegistryAnswer, what)
    }

    pub(crate) fn config(what: impl Into<String>, advice: &'static str) -> Self {
        Self::new(RegistryCode::ConfigInvalid, what).advise(advice)
    }

    /// With what to do.
    #[must_use]
    pub fn advise(self, advice: &'static str) -> Self {
        Self { advice: Some(advice), ..self }
    }
}

impl fmt::Display for RegistryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        self.advice.map_or(Ok(()), |advice| write!(f, "; {advice}"))
    }
}

impl std::error::Error for RegistryError {}

/// Longest text of others that a line shows, characters.
const MAX_QUOTED: usize = 100;

/// What somebody else said, as a line may show it: shortened, and with nothing that a terminal obeys.
pub(crate) fn quoted(text: &str) -> String {
    format!("{:?}", text.chars().take(MAX_QUOTED).collect::<String>())
}
