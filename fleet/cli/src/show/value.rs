//! JSON and YAML for programs.

use std::io::Write;

use serde::Serialize;
use serde_json::Value;
use yaml::Node;

use super::table::{TableCell, TextTable};
use super::text;
use crate::args::PrintFormat;
use crate::console::{Palette, Screen};
use crate::failure::Failure;

/// What a verb found: by `text` for people, else `value`.
///
/// # Errors
/// Those of the output.
pub(crate) fn show(
    screen: &mut Screen<'_>,
    value: &(impl Serialize + ?Sized),
    text: impl FnOnce(&mut dyn Write, &Palette) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let look = screen.look();
    match screen.format() {
        PrintFormat::Text => text(screen.out(), &look),
        format => write(screen.out(), format, value),
    }
}

/// A list: for people a table with a row for each of `items`.
///
/// # Errors
/// Those of the output.
pub(crate) fn list<T: Serialize, const N: usize>(
    screen: &mut Screen<'_>,
    items: &[T],
    titles: [&str; N],
    row: impl Fn(&T) -> [String; N],
) -> Result<(), Failure> {
    let mut table = TextTable::new(titles);
    items.iter().for_each(|item| table.row(row(item).iter().map(|cell| TableCell::new(cell)).collect()));
    show(screen, items, |out, _| Ok(table.write(out, false)?))
}

/// Writes `value` as a document of its own; `Text` is written as YAML.
///
/// # Errors
/// Those of `out`.
pub(crate) fn write(
    out: &mut dyn Write,
    format: PrintFormat,
    value: &(impl Serialize + ?Sized),
) -> Result<(), Failure> {
    Ok(write!(out, "{}", document(format, value)?)?)
}

/// `value` as a document of its own; `Text` becomes YAML.
///
/// # Errors
/// It is no such document: a defect.
pub fn document(format: PrintFormat, value: &(impl Serialize + ?Sized)) -> Result<String, Failure> {
    match format {
        PrintFormat::Json => Ok(json(value)? + "\n"),
        _ => yaml(&tree(value)?),
    }
}

/// Writes `value` in one line, one of many; in YAML as one document of many.
///
/// # Errors
/// Those of `out`.
pub(crate) fn write_one(out: &mut dyn Write, format: PrintFormat, value: &impl Serialize) -> Result<(), Failure> {
    match format {
        PrintFormat::Json => writeln!(out, "{}", text::clean(&tree(value)?.to_string()))?,
        _ => write!(out, "---\n{}", yaml(&tree(value)?)?)?,
    }
    Ok(())
}

/// Indented, and without what a terminal would obey; only strings hold such characters, and JSON can escape them there.
pub(crate) fn json(value: &(impl Serialize + ?Sized)) -> Result<String, Failure> {
    Ok(text::clean_lines(&format!("{:#}", tree(value)?)).into_owned())
}

fn tree(value: &(impl Serialize + ?Sized)) -> Result<Value, Failure> {
    serde_json::to_value(value).map_err(|error| Failure::local("cannot write JSON", error))
}

/// A list becomes several documents: the tree has no lists at its root.
fn yaml(value: &Value) -> Result<String, Failure> {
    let one = |value: &Value| {
        let node = Node::from_json(value, 1).map_err(|fault| Failure::local("cannot write YAML", fault))?;
        Ok::<_, Failure>(text::clean_document(&node.emit()).into_owned())
    };
    match value {
        Value::Array(items) => Ok(items.iter().map(one).collect::<Result<Vec<_>, _>>()?.join("---\n")),
        _ => one(value),
    }
}
