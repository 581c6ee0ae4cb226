//! What is said while a command works: ✓ lines on a terminal, one prefixed line a phase in the journal, JSON on demand.
//! Everything goes to standard error and a broken pipe is nobody's failure.

use std::cell::RefCell;
use std::io::{IsTerminal, Write};
use std::os::unix::fs::MetadataExt;

use serde_json::json;

use super::{Error, progress::Bar};
use crate::cli::{Global, LogFormat};

/// Syslog priorities, as systemd reads them from a `<N>` prefix (sd-daemon(3)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Error = 3,
    Warning = 4,
    Notice = 5,
    Info = 6,
    Debug = 7,
}

/// The one way to say something.
#[derive(Debug)]
pub struct Report {
    format: LogFormat,
    debug: bool,
    terminal: bool,
    colour: bool,
    journal: bool,
    /// The options that name the installation, for commands that a message advises; empty for the default one.
    options: String,
    bar: RefCell<Option<Bar>>,
}

impl Report {
    /// A reporter for standard error; `var` gives the variables of the environment. A command that a message advises is one
    /// for the installation that `global` names.
    pub fn new<'a>(var: impl Fn(&str) -> Option<&'a str>, global: &Global) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let root = global.root.as_ref().map(|root| format!(" --root {}", root.display()));
        let suffix = global.install_suffix.as_ref().map(|suffix| format!(" --install-suffix {suffix}"));
        Self {
            format: global.log_format,
            debug: global.debug,
            terminal: terminal && global.log_format == LogFormat::Text,
            colour: terminal && var("NO_COLOR").is_none() && var("TERM") != Some("dumb"),
            journal: var("JOURNAL_STREAM").is_some_and(is_journal),
            options: [root, suffix].into_iter().flatten().collect(),
            bar: RefCell::new(None),
        }
    }

    /// The same for another thread, without its bar.
    #[must_use]
    pub fn beside(&self) -> Self {
        Self { options: self.options.clone(), bar: RefCell::default(), ..*self }
    }

    /// A line of general interest.
    pub fn info(&self, text: &str) {
        self.say(Level::Info, text, None);
    }

    /// Something an operator should see although the command goes on.
    pub fn warn(&self, text: &str) {
        self.say(Level::Warning, text, None);
    }

    /// A normal but significant result.
    pub fn notice(&self, text: &str) {
        self.say(Level::Notice, text, None);
    }

    /// For `--debug`.
    pub fn debug(&self, text: &str) {
        if self.debug {
            self.say(Level::Debug, text, None);
        }
    }

    /// A phase of a run is done.
    pub fn done(&self, text: &str) {
        self.end_phase(Level::Info, ("32", "✓"), text);
    }

    /// A step of a plan failed.
    pub fn failed(&self, text: &str) {
        self.end_phase(Level::Warning, ("31", "✗"), text);
    }

    fn end_phase(&self, level: Level, (colour, mark): (&str, &str), text: &str) {
        self.finish_bar();
        if self.terminal {
            self.line(&format!("{} {text}", self.paint(colour, mark)));
        } else {
            self.say(level, text, None);
        }
    }

    /// The end of a command that failed: one line, with the code in JSON.
    pub fn error(&self, error: &Error) {
        self.finish_bar();
        if self.terminal {
            self.line(&format!("{} {}", self.paint("1;31", "error:"), self.advised(&error.to_string())));
        } else {
            let text = if self.format == LogFormat::Json { error.to_string() } else { format!("error: {error}") };
            self.say(Level::Error, &text, Some(error.code.as_str()));
        }
    }

    /// How far a download is. On a terminal a bar; elsewhere a line each 10 s.
    pub fn progress(&self, done: u64, total: Option<u64>) {
        let line =
            self.bar.borrow_mut().get_or_insert_with(|| Bar::new(self.terminal, self.colour)).update(done, total);
        if let Some(line) = line {
            self.say(Level::Info, &line, None);
        }
    }

    /// What is waited for, on a terminal, until the next [`Self::done`], [`Self::failed`] or [`Self::error`].
    pub fn waiting(&self, text: &str) {
        if self.terminal {
            *self.bar.borrow_mut() = Some(Bar::waiting(text));
        }
    }

    /// Takes the bar off the screen.
    pub fn finish_bar(&self) {
        if let Some(bar) = self.bar.borrow_mut().take() {
            bar.finish();
        }
    }

    /// A text whose commands, which stand between backquotes, are for this installation.
    fn advised(&self, text: &str) -> String {
        let command = format!("teleport-update{} ", self.options);
        let parts = text.split('`').enumerate().map(|(at, part)| match at % 2 {
            1 => part.replace("teleport-update ", &command),
            _ => part.to_owned(),
        });
        parts.collect::<Vec<_>>().join("`")
    }

    fn say(&self, level: Level, text: &str, error_code: Option<&str>) {
        let text = self.advised(text);
        // The journal takes it off and files the line under this priority.
        let prefix = if self.journal { format!("<{}>", level as u8) } else { String::new() };
        match self.format {
            LogFormat::Json => {
                let name = format!("{level:?}").to_lowercase();
                let time = jiff::Timestamp::now().to_string();
                let mut line = json!({ "time": time, "level": name, "message": text });
                if let Some(code) = error_code {
                    line["error_code"] = code.into();
                }
                self.line(&format!("{prefix}{line}"));
            }
            LogFormat::Text => {
                let text = text.replace('\n', " ");
                match level {
                    Level::Warning => self.line(&format!("{prefix}{} {text}", self.paint("33", "warning:"))),
                    _ => self.line(&format!("{prefix}{text}")),
                }
            }
        }
    }

    fn line(&self, text: &str) {
        // Nobody listens any more: not a reason to stop half-way.
        let write = || drop(writeln!(std::io::stderr(), "{text}"));
        match &*self.bar.borrow() {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    fn paint(&self, colour: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Whether standard error is the journal's own stream (systemd.exec(5), `$JOURNAL_STREAM`).
fn is_journal(stream: &str) -> bool {
    let Some((device, inode)) = stream.split_once(':') else { return false };
    std::fs::metadata("/proc/self/fd/2")
        .is_ok_and(|file| file.dev().to_string() == device && file.ino().to_string() == inode)
}
