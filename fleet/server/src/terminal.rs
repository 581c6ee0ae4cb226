//! Standard output and error, whose reader may be gone: a log or a line that nobody can read is lost, and nothing ends for that.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

/// Standard error for the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Log;

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = io::stderr().write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes a line to standard error.
pub(crate) fn say(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Writes `text` to standard output. Errors: a reader that has read enough is none.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(|error| io::Error::new(error.kind(), format!("cannot write the output: {error}"))),
    }
}
