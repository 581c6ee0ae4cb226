//! A TUF repository: what this host keeps of it, and how it is asked (DIRECTIVES §5).

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use http_client::Client;
use jiff::Timestamp;
use protocol::Digest;
use serde::{Deserialize, Serialize};
use tuf::{Place, Repository, file_name};

use super::BaseUrl;
use super::fetch::{Origin, Small};
use crate::host::durable;
use crate::host::lock::Download;
use crate::host::signal::Cancelled;
use crate::report::{Code, Error, Result};
use crate::store::manifest::TufProof;

/// What is kept of the repository, in the versions directory. Names of delegated roles are none of the four: one folder holds all.
pub(crate) const DIR: &str = ".tuf";
/// The same for a root that is given and not committed yet.
const NEXT: &str = ".tuf-next";
/// Which root what is kept began with, and what the last look found.
const STATE: &str = "state";
/// Most bytes of that file.
const MAX_STATE: u64 = 4096;
/// Longest wait for another run's look: some questions' time.
const LOCK_WAIT: Duration = Duration::from_secs(60);
/// No clock is right that is before the program: its metadata could have any age.
const MADE: &str = "2026-11-01T00:00:00Z";
/// Most bytes of a kept file: no role's metadata is larger.
const MAX_KEPT: u64 = 1 << 20;

/// The files of one repository: verified ones in a directory of this host, new ones below a URL.
pub struct Metadata<'a> {
    /// Where `root.json` and the others are kept.
    pub dir: &'a Path,
    /// Where they are asked for.
    pub url: &'a BaseUrl,
    /// How.
    pub look: &'a Look<'a>,
}

/// One look at a repository.
pub struct Look<'a> {
    /// Asks.
    pub client: &'a Client,
    /// The one time by which everything is judged.
    pub now: Timestamp,
    /// Whether to stop.
    pub cancelled: Cancelled<'a>,
    /// Is told what was damaged.
    pub warn: &'a dyn Fn(&str),
}

impl Metadata<'_> {
    fn file(&self, role: &str) -> PathBuf {
        self.dir.join(file_name(role, None))
    }
}

impl Place for Metadata<'_> {
    fn kept(&mut self, role: &str) -> Result<Option<Vec<u8>>> {
        durable::read_limited(&self.file(role), MAX_KEPT)
    }

    fn keep(&mut self, role: &str, bytes: &[u8]) -> Result<()> {
        durable::write(&self.file(role), bytes, durable::FILE_MODE)
    }

    fn forget(&mut self, role: &str) -> Result<()> {
        // Whatever stands there.
        durable::remove_tree(&self.file(role))
    }

    fn fetch(&mut self, name: &str, limit: u64) -> Result<Option<Vec<u8>>> {
        let origin = Origin::new(self.url, name.to_owned())?;
        let (begun, client) = (Instant::now(), self.look.client);
        match origin.companion(client, "", Some(limit + 1), self.look.cancelled) {
            Ok(Small::Found(bytes)) => Ok(Some(bytes)),
            Ok(Small::Absent(_)) => Ok(None),
            // It came by drops.
            Err(error) if error.code == Code::Network && begun.elapsed() >= client.longest_question() => {
                Err(Error { code: Code::DownloadStalled, ..error })
            }
            Err(error) => Err(error),
        }
    }

    fn warn(&mut self, error: &Error) {
        (self.look.warn)(&error.to_string());
    }
}

/// The repository that the settings trust.
pub(crate) struct Tuf {
    /// Its root as it was given.
    pub root: String,
    /// Where its metadata is.
    pub url: BaseUrl,
    /// Below which what is verified is kept.
    pub versions: PathBuf,
    /// The settings on the disk trust it already.
    pub is_committed: bool,
    /// The directory of locks.
    pub lock: PathBuf,
}

/// What the signers say of an archive.
#[derive(Debug, Clone)]
pub(crate) struct Proven {
    /// Bytes.
    pub length: u64,
    sha256: Digest,
    /// By which metadata.
    pub by: TufProof,
}

/// What the last look found: `status.tuf`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TufStatus {
    /// The version of the root.
    pub root: Option<u64>,
    /// The version of the targets.
    pub targets: Option<u64>,
    /// When the first of the four roles ends.
    pub expires: Option<Timestamp>,
    /// When it was last verified.
    pub checked: Option<Timestamp>,
}

