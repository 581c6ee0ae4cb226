//! A host's verdict on a repository, and when each of its roles ends.

use std::collections::BTreeMap;
use std::path::Path;

use error::{Code, Error, Result, read_limited};
use http_client::{Client, Request, shown};
use jiff::Timestamp;
use serde_json::Value;
use tuf::{Place, ROOT, Repository, TIMESTAMP, TargetFile};

use crate::metadata::read;

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
    let mut host = match place.trim_end_matches('/') {
        url if url.contains("://") => {
            Visitor::new(Box::new(move |name, limit| ask(client, &format!("{url}/{name}"), limit + 1)), trusted)
        }
        _ if below.is_dir() => Visitor::in_dir(&below, trusted),
        _ => Visitor::in_dir(Path::new(place), trusted),
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

/// All files that the signers name whose repository's metadata is at `url`, what they say beside each, and when the timestamp ends.
pub type Listed = (BTreeMap<String, (TargetFile, Value)>, Timestamp);

/// What the signers of the repository at `url` list at `now`, of whom `root` is trusted.
///
/// Errors: those of a host.
pub fn listed(url: &str, root: &str, client: &Client, now: Timestamp) -> Result<Listed> {
    let url = url.trim_end_matches('/');
    let source = move |name: &str, limit: u64| ask(client, &format!("{url}/{name}"), limit + 1);
    let mut host = Visitor::new(Box::new(source), root.as_bytes().to_owned());
    let mut repository = Repository::refresh(&mut host, now)?;
    let files = repository.listed()?;
    let end = repository.trusted().ends().find(|(role, _)| *role == TIMESTAMP).map(|(_, end)| end);
    Ok((files, end.unwrap_or(now)))
}

/// What is at `url`, of at most `cut` bytes; `None`: nothing. Errors: those of asking.
pub(crate) fn ask(client: &Client, url: &str, cut: u64) -> Result<Option<Vec<u8>>> {
    let answer = client.ask(&Request { cut: Some(cut), ..Request::get(url) }, &|| false)?;
    match answer.status {
        200 => Ok(Some(answer.body)),
        // Object stores say 403 for what is not there.
        401 | 403 | 404 | 410 => Ok(None),
        status => Err(Error::new(Code::Network, format!("{} answered {status}", shown(url)))),
    }
}

/// Gives the file of a name; `None`: there is none.
type FileSource<'a> = Box<dyn Fn(&str, u64) -> Result<Option<Vec<u8>>> + 'a>;

/// A host that looks at what is published, and at what would be beside it.
pub(crate) struct Visitor<'a> {
    source: FileSource<'a>,
    /// Not published yet, by names.
    pub(crate) new: BTreeMap<String, Vec<u8>>,
    kept: BTreeMap<String, Vec<u8>>,
}

impl<'a> Visitor<'a> {
    /// It trusts `root`.
    fn new(source: FileSource<'a>, root: Vec<u8>) -> Self {
        Self { source, new: BTreeMap::new(), kept: BTreeMap::from([(ROOT.to_owned(), root)]) }
    }

    /// The same, of a directory.
    pub(crate) fn in_dir(dir: &'a Path, root: Vec<u8>) -> Self {
        Self::new(Box::new(|name, _| read(dir, name)), root)
    }
}

impl Place for Visitor<'_> {
    fn kept(&mut self, role: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.kept.get(role).cloned())
    }

    fn keep(&mut self, role: &str, bytes: &[u8]) -> Result<()> {
        self.kept.insert(role.to_owned(), bytes.to_owned());
        Ok(())
    }

    fn forget(&mut self, role: &str) -> Result<()> {
        self.kept.remove(role);
        Ok(())
    }

    fn fetch(&mut self, name: &str, limit: u64) -> Result<Option<Vec<u8>>> {
        self.new.get(name).map_or_else(|| (self.source)(name, limit), |bytes| Ok(Some(bytes.clone())))
    }

    fn warn(&mut self, _: &Error) {}
}
