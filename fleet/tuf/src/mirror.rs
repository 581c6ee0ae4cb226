//! A mirror of archives: each with its companions, verified, whole or absent. A run that was cut short is gone on with.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use error::{Code, Error, IoContext, Result};
use http_client::{Client, Request, Stream, shown};
use jiff::Timestamp;
use protocol::{Arch, Digest, Edition, Revision, Version};
use serde_json::Value;
use tuf::TargetFile;

use crate::check::check;
use crate::{durable, keys};

/// Most bytes of a companion.
const MAX_SMALL: u64 = 64 << 10;
/// Most bytes of an archive (as the agent).
const MAX_ARCHIVE: u64 = 4 << 30;
/// Bytes read at once.
const BUFFER: usize = 1 << 20;
/// Mode of what hosts read.
const MODE: u32 = 0o644;

/// What is mirrored.
pub struct MirrorOrder<'a> {
    /// These versions.
    pub versions: &'a [Version],
    /// Of these editions.
    pub editions: &'a [Edition],
    /// For these machines.
    pub archs: &'a [Arch],
    /// Below this URL.
    pub from: &'a str,
    /// Into this directory.
    pub to: &'a Path,
    /// The root of the TUF repository at `from`, whose signers must mean each archive.
    pub tuf_root: Option<&'a Path>,
    /// The key that must have signed each archive, PEM.
    pub public_key: Option<&'a Path>,
    /// The present time.
    pub now: Timestamp,
}

/// Brings what is not there yet, and looks again at what is. `say` is told of each archive that is there, and why another is not: one
/// that fails keeps no other away.
///
/// Errors: `lock_held` where another run is at work there; those of TUF's metadata.
pub fn mirror(order: &MirrorOrder<'_>, client: &Client, say: &mut dyn FnMut(Result<String>)) -> Result<()> {
    durable::make_dir(order.to)?;
    let _lock = durable::lock(File::open(order.to).at("cannot open", order.to)?, order.to)?;
    let mut names = Vec::new();
    for (version, edition) in
        order.versions.iter().flat_map(|version| order.editions.iter().map(move |it| (version, it)))
    {
        let revision = Revision { version: version.clone(), edition: *edition };
        names.extend(order.archs.iter().map(|arch| revision.archive_name(*arch)));
    }
    let meant = match order.tuf_root {
        Some(root) => check(&format!("{}/tuf/metadata", order.from), root, client, order.now, &names)?.1,
        None => vec![None; names.len()],
    };
    let key = order.public_key.map(keys::public_key).transpose()?;
    for (name, meant) in names.iter().zip(meant) {
        if order.tuf_root.is_some() && meant.is_none() {
            let what = format!("the signers of the TUF repository at {} name no {name}", order.from);
            say(Err(Error::new(Code::TufUnlisted, what)));
            continue;
        }
        say(Archive { order, client, name, key: key.as_ref(), meant: meant.as_ref() }.bring());
    }
    Ok(())
}

/// One archive that is to be there.
struct Archive<'a> {
    order: &'a MirrorOrder<'a>,
    client: &'a Client,
    name: &'a str,
    key: Option<&'a Value>,
    meant: Option<&'a TargetFile>,
}

