//! What fuzz targets and the replay of their corpus reach of this room's private parts; nothing else uses it.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use protocol::Version;

use super::graph::{self, Choice};
use super::said::Word;
use super::source::Source;
use super::{Window, release_file};
use crate::host::Layout;
use crate::report::Result;

/// A source as it is shown, and whose credentials would be sent. Errors: `usage`.
pub fn source(text: &str) -> Result<(String, Option<String>)> {
    let source: Source = text.parse()?;
    Ok((source.to_string(), source.origin()))
}

/// Whether a window that `text` begins is open at `now`, and when the next one begins. Errors: what is wrong with it.
pub fn window(text: &str, length: Duration, now: Timestamp) -> Result<(bool, Option<Timestamp>), String> {
    let layout = Layout::new(Path::new("/"), None, None).map_err(|error| error.to_string())?;
    let window = Window::parse(text, length, &layout)?;
    Ok((window.is_open(now), window.next(now)))
}

/// The version that a host on `own` goes to by the graph in `body`. Errors: why it is none.
pub fn graph(body: &str, own: &Version, refused: &[&Version], downwards: bool) -> Result<Option<Version>, String> {
    let word = graph::choose(body, &Choice { own: Some(own), refused, downwards })?;
    Ok(match word {
        Word::Version(said) => Some(said.version),
        Word::Nothing(_) => None,
    })
}

/// The version that the file at `path` names. Errors: those of the source.
pub fn release_file(path: &Path) -> Result<Option<Version>> {
    let (word, _) = release_file::ask(path, &Layout::new(Path::new("/"), None, None)?)?;
    Ok(match word {
        Word::Version(said) => Some(said.version),
        Word::Nothing(_) => None,
    })
}
