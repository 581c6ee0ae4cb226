//! A mirror of archives: each with its companions, verified, whole or absent. A run that was cut short is gone on with.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use clap::Args;
use error::{Code, Error, IoContext, Result};
use http_client::{Client, Request, Stream, shown};
use jiff::Timestamp;
use protocol::{Arch, Digest, Edition, ParseError, Revision, Version};
use serde_json::Value;
use tuf::TargetFile;

use crate::check::{ask, check};
use crate::durable::{self, MODE, usage};
use crate::keys;

/// Most bytes of a companion.
const MAX_SMALL: u64 = 64 << 10;
/// Most bytes of an archive (as the agent).
const MAX_ARCHIVE: u64 = 4 << 30;
/// Bytes read at once.
const BUFFER: usize = 1 << 20;

/// What is mirrored.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
                  teleport-fleet mirror --versions 17.0.1,17.0.2 --edition enterprise --arch amd64,arm64 --to /srv/mirror\n  \
                  teleport-fleet mirror --versions 17.0.2 --edition oss --to out --tuf-root root.json --from https://mirror.example.com")]
pub struct MirrorOrder {
    /// Versions, comma-separated
    #[arg(long, value_name = "V,..", value_delimiter = ',', required = true)]
    pub versions: Vec<String>,
    /// Editions, comma-separated: oss, enterprise, enterprise-fips
    #[arg(long, value_name = "EDITION,..", value_delimiter = ',', required = true)]
    pub edition: Vec<String>,
    /// Machines, comma-separated: amd64, arm64, arm, 386
    #[arg(long, value_name = "ARCH,..", value_delimiter = ',', default_value = "amd64")]
    pub arch: Vec<String>,
    /// Directory that becomes the mirror
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
    /// Where archives are
    #[arg(long, value_name = "URL", default_value = "https://cdn.teleport.dev")]
    pub from: String,
    /// Root of the TUF repository there, whose signers must mean each archive
    #[arg(long, value_name = "FILE")]
    pub tuf_root: Option<PathBuf>,
    /// Key that must have signed each archive (P-256, PEM file)
    #[arg(long, value_name = "FILE")]
    pub public_key: Option<PathBuf>,
}

impl MirrorOrder {
    fn base(&self) -> &str {
        self.from.trim_end_matches('/')
    }
}

/// The words behind a flag. Errors: `usage` where one is none.
fn parsed<T: FromStr<Err = ParseError>>(flag: &str, words: &[String]) -> Result<Vec<T>> {
    let parsed = words.iter().map(|word| word.trim().trim_start_matches('v').parse());
    parsed.collect::<std::result::Result<_, _>>().map_err(|error| usage(format!("{flag}: {error}")))
}

/// Brings what is not there yet, and looks again at what is. `say` is told of each archive that is there, and why another is not: one
/// that fails keeps no other away.
///
/// Errors: `lock_held` where another run is at work there; those of TUF's metadata.
pub fn mirror(order: &MirrorOrder, client: &Client, now: Timestamp, say: &mut dyn FnMut(Result<String>)) -> Result<()> {
    let (versions, to) = (parsed::<Version>("--versions", &order.versions)?, &order.to);
    let (editions, archs) = (parsed::<Edition>("--edition", &order.edition)?, parsed::<Arch>("--arch", &order.arch)?);
    durable::make_dir(to)?;
    let _lock = durable::lock(File::open(to).at("cannot open", to)?, to)?;
    let mut names = Vec::new();
    for version in &versions {
        for edition in &editions {
            let revision = Revision { version: version.clone(), edition: *edition };
            names.extend(archs.iter().map(|arch| revision.archive_name(*arch)));
        }
    }
    let meant = match &order.tuf_root {
        Some(root) => check(&format!("{}/tuf/metadata", order.base()), root, client, now, &names)?.1,
        None => vec![None; names.len()],
    };
    let key = order.public_key.as_deref().map(keys::public_key).transpose()?;
    for (name, meant) in names.iter().zip(meant) {
        if order.tuf_root.is_some() && meant.is_none() {
            let what = format!("the signers of the TUF repository at {} name no {name}", order.base());
            say(Err(Error::new(Code::TufUnlisted, what)));
            continue;
        }
        say(Archive { order, client, name, key: key.as_ref(), meant: meant.as_ref() }.bring());
    }
    Ok(())
}

/// One archive that is to be there.
struct Archive<'a> {
    order: &'a MirrorOrder,
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
        format!("{}/{}{suffix}", self.order.base(), self.name)
    }

    /// A companion; `None`: it is not there.
    fn companion(&self, suffix: &str) -> Result<Option<Vec<u8>>> {
        ask(self.client, &self.url(suffix), MAX_SMALL)
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
        let mut found = self.fetched()?;
        if found != announced && resumed {
            durable::remove(&self.part())?;
            found = self.fetched()?;
        }
        if found == announced {
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
        match stream.status {
            206 => self.copy(&mut stream, &part, there)?,
            200 => self.copy(&mut stream, &part, 0)?,
            // All of it was there.
            416 if there > 0 => {}
            404 | 403 | 410 => return Err(self.missing("", "no archive")),
            status => return Err(Error::new(Code::Network, format!("{} answered {status}", shown(&request.url)))),
        }
        digest_of(&part)?.ok_or_else(|| self.missing("", "no archive"))
    }

    /// Behind the `there` bytes that are there of it.
    fn copy(&self, stream: &mut Stream, part: &Path, there: u64) -> Result<()> {
        let mut file = durable::open_to_write(part, there > 0)?;
        let most = self.meant.map_or(MAX_ARCHIVE, |meant| meant.length);
        let expected = stream.length().map(|length| there + length);
        let (mut buffer, mut length) = (vec![0; BUFFER], there);
        let broken = |how: String| {
            Error::new(Code::Network, format!("the download of {} {how}", shown(&self.url(""))))
                .advise("run the command again: it goes on from there")
        };
        loop {
            let read = stream.body.read(&mut buffer);
            let count = read.map_err(|error| broken(format!("broke after {length} bytes: {error}")))?;
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
            return Err(broken(format!("ended after {length} bytes")));
        }
        file.sync_all().at("cannot write", part)
    }
}

fn digest_of(path: &Path) -> Result<Option<Digest>> {
    Ok(durable::digest(path)?.map(|(_, digest)| digest))
}
