//! The one call to systemd for which an agent stands still: its start. `systemctl` takes some milliseconds to be loaded and
//! linked, several times what a call takes, so this one is sent to the manager's own socket, which `systemctl` uses too.
//! Whoever calls falls back to `systemctl`, which also has the words for what is wrong.
//!
//! The wire format is that of the D-Bus specification; of its types only those are known that a header can have.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// The manager's socket, for root alone; there since systemd 26, under this name in all that followed.
const SOCKET: &str = "/run/systemd/private";
/// A manager that has not answered by then, in all, is asked by `systemctl`, which waits longer; it answers in a
/// millisecond. One second: the agent stands still meanwhile.
const PATIENCE: Duration = Duration::from_secs(1);
/// Longest line of its answer to the authentication, bytes: more than `OK` and an id.
const MAX_LINE: usize = 256;
/// Longest message read, bytes: signals of a unit's properties, the largest that can come between, have some KiB.
const MAX_MESSAGE: usize = 1024 * 1024;
/// Our only call's number.
const SERIAL: u32 = 1;
/// Kinds of messages.
const CALL: u8 = 1;
const RETURN: u8 = 2;
const ERROR: u8 = 3;
/// The header's fixed part, bytes; a multiple of 8, so that what follows is aligned as if it stood alone.
const FIXED: usize = 16;

/// A manager that knows who we are: the greetings are over before anybody waits.
#[derive(Debug)]
pub struct SystemdBus(Timed);

impl SystemdBus {
    /// Greets the one that runs this host. Errors: the socket is not there, or nobody answers on it.
    pub fn greet() -> io::Result<Self> {
        Self::greet_at(Path::new(SOCKET))
    }

    fn greet_at(socket: &Path) -> io::Result<Self> {
        let mut stream = Timed { stream: connect(socket)?, until: Instant::now() + PATIENCE };
        let user = rustix::process::geteuid().as_raw().to_string();
        let user = base16ct::lower::encode_string(user.as_bytes());
        stream.write_all(format!("\0AUTH EXTERNAL {user}\r\nBEGIN\r\n").as_bytes())?;
        // Nothing is sent before the answer: what systemd has read together with BEGIN it looks at when more comes.
        if line(&mut stream)?.starts_with(b"OK") {
            Ok(Self(stream))
        } else {
            Err(io::ErrorKind::PermissionDenied.into())
        }
    }

    /// Queues the start of `unit` and returns when the manager has accepted it.
    ///
    /// Errors: the manager refuses or does not answer; the start may have been queued all the same.
    pub fn start(mut self, unit: &str) -> io::Result<()> {
        self.0.until = Instant::now() + PATIENCE;
        self.0.write_all(&start_call(unit))?;
        loop {
            // The manager tells everyone on its socket what happens to units.
            match answer(&mut self.0)? {
                Some(RETURN) => return Ok(()),
                Some(ERROR) => return Err(io::Error::other("refused")),
                _ => {}
            }
        }
    }
}

/// Connects without waiting for a manager that accepts nobody.
fn connect(socket: &Path) -> io::Result<UnixStream> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let stream = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    net::connect(&stream, &SocketAddrUnix::new(socket)?)?;
    let stream = UnixStream::from(stream);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// A stream whose reads and writes end together, however many they are.
#[derive(Debug)]
struct Timed {
    stream: UnixStream,
    until: Instant,
}

