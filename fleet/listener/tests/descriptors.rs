//! A process without a free file descriptor. A program of its own: the limit is the process's.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, reason = "tests")]

use std::convert::Infallible;
use std::time::Duration;

use fleet_listener::{ListenerLimits, RequestBody, Tcp, serve};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{Request, Response};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

/// No step takes longer.
const DEADLINE: Duration = Duration::from_secs(20);

#[derive(Clone)]
struct Hello;

impl tower_service::Service<Request<RequestBody>> for Hello {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Infallible>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<RequestBody>) -> Self::Future {
        std::future::ready(Ok(Response::new(Full::from("hello"))))
    }
}

async fn ask(client: &mut TcpStream) -> String {
    client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    while !answer.ends_with("hello") {
        let mut buffer = [0; 1024];
        let count = client.read(&mut buffer).await.unwrap();
        assert!(count > 0, "closed after {answer:?}");
        answer.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
    }
    answer
}

#[tokio::test]
async fn a_new_caller_is_answered_where_no_descriptor_is_free() {
    let tcp = Tcp::bind("127.0.0.1:0".parse().unwrap(), None).unwrap();
    let address = tcp.local_addr().unwrap();
    let _server = tokio::spawn(serve(tcp, ListenerLimits::default(), Hello, std::future::pending()));
    let mut idle = Vec::new();
    for _ in 0..20 {
        let mut client = TcpStream::connect(address).await.unwrap();
        ask(&mut client).await;
        idle.push(client);
    }
    // Made before the limit: only the server's end lacks a descriptor.
    let callers: Vec<_> = (0..5).map(|_| TcpSocket::new_v4().unwrap()).collect();
    let highest = callers.iter().map(std::os::fd::AsRawFd::as_raw_fd).max().unwrap();
    let limit = Rlimit { current: Some(u64::try_from(highest).unwrap() + 1), ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, limit).unwrap();
    assert!(TcpSocket::new_v4().is_err(), "a descriptor is still free");

    let mut answered = Vec::new();
    for caller in callers {
        let mut caller = timeout(DEADLINE, caller.connect(address)).await.unwrap().unwrap();
        assert!(timeout(DEADLINE, ask(&mut caller)).await.unwrap().ends_with("hello"));
        answered.push(caller);
    }
    // The first made room, the last did not.
    let mut buffer = [0; 16];
    assert_eq!(timeout(DEADLINE, idle[0].read(&mut buffer)).await.unwrap().unwrap_or(0), 0);
    ask(idle.last_mut().unwrap()).await;
}
