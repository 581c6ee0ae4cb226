//! Where a verb reads and writes.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::PathBuf;

use jiff::tz::TimeZone;

use crate::args::PrintFormat;

/// Standard input, output and error, or what stands for them in a test.
pub struct Console<'a> {
    /// What `-f -` reads.
    pub input: &'a mut dyn Read,
    /// What was asked for.
    pub out: &'a mut dyn Write,
    /// What went wrong.
    pub err: &'a mut dyn Write,
    /// Colours on `out`: a terminal, and nobody said no.
    pub is_colourful: bool,
    /// What is written to `out` can be written over: a terminal.
    pub is_in_place: bool,
    /// What `edit` opens a file with.
    pub editor: Editor,
    /// The operator's time zone: beside UTC, when something may happen is told in it.
    pub zone: TimeZone,
}

/// An editor of texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Editor {
    /// A shell's words, to which the file's path is added.
    pub command: OsString,
    /// Where the file is made.
    pub directory: PathBuf,
}

impl Editor {
    /// `$VISUAL`, else `$EDITOR`, else `vi`; the file in `$TMPDIR`, else `/tmp`.
    pub fn of_environment() -> Self {
        let named = ["VISUAL", "EDITOR"].into_iter().filter_map(std::env::var_os).find(|name| !name.is_empty());
        Self { command: named.unwrap_or_else(|| "vi".into()), directory: std::env::temp_dir() }
    }
}

/// What a verb writes to, in the format that was asked for.
pub(crate) struct Screen<'a> {
    pub(crate) console: Console<'a>,
    /// `None`: what is usual for the verb.
    pub(crate) format: Option<PrintFormat>,
}

/// How texts look to this operator.
#[derive(Debug, Clone)]
pub(crate) struct Palette {
    pub(crate) is_colourful: bool,
    pub(crate) zone: TimeZone,
}

impl Screen<'_> {
    /// The format of verbs that show text unless told otherwise.
    pub(crate) fn format(&self) -> PrintFormat {
        self.format.unwrap_or_default()
    }

    /// How texts look.
    pub(crate) fn look(&self) -> Palette {
        Palette { is_colourful: self.console.is_colourful, zone: self.console.zone.clone() }
    }

    /// Standard output.
    pub(crate) fn out(&mut self) -> &mut dyn Write {
        &mut *self.console.out
    }
}

impl std::fmt::Debug for Console<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Console").field("is_colourful", &self.is_colourful).finish_non_exhaustive()
    }
}
