//! The stand-in on loopback: plain HTTP, a thread and a request a connection.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{BodyEnd, RegistryQuestion, RegistryReply, StandInRegistry};

/// Longest line of a request that is read, bytes.
const MAX_LINE: u64 = 64 << 10;

/// A registry that listens until it is dropped.
pub struct ServedRegistry {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
}

impl ServedRegistry {
    /// `HOST:PORT`, as images name it.
    pub fn host(&self) -> String {
        self.address.to_string()
    }
}

impl Drop for ServedRegistry {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // Wakes the loop.
        let _ = TcpStream::connect(self.address);
    }
}

impl StandInRegistry {
    /// Listens on a free port of loopback.
    pub fn serve(&self) -> ServedRegistry {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, is_over) = (listener.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let (registry, ends) = (self.clone(), is_over.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if ends.load(Ordering::Relaxed) {
                    return;
                }
                let registry = registry.clone();
                let Ok(stream) = stream else { continue };
                std::thread::spawn(move || {
                    // A client that goes away is none of the registry's troubles.
                    let _ = talk(&registry, &stream);
                });
            }
        });
        ServedRegistry { address, is_over }
    }
}

fn talk(registry: &StandInRegistry, stream: &TcpStream) -> std::io::Result<()> {
    let mut first = [0];
    stream.peek(&mut first)?;
    // The first byte of TLS, which is not spoken here.
    if first == [0x16] {
        return Ok(());
    }
    let mut lines = BufReader::new(stream.take(MAX_LINE)).lines();
    let request = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    let mut words = request.split(' ').map(str::to_owned);
    let mut authorization = None;
    for line in lines.by_ref() {
        let line = line?;
        match line.split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("authorization") => {
                authorization = Some(value.trim().to_owned())
            }
            None => break,
            _ => {}
        }
    }
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let question = RegistryQuestion { method, path, authorization };
    send(stream, &registry.answer(&question), question.method == "HEAD")?;
    let _ = stream.shutdown(Shutdown::Write);
    // Until the client has closed: otherwise unread bytes turn the end into a reset.
    std::io::copy(&mut { stream }, &mut std::io::sink()).map(drop)
}

fn send(mut stream: &TcpStream, reply: &RegistryReply, is_head: bool) -> std::io::Result<()> {
    if reply.end == BodyEnd::Silence {
        return std::io::copy(&mut stream, &mut std::io::sink()).map(drop);
    }
    let mut head = format!("HTTP/1.1 {} X\r\nConnection: close\r\n", reply.status);
    for (name, value) in &reply.headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += &match reply.end {
        BodyEnd::Endless => "Transfer-Encoding: chunked\r\n\r\n".to_owned(),
        BodyEnd::Cut => format!("Content-Length: {}\r\n\r\n", reply.body.len() + 1),
        _ => format!("Content-Length: {}\r\n\r\n", reply.body.len()),
    };
    stream.write_all(head.as_bytes())?;
    if is_head {
        return Ok(());
    }
    if reply.end != BodyEnd::Endless {
        return stream.write_all(&reply.body);
    }
    let chunk = [b"10000\r\n".as_slice(), &vec![b' '; 0x10000], b"\r\n"].concat();
    loop {
        stream.write_all(&chunk)?;
    }
}
