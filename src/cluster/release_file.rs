//! `release.yaml`: the version as a file on this host, which configuration management writes.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use protocol::find::Digests;
use protocol::{Digest, Version};

use super::said::{Said, Word};
use super::window::Window;
use crate::host::{Layout, trust};
use crate::report::{Code, Error, IoContext, Result};
use crate::yaml::Node;
use crate::yaml::view::{View, read_document};

/// Every key of the file.
const KEYS: [&str; 10] = [
    "version",
    "edition",
    "window",
    "window_length",
    "critical",
    "digest",
    "min_version",
    "not_before",
    "not_after",
    "stale_after",
];
/// How long a window is that names no length.
const HOUR: std::time::Duration = std::time::Duration::from_secs(3600);

/// Reads the file at `path`, which nobody but root (or whoever runs this) may be able to change. The time is that from which on
/// what it says is old.
///
/// Errors: `permission` where somebody else can; `config_invalid` with the line; `io`.
pub(crate) fn ask(path: &Path, layout: &Layout) -> Result<(Word, Option<Timestamp>)> {
    let (file, root) = read(path)?;
    let view = View::new(&file, &root);
    Ok((said(&view, layout)?, view.at("stale_after")?.time()?))
}

/// Reads the floor of the same file, whatever version it names. Errors as for [`ask`].
pub(crate) fn floor(path: &Path) -> Result<Option<Version>> {
    let (file, root) = read(path)?;
    floor_of(&View::new(&file, &root))
}

fn floor_of(view: &View<'_>) -> Result<Option<Version>> {
    view.at("min_version")?.parsed("a version")
}

/// The file's real path, and what is in it.
fn read(path: &Path) -> Result<(PathBuf, Node)> {
    let file = trusted(path)?;
    let Some(root) = read_document(&file, true)? else {
        return Err(Error::new(Code::Io, format!("{} has disappeared", file.display())));
    };
    if let Some((key, _)) =
        root.pairs().into_iter().flatten().find(|(key, _)| !key.as_str().is_some_and(|key| KEYS.contains(&key)))
    {
        let name = key.as_str().unwrap_or_default();
        return Err(Error::new(
            Code::ConfigInvalid,
            format!("{} line {}: unknown key {name:?}", file.display(), key.line),
        )
        .advise(format!("the keys are {}", KEYS.join(", "))));
    }
    Ok((file, root))
}

fn said(view: &View<'_>, layout: &Layout) -> Result<Word> {
    let version = view.at("version")?;
    if version.text()?.as_deref().map(str::trim) == Some("none") {
        return Ok(Word::Nothing("the source names no version".to_owned()));
    }
    let version: Version = version.needed("a version", version.parsed("a version")?)?;
    let length = view.at("window_length")?.window_length()?.unwrap_or(HOUR);
    let window = view.at("window")?;
    let window = match window.text()? {
        Some(text) => Some(
            Window::parse(&text, length, layout)
                .map_err(|why| window.wrong(&format!("a calendar expression such as Tue 03:00 UTC ({why})")))?,
        ),
        None => None,
    };
    Ok(Word::Version(Box::new(Said {
        edition: view.at("edition")?.parsed("an edition")?,
        critical: view.at("critical")?.boolean()?.unwrap_or_default(),
        window,
        digests: Digests::of_any(digest(&view.at("digest")?)?),
        floor: floor_of(view)?,
        not_before: view.at("not_before")?.time()?,
        not_after: view.at("not_after")?.time()?,
        ..Said::version(version)
    })))
}

/// In hex, perhaps behind `sha256:`.
fn digest(view: &View<'_>) -> Result<Option<Digest>> {
    let Some(text) = view.text()? else { return Ok(None) };
    let hex = text.strip_prefix("sha256:").unwrap_or(&text);
    hex.parse().map(Some).map_err(|_| view.wrong("a SHA-256 digest"))
}

/// The real path of the file, after the check that nobody else decides which one it is and what is in it.
fn trusted(path: &Path) -> Result<PathBuf> {
    let (file, stranger) =
        trust::traced(path).map_err(|error| error.during(format!("cannot read the source {}", path.display())))?;
    if let Some((other, _)) = stranger {
        let what = format!("users other than root can change {}", other.display());
        return Err(Error::new(Code::Permission, format!("the source {} is not used: {what}", path.display()))
            .advise("make root the owner, and remove write permission for group and others"));
    }
    let meta = std::fs::symlink_metadata(&file).at("cannot look at", &file)?;
    // What is read in /proc, a program writes, whose name or arguments another may have chosen.
    let is_of_proc = rustix::fs::statfs(&file).is_ok_and(|found| found.f_type == rustix::fs::PROC_SUPER_MAGIC);
    if !meta.is_file() || is_of_proc {
        return Err(Error::new(Code::ConfigInvalid, format!("{} is not a regular file", file.display())));
    }
    Ok(file)
}
