//! Releases of a few kilobytes: thousands of images are made of them, copied and hashed.

use crate::cluster::archive::Archive;

/// An `oss` release whose binaries only say their version.
pub fn small(version: &str) -> Archive {
    with_small_programs(Archive::new(version, "oss", "amd64"), "Teleport")
}

/// An `enterprise` one.
pub fn small_enterprise(version: &str) -> Archive {
    with_small_programs(Archive::new(version, "enterprise", "amd64"), "Teleport Enterprise")
}

/// `name`: what its agent calls itself.
fn with_small_programs(archive: Archive, name: &str) -> Archive {
    let program = if cfg!(target_arch = "x86_64") {
        saying(&format!("{name} v{}\n", archive.version()))
    } else {
        crate::cluster::agent_program().to_vec()
    };
    archive.agent(&program, "healthy", 1)
}

/// A program of a page that prints `text`: write(1, text, length); exit(0).
fn saying(text: &str) -> Vec<u8> {
    const BASE: u64 = 0x40_0000;
    const CODE_AT: u64 = 64 + 56;
    let mut code = vec![0xb8, 1, 0, 0, 0, 0xbf, 1, 0, 0, 0, 0x48, 0x8d, 0x35, 16, 0, 0, 0, 0xba];
    code.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
    code.extend([0x0f, 0x05, 0xb8, 60, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05]);
    code.extend(text.bytes());
    let size = CODE_AT + code.len() as u64;
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0\x01\0\0\0".to_vec();
    for word in [BASE + CODE_AT, 64, 0] {
        elf.extend(word.to_le_bytes());
    }
    elf.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    elf.extend([1, 0, 0, 0, 5, 0, 0, 0]);
    for word in [0, BASE, BASE, size, size, 0x1000] {
        elf.extend(word.to_le_bytes());
    }
    elf.extend(code);
    elf
}
