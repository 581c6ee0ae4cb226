//! `get`, `create`, `update`, `rm` (FLEET §2).

use std::io;
use std::path::Path;

use crate::file::{read_open, read_text};
use fleet_engine::resource::{self, Kind};
use fleet_wire::api::{Code, How, KeptResource, Unwise, WriteResult};
use fleet_wire::words::written;
use serde_json::Value;

use super::swap::{self, RESOURCES};
use super::{id, path};
use crate::args::{Files, PrintFormat};
use crate::client::{Answer, ApiCall, ApiClient};
use crate::console::Screen;
use crate::failure::Failure;
use crate::show::{text, value};

/// Largest text of resources, bytes: what the server's YAML reader takes.
const MAX_FILE: u64 = yaml::MAX_BYTES as u64;

/// Which resources: a kind, and perhaps a name.
pub(super) struct What {
    /// As the server spells it, where it is known; else as it was written.
    pub(super) kind: String,
    known: Option<Kind>,
    name: Option<String>,
}

impl What {
    /// Reads `KIND[/NAME]`; a plural is taken, as by `tctl`.
    pub(super) fn parse(text: &str) -> Self {
        let (kind, name) = match text.split_once('/') {
            Some((kind, name)) => (kind, Some(name.to_owned()).filter(|name| !name.is_empty())),
            None => (text, None),
        };
        let known = Kind::named(kind);
        let kind = known.map_or_else(|| kind.to_owned(), |known| known.as_str().to_owned());
        Self { kind, known, name }
    }

    /// Refuses a kind that there is not, in the server's words, which names those that there are; and one that nobody writes.
    ///
    /// # Errors
    /// It is such a kind.
    pub(super) fn may_change(&self, client: &ApiClient) -> Result<(), Failure> {
        match (self.known, self.known.and_then(Kind::is_made_here)) {
            (_, Some(why)) => Err(Failure::new("bad_request", why)),
            (Some(_), None) => Ok(()),
            (None, _) => swap::read(client, &self.kind, None).map(drop),
        }
    }

    /// The one resource's name: as given, or the only one of its kind.
    ///
    /// # Errors
    /// There are several of the kind.
    pub(super) fn one(&self) -> Result<&str, Failure> {
        let only = self.known.and_then(Kind::only_name);
        self.name.as_deref().or(only).ok_or_else(|| {
            Failure::new(
                Failure::USAGE,
                format!("say which: {}/NAME (`teleport-fleet get {}` lists them)", self.kind, self.kind),
            )
        })
    }

    fn is_one(&self) -> bool {
        self.name.is_some() || self.known.is_some_and(|kind| kind.only_name().is_some())
    }
}

/// `get`: YAML unless told otherwise, with the revision, so that it can be written back.
pub(super) fn get(what: &str, client: &ApiClient, screen: &mut Screen<'_>) -> Result<(), Failure> {
    let what = What::parse(what);
    let kept = swap::read(client, &what.kind, what.name.as_deref())?;
    if kept.is_empty() && what.is_one() {
        return Err(Failure::new("not_found", format!("there is no {}", what.kind)));
    }
    match screen.format {
        Some(PrintFormat::Json) => {
            let mut all: Vec<Value> = kept.into_iter().map(with_revision).collect();
            let value = if what.is_one() && all.len() == 1 { all.remove(0) } else { Value::Array(all) };
            value::write(screen.out(), PrintFormat::Json, &value)
        }
        _ => {
            for (index, kept) in kept.iter().enumerate() {
                let separator = if index > 0 { "---\n" } else { "" };
                write!(screen.out(), "{separator}{}", text::clean_document(&swap::document(kept)?.emit()))?;
            }
            Ok(())
        }
    }
}

fn with_revision(kept: KeptResource) -> Value {
    let mut json = kept.json;
    if json.is_object() && !kept.revision.is_empty() {
        json["metadata"]["revision"] = kept.revision.into();
    }
    json
}

/// `create` and `update`: all files as one change.
pub(super) fn write(
    files: &Files,
    how: How,
    is_dry: bool,
    client: &ApiClient,
    screen: &mut Screen<'_>,
) -> Result<(), Failure> {
    let joined = JoinedText::read(files, screen)?;
    let written =
        swap::write(client, joined.text.clone(), how, Vec::new(), is_dry).map_err(|failure| joined.named(failure))?;
    value::show(screen, &written, |out, _| text(out, &written, is_dry, &|unwise| joined.place(unwise.line?)))
}

