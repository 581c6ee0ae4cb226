//! Typed reading of a document: each value or an error that names file, line and key.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use error::{Code, Error, Result};
use protocol::{Edition, Revision, Version};

use super::{Fault, MAX_BYTES, Node, scalar};

/// Longest window, a week: what is longer is no window.
pub const LONGEST_WINDOW: Duration = Duration::from_secs(7 * 86_400);

/// Most bytes that are read of a file: one more than the parser takes, so that the parser tells of it.
pub const LONGEST_FILE: u64 = MAX_BYTES as u64 + 1;

/// A part of a document that is perhaps there, and knows where it stands.
#[derive(Debug, Clone)]
pub struct View<'a> {
    file: &'a Path,
    node: Option<&'a Node>,
    /// Where it is, or would be.
    line: usize,
    name: String,
}

/// Reads and parses a file of at most 1 MiB; `None` if it is not there. `only` refuses further documents.
///
/// Errors: `config_invalid` with the line; `permission` or `io` if it cannot be read.
pub fn read_document(file: &Path, only: bool) -> Result<Option<Node>> {
    let bytes = error::read_limited(file, LONGEST_FILE)?;
    bytes.map(|bytes| document(file, &bytes, only)).transpose()
}

/// The same of what was read: `bytes`, the content of `file`.
///
/// Errors: `config_invalid` with the line.
pub fn document(file: &Path, bytes: &[u8], only: bool) -> Result<Node> {
    let source = std::str::from_utf8(bytes).map_err(|error| {
        let line = 1 + bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
        in_file(Fault { line, what: "not UTF-8".to_owned() }, file)
    })?;
    let parsed = if only { Node::parse(source) } else { Node::parse_first(source) };
    parsed.map_err(|fault| in_file(fault, file))
}

/// The error that names the file and the line (`config_invalid`).
fn in_file(fault: Fault, file: &Path) -> Error {
    Error::new(Code::ConfigInvalid, format!("cannot read {} line {}: {}", file.display(), fault.line, fault.what))
        .advise("correct that line; the file was not changed")
}

impl<'a> View<'a> {
    /// The whole of a document that came from `file`.
    pub fn new(file: &'a Path, root: &'a Node) -> Self {
        Self { file, node: Some(root), line: root.line, name: String::new() }
    }

    /// Makes sure that it is a document of this `version` and `kind`.
    pub fn check_kind(&self, version: &str, kind: &str) -> Result<()> {
        for (key, known) in [("version", version), ("kind", kind)] {
            let value = self.at(key)?;
            if value.text()?.as_deref() != Some(known) {
                return Err(value.wrong(&format!("{known:?}")));
            }
        }
        Ok(())
    }

    /// The part below `path` (keys with dots between); absent and null are the same.
    pub fn at(&self, path: &str) -> Result<Self> {
        let mut here = self.clone();
        for key in path.split('.') {
            if let Some(node) = here.node
                && node.pairs().is_none()
            {
                return Err(here.wrong("a mapping"));
            }
            let name = if here.name.is_empty() { key.to_owned() } else { format!("{}.{key}", here.name) };
            let node = here.node.and_then(|node| node.get(key)).filter(|node| !node.is_null());
            here = Self { file: here.file, node, line: node.map_or(here.line, |node| node.line), name };
        }
        Ok(here)
    }

    /// Makes sure that it is a mapping, if it is there, and has no other key than `known`.
    pub fn only_keys(&self, known: &[&str]) -> Result<()> {
        let Some(node) = self.node else { return Ok(()) };
        let pairs = node.pairs().ok_or_else(|| self.wrong("a mapping"))?;
        let is_known = |key: &Node| key.as_str().is_some_and(|key| known.contains(&key));
        let Some((key, _)) = pairs.iter().find(|(key, _)| !is_known(key)) else { return Ok(()) };
        let dot = if self.name.is_empty() { "" } else { "." };
        let name = format!("{}{dot}{}", self.name, key.as_str().unwrap_or("(no text)"));
        Err(Self { line: key.line, name, ..self.clone() }.wrong(&format!("one of {}", known.join(", "))))
    }

    /// Whether it is this text.
    pub fn is_word(&self, word: &str) -> bool {
        self.node.and_then(Node::as_str) == Some(word)
    }

    /// True if there is a value.
    pub fn is_there(&self) -> bool {
        self.node.is_some()
    }

    /// An error at this place: the value is not `wanted`.
    pub fn wrong(&self, wanted: &str) -> Error {
        let name = if self.name.is_empty() { "the document" } else { &self.name };
        in_file(Fault { line: self.line.max(1), what: format!("{name} is not {wanted}") }, self.file)
    }

    /// Any scalar's text.
    pub fn text(&self) -> Result<Option<String>> {
        self.read("a text", |text| Some(text.to_owned()))
    }

