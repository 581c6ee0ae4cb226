//! Reading a file whose size has a bound.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::{IfPresent, IoContext, Result};

/// Reads a whole file of at most `limit` bytes; `None` if it is not there.
///
/// Errors: `permission`, `io`; also for what is larger, or no file.
pub fn read_limited(path: &Path, limit: u64) -> Result<Option<Vec<u8>>> {
    // A pipe in its place would be waited for.
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let Some(file) = opened.if_present().at("cannot read", path)? else { return Ok(None) };
    let known = file.metadata().at("cannot read", path)?;
    if !known.is_file() {
        return Err(io::Error::other("not a regular file")).at("cannot read", path);
    }
    // Room for all of it and for seeing its end: two reads, not ten that feel their way.
    let mut bytes = Vec::with_capacity(usize::try_from(known.len().min(limit)).unwrap_or(0) + 1);
    file.take(limit + 1).read_to_end(&mut bytes).at("cannot read", path)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::other(format!("larger than {limit} bytes"))).at("cannot read", path);
    }
    Ok(Some(bytes))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "nobody keeps what tests make")]
mod tests {
    use rustix::fs::{CWD, FileType, Mode};

    use super::*;

    #[test]
    fn a_file_over_the_limit_is_an_error_and_an_absent_one_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let (path, pipe) = (dir.path().join("f"), dir.path().join("pipe"));
        assert_eq!(read_limited(&path, 3).unwrap(), None);
        std::fs::write(&path, b"1234").unwrap();
        assert!(read_limited(&path, 3).is_err());
        rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert!(read_limited(&pipe, 3).is_err());
        assert_eq!(read_limited(&path, 4).unwrap().unwrap(), b"1234");
    }
}