impl Timed {
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(buffer)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads a line byte by byte: what follows it is not for us to read yet.
fn line(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let mut byte = [0];
    while line.last() != Some(&b'\n') && line.len() < MAX_LINE {
        stream.read_exact(&mut byte)?;
        line.push(byte[0]);
    }
    Ok(line)
}

/// Reads a message; its kind if it answers our call.
fn answer(stream: &mut impl Read) -> io::Result<Option<u8>> {
    let mut fixed = [0; FIXED];
    stream.read_exact(&mut fixed)?;
    let number = |at: usize| u32_at(&fixed, at).and_then(|number| usize::try_from(number).ok());
    let (Some(body), Some(fields), b'l') = (number(4), number(12), fixed[0]) else { return Err(unknown()) };
    let length = fields.checked_next_multiple_of(8).and_then(|fields| fields.checked_add(body));
    let length = length.filter(|length| *length <= MAX_MESSAGE).ok_or_else(unknown)?;
    let mut rest = vec![0; length];
    stream.read_exact(&mut rest)?;
    let replies_to = reply_serial(&rest[..fields])?;
    Ok((replies_to == Some(SERIAL)).then_some(fixed[1]))
}

/// The number of the call that a message answers, in its header's fields.
fn reply_serial(fields: &[u8]) -> io::Result<Option<u32>> {
    let mut at: usize = 0;
    while at < fields.len() {
        let (Some([code, 1, kind, 0]), value) = (fields.get(at..at + 4), at + 4) else { return Err(unknown()) };
        let long = || u32_at(fields, value).and_then(|length| usize::try_from(length).ok());
        let size = match kind {
            b'u' if *code == 5 => return u32_at(fields, value).map(Some).ok_or_else(unknown),
            b'u' => Some(4),
            b's' | b'o' => long().and_then(|length| length.checked_add(5)),
            b'g' => fields.get(value).map(|length| usize::from(*length) + 2),
            _ => None,
        };
        let end = size.and_then(|size| value.checked_add(size)?.checked_next_multiple_of(8));
        at = end.ok_or_else(unknown)?;
    }
    Ok(None)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at.checked_add(4)?)?.try_into().ok().map(u32::from_le_bytes)
}

fn unknown() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "not understood")
}

/// `StartUnit(unit, "replace")`, as `systemctl start` asks.
fn start_call(unit: &str) -> Vec<u8> {
    let mut body = Vec::new();
    string(&mut body, unit);
    string(&mut body, "replace");
    let mut fields = Vec::new();
    let named = [
        (1, "o", "/org/freedesktop/systemd1"),
        (2, "s", "org.freedesktop.systemd1.Manager"),
        (3, "s", "StartUnit"),
        (6, "s", "org.freedesktop.systemd1"),
    ];
    for (code, kind, value) in named {
        align(&mut fields, 8);
        fields.push(code);
        signature(&mut fields, kind);
        string(&mut fields, value);
    }
    align(&mut fields, 8);
    fields.push(8);
    signature(&mut fields, "g");
    signature(&mut fields, "ss");
    let mut call = vec![b'l', CALL, 0, 1];
    for number in [length(&body), SERIAL, length(&fields)] {
        call.extend(number.to_le_bytes());
    }
    call.extend(fields);
    align(&mut call, 8);
    call.extend(body);
    call
}

fn align(bytes: &mut Vec<u8>, to: usize) {
    bytes.resize(bytes.len().next_multiple_of(to), 0);
}

fn string(bytes: &mut Vec<u8>, text: &str) {
    align(bytes, 4);
    bytes.extend(length(text.as_bytes()).to_le_bytes());
    bytes.extend(text.bytes().chain([0]));
}

fn signature(bytes: &mut Vec<u8>, text: &str) {
    // Ours have one or two letters.
    bytes.push(text.len() as u8);
    bytes.extend(text.bytes().chain([0]));
}

