//! A host's verdict on a repository, and when each of its roles ends.

use std::path::Path;

use error::{Code, Error, Result, read_limited};
use http_client::{Client, Request, shown};
use jiff::Timestamp;
use tuf::{Place, Repository, TargetFile};

use crate::metadata::{Published, asked_name};

/// Most bytes of a root.
const MAX_ROOT: u64 = 128 << 10;

/// When a role's metadata ends.
#[derive(Debug, Clone)]
pub struct RoleEnd {
    /// The role.
    pub role: String,
    /// When.
    pub end: Timestamp,
}

/// What a host would find.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// The version of the root.
    pub root: u64,
    /// The version of the targets.
    pub targets: u64,
    /// Of each role.
    pub ends: Vec<RoleEnd>,
}

/// What is behind a URL, as a host that keeps nothing finds it.
struct Remote<'a> {
    url: &'a str,
    client: &'a Client,
    host: Published,
}

impl Place for Remote<'_> {
    fn kept(&mut self, role: &str) -> Result<Option<Vec<u8>>> {
        self.host.kept(role)
    }

    fn keep(&mut self, role: &str, bytes: &[u8]) -> Result<()> {
        self.host.keep(role, bytes)
    }

    fn forget(&mut self, role: &str) -> Result<()> {
        self.host.forget(role)
    }

    fn fetch(&mut self, role: &str, version: Option<u64>, limit: u64) -> Result<Option<Vec<u8>>> {
        let name = asked_name(role, version);
        let request = Request { cut: Some(limit + 1), ..Request::get(format!("{}/{name}", self.url)) };
        let answer = self.client.ask(&request, &|| false)?;
        match answer.status {
            200 => Ok(Some(answer.body)),
            401 | 403 | 404 | 410 => Ok(None),
            status => Err(Error::new(Code::Network, format!("{} answered {status}", shown(&request.url)))),
        }
    }

    fn warn(&mut self, _: &Error) {}
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
    if place.contains("://") {
        let url = place.trim_end_matches('/');
        let mut remote = Remote { url, client, host: Published::seen_by(Path::new(""), trusted) };
        return look(&mut remote, now, names);
    }
    let dir = Path::new(place);
    let below = dir.join("metadata");
    look(&mut Published::seen_by(if below.is_dir() { &below } else { dir }, trusted), now, names)
}

fn look(place: &mut dyn Place, now: Timestamp, names: &[String]) -> Result<(Verdict, Vec<Option<TargetFile>>)> {
    let mut repository = Repository::refresh(place, now)?;
    let trusted = repository.trusted();
    let verdict = Verdict {
        root: trusted.root_version(),
        targets: trusted.targets_version().unwrap_or_default(),
        ends: trusted.ends().map(|(role, end)| RoleEnd { role: role.to_owned(), end }).collect(),
    };
    let files = names.iter().map(|name| repository.target(name)).collect::<Result<_>>()?;
    Ok((verdict, files))
}
