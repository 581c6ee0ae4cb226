//! What is checked in staging before anything is published (SPEC §4). Running the binary is the caller's part.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use super::place::AGENT;
use super::{Arch, Version};
use crate::report::{Code, Error, IoContext, Result};

/// Bytes up to and including `e_machine`.
const ELF_HEAD: usize = 20;

/// Checks that every executable in `bin_dir` is for `arch`. Scripts are fine, but not as `teleport`.
///
/// Errors: [`Code::WrongArchitecture`], [`Code::ArchiveInvalid`] for what is no program at all.
pub fn check_executables(bin_dir: &Path, arch: Arch) -> Result<()> {
    for entry in std::fs::read_dir(bin_dir).at("cannot read", bin_dir)? {
        let path = entry.at("cannot read", bin_dir)?.path();
        let mut head = Vec::with_capacity(ELF_HEAD);
        File::open(&path)
            .and_then(|file| file.take(ELF_HEAD as u64).read_to_end(&mut head))
            .at("cannot read", &path)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        check_head(&name, &head, arch)?;
    }
    Ok(())
}

/// The pure part: the first bytes of the executable `name`.
fn check_head(name: &str, head: &[u8], arch: Arch) -> Result<()> {
    if head.starts_with(b"#!") && name != AGENT {
        return Ok(());
    }
    let no_program = || Error::new(Code::ArchiveInvalid, format!("bin/{name} of the archive is not a program"));
    let (Some(b"\x7fELF"), Some(class), Some(order)) = (head.get(..4), head.get(4), head.get(5)) else {
        return Err(no_program());
    };
    let Some(&[low, high]) = head.get(18..ELF_HEAD) else { return Err(no_program()) };
    let is_64 = matches!(arch, Arch::Amd64 | Arch::Arm64);
    let machine = u16::from_le_bytes([low, high]);
    if machine == arch.elf_machine() && *class == (if is_64 { 2 } else { 1 }) && *order == 1 {
        return Ok(());
    }
    let found = Arch::from_elf_machine(machine).map_or_else(|| format!("machine {machine}"), |arch| arch.to_string());
    Err(Error::new(
        Code::WrongArchitecture,
        format!("bin/{name} of the archive is for {found}, this machine is {arch}"),
    )
    .advise("check that the mirror serves the right archive under this name"))
}

/// Checks what `teleport version` printed: `Teleport v15.1.1 git:…` or `Teleport Enterprise v15.1.1 git:…`.
///
/// Errors: [`Code::VersionMismatch`].
pub fn check_version_output(stdout: &str, wanted: &Version) -> Result<()> {
    let line = stdout.lines().find(|line| line.starts_with("Teleport ")).unwrap_or_default();
    let printed = line
        .split_whitespace()
        .find(|word| word.strip_prefix('v').is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit())));
    match printed.map(str::parse::<Version>) {
        Some(Ok(version)) if version == *wanted => Ok(()),
        Some(Ok(version)) => Err(Error::new(
            Code::VersionMismatch,
            format!("the unpacked teleport says that it is {version}, wanted is {wanted}"),
        )
        .advise("check that the mirror serves the right archive under this name")),
        _ => {
            let start: String = stdout.trim().chars().take(60).collect();
            Err(Error::new(Code::VersionMismatch, format!("the unpacked teleport printed no version but {start:?}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elf(class: u8, machine: u16) -> Vec<u8> {
        let mut head = b"\x7fELF".to_vec();
        head.extend([class, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0]);
        head.extend(machine.to_le_bytes());
        head
    }

    #[test]
    fn executables_are_for_this_machine_or_scripts() {
        let amd64 = elf(2, 62);
        check_head("teleport", &amd64, Arch::Amd64).unwrap();
        check_head("teleport", &elf(1, 40), Arch::Arm).unwrap();
        check_head("helper", b"#!/bin/sh\n", Arch::Arm64).unwrap();
        let error = check_head("teleport", &amd64, Arch::Arm64).unwrap_err();
        assert_eq!(error.code, Code::WrongArchitecture);
        assert!(error.what.contains("amd64") && error.what.contains("arm64"));
        assert_eq!(check_head("tsh", &elf(1, 62), Arch::Amd64).unwrap_err().code, Code::WrongArchitecture);
        for head in [&b"#!/bin/sh\n"[..], b"", b"\x7fELF", &amd64[..19]] {
            assert_eq!(check_head("teleport", head, Arch::Amd64).unwrap_err().code, Code::ArchiveInvalid);
        }
    }

    #[test]
    fn the_printed_version_must_be_the_wanted_one() {
        let wanted: Version = "15.1.1".parse().unwrap();
        for good in [
            "Teleport v15.1.1 git:v15.1.1-0-gabc go1.22\n",
            "Teleport Enterprise v15.1.1 git:v15.1.1-0-gabc go1.22",
            "warning: something\nTeleport v15.1.1\nProxy version: 14.0.0",
        ] {
            check_version_output(good, &wanted).unwrap();
        }
        for bad in ["", "Teleport", "Teleport v15.1.10 git:", "Teleport v15.1.1-rc.1", "tsh v15.1.1", "Teleport vX"] {
            assert_eq!(check_version_output(bad, &wanted).unwrap_err().code, Code::VersionMismatch, "{bad:?}");
        }
    }
}
