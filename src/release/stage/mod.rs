//! Brings one archive, checked and unpacked, into a staging directory (SPEC §4, one pass).
//!
//! Threads work side by side: one reads and hashes, one inflates and walks, and its own two write and sync. Nothing is
//! published here, and what is staged is complete and synced, or gone.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use http_client::{Client, interrupted};
use protocol::{Arch, Digest, Revision};

use super::fetch::{self, Fetched, Origin, Shared, Small};
use super::limits::Limits;
use super::tuf::{Proven, Tuf};
use super::unpack::{Rules, unpack};
use super::{BaseUrl, PublicKey, check};
use crate::host::signal::Cancelled;
use crate::host::tree::Tree;
use crate::host::{durable, sandbox};
use crate::report::{Code, Error, Result};
use crate::store::manifest::{FileEntry, Manifest};

/// How often progress is told and a signal is looked for.
const SLICE: Duration = Duration::from_millis(100);
/// Longest wait for an archive's size: an estimate is not worth more.
const SIZE_WAIT: Duration = Duration::from_secs(10);

/// Where versions come from, and what is asked of them.
pub(crate) struct Supply<'a> {
    /// Asks the servers; made only if something is to be downloaded.
    pub client: &'a Client,
    /// Where archives are.
    pub base: &'a BaseUrl,
    /// Which machine they are for.
    pub arch: Arch,
    /// With a key, the archive must be signed with it.
    pub public_key: Option<PublicKey>,
    /// The TUF repository whose signers must mean the archive.
    pub tuf: Option<Tuf>,
    /// The digest that the archive must have, whatever is announced, where the source names it.
    pub digest: Option<Digest>,
    /// The only executables wanted, beside `teleport` and an updater; all if empty.
    pub components: &'a [String],
    /// Bounds of the download.
    pub limits: Limits,
    /// A binary that has not told its version by then hangs.
    pub version_wait: Duration,
    /// Unpacked size of the active version, bytes; a first guess at the new one's.
    pub active_size: Option<u64>,
}

/// What to stage, from where, and how much of it at most.
pub(crate) struct StageRequest<'a> {
    /// From where.
    pub supply: &'a Supply<'a>,
    /// What is wanted.
    pub revision: &'a Revision,
    /// A directory that does not exist yet, on the versions' file system.
    pub staging_dir: &'a Path,
    /// What the signers of the TUF repository say of it, where one is trusted.
    pub proven: Option<Proven>,
    /// The present time, for the manifest.
    pub now: jiff::Timestamp,
    /// Bounds.
    pub limits: Limits,
}

impl Supply<'_> {
    fn wanted(&self) -> Option<Vec<String>> {
        (!self.components.is_empty()).then(|| self.components.to_vec())
    }
}

/// A staged version: complete, checked and synced, but without its marker.
#[derive(Debug)]
pub(crate) struct Staged {
    /// Its manifest, also written into it.
    pub manifest: Manifest,
    /// What of the sandbox did not hold, for the debug log.
    pub notes: Vec<String>,
}

/// Fetches, verifies and unpacks an archive into `request.staging_dir`.
///
/// `progress` is told about ten times a second how many bytes of the archive were read, and how many it has, if the server
/// told; `cancelled` is asked as often. After an error the staging directory is gone.
/// Errors: [`Code::ArchiveMissing`], [`Code::ChecksumInvalid`], [`Code::ChecksumMismatch`], [`Code::SignatureInvalid`],
/// [`Code::ArchiveInvalid`], [`Code::ArchiveHostile`], [`Code::WrongArchitecture`], [`Code::DownloadStalled`],
/// [`Code::Network`], [`Code::Interrupted`], and those of writing.
pub(crate) fn stage(
    request: &StageRequest<'_>,
    progress: &mut dyn FnMut(u64, Option<u64>),
    cancelled: Cancelled<'_>,
) -> Result<Staged> {
    let Supply { client, base, arch, .. } = *request.supply;
    base.check_scheme(client.is_insecure())?;
    let name = request.revision.archive_name(arch);
    let source_url = base.join(&name);
    let origin = Origin::new(base, name)?;
    progress(0, None);
    let announced = announced(&origin, client, cancelled)?;
    if let Some(digest) = request.supply.digest.filter(|digest| *digest != announced) {
        let what = format!("{} is announced with digest {announced}, but the source names {digest}", origin.shown());
        return Err(Error::new(Code::ChecksumMismatch, what).advise("correct the digest in the source, or the mirror"));
    }
    if let Some(proven) = &request.proven {
        proven.check_digest(&origin.shown(), announced)?;
    }
    let signature = match &request.supply.public_key {
        Some(key) => Some((key, signature(&origin, client, cancelled)?)),
        None => None,
    };
    let tree = Tree::create(request.staging_dir)?;
    let staged =
        transfer(request, &origin, announced, tree, progress, cancelled).and_then(|(fetched, (files, notes))| {
            if let Some((key, signature)) = signature {
                key.verify(fetched.digest, &signature).map_err(|error| error.during(origin.shown()))?;
            }
            if let Some(proven) = &request.proven {
                proven.check_length(&origin.shown(), fetched.length)?;
            }
            check::check_executables(&request.staging_dir.join("bin"), arch)?;
            let Revision { version, edition } = request.revision.clone();
            let digest = fetched.digest;
            let mut manifest = Manifest::new(version, edition, arch, digest, source_url, request.now, files);
            manifest.components = request.supply.wanted();
            manifest.tuf = request.proven.as_ref().map(|proven| proven.by.clone());
            manifest.write(request.staging_dir)?;
            Ok(Staged { manifest, notes })
        });
    staged.inspect_err(|_| {
        // The first error is the one to tell; what stays is swept by the next run.
        let _ = durable::remove_tree(request.staging_dir);
    })
}

