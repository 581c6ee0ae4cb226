//! SHA-256 of a file, read once.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use protocol::Digest;
use sha2::{Digest as _, Sha256};

use crate::report::{IoContext, Result};

/// Bytes read at once: large enough that system calls do not count, small enough for any host.
const CHUNK: usize = 256 * 1024;

/// The digest and size in bytes of `path`.
pub(super) fn of_file(path: &Path) -> Result<(Digest, u64)> {
    File::open(path).and_then(|mut file| copy(&mut file, &mut io::sink())).at("cannot read", path)
}

/// Copies all of `from` and tells digest and size of what passed.
pub(super) fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<(Digest, u64)> {
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
    Ok((Digest(hash.finalize().into()), size))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives its bytes one at a time, each after an interruption, and then an error.
    struct Halting(Vec<u8>, bool);

    impl Read for Halting {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            match self.0.pop() {
                None => Err(io::ErrorKind::BrokenPipe.into()),
                Some(byte) if self.1 => {
                    self.0.push(byte);
                    Err(io::ErrorKind::Interrupted.into())
                }
                Some(byte) => {
                    buffer[0] = byte;
                    Ok(1)
                }
            }
        }
    }

    #[test]
    fn an_interrupted_copy_goes_on_and_a_broken_one_is_an_error() {
        let mut to = Vec::new();
        let copied = copy(&mut Halting(b"cba".to_vec(), false), &mut to);
        assert_eq!((copied.unwrap_err().kind(), to.as_slice()), (io::ErrorKind::BrokenPipe, &b"abc"[..]));
        let (digest, size) = copy(&mut &b"abc"[..], &mut io::sink()).unwrap();
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!((digest.to_string().as_str(), size), (known, 3));
    }
}
