//! `release.yaml`: the version as a file on this host, which configuration management writes.

use std::path::Path;

use error::{Code, Error, Result};
use jiff::Timestamp;
use protocol::find::Digests;
use protocol::{Digest, Version};
use yaml::Node;
use yaml::view::{View, document};

use super::said::{Said, Word};
use super::window::{Window, Zones};

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

/// What `text`, the content of `file`, says. The time is that from which on it is old. `zone_of`: as of [`Window::parse`].
///
/// Errors: [`Code::ConfigInvalid`] with the line.
pub fn word(file: &Path, text: &[u8], zone_of: Zones<'_>) -> Result<(Word, Option<Timestamp>)> {
    let root = read(file, text)?;
    let view = View::new(file, &root);
    Ok((said(&view, zone_of)?, view.at("stale_after")?.time()?))
}

/// The floor in the same file, whatever version it names. Errors as for [`word`].
pub fn floor(file: &Path, text: &[u8]) -> Result<Option<Version>> {
    floor_of(&View::new(file, &read(file, text)?))
}

fn floor_of(view: &View<'_>) -> Result<Option<Version>> {
    view.at("min_version")?.parsed("a version")
}

fn read(file: &Path, text: &[u8]) -> Result<Node> {
    let root = document(file, text, true)?;
    if let Some((key, _)) =
        root.pairs().into_iter().flatten().find(|(key, _)| !key.as_str().is_some_and(|key| KEYS.contains(&key)))
    {
        let (name, line) = (key.as_str().unwrap_or_default(), key.line);
        let what = format!("{} line {line}: unknown key {name:?}", file.display());
        return Err(Error::new(Code::ConfigInvalid, what).advise(format!("the keys are {}", KEYS.join(", "))));
    }
    Ok(root)
}

fn said(view: &View<'_>, zone_of: Zones<'_>) -> Result<Word> {
    let version = view.at("version")?;
    if version.text()?.as_deref().map(str::trim) == Some("none") {
        return Ok(Word::Nothing("the source names no version".to_owned()));
    }
    let version: Version = version.needed("a version", version.parsed("a version")?)?;
    let length = view.at("window_length")?.window_length()?.unwrap_or(HOUR);
    let window = view.at("window")?;
    let wrong = |why| window.wrong(&format!("a calendar expression such as Tue 03:00 UTC ({why})"));
    let read = |text: String| Window::parse(&text, length, zone_of).map_err(wrong);
    let window = window.text()?.map(read).transpose()?;
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
