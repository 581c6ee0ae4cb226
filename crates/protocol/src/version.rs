//! Versions.

use std::fmt;
use std::str::FromStr;

use crate::error::{Kind, ParseError};
use crate::serde_as_text;

/// A strict semantic version; a leading `v` is accepted on input and never stored (SPEC §1).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Version(#[cfg_attr(feature = "schema", schemars(with = "String"))] semver::Version);

impl Version {
    /// Whether it comes before `other` in the order of semver, in which build metadata (`+…`) has no part: of two versions
    /// that differ in it alone neither comes before the other, and yet they are two.
    pub fn precedes(&self, other: &Self) -> bool {
        self.0.cmp_precedence(&other.0).is_lt()
    }

    /// X.0.0 of a major.
    pub fn first_of(major: u64) -> Self {
        Self(semver::Version::new(major, 0, 0))
    }

    /// Whether it is a pre-release, such as 17.0.0-rc.1.
    pub fn is_prerelease(&self) -> bool {
        !self.0.pre.is_empty()
    }

    /// The first two of its numbers.
    pub fn major_minor(&self) -> [u64; 2] {
        [self.0.major, self.0.minor]
    }

    /// The first of its numbers.
    pub fn major(&self) -> u64 {
        self.0.major
    }
}

/// Longest accepted version string, bytes: with edition, architecture and ending it becomes a file name (NAME_MAX is 255).
const MAX_VERSION_LEN: usize = 128;

impl FromStr for Version {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let bare = text.strip_prefix('v').unwrap_or(text);
        let refused = || {
            let shown: String = text.chars().take(MAX_VERSION_LEN).collect();
            ParseError::new(Kind::Version, format!("{shown:?} is not a version"))
                .advise("give one like 15.1.1 or 16.0.0-rc.1")
        };
        if bare.len() > MAX_VERSION_LEN {
            return Err(refused());
        }
        semver::Version::parse(bare).map(Version).map_err(|_| refused())
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

serde_as_text!(Version);
