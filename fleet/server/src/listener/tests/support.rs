//! A server with a few paths, and a client that says exactly what it is told to.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::listener::{BodyError, Listener, ListenerLimits, Peer, Tcp, read_body, serve};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::routing::{any, get};
use hyper::body::{Bytes, Frame};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, ToSocketAddrs};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// No test waits longer for anything.
pub(super) const DEADLINE: Duration = Duration::from_secs(20);
/// A limit that ends within the test.
pub(super) const SHORT: Duration = Duration::from_millis(200);
/// A limit that does not.
pub(super) const LONG: Duration = Duration::from_secs(600);

/// Limits that never end anything.
pub(super) fn unlimited() -> ListenerLimits {
    ListenerLimits { handshake: LONG, head: LONG, body: LONG, idle: LONG, write: LONG, drain: LONG, connections: 1000 }
}

pub(super) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    timeout(DEADLINE, future).await.unwrap_or_else(|_| panic!("too late: {what}"))
}

/// Waits until `condition` holds.
pub(super) async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    within(what, async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// What the handlers tell the tests.
#[derive(Debug, Default)]
pub(super) struct Shown {
    /// `/wait` was called so often.
    pub(super) waiting: AtomicUsize,
    /// Lets one `/wait` go.
    pub(super) go: Notify,
    /// Bodies of `/endless` and `/events` that exist.
    pub(super) streams: AtomicUsize,
}

pub(super) struct Server {
    pub(super) shown: Arc<Shown>,
    pub(super) stop: Option<oneshot::Sender<()>>,
    pub(super) task: JoinHandle<usize>,
}

impl Server {
    pub(super) fn new(listener: Listener, limits: ListenerLimits) -> Self {
        let shown = Arc::new(Shown::default());
        let (stop, stopped) = oneshot::channel::<()>();
        let service = router(Arc::clone(&shown));
        let task = tokio::spawn(serve(listener, limits, service, async move {
            let _ = stopped.await;
        }));
        Self { shown, stop: Some(stop), task }
    }

    /// In clear on loopback.
    pub(super) fn plain(limits: ListenerLimits) -> (Self, SocketAddr) {
        let tcp = Tcp::bind("127.0.0.1:0".parse().unwrap(), None).unwrap();
        let address = tcp.local_addr().unwrap();
        (Self::new(Listener::Tcp(tcp), limits), address)
    }

    /// Begins the stop.
    pub(super) fn stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }

    /// Waits for the end; how many connections were cut off.
    pub(super) async fn ended(self) -> usize {
        within("the end of the server", self.task).await.unwrap()
    }
}

fn router(shown: Arc<Shown>) -> Router {
    Router::new()
        .route("/", get(async || "hello"))
        .route("/who", get(async |request: Request| format!("{:?}", request.extensions().get::<Peer>())))
        .route("/wait", get(wait))
        .route("/echo", any(echo))
        .route("/refuse", any(async || (StatusCode::PAYLOAD_TOO_LARGE, "refused")))
        .route("/panic", get(async || -> &'static str { panic!("on purpose") }))
        .route("/events", get(events))
        .route("/endless", get(endless))
        .with_state(shown)
}

async fn wait(State(shown): State<Arc<Shown>>) -> &'static str {
    shown.waiting.fetch_add(1, Ordering::SeqCst);
    shown.go.notified().await;
    "waited"
}

async fn echo(request: Request) -> (StatusCode, Bytes) {
    match read_body(request.into_body(), 1000).await {
        Ok(body) => (StatusCode::OK, body),
        Err(error) => {
            let status = match error {
                BodyError::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
                BodyError::TooSlow => StatusCode::REQUEST_TIMEOUT,
                BodyError::Broken(_) => StatusCode::BAD_REQUEST,
            };
            (status, error.to_string().into())
        }
    }
}

async fn events(State(shown): State<Arc<Shown>>) -> Body {
    Body::new(Stream::new(shown, 1))
}

async fn endless(State(shown): State<Arc<Shown>>) -> Body {
    Body::new(Stream::new(shown, usize::MAX))
}

/// So many blocks, then silence.
struct Stream {
    shown: Arc<Shown>,
    left: usize,
}

impl Stream {
    fn new(shown: Arc<Shown>, blocks: usize) -> Self {
        shown.streams.fetch_add(1, Ordering::SeqCst);
        Self { shown, left: blocks }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.shown.streams.fetch_sub(1, Ordering::SeqCst);
    }
}

impl hyper::body::Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left == 0 {
            return Poll::Pending;
        }
        self.left -= 1;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b'x'; 4096])))))
    }
}

/// A response as it came.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: String,
}

pub(super) trait Io: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

pub(super) struct Client {
    pub(super) io: Box<dyn Io>,
    rest: Vec<u8>,
}

impl Client {
    pub(super) fn over(io: impl Io + 'static) -> Self {
        Self { io: Box::new(io), rest: Vec::new() }
    }

    pub(super) async fn connect(address: impl ToSocketAddrs) -> Self {
        Self::over(within("a connection", TcpStream::connect(address)).await.unwrap())
    }

    pub(super) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        within("sending", self.io.write_all(bytes.as_ref())).await.unwrap();
        within("sending", self.io.flush()).await.unwrap();
    }

    /// The next response with a length; `None` if the connection ends instead.
    pub(super) async fn response(&mut self) -> Option<Response> {
        let head = loop {
            if let Some(end) = self.rest.windows(4).position(|window| window == b"\r\n\r\n") {
                break String::from_utf8(self.rest.drain(..end + 4).collect()).unwrap().to_lowercase();
            }
            self.more().await.then_some(())?;
        };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.unwrap_or("0").parse().unwrap();
        while self.rest.len() < length {
            self.more().await.then_some(())?;
        }
        let body = String::from_utf8(self.rest.drain(..length).collect()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Some(Response { status, head, body })
    }

    pub(super) async fn get(&mut self, path: &str) -> Option<Response> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        // The server may be closing: then there is no response.
        let _ = within("sending", self.io.write_all(request.as_bytes())).await;
        let _ = within("sending", self.io.flush()).await;
        self.response().await
    }

    /// Reads on; false at the end.
    async fn more(&mut self) -> bool {
        let mut buffer = [0; 4096];
        let read = within("reading", self.io.read(&mut buffer)).await;
        let count = read.unwrap_or(0);
        self.rest.extend_from_slice(&buffer[..count]);
        count > 0
    }

    /// Waits until the server closes; what it still sent.
    pub(super) async fn closed(&mut self) -> String {
        while self.more().await {}
        String::from_utf8_lossy(&self.rest).into_owned()
    }
}

/// A new caller is answered.
pub(super) async fn assert_answered(address: SocketAddr) {
    let response = Client::connect(address).await.get("/").await.expect("no answer for a new caller");
    assert_eq!((response.status, response.body.as_str()), (200, "hello"));
}