/// The archive's size in bytes for an estimate; `None` when it cannot be learned.
///
/// Errors: [`Code::ArchiveMissing`] where a server says that it is not there.
pub(crate) fn archive_size(
    client: &Client,
    base: &BaseUrl,
    revision: &Revision,
    arch: Arch,
    cancelled: Cancelled<'_>,
) -> Result<Option<u64>> {
    let Some(origin) = origin(client, base, revision, arch) else { return Ok(None) };
    match origin.size(client, SIZE_WAIT, cancelled) {
        Err(error) if error.code != Code::ArchiveMissing => Ok(None),
        size => size,
    }
}

/// The digest that is announced for an archive now; `None` when it cannot be learned.
pub(crate) fn announced_digest(
    client: &Client,
    base: &BaseUrl,
    revision: &Revision,
    arch: Arch,
    cancelled: Cancelled<'_>,
) -> Option<Digest> {
    announced(&origin(client, base, revision, arch)?, client, cancelled).ok()
}

/// Where the archive is, if it may be asked for.
fn origin(client: &Client, base: &BaseUrl, revision: &Revision, arch: Arch) -> Option<Origin> {
    base.check_scheme(client.is_insecure()).ok()?;
    Origin::new(base, revision.archive_name(arch)).ok()
}

/// The announced digest. A missing one usually means that the archive itself is not there: that is told instead.
fn announced(origin: &Origin, client: &Client, cancelled: Cancelled<'_>) -> Result<Digest> {
    match origin.companion(client, ".sha256", None, cancelled)? {
        Small::Found(bytes) => {
            Digest::first_token(&bytes).map_err(|error| Error::from(error).during(format!("{}.sha256", origin.shown())))
        }
        Small::Absent(told) => match origin.size(client, SIZE_WAIT, cancelled) {
            Err(error) if matches!(error.code, Code::ArchiveMissing | Code::Interrupted) => Err(error),
            _ => Err(Error::new(Code::ChecksumInvalid, format!("there is no checksum for the archive: {told}"))
                .advise("put the .sha256 file next to the archive on the mirror")),
        },
    }
}

fn signature(origin: &Origin, client: &Client, cancelled: Cancelled<'_>) -> Result<Vec<u8>> {
    match origin.companion(client, ".sig", None, cancelled)? {
        Small::Found(bytes) => Ok(bytes),
        Small::Absent(told) => Err(Error::new(Code::SignatureInvalid, format!("the signature is missing: {told}"))
            .advise("a public key is configured, so the mirror must also have the .sig file")),
    }
}

/// The files of a version, and what of the sandbox did not hold.
type Unpacked = (Vec<FileEntry>, Vec<String>);

enum Event {
    Fetched(Result<Fetched>),
    Unpacked(Result<Unpacked>),
}