/// `rm`.
pub(super) fn remove(what: &str, is_dry: bool, client: &ApiClient, screen: &mut Screen<'_>) -> Result<(), Failure> {
    let what = What::parse(what);
    if what.known.is_none_or(|kind| !kind.can_go()) {
        what.may_change(client)?;
    }
    let place = format!("{RESOURCES}/{}/{}", path::encoded(&what.kind), path::encoded(what.one()?));
    let dry_run = is_dry.then(|| "true".to_owned());
    let question = ApiCall::delete(path::with_query(&place, [("id", Some(id())), ("dry_run", dry_run)]));
    let question = question.dry(is_dry);
    let written = client.ask(&question)?;
    show(&written, is_dry, screen)
}

/// What a write did.
pub(super) fn show(written: &Answer<WriteResult>, is_dry: bool, screen: &mut Screen<'_>) -> Result<(), Failure> {
    value::show(screen, written, |out, _| text(out, written, is_dry, &line))
}

/// Where something unwise stands in the only text.
pub(super) fn line(unwise: &Unwise) -> Option<String> {
    unwise.line.map(|line| format!("line {line}"))
}

/// The same for people; `place` says where in a file something unwise stands.
pub(super) fn text(
    out: &mut dyn io::Write,
    written: &WriteResult,
    is_dry: bool,
    place: &dyn Fn(&Unwise) -> Option<String>,
) -> Result<(), Failure> {
    written::lines(written, is_dry, place).iter().try_for_each(|line| Ok(writeln!(out, "{line}")?))
}

/// Several files as one text.
pub(super) struct JoinedText {
    pub(super) text: String,
    /// The name of each file, its text, and the line of the whole before its first.
    parts: Vec<(String, String, usize)>,
}

impl JoinedText {
    pub(super) fn read(files: &Files, screen: &mut Screen<'_>) -> Result<Self, Failure> {
        crate::args::read_once(files.all()).map_err(|fault| Failure::new(Failure::USAGE, fault))?;
        let mut joined = Self { text: String::new(), parts: Vec::new() };
        for file in files.all() {
            if !joined.parts.is_empty() {
                // Another document begins, however the text before ends.
                joined.text.push_str("\n---\n");
            }
            let text = read(file, screen)?;
            let before = joined.text.matches('\n').count();
            joined.text.push_str(&text);
            joined.parts.push((file.display().to_string(), text, before));
        }
        Ok(joined)
    }

    /// Where a line of the whole stands: with the name of its file where there are several.
    pub(super) fn place(&self, line: usize) -> Option<String> {
        let (name, line) = self.file(line)?;
        let name = if self.parts.len() > 1 { format!("{name}: ") } else { String::new() };
        Some(format!("{name}line {line}"))
    }

    /// The file of a line of the whole, and its line there.
    fn file(&self, line: usize) -> Option<(&str, usize)> {
        let (name, _, before) = self.parts.iter().rev().find(|(_, _, before)| line > *before)?;
        Some((name, line - before))
    }

    /// Lines of a refusal are those of the whole. They are said as those of the files: where a file is faulty by itself, its own
    /// faults, else those of the files together.
    pub(super) fn named(&self, failure: Failure) -> Failure {
        if self.parts.len() < 2 || !failure.is(Code::BadResource) {
            return failure;
        }
        let faults_of = |(name, text, _): &(String, String, usize)| {
            let faults = resource::read(text).err()?;
            Some(faults.list().iter().map(|fault| format!("{name}: {fault}")).collect::<Vec<_>>().join("\n"))
        };
        let mut faults: Vec<String> = self.parts.iter().filter_map(faults_of).collect();
        if let (true, Err(together)) = (faults.is_empty(), resource::read(&self.text)) {
            let place = |line| self.file(line).map_or((String::new(), line), |(name, line)| (name.to_owned(), line));
            faults.extend(together.list().iter().map(|fault| fault.in_files(place)));
        }
        if faults.is_empty() { failure } else { Failure::new(failure.code, faults.join("\n")) }
    }
}

/// The text of a file; `-` is standard input.
pub(super) fn read(file: &Path, screen: &mut Screen<'_>) -> Result<String, Failure> {
    let failed = |error: io::Error| Failure::local(format!("cannot read {}", file.display()), error);
    let is_input = file.as_os_str() == "-";
    let text = if is_input { read_open(&mut *screen.console.input, MAX_FILE) } else { read_text(file, MAX_FILE) };
    text.map_err(failed)
}
