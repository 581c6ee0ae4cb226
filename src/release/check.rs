//! What is checked in staging before anything is published (SPEC §4). Running the binary is the caller's part.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use crate::host::elf::{self, Elf};
use crate::report::{Code, Error, IoContext, Result};
use crate::store::contents::AGENT;
use protocol::{Arch, Edition, Revision, Version};

/// How Go's build information names its FIPS module.
const FIPS_MODULE: &[u8] = b"build\tGOFIPS140=v";
/// Bytes of a program looked at together.
const WINDOW: usize = 1 << 20;
/// What to do about another archive than the one that is meant.
const ANOTHER: &str = "check that the mirror serves the right archive under this name";

/// Checks that every executable in `bin_dir` is for `arch`. Scripts are fine, but not as `teleport`.
///
/// Errors: [`Code::WrongArchitecture`], [`Code::ArchiveInvalid`] for what is no program at all.
pub(crate) fn check_executables(bin_dir: &Path, arch: Arch) -> Result<()> {
    for entry in std::fs::read_dir(bin_dir).at("cannot read", bin_dir)? {
        let path = entry.at("cannot read", bin_dir)?.path();
        let head = elf::head(&path).at("cannot read", &path)?;
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
    let no_program = || Error::new(Code::ArchiveInvalid, format!("bin/{name} of the archive is not an ELF executable"));
    let found = Elf::parse(head).ok_or_else(no_program)?;
    if found.is_for(arch) {
        return Ok(());
    }
    let machine = found.machine;
    let found = Arch::from_elf_machine(machine).map_or_else(|| format!("machine {machine}"), |arch| arch.to_string());
    let what = format!("bin/{name} of the archive is for {found}, this machine is {arch}");
    Err(Error::new(Code::WrongArchitecture, what).advise(ANOTHER))
}

/// What `teleport version` printed, if it is that.
pub(crate) fn told(stdout: &str) -> Option<Revision> {
    let line = stdout.lines().find(|line| line.starts_with("Teleport "))?;
    let edition = match (line.contains(" Enterprise "), line.contains("boringcrypto")) {
        (_, true) => Edition::EnterpriseFips,
        (true, false) => Edition::Enterprise,
        (false, false) => Edition::Oss,
    };
    Some(Revision { version: printed(line)?.parse().ok()?, edition })
}

/// The word of `line` that looks like a version.
fn printed(line: &str) -> Option<&str> {
    line.split_whitespace()
        .find(|word| word.strip_prefix('v').is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit())))
}

/// Checks what `teleport version` printed: `Teleport v15.1.1 git:…` or `Teleport Enterprise v15.1.1 git:…`.
///
/// Errors: [`Code::VersionMismatch`].
pub(crate) fn check_version_output(stdout: &str, wanted: &Version) -> Result<()> {
    let line = stdout.lines().find(|line| line.starts_with("Teleport ")).unwrap_or_default();
    match printed(line).map(str::parse::<Version>) {
        Some(Ok(version)) if version == *wanted => Ok(()),
        Some(Ok(version)) => {
            let what = format!("the unpacked teleport reports version {version}, expected {wanted}");
            Err(Error::new(Code::VersionMismatch, what).advise(ANOTHER))
        }
        _ => {
            let start: String = stdout.trim().chars().take(60).collect();
            let what = format!("the unpacked teleport printed {start:?} instead of a version");
            Err(Error::new(Code::VersionMismatch, what))
        }
    }
}

/// Checks what `teleport version` printed for the `edition` of the program in `file`: `Teleport Enterprise v…` for both
/// enterprise editions and for no other; for FIPS, and for no other, `X:boringcrypto` behind Go's version, or what a build
/// with Go's own FIPS module leaves in the program.
///
/// Errors: [`Code::VersionMismatch`], those of reading.
pub(crate) fn check_edition_output(stdout: &str, edition: Edition, file: &Path) -> Result<()> {
    let found = match told(stdout).map_or(Edition::Oss, |revision| revision.edition) {
        Edition::Enterprise
            if edition == Edition::EnterpriseFips && has_fips_module(file).at("cannot read", file)? =>
        {
            edition
        }
        found => found,
    };
    if found == edition {
        return Ok(());
    }
    Err(Error::new(Code::VersionMismatch, format!("the unpacked teleport has edition {found}, expected {edition}"))
        .advise(ANOTHER))
}

/// Whether Go's build information in a program names its FIPS module (from Go 1.24 on the version does not).
fn has_fips_module(file: &Path) -> io::Result<bool> {
    let mut file = File::open(file)?;
    let mut window = Vec::with_capacity(WINDOW + FIPS_MODULE.len());
    loop {
        let kept = window.len().saturating_sub(FIPS_MODULE.len() - 1);
        window.drain(..kept);
        if file.by_ref().take(WINDOW as u64).read_to_end(&mut window)? == 0 {
            return Ok(false);
        }
        if window.windows(FIPS_MODULE.len()).any(|bytes| bytes == FIPS_MODULE) {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::elf::tests::elf;

    #[test]
    fn the_edition_is_what_the_program_says() {
        use Edition::{Enterprise, EnterpriseFips, Oss};
        let dir = tempfile::tempdir().unwrap();
        let (plain, module) = (dir.path().join("plain"), dir.path().join("module"));
        let mut bytes = vec![b'x'; WINDOW - 5];
        crate::host::durable::write(&plain, &bytes, 0o755).unwrap();
        bytes.extend(b"build\tGOFIPS140=v1.0.0\nand more");
        crate::host::durable::write(&module, &bytes, 0o755).unwrap();
        let oss = "Teleport v15.1.1 git:v15.1.1-0-gabc go1.22\n";
        let ent = "Teleport Enterprise v15.1.1 git:v15.1.1-0-gabc go1.22\nProxy version: 1";
        let fips = "Teleport Enterprise v15.1.1 git:v15.1.1-0-gabc go1.22 X:boringcrypto\n";
        for (printed, file, is) in [
            (oss, &plain, Oss),
            (oss, &module, Oss),
            (ent, &plain, Enterprise),
            (fips, &plain, EnterpriseFips),
            (fips, &module, EnterpriseFips),
        ] {
            for wanted in [Oss, Enterprise, EnterpriseFips] {
                let found = check_edition_output(printed, wanted, file).map_err(|error| error.code);
                assert_eq!(found, if is == wanted { Ok(()) } else { Err(Code::VersionMismatch) }, "{printed} {wanted}");
            }
        }
        // By the version alone this is plain enterprise; only who wants FIPS asks the program.
        check_edition_output(ent, EnterpriseFips, &module).unwrap();
        check_edition_output(ent, Enterprise, &module).unwrap();
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
