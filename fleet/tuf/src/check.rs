//! A host's verdict on a repository, and when each of its roles ends.

use std::path::Path;

use error::{Code, Error, Result, read_limited};
use http_client::{Client, Request, shown};
use jiff::Timestamp;
use tuf::{Repository, TargetFile};

use crate::metadata::Published;

/// Most bytes of a root.
const MAX_ROOT: u64 = 128 << 10;

/// What a host would find.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// The version of the root.
    pub root: u64,
    /// The version of the targets.
    pub targets: u64,
    /// When each role ends.
    pub ends: Vec<(String, Timestamp)>,
}

/// What a host that trusts the root in `root` would find at `now` in `place`: a repository's directory, one with its metadata, or the
/// URL of such a one; and what the signers say of each of `names`.
///
/// Errors: what the host would be told; `usage` for a root that is none.
pub fn check(
    place: &str,
    root: &Path,
    client: &Client,
    now: Timestamp,
    names: &[String],
) -> Result<(Verdict, Vec<Option<TargetFile>>)> {
    let missing = || Error::new(Code::Usage, format!("{} does not exist", root.display()));
    let trusted = read_limited(root, MAX_ROOT)?.ok_or_else(missing)?;
    let below = Path::new(place).join("metadata");
    let mut host = match place.contains("://") {
        true => Published::seen_by(Box::new(|name, limit| ask(client, place, name, limit)), trusted),
        false if below.is_dir() => Published::in_dir(&below, trusted),
        false => Published::in_dir(Path::new(place), trusted),
    };
    let mut repository = Repository::refresh(&mut host, now)?;
    let trusted = repository.trusted();
    let verdict = Verdict {
        root: trusted.root_version(),
        targets: trusted.targets_version().unwrap_or_default(),
        ends: trusted.ends().map(|(role, end)| (role.to_owned(), end)).collect(),
    };
    let files = names.iter().map(|name| repository.target(name)).collect::<Result<_>>()?;
    Ok((verdict, files))
}

fn ask(client: &Client, url: &str, name: &str, limit: u64) -> Result<Option<Vec<u8>>> {
    let url = format!("{}/{name}", url.trim_end_matches('/'));
    let answer = client.ask(&Request { cut: Some(limit + 1), ..Request::get(url.as_str()) }, &|| false)?;
    match answer.status {
        200 => Ok(Some(answer.body)),
        401 | 403 | 404 | 410 => Ok(None),
        status => Err(Error::new(Code::Network, format!("{} answered {status}", shown(&url)))),
    }
}
