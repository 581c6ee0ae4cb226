//! Versions, editions, architectures, and the names made of them. Shared with programs that are not the agent updater.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::report::{Code, Error, Result};

/// A strict semantic version; a leading `v` is accepted on input and never stored (SPEC §1).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(semver::Version);

impl Version {
    /// Whether it comes before `other` in the order of semver, in which build metadata (`+…`) has no part: of two versions
    /// that differ in it alone neither comes before the other, and yet they are two.
    pub fn precedes(&self, other: &Self) -> bool {
        self.0.cmp_precedence(&other.0).is_lt()
    }

    /// True when only the major, minor or patch number separates two versions by a whole major.
    pub fn major(&self) -> u64 {
        self.0.major
    }
}

/// Longest accepted version string, bytes: it becomes part of a file name (NAME_MAX is 255).
const MAX_VERSION_LEN: usize = 64;

impl FromStr for Version {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bare = text.strip_prefix('v').unwrap_or(text);
        let refused = || {
            let shown: String = text.chars().take(MAX_VERSION_LEN).collect();
            Error::new(Code::VersionInvalid, format!("{shown:?} is not a version"))
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
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "oss" | "community" => Ok(Edition::Oss),
            "enterprise" | "ent" => Ok(Edition::Enterprise),
            "enterprise-fips" => Ok(Edition::EnterpriseFips),
            _ => Err(Error::new(Code::EditionUnknown, format!("unknown edition {text:?}"))
                .advise("known are oss, enterprise and enterprise-fips")),
        }
    }
}

impl fmt::Display for Edition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A machine's name in archive names (Go's GOARCH).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arch {
    /// x86_64
    Amd64,
    /// aarch64
    Arm64,
    /// 32-bit ARM
    Arm,
    /// 32-bit x86
    I386,
}

impl Arch {
    /// The architecture this program was built for.
    pub const NATIVE: Arch = if cfg!(target_arch = "x86_64") {
        Arch::Amd64
    } else if cfg!(target_arch = "aarch64") {
        Arch::Arm64
    } else if cfg!(target_arch = "arm") {
        Arch::Arm
    } else {
        Arch::I386
    };

    /// The name in archive names.
    pub fn as_str(self) -> &'static str {
        match self {
            Arch::Amd64 => "amd64",
            Arch::Arm64 => "arm64",
            Arch::Arm => "arm",
            Arch::I386 => "386",
        }
    }

    /// ELF `e_machine` of this architecture's executables.
    pub fn elf_machine(self) -> u16 {
        match self {
            Arch::I386 => 3,
            Arch::Arm => 40,
            Arch::Amd64 => 62,
            Arch::Arm64 => 183,
        }
    }

    /// The architecture with this ELF `e_machine`, if Teleport is built for it.
    pub fn from_elf_machine(machine: u16) -> Option<Self> {
        [Arch::I386, Arch::Arm, Arch::Amd64, Arch::Arm64].into_iter().find(|arch| arch.elf_machine() == machine)
    }
}

impl FromStr for Arch {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        [Arch::Amd64, Arch::Arm64, Arch::Arm, Arch::I386].into_iter().find(|arch| arch.as_str() == text).ok_or_else(
            || {
                Error::new(Code::WrongArchitecture, format!("unknown architecture {text:?}"))
                    .advise("known are amd64, arm64, arm and 386")
            },
        )
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One installable thing: a version in an edition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Revision {
    /// The version.
    pub version: Version,
    /// The edition.
    pub edition: Edition,
}

impl Revision {
    /// The archive's file name (SPEC §4).
    pub fn archive_name(&self, arch: Arch) -> String {
        let ent = if self.edition == Edition::Oss { "" } else { "-ent" };
        let fips = if self.edition == Edition::EnterpriseFips { "-fips" } else { "" };
        format!("teleport{ent}-v{}-linux-{}{fips}-bin.tar.gz", self.version, arch.as_str())
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.version, self.edition)
    }
}

macro_rules! serde_as_text {
    ($($name:ty),+) => {$(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )+};
}
serde_as_text!(Version, Edition, Arch, super::Digest);
