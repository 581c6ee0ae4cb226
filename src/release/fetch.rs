//! Reads an archive once, to its last raw byte: hashes it, hands it to the unpacking thread, and goes on after a
//! dropped connection (SPEC §4, one pass).

use std::fs::File;
use std::io::{self, BufRead, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

use http_client::{Client, Request, Stream, interrupted, pause, shown};
use sha2::Digest as _;
use ureq::http::header;

use super::limits::Limits;
use super::{BaseUrl, base_url};
use crate::host::signal::Cancelled;
use crate::report::{Code, Error, IoContext, Result};
use protocol::Digest;

/// Bytes of one buffer, and how many go round between the threads: 2 MiB whatever the archive's size is.
const BUFFER: usize = 256 << 10;
const BUFFERS: usize = 8;
/// How often the unpacking thread looks whether it should stop.
const SLICE: Duration = Duration::from_millis(100);
/// Most bytes of a digest or signature file.
const MAX_SMALL: u64 = 64 << 10;

/// What the threads of one download tell each other.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) stop: AtomicBool,
    /// Raw bytes hashed.
    pub(super) received: AtomicU64,
    /// Raw bytes expected, 0 when unknown.
    pub(super) total: AtomicU64,
}

impl Shared {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// The digest of everything that arrived.
#[derive(Debug)]
pub(super) struct Fetched {
    pub(super) digest: Digest,
    pub(super) length: u64,
    /// `Content-Encoding`, never undone: kept to explain a digest that does not match.
    pub(super) encoding: Option<String>,
    /// Nothing but the end of its connection told the end of the body: it may have been cut.
    pub(super) open_ended: bool,
}

/// Where one archive and its companions are.
#[derive(Debug, Clone)]
pub(super) enum Origin {
    /// A trusted directory and the archive's name in it.
    Dir(PathBuf, String),
    /// The archive's URL.
    Url(String),
}

/// A companion file, or how its absence was told.
pub(super) enum Small {
    Found(Vec<u8>),
    Absent(String),
}

impl Origin {
    pub(super) fn new(base: &BaseUrl, name: String) -> Result<Self> {
        Ok(match base.trusted_dir()? {
            Some(dir) => Origin::Dir(dir, name),
            None => Origin::Url(base.join(&name)),
        })
    }

    /// As messages show it.
    pub(super) fn shown(&self) -> String {
        match self {
            Origin::Dir(dir, name) => dir.join(name).display().to_string(),
            Origin::Url(url) => shown(url),
        }
    }

    /// Reads the companion with this suffix; with `cut` no more than so many bytes of it.
    pub(super) fn companion(
        &self,
        client: &Client,
        suffix: &str,
        cut: Option<u64>,
        cancelled: Cancelled<'_>,
    ) -> Result<Small> {
        let told = format!("{}{suffix}", self.shown());
        match self {
            Origin::Dir(dir, name) => {
                let Some(file) = base_url::open_trusted(dir, &format!("{name}{suffix}"))? else {
                    return Ok(Small::Absent(format!("there is no {told}")));
                };
                let mut bytes = Vec::new();
                file.take(cut.unwrap_or(MAX_SMALL)).read_to_end(&mut bytes).at("cannot read", &told)?;
                Ok(Small::Found(bytes))
            }
            Origin::Url(url) => {
                let answer = client.ask(&Request { cut, ..Request::get(format!("{url}{suffix}")) }, cancelled)?;
                match answer.status {
                    200 => Ok(Small::Found(answer.body)),
                    // Object stores say 403 for what is not there.
                    401 | 403 | 404 | 410 => Ok(Small::Absent(format!("{told} answered {}", answer.status))),
                    status => Err(Error::new(Code::Network, format!("{told} answered {status}"))),
                }
            }
        }
    }

