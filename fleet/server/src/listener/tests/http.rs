//! Requests, good and bad.

use crate::listener::{Listener, Tcp};

use super::support::{Client, Server, assert_answered, unlimited};
use tokio::net::TcpStream;

#[tokio::test]
async fn requests_follow_each_other_on_one_connection() {
    let (_server, address) = Server::plain(unlimited());
    let mut client = Client::connect(address).await;
    for _ in 0..3 {
        assert_eq!(client.get("/").await.unwrap().body, "hello");
    }
    client
        .send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\nHost: a\r\n\r\n")
        .await;
    assert_eq!(client.response().await.unwrap().body, "abc");
    assert_eq!(client.response().await.unwrap().body, "hello");
    client.send("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nde\r\n0\r\n\r\n").await;
    assert_eq!(client.response().await.unwrap().body, "de");
    assert_eq!(client.get("/").await.unwrap().body, "hello");
}

#[tokio::test]
async fn the_caller_is_the_other_end() {
    let (_server, address) = Server::plain(unlimited());
    let stream = TcpStream::connect(address).await.unwrap();
    let expected = format!("Some(Tcp({}))", stream.local_addr().unwrap());
    assert_eq!(Client::over(stream).get("/who").await.unwrap().body, expected);
}

#[tokio::test]
async fn an_ipv4_caller_of_an_ipv6_socket_is_given_as_ipv4() {
    let Ok(tcp) = Tcp::bind("[::]:0".parse().unwrap(), None) else {
        eprintln!("skipped: no IPv6 here");
        return;
    };
    let port = tcp.local_addr().unwrap().port();
    let _server = Server::new(Listener::Tcp(tcp), unlimited());
    assert_eq!(Client::connect(("::1", port)).await.get("/").await.unwrap().body, "hello");
    // Whether IPv4 callers reach it is the system's choice (net.ipv6.bindv6only).
    if let Ok(stream) = TcpStream::connect(("127.0.0.1", port)).await {
        let expected = format!("Some(Tcp({}))", stream.local_addr().unwrap());
        assert_eq!(Client::over(stream).get("/who").await.unwrap().body, expected);
    }
}

#[tokio::test]
async fn an_address_in_use_is_named() {
    let (_server, address) = Server::plain(unlimited());
    let error = Tcp::bind(address, None).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    assert!(error.to_string().starts_with(&format!("cannot listen on {address}: ")), "{error}");
}

#[tokio::test]
async fn a_flood_of_headers_is_refused() {
    let (_server, address) = Server::plain(unlimited());
    let many: String = (0..500).map(|n| format!("X-{n}: a\r\n")).collect();
    let long = format!("X-A: {}\r\n", "a".repeat(1 << 20));
    let path = format!("GET /{} HTTP/1.1\r\n", "a".repeat(1 << 20));
    for request in
        [format!("GET / HTTP/1.1\r\nHost: a\r\n{many}\r\n"), format!("GET / HTTP/1.1\r\nHost: a\r\n{long}\r\n"), path]
    {
        let mut client = Client::connect(address).await;
        // The answer arrives though not everything was read.
        let _ = tokio::io::AsyncWriteExt::write_all(&mut client.io, request.as_bytes()).await;
        let status = client.response().await.unwrap().status;
        assert!([414, 431].contains(&status), "{status} for {}", &request[..40]);
        client.closed().await;
    }
    assert_answered(address).await;
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_and_the_answer_arrives() {
    let (_server, address) = Server::plain(unlimited());
    for path in ["/echo", "/refuse"] {
        let mut client = Client::connect(address).await;
        let length = 8 << 20;
        client.send(format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n")).await;
        client.send(vec![b'a'; length]).await;
        let response = client.response().await.expect("the answer was lost");
        assert_eq!(response.status, 413, "{path}");
        client.closed().await;
    }
    let mut client = Client::connect(address).await;
    let chunks = "400\r\n".to_owned() + &"a".repeat(1024) + "\r\n";
    client.send(format!("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}")).await;
    assert_eq!(client.response().await.unwrap().body, "the request's body is larger than 1000 bytes");
}

#[tokio::test]
async fn requests_that_can_be_read_in_two_ways_are_refused_or_closed() {
    let (_server, address) = Server::plain(unlimited());
    for headers in [
        "Content-Length: 3\r\nContent-Length: 4\r\n",
        "Content-Length: 3, 4\r\n",
        "Content-Length: +3\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: 99999999999999999999999\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding : chunked\r\n",
        "Content-Length : 3\r\n",
        " folded: a\r\n",
        "no colon\r\n",
        "nul: a\0b\r\n",
    ] {
        let mut client = Client::connect(address).await;
        client.send(format!("POST /echo HTTP/1.1\r\nHost: a\r\n{headers}\r\nabcd")).await;
        assert_eq!(client.response().await.unwrap().status, 400, "{headers:?}");
        client.closed().await;
    }
    // Both: the length is no longer heeded, and what would be a second request by it is not one.
    let mut client = Client::connect(address).await;
    client
        .send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
        .await;
    let response = client.response().await.unwrap();
    assert!(response.status == 400 || response.body.is_empty(), "{response:?}");
}

#[tokio::test]
async fn what_is_no_http_1_is_refused() {
    let (_server, address) = Server::plain(unlimited());
    for bytes in [
        &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..],
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\0\0\0\0\0\0\0\0\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"hello\r\n\r\n",
    ] {
        let mut client = Client::connect(address).await;
        client.send(bytes).await;
        let answer = client.closed().await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400 "), "{answer:?} for {bytes:?}");
    }
    assert_answered(address).await;
}

#[tokio::test]
async fn a_handler_that_panics_ends_its_own_connection_only() {
    let (_server, address) = Server::plain(unlimited());
    let mut other = Client::connect(address).await;
    assert_eq!(other.get("/").await.unwrap().status, 200);
    for _ in 0..3 {
        assert!(Client::connect(address).await.get("/panic").await.is_none());
    }
    assert_eq!(other.get("/").await.unwrap().status, 200);
    assert_answered(address).await;
}
