//! SHA-256 of a file, read once.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::report::{IoContext, Result};

/// Bytes read at once: large enough that system calls do not count, small enough for any host.
const CHUNK: usize = 256 * 1024;

/// The digest (64 hex, lower case) and size in bytes of `path`.
pub fn of_file(path: &Path) -> Result<(String, u64)> {
    File::open(path).and_then(|mut file| copy(&mut file, &mut io::sink())).at("cannot read", path)
}

/// Copies all of `from` and tells digest and size of what passed.
pub fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<(String, u64)> {
    let mut hash = Sha256::new();
    let mut chunk = vec![0; CHUNK];
    let mut size = 0;
    loop {
        let count = match from.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hash.update(&chunk[..count]);
        to.write_all(&chunk[..count])?;
        size += count as u64;
    }
    let hex = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok((hex, size))
}