/// Everything here is a few hundred bytes long.
fn length(bytes: &[u8]) -> u32 {
    bytes.len() as u32
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    /// A message of this kind that answers `serial`, after a field of each other type that a header has.
    fn message(kind: u8, serial: Option<u32>) -> Vec<u8> {
        let mut fields = Vec::new();
        for (code, kind) in [(1, "o"), (6, "s")] {
            align(&mut fields, 8);
            fields.push(code);
            signature(&mut fields, kind);
            string(&mut fields, "/a/b");
        }
        align(&mut fields, 8);
        fields.push(8);
        signature(&mut fields, "g");
        signature(&mut fields, "o");
        for (code, value) in [(9, Some(SERIAL)), (5, serial)] {
            if let Some(value) = value {
                align(&mut fields, 8);
                fields.push(code);
                signature(&mut fields, "u");
                fields.extend(value.to_le_bytes());
            }
        }
        let mut message = vec![b'l', kind, 0, 1];
        for number in [9, 77, length(&fields)] {
            message.extend(number.to_le_bytes());
        }
        message.extend(fields);
        align(&mut message, 8);
        message.extend(*b"\x04\0\0\0/job\0");
        message
    }

    /// What a start makes of a manager that says `greeting` and, once it is called, `answers`; and what it was sent.
    fn against(greeting: &'static [u8], answers: Vec<u8>) -> (io::Result<()>, Vec<u8>) {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("private");
        let listener = UnixListener::bind(&socket).unwrap();
        let manager = std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let mut sent = line(&mut stream).unwrap();
            sent.extend(line(&mut stream).unwrap());
            stream.write_all(greeting).unwrap();
            let mut buffer = [0; 4096];
            let read = stream.read(&mut buffer).unwrap();
            sent.extend(&buffer[..read]);
            stream.write_all(&answers).unwrap();
            sent
        });
        let started = SystemdBus::greet_at(&socket).and_then(|manager| manager.start("teleport.service"));
        (started, manager.join().unwrap())
    }

    #[test]
    fn a_start_is_asked_for_in_the_words_of_the_bus_and_its_answer_is_found_among_signals() {
        let user = rustix::process::geteuid().as_raw();
        let answers = [message(4, None), message(RETURN, Some(7)), message(RETURN, Some(SERIAL))].concat();
        let (started, sent) = against(b"OK 0123\r\n", answers);
        started.unwrap();
        let text = String::from_utf8_lossy(&sent);
        let hex: String = user.to_string().bytes().map(|digit| format!("{digit:02x}")).collect();
        assert!(text.starts_with(&format!("\0AUTH EXTERNAL {hex}\r\nBEGIN\r\nl\x01\0\x01")), "{text:?}");
        let call = &sent[sent.len() - start_call("teleport.service").len()..];
        // Body: a string, its end, padding to four, and another.
        assert!(call.ends_with(b"\x10\0\0\0teleport.service\0\0\0\0\x07\0\0\0replace\0"), "{text:?}");
        assert_eq!(u32_at(call, 4), Some(36));
        assert_eq!(FIXED + (u32_at(call, 12).unwrap() as usize).next_multiple_of(8) + 36, call.len());
        assert_eq!(reply_serial(&call[FIXED..FIXED + u32_at(call, 12).unwrap() as usize]).unwrap(), None);
    }

    #[test]
    fn a_manager_that_refuses_ends_or_cannot_be_understood_is_an_error() {
        assert!(against(b"REJECTED EXTERNAL\r\n", Vec::new()).0.is_err());
        assert!(against(b"OK 0\r\n", message(ERROR, Some(SERIAL))).0.is_err());
        assert!(against(b"OK 0\r\n", message(4, None)).0.is_err());
        let mut huge = message(RETURN, Some(SERIAL));
        huge[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(against(b"OK 0\r\n", huge).0.is_err());
        let mut foreign = message(RETURN, Some(SERIAL));
        foreign[FIXED + 2] = b'v';
        assert!(against(b"OK 0\r\n", foreign).0.is_err());
        assert!(SystemdBus::greet_at(Path::new("/nonexistent/private")).is_err());
    }

    #[test]
    fn a_manager_that_accepts_nobody_is_not_waited_for_and_all_answers_have_one_deadline() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("private");
        let listener = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        net::bind(&listener, &SocketAddrUnix::new(&socket).unwrap()).unwrap();
        net::listen(&listener, 0).unwrap();
        let mut waiting = Vec::new();
        while let Ok(stream) = connect(&socket) {
            waiting.push(stream);
        }
        assert_eq!(SystemdBus::greet_at(&socket).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let stream = waiting.pop().unwrap();
        let mut late = Timed { stream, until: Instant::now() };
        assert_eq!(late.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(late.write(&[0]).unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