/// The one pass. The reading thread may be left behind in a read that nothing interrupts: it writes no file. The
/// unpacking one never is.
fn transfer(
    request: &StageRequest<'_>,
    origin: &Origin,
    announced: Digest,
    tree: Tree,
    progress: &mut dyn FnMut(u64, Option<u64>),
    cancelled: Cancelled<'_>,
) -> Result<(Fetched, Unpacked)> {
    let shared = Arc::new(Shared::default());
    let (pipe_in, pipe_out) = fetch::pipe(&shared);
    let (events, arrived) = channel();

    let rules = Rules {
        edition: request.revision.edition,
        components: request.supply.wanted(),
        limits: request.limits.clone(),
    };
    let sender = events.clone();
    let unpacker = start("unpack", move || {
        // Before the first byte from outside.
        let gaps = sandbox::enter(tree.handle());
        let result = unpack(pipe_out, tree, &rules);
        let _ = sender.send(Event::Unpacked(result.map(|files| (files, gaps))));
    })?;
    let unpacker = Joined { thread: Some(unpacker), shared: shared.clone() };
    let (client, limits) = (request.supply.client.clone(), request.limits.clone());
    let (counters, from) = (shared.clone(), origin.clone());
    start("fetch", move || {
        let result = fetch::pump(&from, &client, &limits, &counters, pipe_in);
        let _ = events.send(Event::Fetched(result));
    })?;

    let began = Instant::now();
    let (mut fetched, mut unpacked) = (None, None);
    let mut told = || {
        let total = shared.total.load(Ordering::Relaxed);
        progress(shared.received.load(Ordering::Relaxed), Some(total).filter(|total| *total > 0));
    };
    while fetched.is_none() || unpacked.is_none() {
        match arrived.recv_timeout(SLICE) {
            Ok(Event::Fetched(result)) => fetched = Some(result?),
            // Whose fault a bad archive is, only its digest tells; any other error is final.
            Ok(Event::Unpacked(Err(error))) if !matches!(error.code, Code::ArchiveInvalid | Code::ArchiveHostile) => {
                return Err(error);
            }
            Ok(Event::Unpacked(result)) => unpacked = Some(result),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(broke(origin)),
        }
        if cancelled() {
            return Err(interrupted());
        }
        if began.elapsed() > request.limits.run {
            let (shown, limit) = (origin.shown(), request.limits.run.as_secs());
            let what = format!("the download of {shown} took more than {limit} s");
            return Err(Error::new(Code::DownloadStalled, what).advise("check the network, or use a nearer mirror"));
        }
        told();
    }
    told();
    drop(unpacker);
    let (fetched, unpacked) = (fetched.ok_or_else(|| broke(origin))?, unpacked.ok_or_else(|| broke(origin))?);
    judged(origin, announced, fetched, unpacked)
}

/// What came of a transfer that ended: a wrong digest says more than what unpacking met.
fn judged(
    origin: &Origin,
    announced: Digest,
    fetched: Fetched,
    unpacked: Result<Unpacked>,
) -> Result<(Fetched, Unpacked)> {
    if fetched.digest != announced {
        // An archive that ends before its end, from a server that did not say where that is.
        if fetched.open_ended && unpacked.as_ref().is_err_and(|error| error.code == Code::ArchiveInvalid) {
            let (shown, length) = (origin.shown(), fetched.length);
            let what = format!(
                "the download of {shown} ended after {length} bytes, before the end of the archive; \
                 the server sent no Content-Length"
            );
            return Err(Error::new(Code::Network, what)
                .advise("run the command again; if the error persists, make the mirror send Content-Length"));
        }
        return Err(mismatch(origin, announced, &fetched));
    }
    Ok((fetched, unpacked.map_err(|error| error.during(origin.shown()))?))
}

fn broke(origin: &Origin) -> Error {
    let what = format!("internal error: the thread that downloads {} ended unexpectedly", origin.shown());
    Error::new(Code::Io, what)
}

fn mismatch(origin: &Origin, announced: Digest, fetched: &Fetched) -> Error {
    let advice = match &fetched.encoding {
        Some(encoding) if encoding != "identity" => format!(
            "the server sent the archive with Content-Encoding {encoding}; \
             configure the server to send the file unchanged"
        ),
        _ => "run the command again; if the error persists, the archive or the .sha256 file on the mirror is damaged"
            .to_owned(),
    };
    let (shown, Fetched { length, digest, .. }) = (origin.shown(), fetched);
    let what = format!("{shown} ({length} bytes) has SHA-256 {digest}, expected {announced}");
    Error::new(Code::ChecksumMismatch, what).advise(advice)
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name(name.into())
        .spawn(work)
        .map_err(|error| Error::new(Code::Io, format!("cannot start the {name} thread: {error}")))
}

/// Stops and joins the unpacking thread whichever way the pass ends, so that nobody writes into a directory that is
/// being removed.
struct Joined {
    thread: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
}

impl Drop for Joined {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
