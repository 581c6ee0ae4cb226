//! `edit`: a resource in an editor, written back with the revision that was read. What is refused is not lost.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use fleet_wire::api::How;
use yaml::Node;

use super::resources::{What, show};
use super::{id, swap};
use crate::client::ApiClient;
use crate::console::{Editor, Screen};
use crate::failure::Failure;
use crate::show::text;

#[expect(clippy::disallowed_methods, reason = "a person's editor: it has the terminal, and no time-out")]
fn open(editor: &Editor, file: &Path) -> Result<(), Failure> {
    let mut script = editor.command.clone();
    script.push(" \"$1\"");
    let status = Command::new("/bin/sh").arg("-c").arg(script).arg("sh").arg(file).status();
    let name = editor.command.to_string_lossy().into_owned();
    let status = status.map_err(|error| Failure::local(format!("cannot run the editor {name}"), error))?;
    if status.success() {
        return Ok(());
    }
    Err(Failure::new(Failure::LOCAL, format!("the editor {name} failed ({status}): nothing was changed")))
}

/// `edit KIND[/NAME]`.
pub(super) fn edit(what: &str, client: &ApiClient, screen: &mut Screen<'_>) -> Result<(), Failure> {
    let what = What::parse(what);
    what.may_change(client)?;
    let name = what.one()?;
    let kept = swap::read(client, &what.kind, Some(name))?;
    let Some(kept) = kept.first() else {
        let message = format!("there is no {}/{name}: write one with `teleport-fleet create -f FILE`", what.kind);
        return Err(Failure::new("not_found", message));
    };
    let editor = screen.console.editor.clone();
    let before = swap::document(kept)?.emit();
    let file = Draft::new(&editor.directory, &what.kind, &before)?;
    open(&editor, &file.path)?;
    let after = file.read()?;
    if after == before {
        writeln!(screen.out(), "{}/{}: nothing was changed", text::clean(&what.kind), text::clean(name))?;
        return Ok(());
    }
    match swap::write(client, with_revision(&after, &kept.revision), How::Update, Vec::new(), false) {
        Ok(written) => show(&written, false, screen),
        Err(failure) => {
            let path = file.keep();
            let way_on =
                format!("your text is kept: teleport-fleet update -f {}", text::shell(&path.to_string_lossy()));
            Err(Failure::new(failure.code, format!("{}\n{way_on}", failure.message)))
        }
    }
}

/// The revision that was read, where the editor's text has none: what another wrote meanwhile is not overwritten. A text that
/// is no YAML goes as it is: the server says what is wrong in which line.
fn with_revision(text: &str, revision: &str) -> String {
    match Node::parse(text) {
        Ok(mut document) if document.at(&["metadata", "revision"]).is_none() => {
            document.set(&["metadata", "revision"], Node::text(revision));
            document.emit()
        }
        _ => text.to_owned(),
    }
}

/// A file that only its owner reads; it goes with this value unless it is kept.
struct Draft {
    path: PathBuf,
    is_kept: bool,
}

impl Draft {
    #[expect(clippy::disallowed_methods, reason = "a draft need not survive a crash")]
    fn new(directory: &Path, kind: &str, text: &str) -> Result<Self, Failure> {
        // The name is the operator's word: no way out of the directory.
        let kind: String = kind.chars().filter(|char| char.is_ascii_alphanumeric() || *char == '_').collect();
        let path = directory.join(format!("teleport-fleet-{kind}-{}.yaml", id()));
        let failed = |error| Failure::local(format!("cannot write {}", path.display()), error);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
        let draft = Self { path: path.clone(), is_kept: false };
        file.write_all(text.as_bytes()).map_err(failed)?;
        Ok(draft)
    }

    fn read(&self) -> Result<String, Failure> {
        let failed = |error| Failure::local(format!("cannot read {}", self.path.display()), error);
        // The editor may have put another file in its place.
        crate::file::read_text(&self.path, yaml::MAX_BYTES as u64).map_err(failed)
    }

    fn keep(mut self) -> PathBuf {
        self.is_kept = true;
        self.path.clone()
    }
}

impl Drop for Draft {
    #[expect(clippy::disallowed_methods, reason = "a draft need not survive a crash")]
    fn drop(&mut self) {
        if !self.is_kept {
            // It is in the directory of temporary files: what is left there goes by itself.
            let _ = fs::remove_file(&self.path);
        }
    }
}
