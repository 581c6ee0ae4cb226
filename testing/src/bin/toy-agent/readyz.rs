//! `GET /readyz` on the debug socket, in the words of the real agent.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A client that says nothing does not keep its thread for ever.
const PATIENCE: Duration = Duration::from_secs(10);

/// The served socket.
#[derive(Debug)]
pub(crate) struct Readyz {
    path: PathBuf,
    inode: u64,
}

impl Readyz {
    /// Serves `path` in a thread, in place of whoever served it before.
    ///
    /// # Errors
    /// What the operating system says.
    pub(crate) fn serve(path: &Path, ready: &Arc<AtomicBool>) -> std::io::Result<Self> {
        let temporary = path.with_extension(std::process::id().to_string());
        let _ = fs::remove_file(&temporary);
        let listener = UnixListener::bind(&temporary)?;
        let inode = fs::metadata(&temporary)?.ino();
        // A rename, so that at no time there is no socket: parent and child hand it over.
        fs::rename(&temporary, path)?;
        let ready = Arc::clone(ready);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let ready = Arc::clone(&ready);
                std::thread::spawn(move || answer(stream, &ready));
            }
        });
        Ok(Self { path: path.to_owned(), inode })
    }

    /// Whether the path still leads to this socket.
    pub(crate) fn is_current(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|found| found.ino() == self.inode)
    }

    /// Removes the socket if it is still this one.
    pub(crate) fn remove_own(&self) {
        if self.is_current() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn answer(stream: UnixStream, ready: &AtomicBool) {
    let _ = stream.set_read_timeout(Some(PATIENCE));
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    let mut line = String::new();
    if reader.read_line(&mut first).is_err() {
        return;
    }
    while reader.read_line(&mut line).is_ok_and(|length| length > 2) {
        line.clear();
    }
    let pid = std::process::id();
    let (status, body) = match (first.starts_with("GET /readyz "), ready.load(Ordering::SeqCst)) {
        (true, true) => ("200 OK", format!("{{\"status\":\"ok\",\"pid\":{pid}}}")),
        (true, false) => ("503 Service Unavailable", format!("{{\"status\":\"starting\",\"pid\":{pid}}}")),
        (false, _) => ("404 Not Found", "{}".to_owned()),
    };
    let length = body.len();
    let _ = reader.get_mut().write_all(
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n{body}"
        )
        .as_bytes(),
    );
}
