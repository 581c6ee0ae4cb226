//! Architectures.

use std::fmt;
use std::str::FromStr;

use crate::error::{Kind, ParseError};
use crate::serde_as_text;

/// A machine's name in archive names (Go's GOARCH).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        [Arch::Amd64, Arch::Arm64, Arch::Arm, Arch::I386].into_iter().find(|arch| arch.as_str() == text).ok_or_else(
            || {
                ParseError::new(Kind::Arch, format!("unknown architecture {text:?}"))
                    .advise("give amd64, arm64, arm or 386")
            },
        )
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

serde_as_text!(Arch);
