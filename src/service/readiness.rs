//! `GET /readyz` on the agent's debug socket, as Teleport has served it since version 16.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

/// The socket's name in the data directory.
pub(crate) const SOCKET: &str = "debug.sock";
/// For the whole question: the agent answers from memory, so longer means that it hangs.
const TIMEOUT: Duration = Duration::from_secs(1);
/// The answer is two fields; more is no answer of an agent.
const ANSWER_LIMIT: usize = 64 * 1024;
/// Bytes of the agent's text that are kept for messages.
const TEXT_LIMIT: usize = 300;

/// What the agent says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// Nobody serves the socket.
    NoSocket,
    /// Ready; `pid` where the agent tells it.
    Ready {
        /// The process that answered.
        pid: Option<u32>,
    },
    /// It answered that it is not ready.
    NotReady {
        /// The process that answered.
        pid: Option<u32>,
        /// Its reason.
        text: String,
    },
    /// Something is there, but it is no readiness: silence, garbage, 404 of an older agent.
    Broken,
}

impl Readiness {
    /// True when an agent answered the question, with yes or no.
    pub(crate) fn is_served(&self) -> bool {
        matches!(self, Self::Ready { .. } | Self::NotReady { .. })
    }
}

/// Asks the agent whose data directory is `data_dir`; takes at most about a second.
pub(crate) fn probe(data_dir: &Path) -> Readiness {
    let deadline = Instant::now() + TIMEOUT;
    let mut stream = match open(data_dir) {
        Ok(stream) => stream,
        Err(Errno::NOENT | Errno::CONNREFUSED | Errno::NOTDIR) => return Readiness::NoSocket,
        Err(_) => return Readiness::Broken,
    };
    exchange(&mut stream, deadline).map_or(Readiness::Broken, |answer| parse(&answer))
}

