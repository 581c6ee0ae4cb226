//! A server on loopback, which the rollout server asks: with TLS or without, a thread a connection, until it is dropped.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// A connection, encrypted or not.
pub(crate) trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// Whether the server is over.
#[derive(Clone, Default)]
pub(crate) struct Over(Arc<AtomicBool>);

/// See the module.
pub(crate) struct Loopback {
    /// Where it listens.
    pub(crate) addr: SocketAddr,
    over: Over,
    thread: Option<JoinHandle<()>>,
}

impl Over {
    pub(crate) fn is(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// Says nothing until then.
    pub(crate) fn hang(&self) {
        while !self.is() {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sends until then, or until the other side has had enough.
    pub(crate) fn flood(&self, stream: &mut dyn Stream) {
        while !self.is() && stream.write_all(&[b' '; 65_536]).is_ok() {}
    }
}

impl Loopback {
    /// A place to listen, and its address.
    pub(crate) fn place() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        (listener, addr)
    }

    /// Has `answer` answer each connection; with TLS, where there is a configuration.
    pub(crate) fn start(
        (listener, addr): (TcpListener, SocketAddr),
        tls: Option<Arc<rustls::ServerConfig>>,
        answer: impl Fn(&mut dyn Stream, &Over) + Clone + Send + 'static,
    ) -> Self {
        let over = Over::default();
        let own = over.clone();
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if own.is() {
                    return;
                }
                let (stream, tls, answer, over) = (stream.unwrap(), tls.clone(), answer.clone(), own.clone());
                std::thread::spawn(move || serve(stream, tls, |stream| answer(stream, &over)));
            }
        });
        Self { addr, over, thread: Some(thread) }
    }
}

fn serve(mut stream: TcpStream, tls: Option<Arc<rustls::ServerConfig>>, answer: impl Fn(&mut dyn Stream)) {
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    match tls {
        None => answer(&mut stream),
        Some(tls) => {
            let connection = rustls::ServerConnection::new(tls).unwrap();
            answer(&mut rustls::StreamOwned::new(connection, stream));
        }
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        self.over.0.store(true, Ordering::SeqCst);
        TcpStream::connect(self.addr).ok();
        self.thread.take().unwrap().join().ok();
    }
}