#[derive(Serialize, Deserialize)]
struct State {
    trust: Digest,
    #[serde(flatten)]
    status: TufStatus,
}

impl State {
    fn read(dir: &Path) -> Option<Self> {
        // What cannot be read is damaged, like what cannot be understood.
        let bytes = durable::read_limited(&dir.join(STATE), MAX_STATE).unwrap_or_default();
        bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok())
    }

    fn write(&self, dir: &Path) -> Result<()> {
        let bytes = serde_json::to_vec(self).unwrap_or_default();
        durable::write(&dir.join(STATE), &bytes, durable::FILE_MODE)
    }
}

/// Keeps nothing of any repository. Errors: those of writing.
pub(crate) fn forget(versions: &Path) -> Result<()> {
    [DIR, NEXT].iter().try_for_each(|name| durable::remove_tree(&versions.join(name)))
}

/// The same, waiting for a run that keeps something now. Errors: those of locking and writing.
pub(crate) fn forget_under_lock(versions: &Path, lock: &Path, cancelled: Cancelled<'_>) -> Result<()> {
    if [DIR, NEXT].iter().all(|name| !versions.join(name).exists()) {
        return Ok(());
    }
    let _lock = locked(lock, cancelled)?;
    forget(versions)
}

/// Two runs do not change what is kept at the same time: the later could keep what is older. Errors: `lock_held`, `interrupted`.
fn locked(lock: &Path, cancelled: Cancelled<'_>) -> Result<Download> {
    loop {
        if let Some(lock) = Download::begin(lock, DIR, LOCK_WAIT, cancelled)? {
            return Ok(lock);
        }
    }
}

/// Removes what runs left that died while they kept something, where no other run is at it. Errors: those of removing.
pub(crate) fn sweep(versions: &Path, lock: &Path) -> Result<()> {
    let dirs = [DIR, NEXT].map(|name| versions.join(name));
    if !dirs.iter().any(|dir| dir.exists()) {
        return Ok(());
    }
    // Whoever holds it keeps something now.
    let Ok(Some(_lock)) = Download::begin(lock, DIR, Duration::ZERO, &|| false) else { return Ok(()) };
    dirs.iter().try_for_each(|dir| durable::sweep_temps(dir))
}

/// What the last look at the repository of this root found.
pub(crate) fn status(versions: &Path, root: &str) -> TufStatus {
    let state = State::read(&versions.join(DIR)).filter(|state| state.trust == Digest::of(root.as_bytes()));
    state.map(|state| state.status).unwrap_or_default()
}

impl Tuf {
    fn trust(&self) -> Digest {
        Digest::of(self.root.as_bytes())
    }

    fn dir(&self) -> PathBuf {
        self.versions.join(if self.is_committed { DIR } else { NEXT })
    }

    fn is_ours(&self, dir: &Path) -> bool {
        State::read(dir).is_some_and(|state| state.trust == self.trust())
    }

    /// After the root was given by hand: what is kept begins with it, also where it is damaged. Errors: those of locking and writing.
    pub(crate) fn settle(&self, cancelled: Cancelled<'_>) -> Result<()> {
        // Where nothing was ever installed there is no lock either.
        if !durable::is_dir(&self.versions)? {
            return Ok(());
        }
        let _lock = locked(&self.lock, cancelled)?;
        let root = durable::read_limited(&self.dir().join("root.json"), MAX_KEPT).ok().flatten();
        if root.is_none_or(|root| tuf::TrustedSet::new(&root, Timestamp::UNIX_EPOCH).is_err()) {
            durable::remove_tree(&self.dir())?;
        }
        self.begin(&|_| ())
    }

