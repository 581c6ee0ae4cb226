//! Editions.

use std::fmt;
use std::str::FromStr;

use crate::error::{Kind, ParseError};
use crate::serde_as_text;

/// What was built: the open-source, enterprise or FIPS edition (RFD 0169 `server_edition`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Edition {
    /// `oss`
    Oss,
    /// `enterprise`
    Enterprise,
    /// `enterprise-fips`
    EnterpriseFips,
}

impl Edition {
    /// The RFD's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Edition::Oss => "oss",
            Edition::Enterprise => "enterprise",
            Edition::EnterpriseFips => "enterprise-fips",
        }
    }

    /// The folder every entry of this edition's archive lies in, without a slash.
    pub fn archive_prefix(self) -> &'static str {
        match self {
            Edition::Oss => "teleport",
            Edition::Enterprise | Edition::EnterpriseFips => "teleport-ent",
        }
    }
}

impl FromStr for Edition {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        match text {
            "oss" | "community" => Ok(Edition::Oss),
            "enterprise" | "ent" => Ok(Edition::Enterprise),
            "enterprise-fips" => Ok(Edition::EnterpriseFips),
            _ => Err(ParseError::new(Kind::Edition, format!("unknown edition {text:?}"))
                .advise("give oss, enterprise or enterprise-fips")),
        }
    }
}

impl fmt::Display for Edition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

serde_as_text!(Edition);
