//! What an ELF file says of itself, elf(5).

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use protocol::Arch;

use crate::report::{IoContext, Result};

/// Bytes up to and including `e_machine`.
const HEAD: usize = 20;
/// `EI_CLASS` of 32 and 64 bits.
const CLASS_32: u8 = 1;
const CLASS_64: u8 = 2;
/// `EI_DATA` of the byte order that all our machines have.
const LITTLE_ENDIAN: u8 = 1;
/// The program header that names the loader.
const PT_INTERP: u64 = 3;
/// Program headers looked at; linkers write about ten.
const MAX_SEGMENTS: u64 = 64;
/// Bytes of a loader's path, the kernel's own limit (PATH_MAX).
const MAX_LOADER: u64 = 4096;

/// The head of an ELF file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Elf {
    class: u8,
    order: u8,
    /// `e_machine`.
    pub machine: u16,
}

impl Elf {
    /// Reads the first bytes of a file; `None` if it is no ELF file.
    pub(crate) fn parse(head: &[u8]) -> Option<Self> {
        match head.get(..HEAD)? {
            [0x7f, b'E', b'L', b'F', class, order, .., low, high] => {
                Some(Self { class: *class, order: *order, machine: u16::from_le_bytes([*low, *high]) })
            }
            _ => None,
        }
    }

    /// Whether it is for `arch`, by its words' size and order too.
    pub(crate) fn is_for(self, arch: Arch) -> bool {
        let class = if matches!(arch, Arch::Amd64 | Arch::Arm64) { CLASS_64 } else { CLASS_32 };
        (self.machine, self.class, self.order) == (arch.elf_machine(), class, LITTLE_ENDIAN)
    }
}

/// The first bytes of the file at `path`, for [`Elf::parse`]; fewer if it has no more.
pub(crate) fn head(path: &Path) -> io::Result<Vec<u8>> {
    let mut head = Vec::with_capacity(HEAD);
    File::open(path)?.take(HEAD as u64).read_to_end(&mut head)?;
    Ok(head)
}

/// Whether an ELF file is for this machine. Errors: `io`; taken for another machine's, it would not be checked.
pub(crate) fn runs_here(path: &Path) -> Result<bool> {
    match head(path) {
        Ok(head) => Ok(Elf::parse(&head).is_some_and(|elf| elf.machine == Arch::NATIVE.elf_machine())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).at("cannot read", path),
    }
}

/// The loader that the ELF file `program` names (`/lib64/ld-linux-x86-64.so.2`), if this host has none there. Run without
/// it the kernel says "No such file or directory", and means the loader. `None` as well for what cannot be read.
pub(crate) fn missing_loader(program: &Path) -> Option<PathBuf> {
    loader(&File::open(program).ok()?).filter(|loader| !loader.exists())
}

/// What `PT_INTERP` says; `None` for a static program.
fn loader(file: &File) -> Option<PathBuf> {
    let number = |at: u64, size: usize| {
        let mut bytes = [0; 8];
        file.read_exact_at(bytes.get_mut(..size)?, at).ok()?;
        Some(u64::from_le_bytes(bytes))
    };
    let is_64 = number(4, 1)? == u64::from(CLASS_64);
    // The size of an address, and where in the file's head and in a program header is what.
    let (word, table, size, count, offset, length) =
        if is_64 { (8, 32, 54, 56, 8, 32) } else { (4, 28, 42, 44, 4, 16) };
    let (table, size, count) = (number(table, word)?, number(size, 2)?, number(count, 2)?);
    let segment = (0..count.min(MAX_SEGMENTS))
        .map(|i| table.saturating_add(i * size))
        .find(|at| number(*at, 4) == Some(PT_INTERP))?;
    let (offset, length) = (number(segment.checked_add(offset)?, word)?, number(segment.checked_add(length)?, word)?);
    let mut path = vec![0; usize::try_from(length.min(MAX_LOADER)).ok()?];
    file.read_exact_at(&mut path, offset).ok()?;
    path.truncate(path.iter().position(|byte| *byte == 0)?);
    Some(OsString::from_vec(path).into())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::host::durable;

    /// The head of a little-endian program.
    pub(crate) fn elf(class: u8, machine: u16) -> Vec<u8> {
        let mut head = b"\x7fELF".to_vec();
        head.extend([class, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0]);
        head.extend(machine.to_le_bytes());
        head
    }

    #[test]
    fn a_program_for_another_machine_is_told_by_its_head() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("program");
        let other = if Arch::NATIVE == Arch::Amd64 { Arch::Arm64 } else { Arch::Amd64 };
        for (arch, length, expected) in [(Arch::NATIVE, 20, true), (other, 20, false), (Arch::NATIVE, 19, false)] {
            let head = elf(CLASS_64, arch.elf_machine());
            durable::write(&file, &head[..length], 0o755).unwrap();
            assert_eq!(runs_here(&file).unwrap(), expected, "{arch} {length}");
        }
        durable::write(&file, &[&[0; 18][..], &Arch::NATIVE.elf_machine().to_le_bytes()].concat(), 0o755).unwrap();
        assert!(!runs_here(&file).unwrap(), "no ELF file");
        assert!(!runs_here(&dir.path().join("none")).unwrap());
    }

    /// An ELF file with two program headers, the second of which names `loader`.
    fn dynamic(is_64: bool, loader: &str) -> Vec<u8> {
        let (word, head, segment) = if is_64 { (8, 64, 56) } else { (4, 52, 32) };
        let mut file = elf(if is_64 { 2 } else { 1 }, 62);
        file.resize(head + 2 * segment, 0);
        let text = file.len();
        let mut put = |at: usize, value: usize, size: usize| {
            file[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
        };
        let (table, size) = if is_64 { (32, 54) } else { (28, 42) };
        put(table, head, word);
        put(size, segment, 2);
        put(size + 2, 2, 2);
        put(head, 1, 4);
        put(head + segment, 3, 4);
        let (offset, length) = if is_64 { (8, 32) } else { (4, 16) };
        put(head + segment + offset, text, word);
        put(head + segment + length, loader.len() + 1, word);
        file.extend(loader.as_bytes());
        file.push(0);
        file
    }

    #[test]
    fn a_loader_that_this_host_lacks_is_named_and_nonsense_is_no_loader() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("teleport");
        let missing = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            missing_loader(&path)
        };
        for is_64 in [true, false] {
            let wanted = "/nowhere/ld-linux.so.2";
            let bytes = dynamic(is_64, wanted);
            assert_eq!(missing(&bytes).as_deref(), Some(Path::new(wanted)));
            assert_eq!(missing(&dynamic(is_64, dir.path().to_str().unwrap())), None, "it is there");
            for end in 0..bytes.len() {
                assert_eq!(missing(&bytes[..end]), None, "cut off after {end} bytes");
            }
            for at in 0..bytes.len() {
                let mut odd = bytes.clone();
                odd[at] = 0xff;
                // Whatever it says of it: no panic, and at most one path's memory.
                missing(&odd);
            }
        }
        assert_eq!(missing(&elf(2, 62)), None);
        assert_eq!(missing_loader(&dir.path().join("nowhere")), None);
    }
}
