//! Tables: a row of titles, a row of dashes, and a space behind every column, as `tctl` prints them (FLEET §6).

use std::io::{self, Write};

use super::text;

/// What a cell says at a glance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Paint {
    /// Nothing.
    #[default]
    None,
    /// All is well.
    Green,
    /// It goes on.
    Yellow,
    /// Somebody should look.
    Red,
}

impl Paint {
    fn start(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Green => "\u{1b}[32m",
            Self::Yellow => "\u{1b}[33m",
            Self::Red => "\u{1b}[31m",
        }
    }

    fn end(self) -> &'static str {
        if self == Self::None { "" } else { "\u{1b}[0m" }
    }
}

/// A cell.
#[derive(Debug, Clone, Default)]
pub(crate) struct TableCell {
    text: String,
    paint: Paint,
}

impl TableCell {
    /// A cell with this text, made fit for a terminal.
    pub(crate) fn new(text: &str) -> Self {
        Self { text: text::clean(text).into_owned(), paint: Paint::None }
    }

    /// The same in a colour.
    pub(crate) fn painted(text: &str, paint: Paint) -> Self {
        Self { paint, ..Self::new(text) }
    }
}

impl From<u64> for TableCell {
    fn from(number: u64) -> Self {
        Self::new(&number.to_string())
    }
}

/// A table that is written once, or page by page.
#[derive(Debug)]
pub(crate) struct TextTable {
    titles: Vec<TableCell>,
    rows: Vec<Vec<TableCell>>,
    /// Of the pages before.
    widths: Vec<usize>,
    has_titles: bool,
}

impl TextTable {
    /// An empty table.
    pub(crate) fn new<'a>(titles: impl IntoIterator<Item = &'a str>) -> Self {
        let titles: Vec<TableCell> = titles.into_iter().map(TableCell::new).collect();
        let widths = titles.iter().map(|title| text::width(&title.text)).collect();
        Self { titles, rows: Vec::new(), widths, has_titles: false }
    }

    /// One more row.
    pub(crate) fn row(&mut self, cells: Vec<TableCell>) {
        self.rows.push(cells);
    }

    /// Writes the rows that were not written yet, the first time below the titles.
    ///
    /// # Errors
    /// Those of `out`.
    pub(crate) fn write(&mut self, out: &mut dyn Write, is_colourful: bool) -> io::Result<()> {
        let rows = std::mem::take(&mut self.rows);
        for row in &rows {
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = text::width(&cell.text).max(*width);
            }
        }
        if !std::mem::replace(&mut self.has_titles, true) {
            self.line(out, &self.titles, false)?;
            let dashes: Vec<TableCell> = self.widths.iter().map(|width| TableCell::new(&"-".repeat(*width))).collect();
            self.line(out, &dashes, false)?;
        }
        rows.iter().try_for_each(|row| self.line(out, row, is_colourful))
    }

    fn line(&self, out: &mut dyn Write, cells: &[TableCell], is_colourful: bool) -> io::Result<()> {
        for (cell, width) in cells.iter().zip(&self.widths) {
            let paint = if is_colourful { cell.paint } else { Paint::None };
            let space = width.saturating_sub(text::width(&cell.text)) + 1;
            write!(out, "{}{}{}{:space$}", paint.start(), cell.text, paint.end(), "")?;
        }
        writeln!(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(table: &mut TextTable, is_colourful: bool) -> String {
        let mut out = Vec::new();
        table.write(&mut out, is_colourful).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_on_the_terminal() {
        let mut table = TextTable::new(["Name", "N"]);
        table.row(vec![TableCell::new("grün"), TableCell::from(7)]);
        table.row(vec![TableCell::new("日本語"), TableCell::new("")]);
        assert_eq!(written(&mut table, false), "Name   N \n------ - \ngrün   7 \n日本語   \n");
    }

    #[test]
    fn colour_does_not_move_columns() {
        let mut table = TextTable::new(["State", "N"]);
        table.row(vec![TableCell::painted("Done", Paint::Green), TableCell::from(1)]);
        assert_eq!(written(&mut table, true), "State N \n----- - \n\u{1b}[32mDone\u{1b}[0m  1 \n");
    }

    #[test]
    fn pages_that_follow_have_no_titles_and_keep_the_columns() {
        let mut table = TextTable::new(["A", "B"]);
        table.row(vec![TableCell::new("long"), TableCell::from(1)]);
        written(&mut table, false);
        table.row(vec![TableCell::new("s"), TableCell::from(2)]);
        assert_eq!(written(&mut table, false), "s    2 \n");
    }
}
