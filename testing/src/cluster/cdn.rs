//! Files below `/cdn/`: streamed from disk, with ranges and entity tags.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::time::UNIX_EPOCH;

use crate::cluster::reply::Reply;
use crate::cluster::request::Request;

/// How this answer differs from the plain truth.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Lies {
    pub stale: bool,
    pub ignore_range: bool,
    pub wrong_range: bool,
}

pub(crate) fn serve(directory: &Path, request: &Request, lies: Lies) -> Reply {
    let name = request.path.trim_start_matches("/cdn/");
    let file = if name.contains("..") { None } else { File::open(directory.join(name)).ok() };
    let with_facts = file.and_then(|file| file.metadata().ok().map(|facts| (file, facts)));
    let Some((file, facts)) = with_facts.filter(|(_, facts)| facts.is_file()) else {
        return Reply::text(404, "no such file\n");
    };
    if lies.stale && name.ends_with(".sha256") {
        return Reply::text(200, format!("{}  {}\n", "5a".repeat(32), name.trim_end_matches(".sha256")));
    }
    let size = facts.len();
    let changed = facts.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    let etag = format!("\"{size:x}-{:x}{}\"", changed.as_nanos(), if lies.stale { "-stale" } else { "" });
    let range = request
        .header("range")
        .filter(|_| !lies.ignore_range && request.header("if-range").is_none_or(|known| known == etag))
        .and_then(|range| parse_range(range, size));
    let (start, end) = match range {
        Some(Ok(range)) => range,
        Some(Err(())) => {
            return Reply::text(416, "").header("Content-Range", format!("bytes */{size}"));
        }
        None => (0, size),
    };
    let body = Body { file, at: start, stale: lies.stale };
    let mut reply = Reply::new(if range.is_some() { 206 } else { 200 }, "application/octet-stream", "");
    reply = reply.header("ETag", etag).header("Accept-Ranges", "bytes");
    if range.is_some() {
        let shift = u64::from(lies.wrong_range) * 7;
        reply = reply.header("Content-Range", format!("bytes {}-{}/{size}", start + shift, end - 1 + shift));
    }
    reply.offset = start;
    reply.length = end - start;
    reply.body = Box::new(body.take(end - start));
    reply
}

/// A file from an offset on. Stale = with another time stamp in its gzip header: a sound archive of another digest.
struct Body {
    file: File,
    at: u64,
    stale: bool,
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.seek(SeekFrom::Start(self.at))?;
        let length = self.file.read(buffer)?;
        if self.stale {
            for (at, byte) in (self.at..).zip(&mut buffer[..length]) {
                if (4..8).contains(&at) {
                    *byte ^= 0x5A;
                }
            }
        }
        self.at += length as u64;
        Ok(length)
    }
}

/// `bytes=A-B`, `bytes=A-` or `bytes=-N` as half-open offsets; an inner error cannot be satisfied, `None` is ignored.
fn parse_range(range: &str, size: u64) -> Option<Result<(u64, u64), ()>> {
    let (start, end) = range.strip_prefix("bytes=")?.split_once('-')?;
    let (start, end) = match (start.parse::<u64>(), end.parse::<u64>()) {
        (Ok(start), Ok(end)) => (start, end.saturating_add(1).min(size)),
        (Ok(start), Err(_)) if end.is_empty() => (start, size),
        (Err(_), Ok(last)) if start.is_empty() => (size.saturating_sub(last), size),
        _ => return None,
    };
    Some(if start < end { Ok((start, end)) } else { Err(()) })
}

#[cfg(test)]
mod tests {
    use super::parse_range;

    #[test]
    fn ranges_are_read_as_the_standard_says() {
        assert_eq!(parse_range("bytes=0-9", 100), Some(Ok((0, 10))));
        assert_eq!(parse_range("bytes=90-", 100), Some(Ok((90, 100))));
        assert_eq!(parse_range("bytes=90-500", 100), Some(Ok((90, 100))));
        assert_eq!(parse_range("bytes=-10", 100), Some(Ok((90, 100))));
        assert_eq!(parse_range("bytes=100-", 100), Some(Err(())));
        assert_eq!(parse_range("lines=1-2", 100), None);
    }
}