fn open(data_dir: &Path) -> Result<UnixStream, Errno> {
    // By descriptor: a socket's address has room for 107 bytes only, a data directory's name is longer if it likes.
    let dir = rustix::fs::open(data_dir, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    // The socket itself: a link in its place is connected to as such, and nobody serves that.
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let node = rustix::fs::openat(&dir, SOCKET, flags, Mode::empty())?;
    let address = SocketAddrUnix::new(format!("/proc/self/fd/{}", node.as_raw_fd()))?;
    // Non-blocking: connecting to a listener that accepts nothing would wait for ever.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket: OwnedFd = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &address)?;
    rustix::io::ioctl_fionbio(&socket, false)?;
    Ok(UnixStream::from(socket))
}

fn exchange(stream: &mut UnixStream, deadline: Instant) -> Option<Vec<u8>> {
    stream.set_write_timeout(Some(TIMEOUT)).ok()?;
    stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    while answer.len() < ANSWER_LIMIT && !is_complete(&answer) {
        let left = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
        stream.set_read_timeout(Some(left)).ok()?;
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    Some(answer)
}

/// True when as much body is there as the header announced; without an announcement the end of the stream decides.
fn is_complete(answer: &[u8]) -> bool {
    let Some((head, body)) = split(answer) else { return false };
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    length.is_some_and(|length| body.len() >= length)
}

fn split(answer: &[u8]) -> Option<(String, &[u8])> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    Some((String::from_utf8_lossy(&answer[..end]).into_owned(), &answer[end + 4..]))
}

fn parse(answer: &[u8]) -> Readiness {
    let Some((head, body)) = split(answer) else { return Readiness::Broken };
    let mut words = head.lines().next().unwrap_or_default().split_ascii_whitespace();
    let (protocol, status) = (words.next().unwrap_or_default(), words.next().and_then(|word| word.parse::<u16>().ok()));
    let (true, Some(status)) = (protocol.starts_with("HTTP/1."), status) else { return Readiness::Broken };
    // A chunked body has sizes before and after the object.
    let object = body.iter().position(|byte| *byte == b'{').zip(body.iter().rposition(|byte| *byte == b'}'));
    let json = object
        .filter(|(start, end)| start < end)
        .and_then(|(start, end)| serde_json::from_slice::<serde_json::Value>(&body[start..=end]).ok());
    let field = |name: &str| json.as_ref().and_then(|json| json.get(name));
    let pid = field("pid").and_then(serde_json::Value::as_u64).and_then(|pid| u32::try_from(pid).ok());
    let pid = pid.filter(|pid| *pid > 0);
    match status {
        200 => Readiness::Ready { pid },
        // An agent without this page, or not allowed to answer.
        401 | 403 | 404 | 405 => Readiness::Broken,
        400..600 => {
            let text = field("status")
                .and_then(serde_json::Value::as_str)
                .map_or_else(|| String::from_utf8_lossy(body).trim().to_owned(), str::to_owned);
            Readiness::NotReady { pid, text: text.chars().filter(|c| !c.is_control()).take(TEXT_LIMIT).collect() }
        }
        _ => Readiness::Broken,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;

    use super::*;

    /// Serves one connection with `answer`; `None` never answers.
    fn asked(answer: Option<&'static str>) -> Readiness {
        let dir = tempfile::tempdir().unwrap();
        let deep: PathBuf = dir.path().join("d".repeat(120));
        std::fs::create_dir(&deep).unwrap();
        let short = dir.path().join("s");
        std::os::unix::fs::symlink(&deep, &short).unwrap();
        let listener = UnixListener::bind(short.join(SOCKET)).unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let count = stream.read(&mut request).unwrap();
            assert!(request[..count].starts_with(b"GET /readyz HTTP/1.1\r\n"));
            match answer {
                Some(answer) => stream.write_all(answer.as_bytes()).unwrap(),
                None => drop(stream.read(&mut request)),
            }
        });
        let found = probe(&deep);
        server.join().unwrap();
        found
    }

    #[test]
    fn an_answer_says_who_is_ready_or_why_not_and_what_is_none_is_broken() {
        let ready = |pid| Readiness::Ready { pid };
        let not_ready = |pid, text: &str| Readiness::NotReady { pid, text: text.to_owned() };
        let chunked =
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1a\r\n{\"status\":\"ok\",\"pid\":4711}\r\n0\r\n\r\n";
        let unavailable = "HTTP/1.1 503 Service Unavailable\r\n\r\n{\"status\":\"not joined\",\"pid\":7}";
        for (answer, expected) in [
            (Some("HTTP/1.1 200 OK\r\nContent-Length: 26\r\n\r\n{\"status\":\"ok\",\"pid\":4711}"), ready(Some(4711))),
            (Some(chunked), ready(Some(4711))),
            (Some("HTTP/1.1 200 OK\r\n\r\nok"), ready(None)),
            (Some("HTTP/1.1 200 OK\r\n\r\n{\"pid\":0}"), ready(None)),
            (Some(unavailable), not_ready(Some(7), "not joined")),
            (Some("HTTP/1.1 400 Bad Request\r\n\r\nstarting\n"), not_ready(None, "starting")),
            (Some(""), Readiness::Broken),
            (Some("hello"), Readiness::Broken),
            (Some("HTTP/1.1 404 Not Found\r\n\r\n"), Readiness::Broken),
            (Some("SSH-2.0-x\r\n\r\n"), Readiness::Broken),
            // Silence.
            (None, Readiness::Broken),
        ] {
            assert_eq!(asked(answer), expected, "{answer:?}");
        }
    }

    #[test]
    fn nobody_there_is_told_apart_from_garbage() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(probe(dir.path()), Readiness::NoSocket);
        drop(UnixListener::bind(dir.path().join(SOCKET)).unwrap());
        assert_eq!(probe(dir.path()), Readiness::NoSocket);
        assert_eq!(probe(&dir.path().join("absent")), Readiness::NoSocket);
    }

    #[test]
    fn a_listener_that_accepts_nothing_does_not_hold_us_up() {
        let dir = tempfile::tempdir().unwrap();
        let _listener = UnixListener::bind(dir.path().join(SOCKET)).unwrap();
        let mut queued: Vec<UnixStream> = Vec::new();
        while let Ok(stream) = open(dir.path()) {
            queued.push(stream);
            assert!(queued.len() < 100_000);
        }
        assert_eq!(probe(dir.path()), Readiness::Broken);
    }
}