    /// A text that is an absolute path.
    pub fn absolute_path(&self) -> Result<Option<PathBuf>> {
        self.read("an absolute path", |text| text.starts_with('/').then(|| PathBuf::from(text)))
    }

    /// A boolean as people and Go write them.
    pub fn boolean(&self) -> Result<Option<bool>> {
        self.read("true or false", scalar::boolean)
    }

    /// A whole number that fits `T`.
    pub fn integer<T: TryFrom<u64>>(&self) -> Result<Option<T>> {
        self.read("a whole number in the allowed range", |text| {
            scalar::integer(text).and_then(|number| number.try_into().ok())
        })
    }

    /// A whole number of at least one.
    pub fn count(&self) -> Result<Option<u32>> {
        match self.integer()? {
            Some(0) => Err(self.wrong("1 or more")),
            count => Ok(count),
        }
    }

    /// A duration such as `90s`, `365d`, or plain seconds.
    pub fn duration(&self) -> Result<Option<Duration>> {
        self.read("a duration such as 90s or 365d", scalar::duration)
    }

    /// How long a window is open.
    pub fn window_length(&self) -> Result<Option<Duration>> {
        match self.duration()? {
            Some(length) if length.is_zero() => Err(self.wrong("longer than nothing")),
            Some(length) if length > LONGEST_WINDOW => Err(self.wrong("7d or shorter")),
            length => Ok(length),
        }
    }

    /// An RFC 3339 time.
    pub fn time(&self) -> Result<Option<jiff::Timestamp>> {
        self.read("a time such as 2020-12-09T16:09:53+00:00", |text| text.parse().ok())
    }

    /// A version or edition.
    pub fn parsed<T: FromStr>(&self, wanted: &str) -> Result<Option<T>> {
        self.read(wanted, |text| text.parse().ok())
    }

    /// The `version` and `edition` below this place, if both are there.
    pub fn revision(&self) -> Result<Option<Revision>> {
        let (version, edition) = self.version_and_edition()?;
        Ok(version.zip(edition).map(|(version, edition)| Revision { version, edition }))
    }

    /// The same where both must be there.
    pub fn needed_revision(&self) -> Result<Revision> {
        let (version, edition) = self.version_and_edition()?;
        Ok(Revision {
            version: self.needed("complete: version is missing", version)?,
            edition: self.needed("complete: edition is missing", edition)?,
        })
    }

    fn version_and_edition(&self) -> Result<(Option<Version>, Option<Edition>)> {
        Ok((self.at("version")?.parsed("a version")?, self.at("edition")?.parsed("an edition")?))
    }

    /// A value that must be there, `wanted` naming it in the error.
    pub fn needed<T>(&self, wanted: &str, value: Option<T>) -> Result<T> {
        value.ok_or_else(|| self.wrong(wanted))
    }

    /// The items of a list; none if there is no list.
    pub fn items(&self) -> Result<Vec<Self>> {
        let Some(node) = self.node else { return Ok(Vec::new()) };
        let items = node.items().ok_or_else(|| self.wrong("a list"))?;
        let item = |(index, node)| Self {
            file: self.file,
            node: Some(node),
            line: node.line,
            name: format!("{}[{index}]", self.name),
        };
        Ok(items.iter().enumerate().map(item).collect())
    }

    /// The texts of a list; one text alone counts as a list of one.
    pub fn texts(&self) -> Result<Vec<String>> {
        if let Some(text) = self.node.and_then(Node::as_str) {
            return Ok(vec![text.to_owned()]);
        }
        self.items()?.iter().map(|item| item.needed("a text", item.text()?)).collect()
    }

    /// The texts of a mapping by their names; none if there is no mapping.
    pub fn texts_by_name(&self) -> Result<BTreeMap<String, String>> {
        let Some(node) = self.node else { return Ok(BTreeMap::new()) };
        let pairs = node.pairs().ok_or_else(|| self.wrong("a mapping"))?;
        let text = |node: &Node| node.as_str().map(str::to_owned);
        let pairs = pairs.iter().map(|(name, value)| Some((text(name)?, text(value)?)));
        pairs.collect::<Option<_>>().ok_or_else(|| self.wrong("a mapping of texts to texts"))
    }

    fn read<T>(&self, wanted: &str, convert: impl Fn(&str) -> Option<T>) -> Result<Option<T>> {
        let Some(node) = self.node else { return Ok(None) };
        let value = node.as_str().and_then(convert);
        value.map(Some).ok_or_else(|| self.wrong(wanted))
    }
}

/// The mapping that [`View::revision`] reads.
pub fn revision_node(revision: &Revision) -> Node {
    Node::mapping([
        ("version", Some(Node::text(revision.version.to_string()))),
        ("edition", Some(Node::text(revision.edition.as_str()))),
    ])
}
