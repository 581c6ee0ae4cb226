//! `get`, `create`, `update`, `rm` (FLEET.md §2).

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use fleet_api::{How, Kept, Written};
use fleet_engine::resource::Kind;
use serde_json::Value;

use super::swap::{self, RESOURCES};
use super::{id, path};
use crate::args::{Create, Format, Get, Rm, UpdateFile};
use crate::client::{Client, Question};
use crate::console::Screen;
use crate::failure::Failure;
use crate::show::{text, value, written};

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

    /// The one resource's name: as given, or the only one of its kind.
    ///
    /// # Errors
    /// There are several of the kind.
    pub(super) fn one(&self) -> Result<&str, Failure> {
        let only = self.known.and_then(Kind::only_name);
        self.name.as_deref().or(only).ok_or_else(|| {
            Failure::new(
                "bad_request",
                format!("say which: {}/NAME (`teleport-fleet get {}` lists them)", self.kind, self.kind),
            )
        })
    }

    fn is_one(&self) -> bool {
        self.name.is_some() || self.known.is_some_and(|kind| kind.only_name().is_some())
    }
}

/// `get`: YAML unless told otherwise, with the revision, so that it can be written back.
pub(super) fn get(get: &Get, client: &Client, screen: &mut Screen<'_, '_>) -> Result<(), Failure> {
    let what = What::parse(&get.what);
    let kept = swap::read(client, &what.kind, what.name.as_deref())?;
    if kept.is_empty() && what.is_one() {
        return Err(Failure::new("not_found", format!("there is no {}", what.kind)));
    }
    match screen.format {
        Some(Format::Json) => {
            let mut all: Vec<Value> = kept.into_iter().map(with_revision).collect();
            let value = if what.is_one() && all.len() == 1 { all.remove(0) } else { Value::Array(all) };
            value::write(screen.out(), Format::Json, &value)
        }
        None | Some(Format::Yaml | Format::Text) => {
            for (index, kept) in kept.iter().enumerate() {
                let separator = if index > 0 { "---\n" } else { "" };
                write!(screen.out(), "{separator}{}", text::clean_document(&swap::document(kept)?.emit()))?;
            }
            Ok(())
        }
    }
}

fn with_revision(kept: Kept) -> Value {
    let mut json = kept.json;
    if json.is_object() && !kept.revision.is_empty() {
        json["metadata"]["revision"] = kept.revision.into();
    }
    json
}

/// `create [--force] -f`.
pub(super) fn create(create: &Create, client: &Client, screen: &mut Screen<'_, '_>) -> Result<(), Failure> {
    let how = if create.force { How::Replace } else { How::Create };
    let text = read(&create.file, screen)?;
    let written = swap::write(client, text, how, create.dry_run)?;
    show(&written, create.dry_run, screen)
}

/// `update -f`.
pub(super) fn update(update: &UpdateFile, client: &Client, screen: &mut Screen<'_, '_>) -> Result<(), Failure> {
    let text = read(&update.file, screen)?;
    let written = swap::write(client, text, How::Update, update.dry_run)?;
    show(&written, update.dry_run, screen)
}

/// `rm`.
pub(super) fn remove(rm: &Rm, client: &Client, screen: &mut Screen<'_, '_>) -> Result<(), Failure> {
    let what = What::parse(&rm.what);
    let place = format!("{RESOURCES}/{}/{}", path::encoded(&what.kind), path::encoded(what.one()?));
    let dry_run = rm.dry_run.then(|| "true".to_owned());
    let question = Question::delete(path::with_query(&place, [("id", Some(id())), ("dry_run", dry_run)]));
    let written = client.ask(&question)?;
    show(&written, rm.dry_run, screen)
}

/// What a write did.
pub(super) fn show(written: &Written, is_dry: bool, screen: &mut Screen<'_, '_>) -> Result<(), Failure> {
    match screen.format() {
        Format::Text => written::text(screen.out(), written, is_dry),
        format => {
            let json = serde_json::to_value(written).map_err(|error| Failure::local("cannot write JSON", error))?;
            value::write(screen.out(), format, &json)
        }
    }
}

/// The text of a file; `-` is standard input.
fn read(file: &Path, screen: &mut Screen<'_, '_>) -> Result<String, Failure> {
    let failed = |error: io::Error| Failure::local(format!("cannot read {}", file.display()), error);
    let mut text = String::new();
    let length = if file.as_os_str() == "-" {
        screen.console.input.take(MAX_FILE + 1).read_to_string(&mut text)
    } else {
        File::open(file).map_err(failed)?.take(MAX_FILE + 1).read_to_string(&mut text)
    };
    if length.map_err(failed)? as u64 > MAX_FILE {
        return Err(failed(io::Error::other(format!("it is larger than {MAX_FILE} bytes"))));
    }
    Ok(text)
}