impl Archive<'_> {
    fn path(&self, suffix: &str) -> PathBuf {
        self.order.to.join(format!("{}{suffix}", self.name))
    }

    fn bring(&self) -> Result<String> {
        let checksum = self.companion(".sha256")?.ok_or_else(|| self.missing(".sha256", "no digest"))?;
        let announced = Digest::first_token(&checksum).map_err(Error::from).map_err(|error| error.during(self.name))?;
        // Without a key it is brought all the same: hosts may have one.
        let signature = self.companion(".sig")?;
        if self.key.is_some() && signature.is_none() {
            return Err(Error { code: Code::SignatureInvalid, ..self.missing(".sig", "no signature") });
        }
        if self.meant.is_some_and(|meant| meant.sha256() != Some(announced.0)) {
            let what = format!("{} is announced with digest {announced}, and its signers mean another one", self.name);
            return Err(Error::new(Code::TufMismatch, what).advise("do not use this mirror"));
        }
        let is_there = digest_of(&self.path(""))? == Some(announced);
        if !is_there {
            self.download(announced)?;
        }
        let (whole, part) = (self.path(""), self.part());
        let checked = self.verify(signature.as_deref(), if is_there { &whole } else { &part });
        if let Err(error) = checked {
            durable::remove(&self.part())?;
            return Err(error);
        }
        if !is_there {
            // What stood there goes with its digest first: at no time is an archive beside another one's.
            durable::remove(&self.path(".sha256"))?;
            durable::rename(&self.part(), &whole)?;
        }
        if let Some(signature) = &signature {
            durable::write(&self.path(".sig"), signature, MODE)?;
        }
        durable::write(&self.path(".sha256"), &checksum, MODE)?;
        Ok(format!("{}: {}", self.name, if is_there { "is there, verified" } else { "downloaded, verified" }))
    }

    fn part(&self) -> PathBuf {
        self.order.to.join(format!(".{}.part", self.name))
    }

    fn url(&self, suffix: &str) -> String {
        format!("{}/{}{suffix}", self.order.from, self.name)
    }

    /// A companion; `None`: it is not there.
    fn companion(&self, suffix: &str) -> Result<Option<Vec<u8>>> {
        let request = Request { cut: Some(MAX_SMALL), ..Request::get(self.url(suffix)) };
        let answer = self.client.ask(&request, &|| false)?;
        match answer.status {
            200 => Ok(Some(answer.body)),
            // Object stores say 403 for what is not there.
            401 | 403 | 404 | 410 => Ok(None),
            status => Err(Error::new(Code::Network, format!("{} answered {status}", shown(&request.url)))),
        }
    }

    fn missing(&self, suffix: &str, what: &str) -> Error {
        Error::new(Code::ArchiveMissing, format!("there is {what} at {}", shown(&self.url(suffix))))
            .advise("check --from, and that it has this version, edition and machine")
    }

    /// Errors: `signature_invalid`, `tuf_mismatch`.
    fn verify(&self, signature: Option<&[u8]>, file: &Path) -> Result<()> {
        let length = std::fs::metadata(file).at("cannot read", file)?.len();
        if self.meant.is_some_and(|meant| meant.length != length) {
            let what = format!("{} has {length} bytes, and its signers mean another length", self.name);
            return Err(Error::new(Code::TufMismatch, what));
        }
        let (Some(key), Some(signature)) = (self.key, signature) else { return Ok(()) };
        let invalid = |what: &str| Error::new(Code::SignatureInvalid, format!("{}: {what}", self.name));
        let text: Vec<u8> = signature.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
        let signature = BASE64_STANDARD.decode(text).map_err(|_| invalid("the signature is no base64"))?;
        let bytes = std::fs::read(file).at("cannot read", file)?;
        let is_good = tuf::verifies(key, &bytes, &signature);
        if is_good { Ok(()) } else { Err(invalid("the signature is not that of the archive and this key")) }
    }

    /// Goes on with what is there of it; where that was of another archive, once anew.
    fn download(&self, announced: Digest) -> Result<()> {
        let resumed = std::fs::metadata(self.part()).is_ok_and(|part| part.len() > 0);
        let found = self.fetched()?;
        if found == announced {
            return Ok(());
        }
        durable::remove(&self.part())?;
        if resumed && self.fetched()? == announced {
            return Ok(());
        }
        durable::remove(&self.part())?;
        let what = format!("{} has SHA-256 {found}, expected {announced}", shown(&self.url("")));
        Err(Error::new(Code::ChecksumMismatch, what).advise("run the command again; else the source is damaged"))
    }

    /// The digest of the archive, behind what is there of it.
    fn fetched(&self) -> Result<Digest> {
        let part = self.part();
        let there = std::fs::metadata(&part).map_or(0, |part| part.len());
        let mut request = Request::get(self.url(""));
        if there > 0 {
            request.headers.push(("range", format!("bytes={there}-")));
        }
        let mut stream = self.client.open(&request, &|| false)?;
        let is_rest = match stream.status {
            206 => true,
            200 => false,
            // All of it was there.
            416 if there > 0 => return digest_of(&part)?.ok_or_else(|| self.missing("", "no archive")),
            404 | 403 | 410 => return Err(self.missing("", "no archive")),
            status => return Err(Error::new(Code::Network, format!("{} answered {status}", shown(&request.url)))),
        };
        let mut file = durable::open_to_write(&part, is_rest)?;
        self.copy(&mut stream, &mut file, &part, if is_rest { there } else { 0 })?;
        file.sync_all().at("cannot write", &part)?;
        digest_of(&part)?.ok_or_else(|| self.missing("", "no archive"))
    }

    fn copy(&self, stream: &mut Stream, file: &mut File, part: &Path, there: u64) -> Result<()> {
        let most = self.meant.map_or(MAX_ARCHIVE, |meant| meant.length);
        let expected = stream.length().map(|length| there + length);
        let (mut buffer, mut length) = (vec![0; BUFFER], there);
        loop {
            let count = stream.body.read(&mut buffer).map_err(|error| {
                let what = format!("the download of {} broke after {length} bytes: {error}", shown(&self.url("")));
                Error::new(Code::Network, what).advise("run the command again: it goes on from there")
            })?;
            if count == 0 {
                break;
            }
            length += count as u64;
            if length > most {
                durable::remove(part)?;
                let what = format!("{} is larger than {most} bytes", shown(&self.url("")));
                return Err(Error::new(Code::ArchiveInvalid, what));
            }
            file.write_all(&buffer[..count]).at("cannot write", part)?;
        }
        if expected.is_some_and(|expected| expected != length) {
            let what = format!("the download of {} ended after {length} bytes", shown(&self.url("")));
            return Err(Error::new(Code::Network, what).advise("run the command again: it goes on from there"));
        }
        Ok(())
    }
}

fn digest_of(path: &Path) -> Result<Option<Digest>> {
    Ok(durable::digest(path)?.map(|(_, digest)| digest))
}
