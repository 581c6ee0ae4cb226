//! A TCP proxy before a database: it delays, cuts and holds back what goes through it, as a seed says.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use crate::crash::random::Random;

/// Between two looks whether what is held back may go on.
const LOOK: Duration = Duration::from_millis(5);
/// Longest that a request comes late, milliseconds: long after whoever sent it has asked again.
const LATE: usize = 400;
/// A part of what goes through, bytes: more than any request of a decision.
const PART: usize = 64 << 10;
/// Of requests that end a transaction so many times more meet a fault: what they did is in doubt.
const COMMITS: usize = 8;

/// What happens to what goes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// It goes on.
    Open,
    /// Connections end, and none begins.
    Cut,
    /// Connections stay, and nothing moves.
    Stalled,
    /// Each part waits so long.
    Slow(Duration),
    /// One request in so many meets a fault: its connection ends before it, in the middle of it, or behind it, so that its
    /// answer is lost; or it comes after its connection has ended.
    Faulty(usize),
}

/// A proxy on loopback. It ends with the process.
#[derive(Debug)]
pub struct Proxy {
    /// Where it listens.
    pub port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    target: AtomicU16,
    way: Mutex<Way>,
    random: Mutex<Random>,
    open: Mutex<Vec<Weak<Line>>>,
    faults: Mutex<usize>,
}

/// A connection through it.
#[derive(Debug)]
struct Line {
    client: TcpStream,
    server: TcpStream,
    /// The next answer does not get through, and is the last.
    is_lost: AtomicBool,
}

impl Line {
    fn end(&self) {
        // It may have ended.
        let _ = (self.client.shutdown(Shutdown::Both), self.server.shutdown(Shutdown::Both));
    }
}

impl Proxy {
    /// One before port `target` of loopback, whose faults are those of `seed`.
    ///
    /// # Panics
    /// If no port is free.
    pub fn start(target: u16, seed: u64) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            target: target.into(),
            way: Mutex::new(Way::Open),
            random: Mutex::new(Random::new(seed)),
            open: Mutex::default(),
            faults: Mutex::default(),
        });
        let own = Arc::clone(&shared);
        std::thread::spawn(move || listener.incoming().flatten().for_each(|client| own.connect(client)));
        Self { port, shared }
    }

    /// From now on this happens to what goes through.
    pub fn set(&self, way: Way) {
        *self.shared.way.lock().unwrap() = way;
        if way == Way::Cut {
            self.end_all();
        }
    }

    /// What goes through comes to another port from now on; connections end.
    pub fn lead_to(&self, target: u16) {
        self.shared.target.store(target, Ordering::Relaxed);
        self.end_all();
    }

    /// How many requests met a fault.
    pub fn faults(&self) -> usize {
        *self.shared.faults.lock().unwrap()
    }

    fn end_all(&self) {
        self.shared.open.lock().unwrap().drain(..).filter_map(|line| line.upgrade()).for_each(|line| line.end());
    }
}

impl Shared {
    fn connect(self: &Arc<Self>, client: TcpStream) {
        if self.way() == Way::Cut {
            return;
        }
        let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, self.target.load(Ordering::Relaxed))) else { return };
        for stream in [&client, &server] {
            // Requests and answers are small, and waited for.
            let _ = stream.set_nodelay(true);
        }
        let line = Arc::new(Line { client, server, is_lost: AtomicBool::new(false) });
        let mut open = self.open.lock().unwrap();
        open.retain(|line| line.strong_count() > 0);
        open.push(Arc::downgrade(&line));
        let (there, back, there_line) = (Arc::clone(self), Arc::clone(self), Arc::clone(&line));
        std::thread::spawn(move || there.requests(&there_line));
        std::thread::spawn(move || back.answers(&line));
    }

    fn way(&self) -> Way {
        *self.way.lock().unwrap()
    }

    /// Waits until something may go on.
    fn pass(&self) {
        while self.way() == Way::Stalled {
            std::thread::sleep(LOOK);
        }
        if let Way::Slow(delay) = self.way() {
            std::thread::sleep(delay);
        }
    }

    fn requests(&self, line: &Line) {
        let (mut client, mut server) = (&line.client, &line.server);
        let mut part = vec![0; PART];
        while let Some(length) = client.read(&mut part).ok().filter(|length| *length > 0) {
            let request = &part[..length];
            self.pass();
            match self.fault(request) {
                None => {}
                Some(0) => break,
                Some(1) => {
                    let _ = server.write_all(&request[..length / 2]);
                    break;
                }
                Some(2) => line.is_lost.store(true, Ordering::SeqCst),
                Some(late) => {
                    line.is_lost.store(true, Ordering::SeqCst);
                    let _ = client.shutdown(Shutdown::Both);
                    std::thread::sleep(Duration::from_millis(late as u64));
                }
            }
            if server.write_all(request).is_err() {
                break;
            }
        }
        // A request whose answer is to be lost is answered first.
        if !line.is_lost.load(Ordering::SeqCst) {
            line.end();
        }
    }

    fn answers(&self, line: &Line) {
        let (mut client, mut server) = (&line.client, &line.server);
        let mut part = vec![0; PART];
        while let Some(length) = server.read(&mut part).ok().filter(|length| *length > 0) {
            self.pass();
            if line.is_lost.load(Ordering::SeqCst) || client.write_all(&part[..length]).is_err() {
                break;
            }
        }
        line.end();
    }

    /// 0: the connection ends before it; 1: in the middle; 2: behind it; more: it comes so many milliseconds late.
    fn fault(&self, request: &[u8]) -> Option<usize> {
        let Way::Faulty(one_in) = self.way() else { return None };
        let ends = request.windows(6).any(|word| word == b"COMMIT");
        let mut random = self.random.lock().unwrap();
        if random.below(if ends { (one_in / COMMITS).max(1) } else { one_in }) != 0 {
            return None;
        }
        *self.faults.lock().unwrap() += 1;
        Some(match random.below(4) {
            3 => 3 + random.below(LATE),
            fault => fault,
        })
    }
}
