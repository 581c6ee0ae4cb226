//! `backup FILE`: a consistent copy of the server's data, written here (FLEET §7).

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::client::{ApiCall, ApiClient};
use crate::console::Screen;
use crate::failure::Failure;
use crate::show::{text, value};

/// How a file of SQLite begins.
const HEAD: &[u8] = b"SQLite format 3\0";

/// Asks for the copy and writes it to `file`, which must not be there yet: under another name first, so that a file of this name
/// is a whole one. `-`: to standard output, and nothing else goes there.
pub(super) fn backup(file: &Path, client: &ApiClient, screen: &mut Screen<'_>) -> Result<(), Failure> {
    if file.as_os_str() == "-" {
        return copy(client, |chunk| Ok(screen.out().write_all(chunk)?)).map(drop);
    }
    let failed = |error| Failure::local(format!("cannot write {}", file.display()), error);
    if file.symlink_metadata().is_ok() {
        let message = format!("{} is there already: name a new file, or remove it first", file.display());
        return Err(Failure::new(Failure::LOCAL, message));
    }
    let part = PartialFile::new(file).map_err(failed)?;
    let length = copy(client, |chunk| (&part.file).write_all(chunk).map_err(failed))?;
    part.keep(file).map_err(failed)?;
    let name = file.display().to_string();
    value::show(screen, &json!({ "file": name, "bytes": length }), |out, _| {
        Ok(writeln!(out, "backed up to {}: {length} bytes", text::clean(&name))?)
    })
}

/// Asks for the copy, and gives it to `write` part by part; its length, bytes.
fn copy(client: &ApiClient, mut write: impl FnMut(&[u8]) -> Result<(), Failure>) -> Result<usize, Failure> {
    let mut answer = client.open(&ApiCall::get("/v1/fleet/backup"))?;
    let (mut chunk, mut length) = (vec![0; 64 << 10], 0);
    loop {
        let broken = |error| Failure::new(Failure::LOCAL, format!("the copy broke off ({error}): run it again"));
        let part = answer.read(&mut chunk).map_err(broken)?;
        if part == 0 || (length == 0 && !chunk.starts_with(HEAD)) {
            break;
        }
        length += part;
        write(&chunk[..part])?;
    }
    if length == 0 {
        return Err(Failure::new(Failure::LOCAL, "the server sent no copy of its data: see its log"));
    }
    Ok(length)
}

/// A copy that is not whole yet; removed unless it is kept.
struct PartialFile {
    file: File,
    path: PathBuf,
}

impl PartialFile {
    #[allow(clippy::disallowed_methods, reason = "it is synced before it gets its name")]
    fn new(file: &Path) -> io::Result<Self> {
        let mut name = file.as_os_str().to_owned();
        name.push(format!(".{}", std::process::id()));
        let path = PathBuf::from(name);
        // It has the digests of tokens and everything about hosts.
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Self { file, path })
    }

    #[allow(clippy::disallowed_methods, reason = "a name that nobody else has taken meanwhile")]
    fn keep(&self, file: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        std::fs::hard_link(&self.path, file)?;
        let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(dir)?.sync_all()
    }
}

impl Drop for PartialFile {
    #[allow(clippy::disallowed_methods, reason = "a name of ours alone")]
    fn drop(&mut self) {
        // Nothing more can be done about it.
        let _ = std::fs::remove_file(&self.path);
    }
}
