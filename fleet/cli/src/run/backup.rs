//! `backup FILE`: the server writes the copy, as it knows what it has open (FLEET.md §7).

use std::path::Path;

use serde_json::{Value, json};

use crate::args::Format;
use crate::client::{Client, Question};
use crate::console::Screen;
use crate::failure::Failure;
use crate::show::{text, value};

/// Asks for the copy; the server is told an absolute path.
pub(super) fn backup(file: &Path, client: &Client, screen: &mut Screen<'_, '_>) -> Result<(), Failure> {
    let failed = |error| Failure::local(format!("cannot name {}", file.display()), error);
    let file = std::path::absolute(file).map_err(failed)?;
    let Some(name) = file.to_str() else {
        return Err(Failure::new(Failure::LOCAL, format!("the name {} is not UTF-8", file.display())));
    };
    let _: Value = client.ask(&Question::post("/v1/fleet/backup", &json!({ "file": name }))?)?;
    match screen.format() {
        Format::Text => writeln!(screen.out(), "backed up to {}", text::clean(name))?,
        format => value::write(screen.out(), format, &json!({ "file": name }))?,
    }
    Ok(())
}