    /// The archive's size, bytes, if it can be learned quickly; `Err` with the refusal when it is not there.
    pub(super) fn size(&self, client: &Client, within: Duration, cancelled: Cancelled<'_>) -> Result<Option<u64>> {
        match self {
            Origin::Dir(dir, name) => {
                let file = base_url::open_trusted(dir, name)?
                    .ok_or_else(|| missing(&format!("there is no {}", self.shown())))?;
                Ok(Some(file.metadata().at("cannot read", dir.join(name))?.len()))
            }
            Origin::Url(url) => {
                let stream = client.open(&Request::head(url).within(Some(within)), cancelled)?;
                match stream.status {
                    // Some servers say 0 in an answer without a body.
                    200 => Ok(stream.length().filter(|length| *length > 0)),
                    404 | 410 => Err(missing(&format!("{} answered {}", self.shown(), stream.status))),
                    _ => Ok(None),
                }
            }
        }
    }

    fn open(&self, client: &Client, limits: &Limits, shared: &Arc<Shared>) -> Result<Body> {
        match self {
            Origin::Dir(dir, name) => {
                let file = base_url::open_trusted(dir, name)?
                    .ok_or_else(|| missing(&format!("there is no {}", self.shown())))?;
                let path = dir.join(name);
                shared.total.store(file.metadata().at("cannot read", &path)?.len(), Ordering::Relaxed);
                Ok(Body::File(file, path))
            }
            Origin::Url(url) => {
                let mut download = Download {
                    client: client.clone(),
                    url: url.clone(),
                    limits: limits.clone(),
                    shared: shared.clone(),
                    stream: None,
                    validator: None,
                    encoding: None,
                    total: None,
                    open_ended: false,
                    position: 0,
                    idle_resumes: 0,
                    window: Window::default(),
                };
                download.request()?;
                Ok(Body::Download(Box::new(download)))
            }
        }
    }
}

/// The refusal for an archive that is not at its place.
pub(super) fn missing(told: &str) -> Error {
    Error::new(Code::ArchiveMissing, format!("cannot download the archive: {told}"))
        .advise("check --base-url, and that the mirror has this version and edition for this architecture")
}

/// Reads the whole archive, hashing; what reads `chunks` gets the bytes, and may go away early.
pub(super) fn pump(
    origin: &Origin,
    client: &Client,
    limits: &Limits,
    shared: &Arc<Shared>,
    pipe: PipeIn,
) -> Result<Fetched> {
    let mut body = origin.open(client, limits, shared)?;
    let mut hasher = sha2::Sha256::new();
    let mut length = 0;
    let mut pipe = Some(pipe);
    let mut spare = Vec::new();
    loop {
        // Nobody reads any more: only the digest is still wanted.
        let mut buffer = match pipe.as_ref().map(|pipe| pipe.free.recv()) {
            Some(Ok(buffer)) => buffer,
            _ => {
                pipe = None;
                std::mem::take(&mut spare)
            }
        };
        buffer.resize(BUFFER, 0);
        let mut filled = 0;
        while let Some(room) = buffer.get_mut(filled..).filter(|room| !room.is_empty()) {
            if shared.is_stopped() {
                return Err(interrupted());
            }
            let count = body.read(room)?;
            if count == 0 {
                break;
            }
            filled += count;
            shared.received.fetch_add(count as u64, Ordering::Relaxed);
        }
        buffer.truncate(filled);
        hasher.update(&buffer);
        length += filled as u64;
        check_length(origin, limits, length)?;
        if filled == 0 {
            let (encoding, open_ended) = match body {
                Body::File(..) => (None, false),
                Body::Download(download) => (download.encoding, download.open_ended),
            };
            return Ok(Fetched { digest: Digest(hasher.finalize().into()), length, encoding, open_ended });
        }
        let refused = match &pipe {
            Some(open) => open.chunks.send(buffer).err().map(|refused| refused.0),
            None => Some(buffer),
        };
        if let Some(buffer) = refused {
            (spare, pipe) = (buffer, None);
        }
    }
}

/// Errors: `tuf_invalid`, `archive_invalid` where `length` bytes are too many.
fn check_length(origin: &Origin, limits: &Limits, length: u64) -> Result<()> {
    let too_long = |limit: Option<u64>| limit.filter(|limit| length > *limit);
    let (code, why, advice) = if let Some(signed) = too_long(limits.signed) {
        let why = format!("the {signed} bytes that its signers mean");
        (Code::TufInvalid, why, "the mirror has another archive under this name")
    } else if let Some(announced) = too_long(limits.announced) {
        let advice = "run the command again; if the error persists, the mirror announces a wrong size";
        (Code::ArchiveInvalid, format!("the {announced} bytes that its server announced"), advice)
    } else if length > limits.max_archive {
        (Code::ArchiveInvalid, format!("{} bytes", limits.max_archive), "check the mirror: no release is so large")
    } else {
        return Ok(());
    };
    Err(Error::new(code, format!("{} is larger than {why}", origin.shown())).advise(advice))
}

/// The hashing thread's end of the pipe.
pub(super) struct PipeIn {
    chunks: SyncSender<Vec<u8>>,
    free: Receiver<Vec<u8>>,
}

/// The unpacking thread's end of the pipe: the raw bytes as they arrive. Its end is the archive's end or a failure,
/// which the other thread reports.
pub(super) struct PipeOut {
    chunks: Receiver<Vec<u8>>,
    free: Sender<Vec<u8>>,
    current: Vec<u8>,
    position: usize,
    shared: Arc<Shared>,
}

/// A pipe with a fixed number of buffers going round.
pub(super) fn pipe(shared: &Arc<Shared>) -> (PipeIn, PipeOut) {
    let (chunks, out) = sync_channel(BUFFERS);
    let (back, free) = channel();
    for _ in 0..BUFFERS {
        // The receiver is at hand, so this cannot fail.
        let _ = back.send(Vec::new());
    }
    let out = PipeOut { chunks: out, free: back, current: Vec::new(), position: 0, shared: shared.clone() };
    (PipeIn { chunks, free }, out)
}

impl BufRead for PipeOut {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.position >= self.current.len() {
            if self.shared.is_stopped() {
                return Err(io::Error::other(interrupted()));
            }
            match self.chunks.recv_timeout(SLICE) {
                Ok(next) => {
                    let done = std::mem::replace(&mut self.current, next);
                    self.position = 0;
                    if done.capacity() > 0 {
                        // Refused when the other thread is done: then nobody needs it.
                        let _ = self.free.send(done);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        Ok(self.current.get(self.position..).unwrap_or_default())
    }

    fn consume(&mut self, amount: usize) {
        self.position += amount;
    }
}

impl Read for PipeOut {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

enum Body {
    File(File, PathBuf),
    Download(Box<Download>),
}

impl Body {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        match self {
            Body::File(file, path) => file.read(buffer).at("cannot read", path),
            Body::Download(download) => download.read(buffer),
        }
    }
}

/// A download that survives dropped connections.
struct Download {
    client: Client,
    url: String,
    limits: Limits,
    shared: Arc<Shared>,
    stream: Option<Stream>,
    /// Strong ETag or Last-Modified of the first answer.
    validator: Option<String>,
    encoding: Option<String>,
    total: Option<u64>,
    /// No answer tells where the body ends.
    open_ended: bool,
    position: u64,
    /// Connections in a row that brought nothing new.
    idle_resumes: u32,
    window: Window,
}

impl Download {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let start = Instant::now();
        let count = self.read_or_resume(buffer)?;
        if !self.window.is_fast_enough(count as u64, start.elapsed(), &self.limits) {
            let (url, least) = (shown(&self.url), self.limits.min_speed);
            let what = format!("the download of {url} is slower than {least} bytes per second");
            return Err(Error::new(Code::DownloadStalled, what).advise("check the network, or use a nearer mirror"));
        }
        Ok(count)
    }

    fn read_or_resume(&mut self, buffer: &mut [u8]) -> Result<usize> {
        loop {
            let Some(stream) = &mut self.stream else { return Ok(0) };
            let failed = match stream.body.read(buffer) {
                Ok(0) if self.total.is_none_or(|total| self.position >= total) => {
                    self.stream = None;
                    return Ok(0);
                }
                Ok(0) => io::Error::new(io::ErrorKind::UnexpectedEof, "the connection was closed early"),
                Ok(count) => {
                    self.position += count as u64;
                    self.idle_resumes = 0;
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => error,
            };
            self.idle_resumes += 1;
            if self.idle_resumes > self.limits.resumes {
                let code = if is_timeout(&failed) { Code::DownloadStalled } else { Code::Network };
                let why = http_client::redact(&failed.to_string());
                let (url, bytes) = (shown(&self.url), self.position);
                let what = format!("the download of {url} stopped after {bytes} bytes: {why}");
                return Err(Error::new(code, what).advise("check the network; the next run starts again"));
            }
            let stop = self.shared.clone();
            pause(self.limits.resume_wait, &|| stop.is_stopped())?;
            self.request()?;
        }
    }

    /// Asks for the rest from the present position on.
    fn request(&mut self) -> Result<()> {
        self.stream = None;
        let mut ask = Request::get(&self.url);
        if self.position > 0 {
            ask.headers.push(("range", format!("bytes={}-", self.position)));
            if let Some(validator) = &self.validator {
                ask.headers.push(("if-range", validator.clone()));
            }
        }
        let stop = self.shared.clone();
        let stream = self.client.open(&ask, &|| stop.is_stopped())?;
        let changed = || {
            Error::new(Code::Network, format!("{} changed while it was downloaded", shown(&self.url)))
                .advise("run the command again")
        };
        match (self.position, stream.status) {
            (0, 200) => {
                self.total = self.length(&stream);
                self.open_ended = self.total.is_none() && !stream.is_chunked();
                self.validator = validator(&stream);
                self.encoding = stream.field(header::CONTENT_ENCODING).map(str::to_owned);
                self.shared.total.store(self.total.unwrap_or(0), Ordering::Relaxed);
                self.stream = Some(stream);
                Ok(())
            }
            (0, status @ (401 | 403 | 404 | 410)) => Err(missing(&format!("{} answered {status}", shown(&self.url)))),
            (position, 206) => {
                let (start, total) = stream
                    .field(header::CONTENT_RANGE)
                    .and_then(content_range)
                    .ok_or_else(|| self.wrong_range(stream.field(header::CONTENT_RANGE)))?;
                if start != position {
                    return Err(self.wrong_range(stream.field(header::CONTENT_RANGE)));
                }
                let is_other_length = matches!((self.total, total), (Some(known), Some(told)) if known != told);
                let is_other =
                    self.validator.is_some() && validator(&stream).is_some_and(|now| Some(now) != self.validator);
                if is_other_length || is_other {
                    return Err(changed());
                }
                self.total = self.total.or(total);
                self.stream = Some(stream);
                Ok(())
            }
            (position, 200) => {
                // No ranges here: the same file is read again up to where we were.
                if validator(&stream) != self.validator || self.length(&stream) != self.total {
                    return Err(changed());
                }
                self.skip(stream, position)
            }
            // Everything was there but the connection's proper end.
            (position, 416) if stream.field(header::CONTENT_RANGE) == Some(&format!("bytes */{position}")) => {
                match self.total {
                    Some(total) if total != position => Err(changed()),
                    _ => Ok(()),
                }
            }
            (_, status) => Err(Error::new(Code::Network, format!("{} answered {status}", shown(&self.url)))),
        }
    }

    /// How long the whole body is: as the answer says, or where only the end of its connection would tell, as was announced
    /// before.
    fn length(&self, stream: &Stream) -> Option<u64> {
        stream.length().or_else(|| self.limits.announced.filter(|_| !stream.is_chunked()))
    }

    fn skip(&mut self, mut stream: Stream, bytes: u64) -> Result<()> {
        let mut buffer = vec![0; BUFFER];
        let mut left = bytes;
        while left > 0 {
            if self.shared.is_stopped() {
                return Err(interrupted());
            }
            let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let room = buffer.get_mut(..most).unwrap_or_default();
            match stream.body.read(room) {
                // The stream's end is seen again, and counted, by the next read.
                Ok(0) | Err(_) => break,
                Ok(count) => left -= count as u64,
            }
        }
        if left > 0 {
            stream.body = Box::new(Broken);
        }
        self.stream = Some(stream);
        Ok(())
    }

    fn wrong_range(&self, told: Option<&str>) -> Error {
        let (url, from, told) = (shown(&self.url), self.position, told.unwrap_or_default());
        let what = format!("{url} was asked for the bytes from {from} on, but answered with Content-Range {told:?}");
        Error::new(Code::Network, what)
            .advise("the mirror does not handle HTTP range requests correctly; use another mirror")
    }
}

/// What is left of a connection that broke while bytes were skipped.
struct Broken;

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the connection was closed early"))
    }
}

/// Bytes and seconds since the last look at the speed; time that the disk needs is not counted.
#[derive(Default)]
struct Window {
    bytes: u64,
    time: Duration,
}

impl Window {
    fn is_fast_enough(&mut self, bytes: u64, time: Duration, limits: &Limits) -> bool {
        self.bytes += bytes;
        self.time += time;
        if self.time < limits.speed_window {
            return true;
        }
        let wanted = limits.min_speed as f64 * self.time.as_secs_f64();
        let is_fast = self.bytes as f64 >= wanted;
        *self = Self::default();
        is_fast
    }
}

/// What tells two states of a file apart: a strong ETag, else Last-Modified.
fn validator(stream: &Stream) -> Option<String> {
    let etag = stream.field(header::ETAG).filter(|tag| tag.starts_with('"'));
    etag.or_else(|| stream.field(header::LAST_MODIFIED)).map(str::to_owned)
}

/// Start and total of `bytes START-END/TOTAL`.
fn content_range(text: &str) -> Option<(u64, Option<u64>)> {
    let (range, total) = text.trim().strip_prefix("bytes ")?.split_once('/')?;
    let (start, end) = range.split_once('-')?;
    let (start, end): (u64, u64) = (start.trim().parse().ok()?, end.trim().parse().ok()?);
    let total = if total == "*" { None } else { Some(total.trim().parse().ok()?) };
    (start <= end && total.is_none_or(|total| end < total)).then_some((start, total))
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
        || matches!(error.get_ref().and_then(|inner| inner.downcast_ref()), Some(ureq::Error::Timeout(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_ranges_are_read_strictly() {
        assert_eq!(content_range("bytes 5-9/10"), Some((5, Some(10))));
        assert_eq!(content_range("bytes 5-9/*"), Some((5, None)));
        for bad in ["", "bytes 9-5/10", "bytes 5-10/10", "bytes */10", "items 5-9/10", "bytes -5-9/10", "bytes 5-9"] {
            assert_eq!(content_range(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_dripping_download_is_too_slow_and_a_pause_below_the_window_is_not() {
        let limits = Limits { min_speed: 1000, speed_window: Duration::from_secs(10), ..Limits::default() };
        let mut window = Window::default();
        assert!(window.is_fast_enough(1, Duration::from_secs(9), &limits));
        assert!(window.is_fast_enough(10_000, Duration::from_secs(1), &limits));
        assert!(!window.is_fast_enough(9_999, Duration::from_secs(10), &limits));
    }
}