    /// Sees to it that what is kept began with the root that is trusted; `warn` is told where that ends what was known before.
    ///
    /// Errors: those of writing.
    fn begin(&self, warn: &dyn Fn(&str)) -> Result<()> {
        let (dir, next) = (self.dir(), self.versions.join(NEXT));
        if self.is_ours(&dir) {
            return if self.is_committed { durable::remove_tree(&next) } else { Ok(()) };
        }
        if self.is_committed && self.is_ours(&next) {
            durable::remove_tree(&dir)?;
            return durable::rename(&next, &dir);
        }
        if self.is_committed {
            // `enable` has made it.
            warn(&format!(
                "{} is missing, damaged or of another root: protection against an older state of the TUF repository begins anew",
                dir.display()
            ));
        }
        durable::remove_tree(&dir)?;
        durable::create_dir_all(&dir)?;
        durable::write(&dir.join("root.json"), self.root.as_bytes(), durable::FILE_MODE)?;
        // Last: without it nothing else counts, and a run that ends before it is followed by one that begins anew.
        State { trust: self.trust(), status: TufStatus::default() }.write(&dir)
    }

    /// Verifies the repository's present state, keeps it, and lets `work` look into it.
    ///
    /// Errors: `tuf_clock`, `tuf_state`, `tuf_expired`, `tuf_invalid`, `tuf_rollback`, `lock_held`; those of asking and writing.
    pub(crate) fn verified<T>(
        &self,
        look: &Look<'_>,
        work: impl FnOnce(&mut Repository<'_>) -> Result<T>,
    ) -> Result<T> {
        let now = look.now;
        if MADE.parse().is_ok_and(|made: Timestamp| now < made) {
            let what = format!("this clock says {now}, which is before this program was made ({MADE})");
            return Err(Error::new(Code::TufClock, what).advise("correct the clock: the age of TUF metadata counts"));
        }
        self.url.check_scheme(look.client.is_insecure())?;
        let _lock = locked(&self.lock, look.cancelled)?;
        self.begin(look.warn)?;
        let dir = &self.dir();
        let mut place = Metadata { dir, url: &self.url, look };
        let during = |error: Error| error.during(&self.url);
        let mut repository = Repository::refresh(&mut place, now).map_err(during)?;
        let trusted = repository.trusted();
        let status = TufStatus {
            root: Some(trusted.root_version()),
            targets: trusted.targets_version(),
            expires: trusted.ends().map(|(_, end)| end).min(),
            checked: Some(now),
        };
        State { trust: self.trust(), status }.write(dir)?;
        work(&mut repository)
    }

    /// What the signers say of the archive `name`.
    ///
    /// Errors: `tuf_unlisted`; as [`Tuf::verified`].
    pub(crate) fn proven(&self, look: &Look<'_>, name: &str) -> Result<Proven> {
        self.verified(look, |repository| {
            let file = repository.target(name)?.ok_or_else(|| unlisted(&self.url, name))?;
            let sha256 = file.sha256().map(Digest).ok_or_else(|| {
                Error::new(Code::TufInvalid, format!("{}: {name} has no SHA-256 digest there", self.url))
            })?;
            let (root, targets) = (repository.trusted().root_version(), repository.trusted().targets_version());
            let by = TufProof { trust: self.trust(), root, targets: targets.unwrap_or_default() };
            Ok(Proven { length: file.length, sha256, by })
        })
    }

    /// Whether a version on the disk was verified with this trust when it was downloaded.
    pub(crate) fn has_proven(&self, proof: Option<&TufProof>) -> bool {
        proof.is_some_and(|proof| proof.trust == self.trust())
    }
}

/// What is said of a name that the signers do not name.
pub(crate) fn unlisted(url: &BaseUrl, name: &str) -> Error {
    Error::new(Code::TufUnlisted, format!("the signers of the TUF repository {url} name no {name}"))
        .advise("if this version is wanted, its signers must add it (teleport-fleet tuf add)")
}

impl Proven {
    /// Errors: `tuf_mismatch` where `digest` is of another archive; `shown`: which one.
    pub(crate) fn check_digest(&self, shown: &str, digest: Digest) -> Result<()> {
        if digest == self.sha256 {
            return Ok(());
        }
        let what = format!("{shown} has digest {digest}, but its signers mean {}", self.sha256);
        Err(Error::new(Code::TufMismatch, what).advise("do not install this archive; check the mirror"))
    }

    /// Errors: `tuf_mismatch` where an archive of `length` bytes is another one.
    pub(crate) fn check_length(&self, shown: &str, length: u64) -> Result<()> {
        if length == self.length {
            return Ok(());
        }
        let what = format!("{shown} has {length} bytes, but its signers mean {}", self.length);
        Err(Error::new(Code::TufMismatch, what))
    }
}
