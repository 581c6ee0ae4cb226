//! The limit of an update, alone and optimised: it cannot be done faster than its archive is inflated, nor than its
//! files are written. A program of its own, because it is built as the delivered one is and shares nothing with it.
#![allow(clippy::disallowed_methods, reason = "these files are measured, not kept")]

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use flate2::read::GzDecoder;

const USAGE: &str = "usage: test-limit inflate ARCHIVE | test-limit write DIR SIZE..";

/// Bytes read or written at a time: more makes neither faster.
const CHUNK: usize = 1 << 20;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["inflate", archive] => inflate(Path::new(archive)),
        ["write", dir, sizes @ ..] => write(Path::new(dir), sizes),
        _ => Err(io::Error::other(USAGE)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("test-limit: {error}");
            ExitCode::FAILURE
        }
    }
}

/// From the page cache to nowhere, the checksum of gzip included.
fn inflate(archive: &Path) -> io::Result<()> {
    let mut inflated = GzDecoder::new(io::BufReader::with_capacity(CHUNK, File::open(archive)?));
    let mut chunk = vec![0; CHUNK];
    while inflated.read(&mut chunk)? > 0 {}
    Ok(())
}

/// Files of these sizes, one after the other, each synced, and the file system at the end.
fn write(dir: &Path, sizes: &[&str]) -> io::Result<()> {
    // No zeros: storage below may know them.
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let chunk: Vec<u8> = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    })
    .take(CHUNK / size_of::<u64>())
    .flatten()
    .collect();
    for (number, size) in sizes.iter().enumerate() {
        let mut left: usize = size.parse().map_err(io::Error::other)?;
        let mut file = File::create(dir.join(number.to_string()))?;
        while left > 0 {
            let part = left.min(CHUNK);
            file.write_all(&chunk[..part])?;
            left -= part;
        }
        file.sync_all()?;
    }
    rustix::fs::syncfs(File::open(dir)?)?;
    Ok(())
}
